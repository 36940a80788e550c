"""Disk quotas of organizations, according to the last measurement by `control.background.disk_meter`.

An organization that exceeds its quota cannot add data: builds, uploads, copies and large documents are
refused. Deletions are allowed, and running services continue.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from windlass.base.disk_reserve import DiskSpace, bytes_per_file
from windlass.base.errors import Conflict
from windlass.store import FIRST_PLACE, Reads, Tx

LARGE_BODY_BYTES: Final = 64 * 1024
"""The size in bytes from which a request body is refused if the organization exceeds its quota."""
_FACT_PREFIX: Final = "disk use at "
_MAX_SHOWN_ORGS: Final = 3
_TIMES_FREE: Final = 3
_GIB: Final = 1 << 30


class DiskRecord(Struct, frozen=True):
    """The last measurement of the disk of one machine."""

    share: int = 0
    largest: Mapping[str, int] = {}
    """The three organizations with the highest disk usage, with their bytes."""
    above: Mapping[str, int] = {}
    """The organizations that exceed their quota, with their bytes."""


NO_RECORD: Final = DiskRecord()


def share_of(setting: int, disk_spaces: Collection[DiskSpace], organizations: int) -> int:
    """Returns the disk quota of an organization in bytes.

    Without a setting, the quota is three times the free space beyond the reserve, in bytes or in files,
    whichever is scarcer. It is at least an equal part of the disk, so a single organization on a machine has
    no limit.
    """
    if setting:
        return setting
    each = {"bytes": 1, "files": bytes_per_file(disk_spaces)}
    free = min((space.free - space.reserve) * each[space.unit] for space in disk_spaces)
    whole = max(space.whole for space in disk_spaces if space.unit == "bytes")
    return max(_TIMES_FREE * free, whole // max(1, organizations))


def record_of(used_bytes: Mapping[str, int], share: int) -> DiskRecord:
    largest = sorted(used_bytes, key=lambda org: used_bytes[org], reverse=True)[:_MAX_SHOWN_ORGS]
    above = {org: size for org, size in used_bytes.items() if size > share}
    return DiskRecord(share, {org: used_bytes[org] for org in largest}, above)


async def read_disk(reads: Reads, place: str = FIRST_PLACE) -> DiskRecord:
    stored = await reads.facts.get(f"{_FACT_PREFIX}{place}")
    return msgspec.json.decode(stored, type=DiskRecord) if stored else NO_RECORD


async def note_disk(tx: Tx, place: str, record: DiskRecord) -> None:
    await tx.facts.set(f"{_FACT_PREFIX}{place}", msgspec.json.encode(record))


async def refuse_above_share(reads: Reads, org: str, place: str = FIRST_PLACE) -> None:
    """Raises Conflict if an organization exceeds its disk quota on a machine."""
    record = await read_disk(reads, place)
    if org in record.above:
        raise Conflict(
            "Delete services, uploads or data in volumes that are not needed, or ask the operator to raise "
            f"organization_disk_bytes: the organization holds {record.above[org] / _GIB:.1f} GiB, more than "
            f"its share of {record.share / _GIB:.1f} GiB of the disk. A deletion counts some minutes later"
        )
