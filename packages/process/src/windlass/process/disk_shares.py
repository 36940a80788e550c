"""The last measurements of the disk: organizations above their share, and volumes that grow."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Final

from windlass.engines.engine import DiskMeasurement

NEAR: Final = 2
"""Below this multiple of the reserve, instances of organizations above their share are ended, and
instances with volumes are not started, so that the rest stays for others."""
_HOUR: Final = 3600.0


class DiskShares:
    def __init__(self) -> None:
        self.held: Mapping[str, int] = {}
        self.above: frozenset[str] = frozenset()
        """The organizations that hold more than their share."""
        self._volumes: deque[tuple[float, Mapping[str, int]]] = deque()
        """The bytes of volumes at each measurement of the last hour, and at the last one before."""

    def note(self, use: DiskMeasurement) -> None:
        now = time.monotonic()
        self.held = use.held
        self.above = frozenset(org for org, held in use.held.items() if held > use.share)
        self._volumes.append((now, use.volumes))
        while len(self._volumes) > 1 and self._volumes[1][0] < now - _HOUR:
            self._volumes.popleft()

    def least_of_volumes(self, service: str) -> int | None:
        """Returns the smallest size of the volumes of a service in the last hour, in bytes; None if it is
        unknown."""
        return min((sizes.get(service, 0) for _, sizes in self._volumes), default=None)
