"""Judges a release after its deployment, from the objects in the cluster. Does no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from windlass.engines.releases import ReleasedController

_ON_NODES: Final = "DaemonSet"
"""A kind of object whose number of Pods follows the nodes."""


class DeployedController(Struct, frozen=True):
    """A Deployment, StatefulSet or DaemonSet as a deployment left it."""

    kind: str
    name: str
    generation: int
    replicas: int

    @property
    def address(self) -> str:
        return f"{self.kind}/{self.name}"


class ReleaseHealth(Struct, frozen=True):
    """The health of a release."""

    problem: str = ""
    """A description of the object that does not run, with what to do; empty if all run."""
    is_certain: bool = True
    """False if the problem may pass by itself, such as during a restart of Pods."""
    drift: str = ""
    """A description of the changes that others have made since the deployment; empty without changes."""


def judge(
    deployed: Sequence[DeployedController],
    present: Sequence[ReleasedController],
    *,
    scales_itself: bool,
) -> ReleaseHealth:
    """Compares a release with its objects. `scales_itself`: the cluster chooses the numbers of Pods."""
    by_address = {each.address: each for each in present}
    drift = "; ".join(_changes(deployed, by_address, scales_itself=scales_itself))
    for former in deployed:
        if former.address not in by_address:
            return ReleaseHealth(f"Deploy again: {former.address} was deleted from the cluster", drift=drift)
    short = [each for each in present if each.ready < each.wanted]
    for each in sorted(short, key=lambda each: not each.reason):
        return ReleaseHealth(
            f"Correct the chart or its values, or roll back: {each.address} has {each.ready} of "
            f"{each.wanted} Pods ready: {each.reason or 'a Pod is not ready yet'}",
            is_certain=bool(each.reason),
            drift=drift,
        )
    if drift:
        drift = f"Deploy again to undo it, or change the chart: since the deployment, {drift}"
    return ReleaseHealth(drift=drift)


def _changes(
    deployed: Sequence[DeployedController],
    present: dict[str, ReleasedController],
    *,
    scales_itself: bool,
) -> Iterator[str]:
    for former in deployed:
        now = present.get(former.address)
        if now is None or now.generation == former.generation:
            continue
        if now.wanted == former.replicas or former.kind == _ON_NODES:
            yield f"{now.address} was changed in the cluster"
        elif not scales_itself:
            yield f"{now.address} was scaled from {former.replicas} to {now.wanted} Pods in the cluster"
