"""`windlass up`: deploys the files of the linked folder, and shows the build and the address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from windlass.cli.confirmed_links import confirm_link
from windlass.cli.deployments import say
from windlass.cli.everyday.call import EverydayCall, FoundService, everyday, service_argument
from windlass.cli.everyday.changes import change, detach_option
from windlass.cli.everyday.folder import whole_folder
from windlass.cli.following import wait_for_budget
from windlass.cli.git_folder import GitFolder, git_folder, is_same_repository
from windlass.cli.push_remote import PUSHED_REPOSITORY, REMOTE_NAME, is_push_address
from windlass.cli.uploading import FolderUpload, packed
from windlass.core.declare.resource import Family
from windlass.families import registry
from windlass.terminal.command_errors import InvalidUsage, ended_by_user
from windlass.terminal.sections import Option
from windlass.terminal.tables import plain

_SHORT_COMMIT_LENGTH: Final = 7
_RESUME_HINT: Final = "The folder is not uploaded yet: `windlass up` resumes it."


@everyday(
    "up",
    service_argument(),
    Option(["only_git", "--git"], is_flag=True, help="Deploy the pushed commit, and never upload."),
    Option(
        ["only_upload", "--upload"], is_flag=True, help="Upload the folder, also if its commit is pushed."
    ),
    detach_option(),
    Option(
        ["yes", "-y", "--yes"],
        is_flag=True,
        help="Do not ask where the link of the folder came with its files.",
    ),
)
def up(name: str | None, only_git: bool, only_upload: bool, detach: bool, yes: bool, **options: Any) -> None:
    """Deploy this folder, and show the build log and the address.

    If the commit that is checked out is pushed to the repository of the service, and no file has changed
    since, the server fetches it. Otherwise the folder is uploaded, without what .gitignore, .dockerignore
    and .windlassignore name, and always without .git, node_modules, .venv and .env. Ctrl-C ends the
    command; the deployment continues. NAME is another application that is built from this folder, such as
    its worker.
    """
    if only_git and only_upload:
        raise InvalidUsage("give --git or --upload, and not both")
    call = EverydayCall(options)
    if call.linked is None:
        raise InvalidUsage("run `windlass init` here first, or `windlass link`: this folder is not linked")
    confirm_link(call.linked, call.api.url, sure=yes)
    service = call.service(name)
    if registry().service_of_type(service.row["service_type"]) not in _built_from_folders():
        raise InvalidUsage(f"name an application: {plain(service.name)} is not built from a folder")
    settings = call.api.get(service.path)
    git = git_folder(call.linked.folder)
    reason = _git_obstacle(git, settings)
    if only_git and reason:
        raise InvalidUsage(reason)
    if git is None or reason or only_upload:
        if reason and settings.get("git_repository") and not only_upload:
            say(f"The folder is uploaded. To deploy from git, {reason}.")
        version = {"upload_id": _upload(call, service, folder_to_upload(call.linked.folder, git, settings))}
    else:
        say(f"Deploying the commit {git.commit[:_SHORT_COMMIT_LENGTH]}: {plain(git.subject)}")
        version = {"git_commit_id": git.commit}
    change(call, service, "deploy", version, detach=detach, command=call.command_line("up", name))


def _built_from_folders() -> Sequence[Family | None]:
    return registry().parents(registry().families["upload"])


def _git_obstacle(git: GitFolder | None, settings: Mapping[str, Any]) -> str:
    """Returns what the user has to do before the server can fetch the files from git; empty if the server
    can."""
    url = str((settings.get("git_repository") or {}).get("url") or "")
    if url == PUSHED_REPOSITORY:
        url = str(settings.get("push_url") or "")
    if not url:
        return "name a git_repository of the application: it has none"
    if git is None or not git.commit:
        return "commit this folder with git, and push it: it has no commit yet"
    if not any(is_same_repository(remote, url) for remote in git.remotes):
        return f"push this folder to {plain(url)}: none of its remotes is the repository of the service"
    if not any(is_same_repository(remote, url) for remote in git.pushed_to):
        push = f"git push {REMOTE_NAME}" if is_push_address(url) else "git push"
        return f"push the commit {git.commit[:_SHORT_COMMIT_LENGTH]}, with `{push}`: {plain(url)} lacks it"
    if git.has_changes:
        return "commit the changed files, and push them"
    return ""


def folder_to_upload(folder: Path, git: GitFolder | None, settings: Mapping[str, Any]) -> Path:
    """Returns the folder to upload: the linked folder, or the parent folder whose subfolder the application
    is. A linked folder may itself be this parent folder."""
    source = settings.get("git_repository") or settings
    root = str(source.get("root_path") or "/").strip("/")
    if not root:
        return folder
    top = whole_folder(folder, git)
    is_parent = folder.resolve() == top.resolve() and (top / root).is_dir()
    if not is_parent and (top / root).resolve() != folder.resolve():
        raise InvalidUsage(
            f"link the folder {root} of the repository: the application is built from there, and not from "
            f"{folder}"
        )
    return top


def _upload(call: EverydayCall, service: FoundService, folder: Path) -> str:
    call.api.enable_retries(wait_for_budget)
    with ended_by_user(_RESUME_HINT), packed(folder) as archive:
        return FolderUpload(call.api, service.path, archive, say).send()
    raise AssertionError("ended by hand")
