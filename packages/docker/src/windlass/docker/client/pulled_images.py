"""Records which services use pulled images, and removes pulled images that no service uses.

An engine does not report who pulled an image. Windlass writes a note, with the image id, only after its own
pull: images that the operator pulled have no note, and are never removed. The engine refuses to remove the
image of an existing container. If an image is removed too early, the next deployment that needs it pulls it
again.
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
from windlass.engines.image_names import is_named_by_id, spelled_out
from windlass.engines.registries import parse_ref

NOTES_FOLDER: Final = "pulled"
"""Name of the folder with the notes, in the engine's folder."""
MAX_IMAGES_OF_ORG: Final = 200
"""Maximum number of recorded images of one organization. Beyond that, the least recently used are removed."""
_NOTE_KINDS: Final = ("run", "build")
_log = log("engines.docker")


class ImageUser(Struct, frozen=True):
    """A service that runs an image or uses it as a base image."""

    service: str
    org: str
    use: Literal["run", "build"] = "run"


class PulledImage(Struct, frozen=True):
    """The content of a note about a pulled image."""

    ref: str
    id: str
    org: str
    is_pulled: bool = True
    """Whether Windlass pulled the image by this name. Only then is the name removed with the note."""


class PulledImages:
    def __init__(self, docker: Docker, folder: Path) -> None:
        self._docker, self._folder = docker, folder

    async def note_pull(self, user: ImageUser, ref: str, id: str) -> None:
        with _log_failed_note(ref):
            await in_thread(self._write, user, PulledImage(ref, id, user.org))
            await self._evict(user.org)

    async def note_use(self, user: ImageUser, ref: str, id: str) -> None:
        """Records that a service uses an image that is already on the engine. Does nothing if Windlass did
        not pull the image, by this name or another one."""
        with _log_failed_note(ref):
            await in_thread(self._join, user, PulledImage(ref, id, user.org))

    async def keep(self, service: str, use: Literal["run", "build"], refs: Collection[str]) -> None:
        """Removes a service's notes for all images except `refs`, and the images that no other service
        uses."""
        for path, noted in await in_thread(self._read_notes, service, use):
            if noted.ref not in refs:
                await self._release(path, noted)

    async def discard(self, service: str) -> None:
        for use in _NOTE_KINDS:
            await self.keep(service, use, ())

    async def services(self) -> Collection[str]:
        return {path.parent.parent.name for path, _ in await in_thread(self._read_notes)}

    async def _evict(self, org: str) -> None:
        noted = [entry for entry in await in_thread(self._read_notes) if entry[1].org == org]
        used = dict.fromkeys(image.ref for _, image in noted)  # ordered by last use
        for ref in [*used][: max(len(used) - MAX_IMAGES_OF_ORG, 0)]:
            for path, noted_image in noted:
                if noted_image.ref == ref:
                    await self._release(path, noted_image)

    async def _release(self, path: Path, pulled_image: PulledImage) -> None:
        """Removes a note, and its image unless other services use it. Keeps both while a container uses the
        image."""
        others = [other for at, other in await in_thread(self._read_notes) if at != path]
        has_same_name = any(other.ref == pulled_image.ref for other in others)
        if not has_same_name and not await self._is_removed(pulled_image, others):
            return
        await in_thread(_unlink, path)

    async def _is_removed(self, pulled_image: PulledImage, other_images: Collection[PulledImage]) -> bool:
        if not pulled_image.is_pulled:
            return True  # the operator gave the image this name
        if is_named_by_id(pulled_image.ref, pulled_image.id):
            return True  # the image has another name, and goes with the note of that name
        has_tag = bool(parse_ref(pulled_image.ref).tag)
        if has_tag and any(other.id == pulled_image.id for other in other_images):
            return False  # removing a repository's last tag would also remove its digest references
        there = await image(self._docker, pulled_image.ref)
        if there is None or there.get("Id") != pulled_image.id:
            return True
        if not has_tag and _has_tag_beside(there, pulled_image.ref):
            return True  # pulled by tag, too (by the operator or a build): the tag owns the digest
        try:
            await self._docker.raw("DELETE", f"/images/{pulled_image.ref}")
        except EngineRefused as refused:
            if refused.status not in (404, 409):
                raise
            return refused.status == 404
        _log.info(
            "an image that no service uses was removed",
            extra={"image": pulled_image.ref, "org": pulled_image.org},
        )
        return True

    def _write(self, user: ImageUser, pulled_image: PulledImage) -> None:
        path = self._note_path(user, pulled_image.ref)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, msgspec.json.encode(pulled_image))

    def _join(self, user: ImageUser, pulled_image: PulledImage) -> None:
        path = self._note_path(user, pulled_image.ref)
        with suppress(FileNotFoundError):
            os.utime(path)
            return
        if same := [other for _, other in self._read_notes() if other.id == pulled_image.id]:
            is_pulled = any(other.ref == pulled_image.ref and other.is_pulled for other in same)
            self._write(user, msgspec.structs.replace(pulled_image, is_pulled=is_pulled))

    def _note_path(self, user: ImageUser, ref: str) -> Path:
        return self._folder / user.service / user.use / hashlib.sha256(ref.encode()).hexdigest()

    def _read_notes(self, service: str = "*", note_kind: str = "*") -> list[tuple[Path, PulledImage]]:
        """Returns the paths and contents of notes, the least recently used first."""
        paths = sorted(self._note_times(service, note_kind))
        return [(path, noted) for _, path in paths if (noted := _read(path))]

    def _note_times(self, service: str, note_kind: str) -> Iterator[tuple[float, Path]]:
        for path in self._folder.glob(f"{service}/{note_kind}/*"):
            with suppress(FileNotFoundError):
                if not path.suffix:
                    yield path.stat().st_mtime, path


@contextmanager
def _log_failed_note(ref: str) -> Iterator[None]:
    """Logs a failure to write a note, for example on a full disk. The image can be used anyway."""
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
    with suppress(OSError):  # the folder contains other notes
        path.parent.rmdir()
        path.parent.parent.rmdir()


def _has_tag_beside(inspection: Mapping[str, Any], ref: str) -> bool:
    """Returns whether an image also has a tag in the repository of a digest reference."""
    name = spelled_out(parse_ref(ref).name)
    return any(spelled_out(parse_ref(tag).name) == name for tag in inspection.get("RepoTags") or ())
