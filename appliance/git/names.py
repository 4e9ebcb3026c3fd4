"""Names that come from outside, before git or the filesystem sees them."""

import hashlib
import re
from urllib.parse import urlsplit

from appliance.git.errors import GitError

_SHA = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
# git-check-ref-format(1): what no ref may contain
_BAD_IN_REF = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|\Z)|[/.]\Z")


def is_sha(text: str) -> bool:
    """True for a full object name, SHA-1 or SHA-256, in lower case."""
    return _SHA.match(text) is not None


def check_sha(text: str) -> str:
    """`text` if it is a full object name; raises GitError otherwise."""
    if not is_sha(text):
        raise GitError(
            "bad-name", f"{text!r} is no full commit SHA", remedy="name the commit by its 40 or 64 hex digits"
        )
    return text


def check_ref(text: str) -> str:
    """`text` if it is a full ref name (`refs/…`) by git-check-ref-format(1); raises GitError otherwise.

    A full name never begins with `-`, so that a branch named like an option is only a name.
    """
    if not text.startswith("refs/") or _BAD_IN_REF.search(text):
        raise GitError("bad-name", f"{text!r} is no valid ref", remedy="give the full name, such as refs/heads/main")
    return text


def check_url(text: str) -> str:
    """The one protocol (`https`, `http` or `file`) that git may use for `text`; raises GitError for any other address.

    Addresses with a user or password are refused: they would end up in argv, and so in every process list.
    """
    if text.startswith("/") and "\0" not in text:
        return "file"
    parts = urlsplit(text)
    if parts.scheme not in {"https", "http"} or not parts.hostname or re.search(r"[\x00-\x20\x7f]", text):
        raise GitError("bad-name", "the clone address is neither http(s) nor a path", remedy="check the forge's answer")
    if "@" in parts.netloc:
        raise GitError("bad-name", "the clone address holds a user name", remedy="give the token as a setting instead")
    return parts.scheme


def directory_name(text: str) -> str:
    """A directory name for `text`: a readable part and a hash, so that two texts never share one."""
    readable = re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-")[-40:].strip("-")
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{readable}-{digest}" if readable else digest
