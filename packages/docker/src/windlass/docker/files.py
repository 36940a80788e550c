"""Files for a container, packed the way the engine takes them: it may be on another machine."""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import Mapping
from typing import Final

from windlass.engines.engine import EngineError

_READABLE_BY_ALL: Final = 0o444
"""Readable by every user inside: an image may run as any user, and other users of the machine cannot reach
the files."""
_WRITABLE_BY_ALL: Final = 0o1777


def pack(files: Mapping[str, bytes], folder: str = "") -> bytes:
    """Returns an archive of files. They appear at once and whole, because the container has not begun yet.
    The archive also makes `folder`, in which every user of the container may write."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        if folder:
            entry = tarfile.TarInfo(_inside(folder))
            entry.type, entry.mode = tarfile.DIRTYPE, _WRITABLE_BY_ALL
            tar.addfile(entry)
        for path, content in files.items():
            entry = tarfile.TarInfo(_inside(path))
            entry.size, entry.mode = len(content), _READABLE_BY_ALL
            tar.addfile(entry, io.BytesIO(content))
    return archive.getvalue()


def read_packed(archive: bytes) -> bytes | None:
    """Returns the content of the only file of an archive; None if it is anything but a plain file."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        entry = tar.next()
        file = tar.extractfile(entry) if entry is not None and entry.isreg() else None
        return file.read() if file else None


def _inside(path: str) -> str:
    name = posixpath.normpath("/" + path).lstrip("/")
    if not name or "\0" in name:
        raise EngineError(f"{path!r} is no path for a file: give one such as /etc/app/config.json")
    return name
