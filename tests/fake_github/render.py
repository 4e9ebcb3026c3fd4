"""GitHub's JSON, with every field its description requires."""

import base64
import hashlib
import time
from typing import Any
from urllib.parse import quote

from .state import (
    App,
    CheckRun,
    Comment,
    LineComment,
    Pull,
    Reaction,
    Repository,
    Request,
    Required,
    Review,
    Status,
)

Json = dict[str, Any]


def stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def node_id(kind: str, number: int) -> str:
    return base64.b64encode(f"{kind}{number}".encode()).decode()


def user(request: Request, login: str | None, *, organization: bool = False) -> Json | None:
    if login is None:
        return None
    number = int(hashlib.sha256(login.encode()).hexdigest()[:7], 16)
    url = f"{request.api}/users/{quote(login)}"
    return {
        "login": login,
        "id": number,
        "node_id": node_id("User", number),
        "avatar_url": f"{request.base}/avatars/{number}",
        "gravatar_id": "",
        "url": url,
        "html_url": f"{request.base}/{quote(login)}",
        "followers_url": f"{url}/followers",
        "following_url": f"{url}/following{{/other_user}}",
        "gists_url": f"{url}/gists{{/gist_id}}",
        "starred_url": f"{url}/starred{{/owner}}{{/repo}}",
        "subscriptions_url": f"{url}/subscriptions",
        "organizations_url": f"{url}/orgs",
        "repos_url": f"{url}/repos",
        "events_url": f"{url}/events{{/privacy}}",
        "received_events_url": f"{url}/received_events",
        "type": "Bot" if login.endswith("[bot]") else "Organization" if organization else "User",
        "site_admin": False,
    }


def me(request: Request, login: str) -> Json:
    return {
        **(user(request, login) or {}),
        **dict.fromkeys(("name", "company", "blog", "location", "email", "hireable", "bio")),
        **dict.fromkeys(("public_repos", "public_gists", "followers", "following"), 0),
        "created_at": stamp(0),
        "updated_at": stamp(0),
    }


# Addresses below a repository, as GitHub spells them: field, path, template.
_REPOSITORY_URLS = """
archive_url /{archive_format}{/ref}
assignees_url /assignees{/user}
blobs_url /git/blobs{/sha}
branches_url /branches{/branch}
collaborators_url /collaborators{/collaborator}
comments_url /comments{/number}
commits_url /commits{/sha}
compare_url /compare/{base}...{head}
contents_url /contents/{+path}
contributors_url /contributors
deployments_url /deployments
downloads_url /downloads
events_url /events
forks_url /forks
git_commits_url /git/commits{/sha}
git_refs_url /git/refs{/sha}
git_tags_url /git/tags{/sha}
hooks_url /hooks
issue_comment_url /issues/comments{/number}
issue_events_url /issues/events{/number}
issues_url /issues{/number}
keys_url /keys{/key_id}
labels_url /labels{/name}
languages_url /languages
merges_url /merges
milestones_url /milestones{/number}
notifications_url /notifications{?since,all,participating}
pulls_url /pulls{/number}
releases_url /releases{/id}
stargazers_url /stargazers
statuses_url /statuses/{sha}
subscribers_url /subscribers
subscription_url /subscription
tags_url /tags
teams_url /teams
trees_url /git/trees{/sha}
"""
_URLS = [line.split(" ", 1) for line in _REPOSITORY_URLS.strip().splitlines()]


def repository(request: Request, of: Repository, *, full: bool = False) -> Json:
    url, page = f"{request.api}/repos/{of.full_name}", f"{request.base}/{of.full_name}"
    counts = ("forks", "forks_count", "stargazers_count", "watchers", "watchers_count", "size")
    opened = sum(pull.state == "open" for pull in of.pulls.values())
    writes = bool(request.token and request.token.writes)
    rendered: Json = {
        "id": of.id,
        "node_id": node_id("Repository", of.id),
        "name": of.name,
        "full_name": of.full_name,
        "private": of.private,
        "owner": user(request, of.owner, organization=of.organization),
        "html_url": page,
        "description": None,
        "fork": False,
        "url": url,
        **{name: url + path for name, path in _URLS},
        "created_at": stamp(of.created_at),
        "updated_at": stamp(of.created_at),
        "pushed_at": stamp(of.created_at),
        "git_url": page.replace("http", "git", 1) + ".git",
        "ssh_url": f"git@localhost:{of.full_name}.git",
        "clone_url": f"{page}.git",
        "svn_url": page,
        "homepage": None,
        "language": None,
        **dict.fromkeys(counts, 0),
        "has_issues": True,
        "has_projects": True,
        "has_downloads": True,
        "has_wiki": True,
        "has_pages": False,
        "has_discussions": False,
        "mirror_url": None,
        "archived": of.archived,
        "disabled": of.disabled,
        "open_issues": opened,
        "open_issues_count": opened,
        "license": None,
        "allow_forking": True,
        "is_template": False,
        "web_commit_signoff_required": False,
        "topics": [],
        "visibility": "private" if of.private else "public",
        "default_branch": of.default_branch,
        "permissions": {"admin": False, "maintain": False, "push": writes, "triage": writes, "pull": True},
    }
    return {**rendered, "network_count": 0, "subscribers_count": 0} if full else rendered


def label(request: Request, repository_url: str, name: str) -> Json:
    number = int(hashlib.sha256(name.encode()).hexdigest()[:7], 16)
    return {
        "id": number,
        "node_id": node_id("Label", number),
        "url": f"{repository_url}/labels/{name}",
        "name": name,
        "color": "f29513",
        "default": False,
        "description": "",
        "archived_by": None,  # of the API of 2026-03-10
    }


def pull(request: Request, of: Repository, it: Pull, *, full: bool = False) -> Json:
    repository_url, page = f"{request.api}/repos/{of.full_name}", f"{request.base}/{of.full_name}"
    url, issue = f"{repository_url}/pulls/{it.number}", f"{repository_url}/issues/{it.number}"
    links = {
        "self": url,
        "html": f"{page}/pull/{it.number}",
        "issue": issue,
        "comments": f"{issue}/comments",
        "review_comments": f"{url}/comments",
        "review_comment": f"{repository_url}/pulls/comments{{/number}}",
        "commits": f"{url}/commits",
        "statuses": f"{repository_url}/statuses/{it.head_sha}",
    }
    owner = user(request, of.owner, organization=of.organization)
    closed = None if it.state == "open" else stamp(it.updated_at)
    rendered = {
        "url": url,
        "id": it.id,
        "node_id": node_id("PullRequest", it.id),
        "html_url": links["html"],
        "diff_url": f"{links['html']}.diff",
        "patch_url": f"{links['html']}.patch",
        "issue_url": issue,
        "number": it.number,
        "state": it.state,
        "locked": False,
        "title": it.title,
        "user": user(request, it.author),
        "body": it.body,
        "created_at": stamp(it.created_at),
        "updated_at": stamp(it.updated_at),
        "closed_at": closed,
        "merged_at": None,
        "merge_commit_sha": None,
        "assignee": None,
        "assignees": [],
        "requested_reviewers": [],
        "requested_teams": [],
        "labels": [label(request, repository_url, name) for name in it.labels],
        "milestone": None,
        "draft": it.draft,
        "commits_url": links["commits"],
        "review_comments_url": links["review_comments"],
        "review_comment_url": links["review_comment"],
        "comments_url": links["comments"],
        "statuses_url": links["statuses"],
        "head": {
            "label": f"{of.owner}:{it.head}",
            "ref": it.head,
            "sha": it.head_sha,
            "user": owner if it.head_repository else None,
            "repo": repository(request, of) if it.head_repository else None,
        },
        "base": {
            "label": f"{of.owner}:{it.base}",
            "ref": it.base,
            "sha": it.base_sha,
            "user": owner,
            "repo": repository(request, of),
        },
        "_links": {name: {"href": href} for name, href in links.items()},
        "author_association": it.author_association,
        "auto_merge": None,
        "active_lock_reason": None,
    }
    if not full:
        return rendered
    return {
        **rendered,
        "merged": False,
        "mergeable": None,  # GitHub is still computing it
        "rebaseable": None,
        "mergeable_state": "unknown",
        "merged_by": None,
        "comments": len(it.comments),
        "review_comments": len(it.line_comments),
        "maintainer_can_modify": False,
        "commits": 1,
        "additions": 1,
        "deletions": 0,
        "changed_files": 1,
    }


def comment(request: Request, of: Repository, number: int, it: Comment) -> Json:
    repository_url = f"{request.api}/repos/{of.full_name}"
    return {
        "url": f"{repository_url}/issues/comments/{it.id}",
        "html_url": f"{request.base}/{of.full_name}/pull/{number}#issuecomment-{it.id}",
        "issue_url": f"{repository_url}/issues/{number}",
        "id": it.id,
        "node_id": node_id("IssueComment", it.id),
        "user": user(request, it.author),
        "created_at": stamp(it.created_at),
        "updated_at": stamp(it.updated_at),
        "author_association": "NONE",
        "body": it.body,
        "performed_via_github_app": None,
    }


def status(request: Request, of: Repository, it: Status, *, simple: bool = False) -> Json:
    rendered = {
        "url": f"{request.api}/repos/{of.full_name}/statuses/{it.sha}",
        "avatar_url": f"{request.base}/avatars/1",
        "id": it.id,
        "node_id": node_id("StatusContext", it.id),
        "state": it.state,
        "description": it.description,
        "target_url": it.target_url,
        "context": it.context,
        "created_at": stamp(it.created_at),
        "updated_at": stamp(it.created_at),
    }
    return rendered if simple else {**rendered, "creator": user(request, it.author)}


def combined(request: Request, of: Repository, sha: str, latest: list[Status], page: list[Status]) -> Json:
    states = {it.state for it in latest}
    if states & {"failure", "error"}:
        state = "failure"
    else:
        state = "pending" if "pending" in states or not states else "success"
    url = f"{request.api}/repos/{of.full_name}"
    return {
        "state": state,
        "sha": sha,
        "total_count": len(latest),
        "statuses": [status(request, of, it, simple=True) for it in page],
        "repository": repository(request, of),
        "commit_url": f"{url}/commits/{sha}",
        "url": f"{url}/commits/{sha}/status",
    }


def rule(of: Repository, required: list[Required]) -> Json:
    checks = [
        {"context": it.context, **({} if it.source is None else {"integration_id": it.source})} for it in required
    ]
    return {
        "type": "required_status_checks",
        "parameters": {"required_status_checks": checks, "strict_required_status_checks_policy": False},
        "ruleset_source_type": "Repository",
        "ruleset_source": of.full_name,
        "ruleset_id": 42,
    }


def _checks(required: list[Required]) -> Json:
    return {
        "contexts": [it.context for it in required],
        "checks": [{"context": it.context, "app_id": it.source} for it in required],
    }


def status_check_policy(request: Request, of: Repository, branch: str, required: list[Required]) -> Json:
    url = f"{request.api}/repos/{of.full_name}/branches/{quote(branch)}/protection/required_status_checks"
    return {"url": url, "contexts_url": f"{url}/contexts", "strict": False, **_checks(required)}


def branch(request: Request, of: Repository, name: str, sha: str) -> Json:
    api, page = f"{request.api}/repos/{of.full_name}", f"{request.base}/{of.full_name}"
    url, required = f"{api}/branches/{quote(name)}", of.protection.get(name)
    who = {"name": "A U Thor", "email": "author@example.com", "date": stamp(of.created_at)}
    return {
        "name": name,
        "commit": {
            "url": f"{api}/commits/{sha}",
            "sha": sha,
            "node_id": node_id("Commit", int(sha[:7], 16)),
            "html_url": f"{page}/commit/{sha}",
            "comments_url": f"{api}/commits/{sha}/comments",
            "commit": {
                "url": f"{api}/git/commits/{sha}",
                "author": who,
                "committer": who,
                "message": "Change",
                "comment_count": 0,
                "tree": {"sha": sha, "url": f"{api}/git/trees/{sha}"},
            },
            "author": None,
            "committer": None,
            "parents": [],
        },
        "_links": {"html": f"{page}/tree/{quote(name)}", "self": url},
        "protected": required is not None or name in of.rules,
        "protection": {
            "enabled": required is not None,
            "required_status_checks": {
                "enforcement_level": "non_admins" if required else "off",
                **_checks(required or []),
            },
        },
        "protection_url": f"{url}/protection",
    }


def rate(remaining: int, limit: int, reset: float) -> Json:
    core = {"limit": limit, "remaining": remaining, "reset": int(reset), "used": limit - remaining}
    return {"resources": {"core": core, "search": core}, "rate": core}


def error(message: str, status: int, **more: Any) -> Json:
    return {"message": message, "documentation_url": "https://docs.github.com/rest", "status": str(status), **more}


def review(request: Request, of: Repository, on: Pull, it: Review) -> Json:
    page = f"{request.base}/{of.full_name}/pull/{on.number}#pullrequestreview-{it.id}"
    url = f"{request.api}/repos/{of.full_name}/pulls/{on.number}"
    rendered = {
        "id": it.id,
        "node_id": node_id("PullRequestReview", it.id),
        "user": user(request, it.author),
        "body": it.body,
        "state": it.state,
        "html_url": page,
        "pull_request_url": url,
        "_links": {"html": {"href": page}, "pull_request": {"href": url}},
        "commit_id": it.commit_id,
        "author_association": "NONE",
    }
    return rendered if it.state == "PENDING" else {**rendered, "submitted_at": stamp(it.submitted_at)}


def line_comment(request: Request, of: Repository, on: Pull, it: LineComment) -> Json:
    api = f"{request.api}/repos/{of.full_name}"
    url, page = f"{api}/pulls/comments/{it.id}", f"{request.base}/{of.full_name}/pull/{on.number}#discussion_r{it.id}"
    pull_url = f"{api}/pulls/{on.number}"
    return {
        "url": url,
        "id": it.id,
        "node_id": node_id("PullRequestReviewComment", it.id),
        "pull_request_review_id": it.review,
        "diff_hunk": "@@ -1 +1 @@",
        "path": it.path,
        "position": 1,
        "original_position": 1,
        "commit_id": it.commit_id,
        "original_commit_id": it.commit_id,
        **({} if it.reply_to is None else {"in_reply_to_id": it.reply_to}),
        "user": user(request, it.author),
        "body": it.body,
        "created_at": stamp(it.created_at),
        "updated_at": stamp(it.created_at),
        "html_url": page,
        "pull_request_url": pull_url,
        "author_association": "NONE",
        "_links": {"self": {"href": url}, "html": {"href": page}, "pull_request": {"href": pull_url}},
        "start_line": it.start_line,
        "original_start_line": it.start_line,
        "start_side": it.start_side,
        "line": it.line,
        "original_line": it.line,
        "side": it.side,
        "subject_type": "line",
    }


def reaction(request: Request, it: Reaction) -> Json:
    return {
        "id": it.id,
        "node_id": node_id("Reaction", it.id),
        "user": user(request, it.author),
        "content": it.content,
        "created_at": stamp(it.created_at),
    }


def permission(request: Request, login: str, role: str) -> Json:
    """`permission` knows four words; what a role is called stands beside it."""
    told = {"maintain": "write", "triage": "read"}.get(role, role)
    return {"permission": told, "role_name": role, "user": {**(user(request, login) or {}), "role_name": role}}


def app(request: Request, it: App) -> Json:
    return {
        "id": it.id,
        "slug": it.slug,
        "node_id": node_id("App", it.id),
        "client_id": f"Iv1.{it.id:016x}",
        "owner": user(request, "octo"),
        "name": it.slug,
        "description": "",
        "external_url": f"{request.base}/apps/{it.slug}",
        "html_url": f"{request.base}/apps/{it.slug}",
        "created_at": stamp(0),
        "updated_at": stamp(0),
        "permissions": it.permissions,
        "events": [],
    }


def installation(request: Request, it: App, owner: str, number: int) -> Json:
    return {
        "id": number,
        "account": user(request, owner),
        "access_tokens_url": f"{request.api}/app/installations/{number}/access_tokens",
        "repositories_url": f"{request.api}/installation/repositories",
        "html_url": f"{request.base}/settings/installations/{number}",
        "app_id": it.id,
        "app_slug": it.slug,
        "target_id": 1,
        "target_type": "User",
        "permissions": it.permissions,
        "events": [],
        "single_file_name": None,
        "repository_selection": "selected",
        "created_at": stamp(0),
        "updated_at": stamp(0),
        "suspended_by": user(request, owner) if owner in it.suspended else None,
        "suspended_at": stamp(0) if owner in it.suspended else None,
    }


def check_run(request: Request, of: Repository, it: CheckRun, by: App | None) -> Json:
    url = f"{request.api}/repos/{of.full_name}/check-runs/{it.id}"
    return {
        "id": it.id,
        "node_id": node_id("CheckRun", it.id),
        "head_sha": it.sha,
        "external_id": it.external_id,
        "url": url,
        "html_url": f"{request.base}/{of.full_name}/runs/{it.id}",
        "details_url": it.details_url,
        "status": it.status,
        "conclusion": it.conclusion,
        "started_at": stamp(it.started_at),
        "completed_at": None if it.completed_at is None else stamp(it.completed_at),
        "output": {
            "title": it.title,
            "summary": it.summary,
            "text": None,
            "annotations_count": len(it.annotations),
            "annotations_url": f"{url}/annotations",
        },
        "name": it.name,
        "check_suite": {"id": 1},
        "app": None if by is None else app(request, by),
        "pull_requests": [],
    }


def annotation(request: Request, of: Repository, it: CheckRun, one: Json) -> Json:
    return {
        "path": one["path"],
        "blob_href": f"{request.api}/repos/{of.full_name}/contents/{quote(one['path'])}?ref={it.sha}",
        "start_line": one["start_line"],
        "end_line": one["end_line"],
        "start_column": None,
        "end_column": None,
        "annotation_level": one["annotation_level"],
        "title": one.get("title"),
        "message": one["message"],
        "raw_details": None,
    }
