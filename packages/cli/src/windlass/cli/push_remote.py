"""The remote `windlass` of a user's git repository, and where git finds the token for it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from windlass.base.environment import for_tools
from windlass.cli.git_folder import GitFolder
from windlass.terminal.command_errors import CommandFailed

REMOTE_NAME: Final = "windlass"
PUSHED_REPOSITORY: Final = "windlass://push"
"""The address of a repository that stands for what is pushed to the application."""
DEFAULT_BRANCH: Final = "main"
_REPOSITORY_PATH_PATTERN: Final = re.compile(r"/git/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.git$")
_TIMEOUT: Final = 30


def takes_pushes(application: Mapping[str, Any]) -> bool:
    return str((application.get("git_repository") or {}).get("url") or "") == PUSHED_REPOSITORY


def is_push_address(url: str) -> bool:
    """Returns whether an address is that of an application, and not of a git server."""
    return _REPOSITORY_PATH_PATTERN.search(urlsplit(url).path) is not None


def branch_to_push(git: GitFolder) -> str:
    """Returns the branch that is checked out."""
    return git.current or DEFAULT_BRANCH


def is_downgrade(login: str, pushed: str) -> bool:
    """Returns whether a token that is sent encrypted to one address would be sent in clear to another one."""
    return urlsplit(login).scheme == "https" and urlsplit(pushed).scheme != "https"


def set_remote(git: GitFolder, application: Mapping[str, Any], login: str) -> str:
    """Adds the remote, or changes its address, and lets git ask `windlass git-credential` for the token.
    Returns the command that deploys. Only settings of this repository are changed.

    `login`: the address of the server for which the user has the token. The server may have another address
    for pushes, such as that of the setting `console_domain`.
    """
    url = str(application["push_url"])
    known = _git_output(git.top, "remote", "get-url", REMOTE_NAME)
    if known is None:
        _require_git(git.top, "remote", "add", REMOTE_NAME, url)
    elif known != url:
        _require_git(git.top, "remote", "set-url", REMOTE_NAME, url)
    parts = urlsplit(url)
    server = f"{parts.scheme}://{parts.netloc}"
    words = [sys.executable, "-m", "windlass", "git-credential"]
    if login != server and not is_downgrade(login, server):
        words += ["--login", login]
    helper = shlex.join(words)
    _require_git(git.top, "config", f"credential.{server}.helper", f"!{helper}")
    branch = str(application["git_repository"].get("branch") or branch_to_push(git))
    pushed = branch if branch == git.current else f"HEAD:{branch}"
    return shlex.join(["git", "push", REMOTE_NAME, pushed])


def _require_git(root: Path, *words: str) -> None:
    if _git_output(root, *words) is None:
        raise CommandFailed(f"let this user change the settings of the repository in {root}: git refused it")


def _git_output(root: Path, *words: str) -> str | None:
    """Returns the output of git; None if it fails."""
    try:
        ended = subprocess.run(
            ["git", "-C", str(root), *words],
            env=for_tools() | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ended.stdout.decode(errors="replace").strip() if ended.returncode == 0 else None
