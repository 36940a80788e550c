"""The folder of an instance: the working copy of the code, the volumes and the configured files.

Volumes and files are not mounted at their configured paths. A path below `/app` is in the working copy. For a
volume elsewhere, the variable `WINDLASS_VOLUME_<NAME>` contains the folder. A file elsewhere is below the
folder in the variable `WINDLASS_FILES`, under its configured path.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

from windlass.base.folder_removal import erase
from windlass.base.isolation.users import change_owner, make_readable
from windlass.engines.engine import ArtifactLost, EngineError, VolumeLost, output_too_long
from windlass.engines.workload import (
    MAX_OUTPUT_BYTES,
    OUTPUT_FILE,
    OUTPUT_VARIABLE,
    Artifact,
    Volume,
    Workload,
)
from windlass.process import open_folders
from windlass.process.lost_python import has_lost_python
from windlass.process.open_folders import UNCHANGED, open_below
from windlass.process.records import names
from windlass.process.run_recorder import BEGAN_FILE, ENDED_FILE, has_begun
from windlass.process.tree_copy import CopyContent, adorn, copy_content

APP_FOLDER: Final = PurePosixPath("/app")
"""The path of the working copy in settings."""
RECORDER_FOLDER: Final = "once"
"""The name of the folder in which the recorder of a program that runs once writes."""
_RESULT_BLOCKS: Final = 64
"""Maximum number of 512-byte disk blocks of a result file that is kept."""
CACHE_FOLDERS: Final = (".cache", ".m2", ".gradle", ".npm", "go")
"""Folders in the home folder where tools store downloads. They are kept for the next instance."""


def make(
    home: Path,
    workload: Workload,
    volumes: Path,
    cache: Path,
    owner: int | None,
    copies: CopyContent = copy_content,
) -> None:
    """Creates the files of a program. Replaces the files of an interrupted attempt. `owner` is the system
    user of the program if it differs from the user of Windlass."""
    erase(home / "app")
    erase(home / "files")
    for name in ("home", "tmp", "files"):
        (home / name).mkdir(mode=0o700, exist_ok=True)
    copy(Path(workload.artifact.ref), home / "app", owner, copies)
    _remember(home / "home", cache)
    for volume in workload.volumes:
        storage = volume_folder(volumes, workload.service, volume.name)
        _attach_volume(volume, storage, home / "app", owner, copies)
    tops = [home / "app", home / "files"]
    tops += [volume_folder(volumes, workload.service, volume.name) for volume in workload.volumes]
    for path, content in workload.files.items():
        _write_file(_file_path(home, path), content, tops, owner)
    if workload.writes_output:
        output_file(home).parent.mkdir(mode=0o700, exist_ok=True)
    if owner is not None:
        for folder in built_folders(Path(workload.artifact.ref)):
            make_readable(folder)
        for own in (home / "home", home / "tmp", home / "files", cache):
            change_owner(own, owner)
        if workload.writes_output:
            change_owner(output_file(home).parent, owner)


WRITABLE_FOLDERS: Final = ("home", "tmp", "files")
"""Folders of an instance in which its program writes, besides the working copy."""


def discard(home: Path, cache: Path) -> None:
    """Erases everything that `make` creates again at the next start."""
    for name in ("app", *WRITABLE_FOLDERS):
        erase(home / name)
    for name in names(cache):
        erase(cache / name)
    _empty_once(home / RECORDER_FOLDER)


def _empty_once(folder: Path) -> None:
    """Erases the files that a run has written, except for the mark that the program has begun and a small
    result."""
    had_begun = has_begun(folder)
    for name in names(folder):
        with suppress(FileNotFoundError):
            facts = (folder / name).lstat()
            is_result = (
                name == ENDED_FILE and stat.S_ISREG(facts.st_mode) and facts.st_blocks <= _RESULT_BLOCKS
            )
            if not is_result:
                erase(folder / name)
    if had_begun:
        (folder / BEGAN_FILE).touch()


def check_place(artifact: Artifact, root: Path | None) -> None:
    """Raises ArtifactLost for a build outside of `root`. After a move of the data directory, its files are
    gone or belong to another installation."""
    if root is not None and not Path(artifact.ref).is_relative_to(root):
        raise ArtifactLost("Deploy again: the build of this deployment is gone")


def check_python(artifact: Artifact) -> None:
    """Raises ArtifactLost if the Python of a build was removed from the machine."""
    if has_lost_python(Path(artifact.ref)):
        raise ArtifactLost("Deploy again: the Python that this deployment was built with is gone")


def output_file(home: Path) -> Path:
    """Returns the path of the output file that a run may write."""
    return home / "files" / OUTPUT_FILE.lstrip("/")


def read_output(home: Path) -> bytes | None:
    """Returns the content of the output file, or None if the run did not write one."""
    place = output_file(home)
    try:
        with open_below(home / "files", (place.parent.name,)) as at:
            content = open_folders.read(place.name, at, MAX_OUTPUT_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EngineError(
            f"Write a plain file to the path in {OUTPUT_VARIABLE}: the run left something else there"
        ) from error
    if len(content) > MAX_OUTPUT_BYTES:
        raise output_too_long()
    return content


def check_volumes(volumes: Path, workload: Workload) -> None:
    """Raises VolumeLost if the folder of a volume that contained data is missing."""
    for volume in workload.volumes:
        if volume.is_known and not volume_folder(volumes, workload.service, volume.name).is_dir():
            raise VolumeLost(workload, volume)


def built_folders(artifact: Path) -> list[Path]:
    """Returns the folder of a build, and the shared folders to which its links lead, such as dependencies.

    Only the links of Windlass in the build's folder are followed. A build step may have put links into the
    shared folders.
    """
    links = [path for path in artifact.iterdir() if path.is_symlink()] if artifact.is_dir() else []
    shared = (Path(os.path.normpath(artifact / link.readlink())).parent for link in links)
    return [artifact, *(folder for folder in shared if folder.is_relative_to(artifact.parent))]


def make_once(home: Path, owner: int | None) -> None:
    """Creates the folder of a program that runs once, in which its recorder writes. The folder is never
    replaced, because it shows whether the program has begun."""
    folder = home / RECORDER_FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    if owner is not None:
        change_owner(folder, owner)


def writable(
    home: Path, workload: Workload, volumes: Path, cache: Path, *, runs_once: bool = False
) -> list[Path]:
    """Returns the folders of the engine in which the program may write."""
    own = [
        home / name
        for name in ("app", "home", "tmp", "files", "output", *((RECORDER_FOLDER,) if runs_once else ()))
    ]
    return [
        *own,
        cache,
        *(volume_folder(volumes, workload.service, volume.name) for volume in workload.volumes),
    ]


def _remember(home: Path, cache: Path) -> None:
    for name in CACHE_FOLDERS:
        (cache / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.path.lexists(home / name):
            (home / name).symlink_to(cache / name)


def absolute(path: str) -> PurePosixPath:
    """Returns the absolute path for a path relative to `/app`, without `..`."""
    return PurePosixPath(os.path.normpath(APP_FOLDER / path))


def below_app(path: str) -> PurePosixPath | None:
    """Returns the path relative to the working copy, or None if the path is elsewhere."""
    pure = absolute(path)
    return pure.relative_to(APP_FOLDER) if pure != APP_FOLDER and pure.is_relative_to(APP_FOLDER) else None


def built_folder(artifact: Artifact, folder: str) -> Path:
    """Returns a folder of an artifact, given relative to its working directory.

    Raises EngineError if the folder is outside of the artifact. A link that a build step made could lead to
    files of another organization.
    """
    app = Path(artifact.ref).resolve() / "app"
    if not app.is_dir():
        raise ArtifactLost("Deploy again: the build of this site is gone")
    built = (working_directory(app.parent, artifact.workdir) / folder).resolve()
    if not built.is_relative_to(app):
        raise EngineError(f"Choose a static_folder inside of what is built: {folder} leads out of it")
    return built


def working_directory(home: Path, workdir: str) -> Path:
    inner = below_app(workdir) if workdir else None
    if inner is None and workdir not in ("", ".", "/", str(APP_FOLDER), f"{APP_FOLDER}/"):
        raise EngineError(f"Choose a working directory below {APP_FOLDER}: {workdir} is not")
    return home / "app" / (inner or ".")


def volume_folder(volumes: Path, service: str, name: str) -> Path:
    """Returns the folder of a volume. Each volume name has a different folder."""
    return volumes / service / re.sub(r"[^A-Za-z0-9_-]", lambda match: f"%{ord(match[0]):x}", name)


def volume_variable(name: str) -> str:
    return "WINDLASS_VOLUME_" + re.sub(r"[^A-Z0-9]", "_", name.upper())


def copy(artifact: Path, target: Path, owner: int | None = None, copies: CopyContent = copy_content) -> None:
    source = artifact / "app"
    if not source.is_dir() or source.is_symlink():
        raise ArtifactLost("Deploy again: the build of this deployment is gone")
    target.mkdir(mode=0o700)
    try:
        copies(source, target, owner)
        with open_below(target) as at:
            adorn(source, at, owner)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise EngineError(
            "Change the build: it makes folders inside of each other that are too deep to be copied"
        ) from error


def _attach_volume(volume: Volume, storage: Path, app: Path, owner: int | None, copies: CopyContent) -> None:
    storage.mkdir(mode=0o700, parents=True, exist_ok=True)
    inner = below_app(volume.mount)
    if inner is not None:
        place = app / inner
        _make_parent(place, app, owner)
        if place.is_symlink() or place.is_file():
            raise EngineError(
                f"Choose another mount_point for the volume {volume.name}: the application has a file at "
                f"{volume.mount}"
            )
        if place.is_dir():
            _hand_over(place, storage, owner, copies)
        place.symlink_to(storage)
    if owner is not None:
        change_owner(storage, owner)


def _hand_over(path: Path, storage: Path, owner: int | None, copies: CopyContent) -> None:
    """Copies files of the application into an empty volume, as container engines do, and removes them from
    the working copy. An earlier instance may be using the volume."""
    if not any(storage.iterdir()):
        copies(path, storage, owner)
    erase(path)


def _file_path(home: Path, path: str) -> Path:
    inner = below_app(path)
    if inner is not None:
        return home / "app" / inner
    return home / "files" / absolute(path).relative_to("/")


def _write_file(place: Path, content: bytes, tops: Sequence[Path], owner: int | None) -> None:
    """Writes a file below one of the folders in `tops`. A running program may change some of them."""
    folder = _real_folder(place)
    top = next((top for path in tops if folder.is_relative_to(top := path.resolve())), None)
    if top is None:
        raise _leads_elsewhere(place)
    if place.is_dir() and not place.is_symlink():
        raise EngineError(
            f"Choose another path for the file {place.name}: the application has a folder there"
        )
    own = UNCHANGED if owner is None else owner
    try:
        with open_below(top, folder.relative_to(top).parts, own) as at:
            open_folders.write(place.name, at, content, own)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise _leads_elsewhere(place) from error
        raise


def _real_folder(path: Path) -> Path:
    try:
        return path.parent.resolve()
    except RuntimeError as error:  # links of the application lead to each other
        raise _leads_elsewhere(path) from error


def _leads_elsewhere(path: Path) -> EngineError:
    return EngineError(
        f"Remove the link of the application in the path of {path.name}: it leads out of its folder"
    )


def _make_parent(path: Path, app: Path, owner: int | None) -> None:
    """Creates the parent folder of a volume. Refuses links of the application that lead out of the working
    copy."""
    folder, top = _real_folder(path), app.resolve()
    if not folder.is_relative_to(top):
        raise _leads_elsewhere(path)
    with open_below(top, folder.relative_to(top).parts, UNCHANGED if owner is None else owner):
        return
