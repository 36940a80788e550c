"""Decides the number of instances from their CPU load. Pure."""

from __future__ import annotations

import math

from windlass.base.clock import SECOND
from windlass.engines.workload import Workload

BUSY_FRACTION, IDLE_FRACTION, TARGET_FRACTION = 0.8, 0.3, 0.6
"""Fractions of the CPU limit: the load above which instances are added, the load below which they are
removed, and the target load."""
UP_AFTER, DOWN_AFTER = 30 * SECOND, 180 * SECOND
"""Minimum time between two changes, because new instances need time to take effect."""


def scale(now: int, minimum: int, limit: int, load: float, since_change: int) -> int:
    """Returns the new number of instances. `load`: the mean CPU usage of all instances, as a fraction of
    their limit."""
    within = max(minimum, min(now, limit))
    if within != now or now == 0:
        return within
    wanted = max(minimum, min(math.ceil(now * load / TARGET_FRACTION), limit))
    if load > BUSY_FRACTION and wanted > now and since_change >= UP_AFTER:
        return wanted
    if load < IDLE_FRACTION and wanted < now and since_change >= DOWN_AFTER:
        return wanted
    return now


def count_of(workload: Workload, requested_count: int) -> int:
    """Returns the number of instances that autoscaling last requested, within the configured limits."""
    if workload.alone:
        return min(1, workload.instances)
    return max(workload.instances, min(requested_count, workload.most))
