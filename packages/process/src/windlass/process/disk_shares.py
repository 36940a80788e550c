"""The last measurements of the disk: which organizations exceed their share, and the sizes of volumes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Final

from windlass.engines.engine import DiskMeasurement

SHORTAGE_FACTOR: Final = 2
"""If the free space falls below this multiple of the reserve, instances of organizations that exceed their
share are ended, and their instances with volumes are not started. The other organizations can use the
remaining space."""
_SECONDS_PER_HOUR: Final = 3600.0


class DiskShares:
    def __init__(self) -> None:
        self.held: Mapping[str, int] = {}
        self.above: frozenset[str] = frozenset()
        """The organizations that use more than their share."""
        self._volumes: deque[tuple[float, Mapping[str, int]]] = deque()
        """The sizes of volumes in bytes at each measurement of the last hour, and at the last measurement
        before that hour."""

    def note(self, measurement: DiskMeasurement) -> None:
        now = time.monotonic()
        self.held = measurement.held
        self.above = frozenset(org for org, held in measurement.held.items() if held > measurement.share)
        self._volumes.append((now, measurement.volumes))
        while len(self._volumes) > 1 and self._volumes[1][0] < now - _SECONDS_PER_HOUR:
            self._volumes.popleft()

    def least_of_volumes(self, service: str) -> int | None:
        """Returns the smallest total size of a service's volumes in the last hour, in bytes. None if there is
        no measurement. A service counts as 0 in a measurement that does not include it."""
        return min((sizes.get(service, 0) for _, sizes in self._volumes), default=None)
