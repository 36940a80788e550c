"""The source of an application that `windlass init` makes of a folder: a repository, or uploads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from windlass.cli.client import Api, ApiRefused
from windlass.cli.deployments import say
from windlass.cli.git_folder import GitFolder
from windlass.terminal.tables import plain

_UNREADABLE: Final = frozenset({400, 409})
"""Statuses of a server that cannot read a repository, or may not call its host."""


def source_of(api: Api, folder: Path, git: GitFolder | None, repository: str | None) -> dict[str, Any]:
    """Returns the fields of an application that say where its files come from: the repository, if the server
    can read it, or else uploads of this folder, or of the one above to which it belongs."""
    inner = _place_in(whole_folder(folder, git), folder)
    uploaded = {"source": "UPLOAD", **inner}
    url = repository or (git.remotes[0] if git and git.remotes else "")
    if not url:
        say("The files are uploaded by `windlass up`: the folder has no remote that a server can reach.")
        return uploaded
    source: dict[str, Any] = {"url": url}
    if git and not repository:
        source |= ({"branch": git.branch} if git.branch else {}) | inner
    if not repository and (reason := _why_unreadable(api, source)):
        say(f"The files are uploaded by `windlass up`: the server cannot read {plain(url)}. {plain(reason)}")
        return uploaded
    return {"git_repository": source}


def whole_folder(folder: Path, git: GitFolder | None) -> Path:
    """Returns the repository that a folder belongs to, or the folder itself: without a repository, who wrote
    the files above it is not known, and one that holds a home folder is not sent anywhere."""
    return git.top if git and not Path.home().is_relative_to(git.top) else folder


def _place_in(top: Path, folder: Path) -> dict[str, str]:
    inner = folder.resolve().relative_to(top.resolve()).as_posix()
    return {"root_path": f"/{inner}"} if inner != "." else {}


def _why_unreadable(api: Api, source: Mapping[str, Any]) -> str:
    """Returns the server's reason why it cannot read a repository, or an empty text if it can."""
    organization = api.get("/organization")["id"]
    try:
        api.call(
            "POST", f"/organization/{organization}/detect", msgspec.json.encode({"git_repository": source})
        )
    except ApiRefused as refused:
        if refused.status in _UNREADABLE:
            return refused.message
        raise
    return ""
