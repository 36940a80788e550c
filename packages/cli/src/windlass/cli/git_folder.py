"""Reads the git state of a user's folder: its remotes and commit. Changes nothing."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from windlass.base.environment import for_tools
from windlass.cli.ignored_files import is_never_uploaded
from windlass.cli.linked_folder import LINK_FILE as LINK

_TIMEOUT: Final = 30
_RUNS_NOTHING: Final = ("-c", "core.fsmonitor=false", "-c", "log.showSignature=false")
"""Options that disable repository settings which would run programs."""
_SCP_PATTERN: Final = re.compile(r"(?:[^@/\s]+@)?(?P<host>[^:/\s@]+):(?P<path>[^\s].*)")


class GitFolder(Struct, frozen=True, kw_only=True):
    """The git state of a folder in a repository."""

    top: Path
    commit: str = ""
    """The commit that is checked out; empty before the first commit."""
    subject: str = ""
    branch: str = ""
    """The branch at the remote: the upstream branch, or the remote branch with the same name."""
    current: str = ""
    """The branch that is checked out; empty without one."""
    remotes: tuple[str, ...] = ()
    """Addresses of the remotes in a form that the server can use, beginning with the upstream branch's
    remote."""
    has_changes: bool = False
    """Returns whether a file of the application differs from the commit."""
    pushed_to: tuple[str, ...] = ()
    """Addresses of the remotes that contained the commit at the last fetch or push."""


def git_folder(folder: Path) -> GitFolder | None:
    """Returns the git state of a folder. None if the folder is not in a repository, or git is not
    installed."""
    top = _git_output(folder, "rev-parse", "--show-toplevel")
    if not top:
        return None
    commit = _git_output(folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    remote, _, branch = _git_output(folder, "rev-parse", "--abbrev-ref", "@{upstream}").partition("/")
    names = sorted(_git_output(folder, "remote").split(), key=lambda name: (name != remote, name != "origin"))
    return GitFolder(
        top=Path(top),
        commit=commit,
        subject=_git_output(folder, "log", "-1", "--format=%s") if commit else "",
        current=_git_output(folder, "symbolic-ref", "--quiet", "--short", "HEAD"),
        branch=branch or _pushed_branch(folder, names),
        remotes=tuple(
            dict.fromkeys(
                url for name in names if (url := for_server(_git_output(folder, "remote", "get-url", name)))
            )
        ),
        has_changes=_has_changes(folder),
        pushed_to=_remotes_with(folder, commit, names) if commit else (),
    )


def _remotes_with(folder: Path, commit: str, remotes: Sequence[str]) -> tuple[str, ...]:
    listed = _git_output(folder, "branch", "-r", "--contains", commit, "--format=%(refname)").split("\n")
    holders = [name for name in remotes if any(line.startswith(f"refs/remotes/{name}/") for line in listed)]
    urls = (for_server(_git_output(folder, "remote", "get-url", name)) for name in holders)
    return tuple(filter(None, urls))


def _pushed_branch(folder: Path, remotes: Sequence[str]) -> str:
    """Returns the current branch if a remote has it. Without options, `git push` sets no upstream."""
    branch = _git_output(folder, "symbolic-ref", "--quiet", "--short", "HEAD")
    references = [f"refs/remotes/{remote}/{branch}" for remote in remotes if branch]
    is_pushed = any(
        _git_output(folder, "rev-parse", "--verify", "--quiet", reference) for reference in references
    )
    return branch if is_pushed else ""


def for_server(url: str) -> str:
    """Returns the address of a remote without credentials, and with https instead of ssh, because the server
    does not have the user's ssh key. Empty if a server cannot use the address, as for a local path."""
    if "://" not in url:
        match = _SCP_PATTERN.fullmatch(url)
        return f"https://{match['host']}/{match['path'].lstrip('/')}" if match else ""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    if parts.scheme in {"http", "https"}:
        place = f"{host}:{port}" if port else host
        return urlunsplit((parts.scheme, place, parts.path, "", ""))
    if parts.scheme in {"ssh", "git", "git+ssh"}:
        return f"https://{host}/{parts.path.lstrip('/')}"
    return url if parts.scheme == "file" else ""


def is_same_repository(url: str, other: str) -> bool:
    return _normal_url(for_server(url)) == _normal_url(for_server(other)) != ""


def _has_changes(folder: Path) -> bool:
    """Returns whether files of the application have changed. True if git fails, so that a commit is never
    deployed in place of changed files."""
    if (options := _without_filters(folder)) is None:
        return True
    entries = _run(folder, *options, "status", "--porcelain", "-z", "--untracked-files=all", "--", ".")
    return entries is None or any(_is_application_file(entry[3:]) for entry in entries.split("\0") if entry)


def _without_filters(folder: Path) -> list[str] | None:
    """Returns the options that disable filters in the repository's settings.

    `git status` would run these filters, and the folder may come from a stranger. None if a filter's name
    cannot be passed as an option.
    """
    listed = _run(
        folder, "config", "--includes", "--show-scope", "-z", "--name-only", "--get-regexp", r"^filter\."
    )
    scopes, names = (listed or "").split("\0")[:-1:2], (listed or "").split("\0")[1::2]
    own = [
        name for scope, name in zip(scopes, names, strict=False) if scope in ("local", "worktree", "unknown")
    ]
    if any("=" in name for name in own):
        return None
    return [word for name in own if name.endswith((".clean", ".process")) for word in ("-c", f"{name}=")]


def _is_application_file(path: str) -> bool:
    """Returns whether a changed file is part of the application. The link file and files that are never
    uploaded are not."""
    return not any(name == LINK or is_never_uploaded(name) for name in path.rstrip("/").split("/"))


def _normal_url(url: str) -> str:
    return url.removesuffix("/").removesuffix(".git").casefold()


def _git_output(folder: Path, *words: str) -> str:
    """Returns the output of git; empty if git fails."""
    return (_run(folder, *words) or "").strip()


def _run(folder: Path, *words: str) -> str | None:
    """Returns the output of git. None if git fails."""
    environment = for_tools() | {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        ended = subprocess.run(
            ["git", "-C", str(folder), *_RUNS_NOTHING, *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ended.stdout.decode(errors="replace") if ended.returncode == 0 else None
