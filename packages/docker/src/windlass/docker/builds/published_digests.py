"""The digests of the images that a server has built and pushed to a registry, in files.

Others may push to the registry as well, under any name and with any labels. An image there counts as a build
only if it has the digest that the Docker engine has computed when it pushed the build.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

from windlass.base.atomic_files import write_whole
from windlass.base.folder_removal import erase
from windlass.base.ids import is_id
from windlass.base.subprocesses import in_thread
from windlass.engines.image_names import WINDLASS_PREFIX, is_digest
from windlass.engines.registries import parse_ref

_KEY_PATTERN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


class PublishedDigests:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def get(self, ref: str) -> str:
        """Returns the digest of a build by its name on the engine; empty if it was not pushed from here."""
        return await in_thread(_read, self._file(ref))

    async def record(self, ref: str, digest: str) -> None:
        await in_thread(_write, self._file(ref), digest)

    async def forget(self, ref: str) -> None:
        file = self._file(ref)
        await in_thread(lambda: file.unlink(missing_ok=True))

    async def services(self) -> Collection[str]:
        return await in_thread(lambda: [each.name for each in self._folders()])

    async def prune(self, service: str, kept_keys: Collection[str]) -> None:
        """Forgets the builds of a service except those with a key in `kept_keys`."""

        def remove() -> None:
            for file in self._folder.joinpath(service).glob("*"):
                if file.name not in kept_keys:
                    file.unlink(missing_ok=True)

        await in_thread(remove)

    async def discard(self, service: str) -> None:
        folder = self._folder / service

        def remove() -> None:
            if folder.is_dir():
                erase(folder)

        await in_thread(remove)

    def _folders(self) -> list[Path]:
        return [each for each in self._folder.glob("*") if is_id(each.name)]

    def _file(self, ref: str) -> Path:
        named = parse_ref(ref)
        service = named.name.removeprefix(WINDLASS_PREFIX)
        if not is_id(service) or not _KEY_PATTERN.fullmatch(named.tag):
            raise ValueError(f"{ref} is not the name of a build")
        return self._folder / service / named.tag


def _read(file: Path) -> str:
    try:
        digest = file.read_text()
    except (FileNotFoundError, UnicodeDecodeError):
        return ""
    return digest if is_digest(digest) else ""


def _write(file: Path, digest: str) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(file, digest.encode())
