"""Copies a folder from an untrusted image to a folder of this machine.

Only folders, regular files and relative links are unpacked. Symbolic links are created last, so that no entry
of the archive can be written through a link outside the folder.
"""

from __future__ import annotations

import os
import posixpath
import tarfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from windlass.base.subprocesses import in_thread
from windlass.docker import names
from windlass.docker.client import Docker, EngineRefused
from windlass.docker.client.answers import NONSENSE
from windlass.engines.engine import ArtifactLost, EngineError

MAX_SITE_BYTES: Final = 5 * 1024**3
MAX_ENTRIES: Final = 200_000
_CHUNK_BYTES: Final = 1024 * 1024
_MAX_CONTAINER_AGE_SECONDS: Final = 3600
_OWNER: Final = "windlass.export"
"""Label of the containers that are created for an export. They are never started, and are removed
afterwards."""


async def export_folder(
    docker: Docker, installation: str, image: str, folder: str, destination: Path
) -> None:
    """Copies a folder of an image. Raises ArtifactLost if the image does not exist, and EngineError for other
    problems."""
    label = f"{_OWNER}={installation}"
    await _remove_left(docker, label)
    labels = {**dict.fromkeys(names.ALL_LABELS, ""), _OWNER: installation}
    body = {"Image": image, "Cmd": ["none"], "Labels": labels, "NetworkDisabled": True}
    try:
        created = await docker.json("POST", "/containers/create", body=body)
    except EngineRefused as refused:
        if refused.status == 404:
            raise ArtifactLost(
                "Deploy again: the image of this site is no longer on the Docker engine"
            ) from refused
        raise
    archive = destination.with_name(f"{destination.name}.tar")
    try:
        await _fetch(docker, str(created["Id"]), folder, archive)
        await in_thread(unpack, archive, destination)
    except tarfile.TarError as error:
        raise EngineError(NONSENSE) from error
    finally:
        await in_thread(archive.unlink, True)
        await _remove(docker, str(created["Id"]))


async def _fetch(docker: Docker, container: str, folder: str, archive: Path) -> None:
    size = 0
    try:
        async with docker.stream(
            "GET", f"/containers/{container}/archive", params={"path": posixpath.normpath(f"/{folder}")}
        ) as answer:
            with archive.open("wb") as file:
                async for chunk in answer.chunks():
                    size += len(chunk)
                    if size > MAX_SITE_BYTES:
                        raise EngineError(
                            f"Keep the static folder below {MAX_SITE_BYTES // 1024**3} GiB: it is larger"
                        )
                    await in_thread(file.write, chunk)
    except EngineRefused as refused:
        if refused.status != 404:
            raise
        raise EngineError(
            f"Change static_folder, or the build: the image has no folder {folder}"
        ) from refused


async def _remove_left(docker: Docker, label: str) -> None:
    """Removes old containers of interrupted exports."""
    params = {"all": True, "filters": {"label": [label], "status": ["created"]}}
    for container in await docker.json("GET", "/containers/json", params=params) or ():
        if container.get("Created", 0) < time.time() - _MAX_CONTAINER_AGE_SECONDS:
            await _remove(docker, str(container["Id"]))


async def _remove(docker: Docker, container: str) -> None:
    with suppress(EngineRefused):
        await docker.raw("DELETE", f"/containers/{container}", params={"force": True, "v": True})


def unpack(archive: Path, destination: Path) -> None:
    """Unpacks the content of an archive's top-level folder."""
    links: list[tuple[Path, str]] = []
    left = MAX_SITE_BYTES
    with tarfile.open(archive, "r:") as tar:
        for count, entry in enumerate(tar):
            if count > MAX_ENTRIES:
                raise EngineError(f"Keep the static folder below {MAX_ENTRIES:,} files: it has more")
            path = _place_below(destination, entry.name)
            if path is None:
                continue
            if entry.isdir():
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
            elif entry.isreg():
                left -= entry.size
                source = tar.extractfile(entry)
                if left < 0 or source is None:
                    raise EngineError("Make the static folder smaller: it is too large")
                _write(path, source, entry.mtime)
            elif entry.islnk():
                original = _place_below(destination, entry.linkname)
                with suppress(OSError):  # the original was skipped
                    if original is not None:
                        os.link(original, path, follow_symlinks=False)
            elif entry.issym() and not entry.linkname.startswith("/"):
                links.append((path, entry.linkname))
    for path, target in links:
        with suppress(OSError):  # the link's folder was skipped
            path.symlink_to(target)


def _place_below(destination: Path, name: str) -> Path | None:
    """Returns the target path of an entry; None if the path would be outside the folder."""
    _, *parts = name.strip("/").split("/")
    if any(part in {"", ".", ".."} or "\0" in part for part in parts):
        return None
    return destination.joinpath(*parts)


def _write(path: Path, source: IO[bytes], modified: float) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("xb") as file:
        while piece := source.read(_CHUNK_BYTES):
            file.write(piece)
    os.utime(path, (modified, modified))
