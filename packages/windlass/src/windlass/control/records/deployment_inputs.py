"""The settings and the versions of the variables with which a deployment runs, which are kept with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from windlass.store import Reads, Row, Tx


class LevelRows(Struct, frozen=True):
    """A level with its own variables and secrets."""

    level: Row
    variables: Sequence[Row]


class InputRows(Struct, frozen=True):
    """The resources from which the inputs of a deployment were read: the service, and its levels, the nearest
    first."""

    service: Row
    levels: Sequence[LevelRows] = ()


class KeptVariable(Struct, frozen=True, array_like=True):
    """The version of a variable or secret with which a deployment ran."""

    id: str
    tag: str
    family: str
    key: str


class KeptLevel(Struct, frozen=True):
    id: str
    family: str
    variables: list[KeptVariable]


class KeptInputs(Struct, frozen=True):
    """The kept inputs of a deployment."""

    service: str
    """The tag of the service."""
    levels: list[KeptLevel]

    def has(self, level: str) -> bool:
        return any(kept.id == level for kept in self.levels)

    def of(self, level: str) -> list[KeptVariable]:
        return next((kept.variables for kept in self.levels if kept.id == level), [])


_decode: Final = msgspec.json.Decoder(KeptInputs).decode


async def read_kept(reads: Reads, deployment: str) -> KeptInputs | None:
    """Returns the kept inputs of a deployment; None if an earlier version of Windlass kept none."""
    body = await reads.deployment_inputs.get(deployment)
    return _decode(body) if body else None


async def forget_inputs(tx: Tx, service: str, newest_number: int) -> None:
    """Removes the inputs of deployments of a service up to number `newest_number`, and the versions of the
    service and its own variables that no other deployment ran with. Levels are shared with other services:
    their versions stay."""
    forgotten = await tx.deployment_inputs.forget(service, newest_number)
    unused = _own_versions(service, forgotten)
    # Most deployments change little, so the next one usually refers to nearly all of these versions.
    if unused and (later := await tx.deployment_inputs.next(service, newest_number)):
        unused -= _own_versions(service, [later])
    if unused:
        unused -= _own_versions(service, await tx.deployment_inputs.of_service(service))
    await tx.deployment_inputs.delete_versions(service, unused)


def _own_versions(service: str, encoded: Iterable[bytes]) -> set[tuple[str, str]]:
    """Returns the ids with the tags of a service and its variables that inputs refer to."""
    all_kept = [_decode(body) for body in encoded]
    own = {(service, kept.service) for kept in all_kept}
    return own | {(variable.id, variable.tag) for kept in all_kept for variable in kept.of(service)}
