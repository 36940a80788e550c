"""The repository and the commit to fetch, validated before any connection.

An address is parsed with one strict grammar and written again, so that git, curl and ssh cannot interpret it
differently.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote_to_bytes

from msgspec import Struct
from msgspec.structs import replace

from windlass.base.addresses import Address, BadHost, host
from windlass.base.lazy import lazy_pattern

MAX_URL_LENGTH: Final = 2048
MAX_DEPTH: Final = 100

_PORTS: Final = {"https": 443, "http": 80, "ssh": 22}
_USER = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_URL_PATTERN = lazy_pattern(
    rf"(?P<scheme>https|http|ssh)://((?P<user>{_USER})?(?P<password>:[^@/]*)?@)?"
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]/:@\\?#%\s]+)(:(?P<port>[0-9]{1,5}))?(?P<path>/.*)",
    re.IGNORECASE | re.DOTALL,
)
_SCP_PATTERN = lazy_pattern(rf"(?P<user>{_USER})@(?P<host>[^\[\]/:@\\?#%\s]+):(?P<path>[^:-].*)", re.DOTALL)
_LOCAL_PATTERN = lazy_pattern(r"file://(localhost)?(?P<path>/.*)", re.IGNORECASE | re.DOTALL)

_PATH_PATTERN = lazy_pattern(r"([A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})+")
_CONTROL_PATTERN = lazy_pattern(rb"[\x00-\x20\x7f]")
_COMMIT_PATTERN = lazy_pattern(r"[0-9a-f]{7,64}")
# Branch names that git check-ref-format refuses.
_NOT_IN_BRANCH_PATTERN = lazy_pattern(
    r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|$)|\.$|/$|^[-/.]|^@$"
)


class GitError(Exception):
    """Raised if a fetch fails. The message is for users, and contains no path of this machine and no
    token."""


class GitSource(Struct, frozen=True):
    """A repository and one of its commits: `commit`, or else the newest commit of `branch` or the default
    branch."""

    url: str
    branch: str | None = None
    commit: str | None = None
    root_path: str = "/"
    token: str | None = None
    """The password for the repository, or `user:password`."""
    pushed: str = ""
    """The id of the application whose own repository this is, see `sources.push`; empty for repositories of
    git servers. Never taken from an address that a client sends."""

    def __repr__(self) -> str:  # keeps the token out of logs
        return f"GitSource(url={self.url!r}, branch={self.branch!r}, commit={self.commit!r})"


class RemoteAddress(Struct, frozen=True):
    """The address of a repository, in the form that is passed to git."""

    scheme: str
    host: str | Address
    port: int
    url: str

    @property
    def shown(self) -> str:
        """The host of the repository, with its port unless that is the default port."""
        return _host_text(self.host) + ("" if self.port == _PORTS.get(self.scheme) else f":{self.port}")

    @property
    def origin(self) -> str:
        return "/".join(self.url.split("/", 3)[:3]) + "/"

    def with_suffix(self) -> RemoteAddress | None:
        """Returns the address with `.git` appended, or None if it ends so. Some servers, such as GitLab,
        serve a repository only under this address."""
        bare = self.url.rstrip("/")
        return None if bare.endswith(".git") else replace(self, url=f"{bare}.git")


def place(url: str) -> RemoteAddress:
    if len(url) > MAX_URL_LENGTH:
        raise GitError(f"The address of the repository is longer than {MAX_URL_LENGTH} characters.")
    if match := _URL_PATTERN.fullmatch(url):
        return _by_url(match)
    if match := _SCP_PATTERN.fullmatch(url):
        path = _check_path(match["path"])
        name = _host(match["host"])
        return RemoteAddress("ssh", name, _PORTS["ssh"], f"{match['user']}@{_host_text(name)}:{path}")
    if match := _LOCAL_PATTERN.fullmatch(url):
        return RemoteAddress("file", "", 0, f"file://{_check_path(match['path'])}")
    raise GitError(
        "The address of the repository must be like https://host/owner/name.git or git@host:owner/name.git."
    )


def wanted_ref(source: GitSource) -> str:
    """Returns the ref to fetch if the source names no commit."""
    if source.branch is None:
        return "HEAD"
    branch = source.branch
    if not branch or len(branch) > 255 or not _encodable(branch) or _NOT_IN_BRANCH_PATTERN.search(branch):
        raise GitError("The branch has a name that git does not allow.")
    return f"refs/heads/{branch}"


def wanted_commit(source: GitSource) -> str | None:
    if not source.commit:
        return None
    commit = source.commit.lower()
    if not _COMMIT_PATTERN.fullmatch(commit):
        raise GitError("A commit is named by 7 to 64 hexadecimal digits.")
    return commit


def folder(root_path: str) -> PurePosixPath:
    """Returns the folder of the repository to build, relative to its top. Raises GitError for an invalid
    path."""
    path = PurePosixPath(root_path.strip("/") or ".")
    if ".." in path.parts:
        raise GitError("root_path: must stay inside the repository; `..` is not allowed.")
    if len(root_path) > MAX_URL_LENGTH or not root_path.isprintable() or not _encodable(root_path):
        raise GitError("root_path: is not a path.")
    return path


def _by_url(match: re.Match[str]) -> RemoteAddress:
    scheme = match["scheme"].lower()
    if match["password"] is not None:
        raise GitError("The address of the repository contains a password: put it into a git token instead.")
    name = _host(match["host"])
    port = int(match["port"] or _PORTS[scheme])
    if not 0 < port < 65_536:
        raise GitError("The address of the repository names a port that does not exist.")
    # Some servers offer web addresses with a user name for copying. The user name is ignored.
    user = f"{match['user']}@" if match["user"] and scheme == "ssh" else ""
    written = _host_text(name) + ("" if port == _PORTS[scheme] else f":{port}")
    return RemoteAddress(scheme, name, port, f"{scheme}://{user}{written}{_check_path(match['path'])}")


def _host(text: str) -> str | Address:
    try:
        return host(text)
    except BadHost as error:
        raise GitError(f"The host in the address of the repository {error}.") from error


def _host_text(name: str | Address) -> str:
    return name if isinstance(name, str) else f"[{name}]" if name.version == 6 else str(name)


def _check_path(path: str) -> str:
    plain = unquote_to_bytes(path) if path.isascii() else b""
    if (
        not _PATH_PATTERN.fullmatch(path)
        or _CONTROL_PATTERN.search(plain)
        or b".." in plain.split(b"/")
        or not plain.strip(b"/")
    ):
        raise GitError(
            "The path in the address of the repository must be of letters, digits and ordinary punctuation, "
            "without `..`, `?` and `#`."
        )
    return path


def _encodable(text: str) -> bool:
    """Returns whether a text can be encoded as UTF-8. Lone surrogates cannot, and cannot be passed to a
    process."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
