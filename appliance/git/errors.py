"""What git's failures mean: a table from its words to cause, remedy and whether a retry can help."""

import re
from dataclasses import dataclass

from appliance.process import Completed


class GitError(Exception):
    """Git did not do what was asked; the message says what and the next step.

    `permanent`: asking again cannot help until a person acts. `cause` is one of `forge-login`, `forge-permission`,
    `forge-not-found`, `forge-rate-limited`, `forge-unreachable`, `forge-refused` (its repository is damaged),
    `superseded`, `too-large`, `malformed` (git refuses what the commit holds), `disk-full`, `mirror-corrupt`,
    `bad-name`, `git`. `brief` is the sentence without git's own words, which may quote the repository.
    """

    def __init__(self, cause: str, sentence: str, *, remedy: str, permanent: bool = True, brief: str = "") -> None:
        super().__init__(f"{sentence}. Next: {remedy}.")
        self.cause = cause
        self.sentence = sentence
        self.remedy = remedy
        self.permanent = permanent
        self.brief = brief or sentence


class Superseded(GitError):
    """The head or the base is no longer what the forge listed: plan anew."""

    def __init__(self, sentence: str) -> None:
        super().__init__("superseded", sentence, remedy="nothing, the next cycle looks again", permanent=False)


@dataclass(frozen=True)
class _Words:
    """One line of the table: if `pattern` is in git's stderr, this is what happened."""

    cause: str
    pattern: str
    sentence: str
    remedy: str
    permanent: bool


_FREE = "free space on the volume of the state, then wait for the next cycle"
_MISSING = "check the repository's name, and that the token may read it"
_TOKEN = "renew GITHUB_TOKEN, or give it (or the GitHub App) the right to read contents"
_WAIT = "check the network and the forge's status page; the next cycle tries again"
_CA = "give the certificate authority of the forge in SSL_CERT_FILE"

_OURS = r"(?m)^(?!remote: ).*"  # words of our git, not of the forge's
MALFORMED = "git refuses what the commit holds"
_SPLIT = "split the pull request"

# The first line that fits wins. Texts from git 2.39 to 2.47, and of libcurl.
_TABLE = (
    # The last are what `git init` says of it: that a configuration of some bytes cannot be written.
    _Words(
        "disk-full",
        r"No space left on device|Disk quota exceeded|failed to write new configuration file",
        "the disk is full",
        _FREE,
        True,
    ),
    # Our own limits of memory and of the size of a file, git/hardened.py and git/bounds.py.
    _Words(
        "too-large",
        _OURS + r"(?:[Oo]ut of memory|data too large to fit|size_t overflow|File too large)",
        "it takes more memory or disk than allowed",
        _SPLIT,
        True,
    ),
    _Words(
        "malformed",
        _OURS + r"(?:invalid path '|File name too long|unable to create symlink|cache entry has null sha1"
        r"|exceeded maximum allowed tree depth|too-short tree|malformed mode in tree|empty filename in tree"
        r"|unable to create file .*: (?:Is a directory|Not a directory|File exists))",
        MALFORMED,
        "take the path that git names out of the branch",
        True,
    ),
    _Words(
        "superseded",
        r"couldn't find remote ref|not our ref|no such remote ref|unadvertised object",
        "the forge no longer has the branch or commit",
        "nothing, the next cycle looks again",
        False,
    ),
    _Words(
        "forge-login",
        r"Authentication failed|could not read (?:Username|Password)|returned error: 401",
        "the forge does not accept the token",
        _TOKEN,
        True,
    ),
    _Words("forge-permission", r"returned error: 403", "the token may not read this repository", _TOKEN, True),
    _Words("forge-rate-limited", r"returned error: 429", "the forge limits our requests", _WAIT, False),
    _Words(
        "forge-not-found",
        r"unable to update url base from redirection|returned error: 30\d",
        "the repository has moved",
        "give its new name",
        True,
    ),
    _Words(
        "forge-not-found",
        r"repository '.*' not found|returned error: 404|does not appear to be a git repository|does not exist",
        "the repository is not there, or the token does not see it",
        _MISSING,
        True,
    ),
    _Words(
        "forge-refused",
        r"repository corruption on the remote side|git-pack-objects died",
        "the repository itself seems damaged",
        "run `git fsck` in it, or ask the forge's support",
        False,
    ),
    _Words(
        "forge-refused",
        r"protocol error|bad pack header|invalid index-pack output|bad line length",
        "what the forge sent is no answer of git's",
        _WAIT,
        False,
    ),
    _Words(
        "mirror-corrupt",
        r"(?:loose object|packed object|object file|packfile|pack file)"
        r".*(?:corrupt|empty|truncated|unavailable|cannot be accessed|does not match index|index not opened)"
        r"|bad object|invalid sha1 pointer|inflate: |(?:cannot|unable to) read (?:tree|sha1|object|[0-9a-f]{40})"
        r"|could not parse|un(?:expected|terminated) line in .*packed-refs"
        r"|did not send all necessary objects|missing (?:blob|tree|commit)|Could not read [0-9a-f]{40}|bad tree object"
        r"|not a git repository|bad config line|unable to unpack|hash mismatch|is not a valid object|bad signature"
        r"|file .*\.(?:pack|idx) (?:is far too short|is too small|index)|bad packed object|failed to read object"
        r"|unable to resolve reference|your current branch appears to be broken|nonexistent object|bad ref|broken ref",
        "the kept copy of the repository is damaged",
        "nothing, it is fetched anew; check the disk if this comes back",
        False,
    ),
    _Words(
        "forge-unreachable",
        r"SSL certificate problem|certificate verif|server verification failed",
        "the forge's certificate is not trusted",
        _CA,
        True,
    ),
    _Words(
        "forge-unreachable",
        r"Could not resolve|Failed to connect|Connection (?:refused|reset|timed out)|Couldn't connect"
        r"|returned error: 5\d\d|Operation (?:timed out|too slow)|early EOF|RPC failed|hung up|unexpected disconnect"
        r"|TLS|gnutls|SSL_|Empty reply",
        "the forge cannot be reached",
        _WAIT,
        False,
    ),
)


def error_of(completed: Completed, what: str) -> GitError:
    """What a failed run of git means; `what` is the command without its arguments, such as `fetch`."""
    if completed.timed_out:
        sentence = f"git {what} did not end within {completed.seconds:.0f} s"
        return GitError("forge-unreachable" if what == "fetch" else "git", sentence, remedy=_WAIT, permanent=False)
    text = completed.err.strip() or completed.out.strip()
    tail = " ".join(text.split())[-500:]
    for words in _TABLE:
        if re.search(words.pattern, text):
            if words.cause == "superseded":
                return Superseded(f"{words.sentence} (git {what}: {tail})")
            sentence = f"{words.sentence} (git {what}: {tail})"
            return GitError(words.cause, sentence, remedy=words.remedy, permanent=words.permanent, brief=words.sentence)
    return GitError(
        "git",
        f"git {what} exited with {completed.code}: {tail}",
        remedy="read the message; report it if the repository is sound",
        permanent=False,
    )
