"""Images that Windlass pulled: a note of each service that uses one, and removal of those that none uses.

An engine does not say who pulled an image. A note is written after a pull alone, with the id of the image:
what the operator pulled has no note, and is never removed. The engine itself refuses to remove the image of a
container. An image that was removed too early is pulled again by the deployment that needs it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from windlass.base.atomic_files import write_whole
from windlass.base.log import log
from windlass.base.subprocesses import in_thread
from windlass.docker.client.answers import EngineRefused
from windlass.docker.client.client import Docker
from windlass.docker.client.images import image
from windlass.engines.image_names import spelled_out
from windlass.engines.registries import parse_ref

PULLED: Final = "pulled"
"""The folder with the notes, in that of the engine."""
MOST: Final = 200
"""Maximum number of recorded images of one organization. Beyond that, the least recently used are removed."""
_USES: Final = ("run", "build")
_log = log("engines.docker")


class ImageUser(Struct, frozen=True):
    """A service that runs an image, or builds on it."""

    service: str
    org: str
    use: Literal["run", "build"] = "run"


class PulledImage(Struct, frozen=True):
    """The content of a note."""

    ref: str
    id: str
    org: str


class PulledImages:
    def __init__(self, docker: Docker, folder: Path) -> None:
        self._docker, self._folder = docker, folder

    async def note_pull(self, user: ImageUser, ref: str, id: str) -> None:
        with _logged(ref):
            await in_thread(self._write, user, PulledImage(ref, id, user.org))
            await self._evict(user.org)

    async def note_use(self, user: ImageUser, ref: str, id: str) -> None:
        """Notes that a service uses an image that is there. Does nothing if Windlass has not pulled it."""
        with _logged(ref):
            await in_thread(self._join, user, PulledImage(ref, id, user.org))

    async def keep(self, service: str, use: Literal["run", "build"], refs: Collection[str]) -> None:
        """Removes the images that a service used, except these, and those of other users."""
        for path, noted in await in_thread(self._notes, service, use):
            if noted.ref not in refs:
                await self._release(path, noted)

    async def discard(self, service: str) -> None:
        for use in _USES:
            await self.keep(service, use, ())

    async def services(self) -> Collection[str]:
        return {path.parent.parent.name for path, _ in await in_thread(self._notes)}

    async def _evict(self, org: str) -> None:
        noted = [entry for entry in await in_thread(self._notes) if entry[1].org == org]
        used = dict.fromkeys(image.ref for _, image in noted)  # in the order of their last use
        for ref in [*used][: max(len(used) - MOST, 0)]:
            for path, noted_image in noted:
                if noted_image.ref == ref:
                    await self._release(path, noted_image)

    async def _release(self, path: Path, noted: PulledImage) -> None:
        """Removes a note, and the image unless it has other users. Both stay while a container uses it."""
        others = [other for at, other in await in_thread(self._notes) if at != path]
        has_same_name = any(other.ref == noted.ref for other in others)
        if not has_same_name and not await self._is_removed(noted, others):
            return
        await in_thread(_unlink, path)

    async def _is_removed(self, noted: PulledImage, others: Collection[PulledImage]) -> bool:
        has_tag = bool(parse_ref(noted.ref).tag)
        if has_tag and any(other.id == noted.id for other in others):
            return False  # with the last tag of a repository, an engine removes its digests, too
        there = await image(self._docker, noted.ref)
        if there is None or there.get("Id") != noted.id:
            return True
        if not has_tag and _has_tag_beside(there, noted.ref):
            return True  # the operator has pulled it as well, or a build: its digest goes with its tag
        try:
            await self._docker.raw("DELETE", f"/images/{noted.ref}")
        except EngineRefused as refused:
            if refused.status not in (404, 409):
                raise
            return refused.status == 404
        _log.info("an image that no service uses was removed", extra={"image": noted.ref, "org": noted.org})
        return True

    def _write(self, user: ImageUser, noted: PulledImage) -> None:
        path = self._path(user, noted.ref)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, msgspec.json.encode(noted))

    def _join(self, user: ImageUser, noted: PulledImage) -> None:
        path = self._path(user, noted.ref)
        with suppress(FileNotFoundError):
            os.utime(path)
            return
        if any(other.id == noted.id for _, other in self._notes()):
            self._write(user, noted)

    def _path(self, user: ImageUser, ref: str) -> Path:
        return self._folder / user.service / user.use / hashlib.sha256(ref.encode()).hexdigest()

    def _notes(self, service: str = "*", use: str = "*") -> list[tuple[Path, PulledImage]]:
        """Returns notes with their files, the one that was used longest ago first."""
        paths = sorted(self._times(service, use))
        return [(path, noted) for _, path in paths if (noted := _read(path))]

    def _times(self, service: str, use: str) -> Iterator[tuple[float, Path]]:
        for path in self._folder.glob(f"{service}/{use}/*"):
            with suppress(FileNotFoundError):
                if not path.suffix:
                    yield path.stat().st_mtime, path


@contextmanager
def _logged(ref: str) -> Iterator[None]:
    """Logs that a note is missing, as on a full disk. The image is used all the same."""
    try:
        yield
    except OSError as error:
        _log.warning("a pulled image has no note", extra={"image": ref, "reason": str(error)})


def _read(path: Path) -> PulledImage | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=PulledImage)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def _unlink(path: Path) -> None:
    path.unlink(missing_ok=True)
    with suppress(OSError):  # the service has other notes
        path.parent.rmdir()
        path.parent.parent.rmdir()


def _has_tag_beside(inspection: Mapping[str, Any], ref: str) -> bool:
    """Returns whether an image also has a tag of the repository in a reference by digest."""
    name = spelled_out(parse_ref(ref).name)
    return any(spelled_out(parse_ref(tag).name) == name for tag in inspection.get("RepoTags") or ())
