"""Chooses the instance or service to end when processes, open files or memory become scarce. Does no I/O.

The kernel limits processes and memory for each service, and open files for each process. It does not limit
them for each organization, so one organization with many services could use up the machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Final, TypeVar

from msgspec import Struct

User = TypeVar("User", bound=Hashable)
"""An instance or a service."""
_SCARCE_USE_DIVISOR: Final = 2
"""A resource is scarce if more than 1/2 of it is in use."""
_SHARE_DIVISOR: Final = 4
"""An organization may use 1/4 of a scarce resource."""
_RESERVE_DIVISOR: Final = 8
"""The last 1/8 of a resource is its reserve. Once the reserve is in use, the limit for an organization is
1/16."""
_RESERVE_SHARE_DIVISOR: Final = 16
"""The limit for an organization once the reserve is in use: 1/16 of the resource."""
_EXPLAINED_USE_DIVISOR: Final = 2
"""The limit of 1/16 applies only if all instances together account for at least 1/2 of the resource in
use."""


class KernelUse(Struct, frozen=True):
    """The use of one resource by an instance or a service, as counted by the kernel."""

    org: str
    count: int
    environment: str = ""
    """The environment. Empty for builds, which are added to each environment."""


class Scarce(Struct, frozen=True):
    """A resource of the machine."""

    name: str
    most: int
    present: int
    """The amount in use on the machine by all programs."""

    def is_scarce(self) -> bool:
        return self.present > self.most // _SCARCE_USE_DIVISOR

    def uses_reserve(self) -> bool:
        return self.present > self.most - self.most // _RESERVE_DIVISOR


def heaviest(uses: Mapping[User, KernelUse], of: Scarce) -> User | None:
    """Returns the instance or service to end, or None.

    The choice is the largest user within the largest environment of the largest organization. Many small
    services of one environment therefore do not cause the end of a larger service in another environment.

    Returns None if the resource is not scarce or the organization is within its limit. The limit is lower
    once the reserve is in use, unless most of the resource in use belongs to programs other than these
    instances and services.
    """
    sums: dict[str, int] = {}
    for use in uses.values():
        sums[use.org] = sums.get(use.org, 0) + use.count
    org = max(sums, key=lambda org: sums[org], default="")
    allowed = of.most // (
        _RESERVE_SHARE_DIVISOR if of.uses_reserve() and not is_unexplained(uses, of) else _SHARE_DIVISOR
    )
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
    """Returns whether the reserve is in use and most of the resource in use belongs to programs other than
    these instances and services."""
    return of.uses_reserve() and sum(use.count for use in uses.values()) * _EXPLAINED_USE_DIVISOR < of.present
