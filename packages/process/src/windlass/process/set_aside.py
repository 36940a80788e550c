"""Moves all files of a service out of the folder of the engine, and back; erases nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from windlass.base.atomic_files import move, write_whole
from windlass.process.ports import PortAddresses
from windlass.process.records import RecordStore, safe

_PORTS: Final = "whereabouts.json"


def move_out(records: RecordStore, places: PortAddresses, service: str, into: Path) -> None:
    """Moves the files of a service to `into`. Nothing of the service may run."""
    if user := places.known(service):
        into.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(into / _PORTS, msgspec.json.encode(user))
    for own, kept in _folders(records, service, into):
        move(own, kept)
    places.forget(service)


def move_in(records: RecordStore, places: PortAddresses, service: str, out: Path) -> None:
    file = out / _PORTS
    if file.exists():
        places.restore(service, msgspec.json.decode(file.read_bytes(), type=dict[int, int]))
        file.unlink()
    (out / f"{_PORTS}.new").unlink(missing_ok=True)  # left by an interrupted call
    for own, kept in _folders(records, service, out):
        move(kept, own)


def _folders(records: RecordStore, service: str, aside: Path) -> Iterator[tuple[Path, Path]]:
    """Yields each folder in the engine and aside; volumes first, because they cannot be made again."""
    yield records.volumes / safe(service), aside / "volumes"
    yield records.removed.file(safe(service)), aside / "removed"
    yield records.services / safe(service), aside / "instances"
