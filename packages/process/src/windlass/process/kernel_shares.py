"""Decides which instance or service is ended when processes, open files or memory get scarce. No I/O.

The kernel bounds the processes and the memory of each service, and the files of each process. It counts none
of them for an organization: with enough of them, one could have all that the machine gives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Final, TypeVar

from msgspec import Struct

User = TypeVar("User", bound=Hashable)
"""An instance or a service."""
_SCARCE: Final = 2
"""A resource is scarce once one part in so many of it is used."""
_SHARE: Final = 4
"""One organization may use this fraction (one part in so many) of a scarce resource."""
_RESERVE: Final = 8
"""One part in so many is the reserve. Once it is used, smaller users are ended, too."""
_FEW: Final = 16
"""An organization with less than one part in so many is never the reason."""
_KNOWN: Final = 2
"""Small users are ended only if all instances together use this fraction (one part in so many) of the
usage."""


class KernelUse(Struct, frozen=True):
    """The usage of an instance or a service of a resource that the kernel counts."""

    org: str
    count: int
    environment: str = ""
    """The environment; empty for builds, which are added to each environment."""


class Scarce(Struct, frozen=True):
    """A resource of the machine."""

    name: str
    most: int
    present: int
    """The number in use on the machine, by any program."""

    def is_scarce(self) -> bool:
        return self.present > self.most // _SCARCE

    def uses_reserve(self) -> bool:
        return self.present > self.most - self.most // _RESERVE


def heaviest(uses: Mapping[User, KernelUse], of: Scarce) -> User | None:
    """Returns the one to end: the one that uses most, of the environment that uses most, of the organization
    that uses most. Many small services of one environment do not leave the end to a larger one of another.
    None if that organization is within its share, if the resource is not scarce, or if others use it. Once
    the reserve is used, a share is smaller, unless most of what is in use belongs to none of them: an end
    would not help."""
    sums: dict[str, int] = {}
    for use in uses.values():
        sums[use.org] = sums.get(use.org, 0) + use.count
    org = max(sums, key=lambda org: sums[org], default="")
    allowed = of.most // (_FEW if of.uses_reserve() and not is_unexplained(uses, of) else _SHARE)
    if not of.is_scarce() or sums.get(org, 0) <= allowed:
        return None
    environment = _heaviest_environment(use for use in uses.values() if use.org == org)
    own = {
        key: use.count for key, use in uses.items() if use.org == org and use.environment in ("", environment)
    }
    return max(own, key=lambda key: own[key])


def _heaviest_environment(uses: Iterable[KernelUse]) -> str:
    sums: Counter[str] = Counter()
    for use in uses:
        if use.environment:
            sums[use.environment] += use.count
    return max(sums, key=lambda environment: sums[environment], default="")


def is_unexplained(uses: Mapping[User, KernelUse], of: Scarce) -> bool:
    """Returns whether the reserve is used, and mostly by what belongs to none of these."""
    return of.uses_reserve() and sum(use.count for use in uses.values()) * _KNOWN < of.present
