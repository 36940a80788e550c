"""The folder of an instance: its working copy of the code, its volumes and its files.

Without containers nothing can be mounted. What is to be found below `/app` lies in the working copy; a volume
elsewhere is told by `WINDLASS_VOLUME_<NAME>`, and a file elsewhere lies below the folder that
`WINDLASS_FILES` names, under its own path.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import stat
import time
from pathlib import Path, PurePosixPath
from typing import Final

from windlass.base.isolation.users import give, show
from windlass.core.runtime import Volume, Wanted
from windlass.engines.engine import EngineError

APP: Final = PurePosixPath("/app")
"""What the working copy is called in paths that people write."""
_CLONE: Final = (
    0x40049409  # FICLONE: the copy shares its blocks with the original until one of them is written
)
_PIECE: Final = 1 << 30
_TRIES: Final = 50
_PAUSE: Final = 0.02
CACHED: Final = (".cache", ".m2", ".gradle", ".npm", "go")
"""Where tools keep, in a home, what they have fetched or made: it stays from one instance to the next."""


def make(home: Path, wanted: Wanted, volumes: Path, cache: Path, owner: int | None) -> None:
    """Everything that the program needs to be there; what an interrupted attempt left is replaced. `owner`:
    the user of the machine that it runs as, where that is another than ours."""
    erase(home / "app")
    erase(home / "files")
    for name in ("home", "tmp", "files"):
        (home / name).mkdir(mode=0o700, exist_ok=True)
    copy(Path(wanted.artifact.ref), home / "app", owner)
    _remember(home / "home", cache)
    for volume in wanted.volumes:
        _attach(volume, volume_folder(volumes, wanted.service, volume.name), home / "app")
    for path, content in wanted.files.items():
        place = _place(home, path)
        _write(place, content, home, volumes / wanted.service)
        _give_with_folders(place, home / "app", owner)
    if owner is not None:
        for folder in built(Path(wanted.artifact.ref)):
            show(folder)
        for own in (home / "home", home / "tmp", home / "files", cache, volumes / wanted.service):
            give(own, owner)


def built(artifact: Path) -> list[Path]:
    """What was built, with what it shares with other builds of its service and has as links."""
    links = [path for path in artifact.iterdir() if path.is_symlink()] if artifact.is_dir() else []
    return [artifact, *(link.resolve().parent for link in links)]


def writable(home: Path, wanted: Wanted, volumes: Path, cache: Path) -> list[Path]:
    """What the program may change, of all that the engine keeps."""
    own = [home / name for name in ("app", "home", "tmp", "files", "output")]
    return [*own, cache, *(volume_folder(volumes, wanted.service, each.name) for each in wanted.volumes)]


def _remember(home: Path, cache: Path) -> None:
    for name in CACHED:
        (cache / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.path.lexists(home / name):
            (home / name).symlink_to(cache / name)


def _give_with_folders(place: Path, app: Path, owner: int | None) -> None:
    """A file that was put among the program's own, and folders that were made for it."""
    if owner is None or not place.is_relative_to(app):
        return
    for path in (place, *place.parents):
        if path == app or path.lstat().st_uid == owner:
            return
        os.chown(path, owner, owner, follow_symlinks=False)


def absolute(path: str) -> PurePosixPath:
    """As the application sees it, which is in `/app`; nothing of it leads upwards any more."""
    return PurePosixPath(os.path.normpath(APP / path))


def below_app(path: str) -> PurePosixPath | None:
    """Where it lies in the working copy; None: elsewhere."""
    pure = absolute(path)
    return pure.relative_to(APP) if pure != APP and pure.is_relative_to(APP) else None


def working_directory(home: Path, workdir: str) -> Path:
    inner = below_app(workdir) if workdir else None
    if inner is None and workdir not in ("", ".", "/", str(APP), f"{APP}/"):
        raise EngineError(f"the working directory {workdir} is not below {APP}: name one that is")
    return home / "app" / (inner or ".")


def volume_folder(volumes: Path, service: str, name: str) -> Path:
    """No two names have the same one."""
    return volumes / service / re.sub(r"[^A-Za-z0-9_-]", lambda found: f"%{ord(found[0]):x}", name)


def volume_variable(name: str) -> str:
    return "WINDLASS_VOLUME_" + re.sub(r"[^A-Z0-9]", "_", name.upper())


def copy(artifact: Path, target: Path, owner: int | None = None) -> None:
    source = artifact / "app"
    if not source.is_dir() or source.is_symlink():
        raise EngineError("what was built for this deployment is gone: deploy again to build it anew")
    _Copying(source, target, owner).folder(source, target)


class _Copying:
    """Symlinks stay symlinks. One that left the copied folder by a relative path, to what instances share,
    becomes absolute, and one that named the folder absolutely names the copy."""

    def __init__(self, source: Path, target: Path, owner: int | None) -> None:
        self._source, self._target = str(source), str(target)
        self._owner = -1 if owner is None else owner
        self._clones = True

    def folder(self, source: Path, target: Path) -> None:
        target.mkdir(mode=0o700)
        with os.scandir(source) as entries:
            for entry in entries:
                goal = target / entry.name
                if entry.is_symlink():
                    goal.symlink_to(self._aim(str(Path(entry.path).readlink()), str(source)))
                    os.chown(goal, self._owner, self._owner, follow_symlinks=False)
                elif entry.is_dir(follow_symlinks=False):
                    self.folder(source / entry.name, goal)
                elif entry.is_file(follow_symlinks=False):
                    self._file(entry.path, str(goal))
        target.chmod(stat.S_IMODE(source.stat().st_mode) | 0o700)
        os.chown(target, self._owner, self._owner)

    def _aim(self, link: str, folder: str) -> str:
        whole = os.path.normpath(os.path.join(folder, link))  # noqa: PTH118 (it must not be resolved)
        inside = whole == self._source or whole.startswith(self._source + "/")
        if inside:
            return self._target + whole[len(self._source) :] if link.startswith("/") else link
        return whole

    def _file(self, source: str, target: str) -> None:
        old = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        try:
            about = os.fstat(old)
            new = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                self._content(old, new, about.st_size)
                os.fchown(new, self._owner, self._owner)
                os.fchmod(new, stat.S_IMODE(about.st_mode) & 0o777)
                # Compiled files are valid for the time that their source says.
                os.utime(new, ns=(about.st_atime_ns, about.st_mtime_ns))
            finally:
                os.close(new)
        finally:
            os.close(old)

    def _content(self, old: int, new: int, size: int) -> None:
        if self._clones and size:
            try:
                fcntl.ioctl(new, _CLONE, old)
                return
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL):
                    raise
                self._clones = False
        while os.sendfile(new, old, None, _PIECE):
            pass


def _attach(volume: Volume, storage: Path, app: Path) -> None:
    storage.mkdir(mode=0o700, parents=True, exist_ok=True)
    inner = below_app(volume.mount)
    if inner is None:
        return
    place = app / inner
    _parent(place, app)
    if place.is_symlink() or place.is_file():
        raise EngineError(
            f"the volume {volume.name} cannot be at {volume.mount}: the application has a file there"
        )
    if place.is_dir():
        _hand_over(place, storage)
    place.symlink_to(storage)


def _hand_over(place: Path, storage: Path) -> None:
    """What the application brings for an empty volume is its first content, as with containers."""
    if not any(storage.iterdir()):
        shutil.copytree(place, storage, symlinks=True, dirs_exist_ok=True)
    erase(place)


def _place(home: Path, path: str) -> Path:
    inner = below_app(path)
    if inner is not None:
        return home / "app" / inner
    return home / "files" / absolute(path).relative_to("/")


def _write(place: Path, content: bytes, home: Path, volumes: Path) -> None:
    _parent(place, home, volumes)
    if place.is_dir() and not place.is_symlink():
        raise EngineError(f"the file {place.name} cannot be written: there is a folder of that name")
    place.unlink(missing_ok=True)
    fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(content)


def _parent(place: Path, *allowed: Path) -> None:
    """A link in the application's own files must not lead us to write elsewhere."""
    for folder in reversed(place.parents):
        if folder.is_relative_to(allowed[0]) and folder != allowed[0]:
            real = folder.resolve()
            if not any(real.is_relative_to(each.resolve()) for each in allowed):
                raise EngineError(
                    f"{place.name} cannot be written: a link of the application leads elsewhere"
                )
            if not folder.exists():
                folder.mkdir(mode=0o700)


def erase(path: Path) -> None:
    """Absent is fine; so is a folder that its program has locked, or still writes to, or that another
    Windlass erases, too."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for attempt in range(1, _TRIES + 1):
        try:
            shutil.rmtree(path)
            return
        except FileNotFoundError:
            if not path.exists():
                return
        except PermissionError:
            _unlock(path)
        except OSError as error:
            # A program that is just ending has written one more file.
            if error.errno != errno.ENOTEMPTY or attempt == _TRIES:
                raise
            time.sleep(_PAUSE)
    shutil.rmtree(path)


def _unlock(path: Path) -> None:
    path.chmod(0o700)
    for entry in os.scandir(path):
        if entry.is_dir(follow_symlinks=False):
            _unlock(path / entry.name)
