"""`windlass up`: deploys the files of the linked folder, and shows the build and the address."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from windlass.cli.deployments import say
from windlass.cli.everyday.call import EverydayCall, everyday
from windlass.cli.everyday.changes import change, detach_option
from windlass.cli.git_folder import GitFolder, git_folder, is_same_repository
from windlass.terminal.stopped import Misused
from windlass.terminal.tables import plain

_SHORT: Final = 7


@everyday("up", detach_option())
def up(detach: bool, **options: Any) -> None:
    """Deploy this folder: the commit that is checked out, once it is pushed to the service's repository.

    Shows the build log, and the address at the end. Ctrl-C ends the command; the deployment goes on.
    """
    call = EverydayCall(options)
    if call.linked is None:
        raise Misused("run `windlass init` here first, or `windlass link`: this folder is not linked")
    service = call.service()
    settings = call.api.get(service.path)
    commit = _pushed_commit(call.linked.folder, settings)
    change(call, service, "deploy", {"git_commit_id": commit}, detach=detach)


def _pushed_commit(folder: Path, settings: Mapping[str, Any]) -> str:
    url = str((settings.get("git_repository") or {}).get("url") or "")
    git = git_folder(folder)
    if (missing := _why_not(git, url)) or git is None:
        raise Misused(missing)
    if git.has_changes:
        say("Changed files that are not in the commit are not deployed.")
    say(f"Deploying the commit {git.commit[:_SHORT]}: {plain(git.subject)}")
    return git.commit


def _why_not(git: GitFolder | None, url: str) -> str:
    """Says what keeps the commit from being deployed, or nothing."""
    if git is None or not git.commit:
        return "commit this folder with git first, and push it: it has no commit yet"
    if not any(is_same_repository(remote, url) for remote in git.remotes):
        return f"push this folder to {url}: none of its remotes is the repository of the service"
    if not git.is_pushed:
        return f"push the commit {git.commit[:_SHORT]} first, with `git push`: no remote has it"
    return ""
