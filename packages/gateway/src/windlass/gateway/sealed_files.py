"""Certificates and keys on the gateway's disk, sealed with a key of the gateway alone.

The key of the installation is not used: the gateway does not have it, and serves without a server. Nothing is
synced to the disk: after a crash of the machine, the server sends what is missing again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from windlass.base.atomic_files import write_whole
from windlass.base.log import log
from windlass.base.private import private_folder

if TYPE_CHECKING:
    from windlass.gateway.seal import Seal

_log = log("certificates")
KEY_FILE: Final = "certificate-key"
CERTIFICATES_FOLDER: Final = "certificates"


class SealedFolder:
    """The sealed files of one door."""

    def __init__(self, folder: Path, listener_key: str) -> None:
        """`folder`: the gateway's folder."""
        self._key_file = folder / KEY_FILE
        self._folder = folder / CERTIFICATES_FOLDER / _hash_name(listener_key)

    def write(self, name: str, content: bytes) -> None:
        private_folder(self._folder)
        file = self._file(name)
        try:
            sealed = self._seal.seal(content, *self._sealed_data_owner(file))
            write_whole(file, sealed, durable=False, draft=f"{os.getpid()}.new")
        except OSError:
            with suppress(OSError):
                file.unlink()  # what it contains is no longer true
            raise

    def read(self, name: str) -> bytes:
        try:
            return self._unseal(self._file(name))
        except (OSError, LookupError) as error:
            raise LookupError(f"the sealed file of {name} cannot be read: {error}") from error

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._file(name).unlink()

    def contents(self) -> Iterator[bytes]:
        """Yields the content of each file. Deletes files that cannot be unsealed: the server sends them
        again."""
        if not self._folder.is_dir():
            return
        for file in sorted(self._folder.iterdir()):
            try:
                yield self._unseal(file)
            except (OSError, LookupError) as error:
                _log.warning("a sealed file is left out", extra={"file": file.name, "reason": str(error)})
                with suppress(OSError):
                    file.unlink()

    def clear(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _file(self, name: str) -> Path:
        return self._folder / _hash_name(name)

    def _unseal(self, file: Path) -> bytes:
        return self._seal.unseal(file.read_bytes(), *self._sealed_data_owner(file))

    def _sealed_data_owner(self, file: Path) -> tuple[str, str, str]:
        return "certificate", self._folder.name, file.name

    @cached_property
    def _seal(self) -> Seal:
        from windlass.gateway.seal import Seal  # noqa: PLC0415 (heavy, and needed only with certificates)

        return Seal(self._key_file)


def _hash_name(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:32]
