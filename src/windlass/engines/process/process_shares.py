"""Decides which instance is ended when processes and threads get scarce. No I/O.

The kernel bounds those of each service, and counts none for an organization: with enough services, one could
have all that the machine gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from windlass.engines.process.records import InstanceKey

_SCARCE: Final = 2
"""Processes are looked at once one part in so many of what the machine gives is used."""
_SHARE: Final = 4
"""One organization may have one part in so many then."""
_RESERVE: Final = 8
"""One part in so many is kept free, whoever has the others."""
_FEW: Final = 16
"""An organization with less than one part in so many is not the reason."""


class ProcessUse(Struct, frozen=True):
    org: str
    count: int
    """Processes and threads of an instance."""


def are_scarce(present: int, most: int) -> bool:
    return present > most // _SCARCE


def heaviest(uses: Mapping[InstanceKey, ProcessUse], present: int, most: int) -> InstanceKey | None:
    """Returns the instance to end: the one with most processes of the organization with most, if that has
    more than its share, or more than few and the reserve is used. None: there are enough, or others have
    them. `present`: all of this machine."""
    sums: dict[str, int] = {}
    for use in uses.values():
        sums[use.org] = sums.get(use.org, 0) + use.count
    org = max(sums, key=lambda org: sums[org], default="")
    allowed = most // _FEW if present > most - most // _RESERVE else most // _SHARE
    if not are_scarce(present, most) or sums.get(org, 0) <= allowed:
        return None
    own = {key: use.count for key, use in uses.items() if use.org == org}
    return max(own, key=lambda key: own[key])
