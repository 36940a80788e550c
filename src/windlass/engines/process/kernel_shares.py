"""Decides which instance is ended when processes or open files get scarce. No I/O.

The kernel bounds the processes of each service, and the files of each process. It counts neither for an
organization: with enough of them, one could have all that the machine gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from windlass.engines.process.records import InstanceKey

_SCARCE: Final = 2
"""Instances are looked at once one part in so many of what the machine gives is used."""
_SHARE: Final = 4
"""One organization may have one part in so many then."""
_RESERVE: Final = 8
"""One part in so many is kept free, whoever has the others."""
_FEW: Final = 16
"""An organization with less than one part in so many is not the reason."""


class KernelUse(Struct, frozen=True):
    """What an instance has of a resource that the kernel counts."""

    org: str
    count: int


class Scarce(Struct, frozen=True):
    """A resource of the machine."""

    name: str
    most: int
    present: int
    """Those in use on the machine, by anybody."""

    def is_scarce(self) -> bool:
        return self.present > self.most // _SCARCE


def heaviest(uses: Mapping[InstanceKey, KernelUse], of: Scarce) -> InstanceKey | None:
    """Returns the instance to end: the one with most of the organization with most, if that has more than its
    share, or more than few and the reserve is used. None: there are enough, or others have them."""
    sums: dict[str, int] = {}
    for use in uses.values():
        sums[use.org] = sums.get(use.org, 0) + use.count
    org = max(sums, key=lambda org: sums[org], default="")
    allowed = of.most // _FEW if of.present > of.most - of.most // _RESERVE else of.most // _SHARE
    if not of.is_scarce() or sums.get(org, 0) <= allowed:
        return None
    own = {key: use.count for key, use in uses.items() if use.org == org}
    return max(own, key=lambda key: own[key])
