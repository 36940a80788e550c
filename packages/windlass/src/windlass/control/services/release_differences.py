"""Compares the present settings and variables of a service or an environment with those of an earlier
deployment."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Struct

from windlass.base.errors import Invalid
from windlass.base.fair_share import FairShare
from windlass.control.context.context import Context
from windlass.control.records.deployment_inputs import KeptInputs, KeptVariable, read_kept
from windlass.control.variables.deriving import value_of
from windlass.control.variables.inputs import SAYS_NOTHING_OF_RUNNING, variables_at
from windlass.core.declare.document import Document, narrow_document, value_at
from windlass.core.declare.resource import Family
from windlass.core.declare.rollbacks import Change, RollbackChange
from windlass.core.settings.service_settings import TABLE
from windlass.core.settings.values import changed_in
from windlass.families.variable import Levelled, Variable, is_secret
from windlass.store import DeploymentRow, Reads, ResourceVersionRow, Row

_ADVANCED: Final = [row.name for row in TABLE]
_ALIAS: Final = "ALIAS"
MAX_COMPARED: Final = 20_000
"""Maximum number of variables that differ in one request that reads."""
MAX_COMPARED_IN_WRITE: Final = 4_000
"""Maximum number in one change, in which all others wait: about a second."""


class SettingChange(Struct, frozen=True):
    """A setting that differs. A value is UNSET if there is none."""

    scope: str
    field: str
    present: object
    former: object
    is_advanced: bool = False

    def shown(self) -> RollbackChange:
        return RollbackChange(
            subject="ADVANCED_SETTING" if self.is_advanced else "SETTING",
            scope=self.scope,
            key=self.field,
            change="CHANGE",
            present=_as_json(self.present),
            former=_as_json(self.former),
        )


class VariableChange(Struct, frozen=True):
    """A variable or secret that differs at one level."""

    scope: str
    level: Row
    key: str
    present: Row | None
    former: Row | None
    reason: str = ""
    """Why a rollback leaves it as it is; empty if it goes back."""

    @property
    def change(self) -> Change:
        return "CHANGE" if self.present and self.former else "REMOVE" if self.present else "ADD"

    @property
    def family(self) -> str:
        row = self.former or self.present
        assert row is not None
        return row.family

    def shown(self) -> RollbackChange:
        return RollbackChange(
            subject="SECRET" if is_secret(self.family) else "VARIABLE",
            scope=self.scope,
            key=self.key,
            change=self.change,
            present=_shown_value(self.present),
            former=_shown_value(self.former),
            goes_back=not self.reason,
            reason=self.reason,
        )


class LevelDifference(Struct, frozen=True):
    """The variables of one level that differ, and the keys of secrets that were deleted since."""

    changes: Sequence[VariableChange] = ()
    missing: Sequence[str] = ()


class ReleaseDifference(Struct, frozen=True):
    """The settings and variables of a service that differ from those of an earlier deployment."""

    service: Row
    earlier: DeploymentRow
    is_known: bool = False
    """Whether Windlass kept the inputs of that deployment."""
    settings: Sequence[SettingChange] = ()
    own: LevelDifference = LevelDifference()
    shared: Sequence[VariableChange] = ()
    """Variables of levels above, which stay as they are."""
    advanced: Mapping[str, object] = {}
    """All advanced settings of that deployment that differed from their defaults."""

    @property
    def goes_back(self) -> bool:
        """Whether a rollback changes anything besides the build."""
        return bool(self.settings) or any(not change.reason for change in self.own.changes)

    def shown(self) -> list[RollbackChange]:
        variables = [change.shown() for change in (*self.own.changes, *self.shared)]
        return [*(change.shown() for change in self.settings), *variables]


class ReleaseComparison:
    """What the comparisons of one request share: the levels that were compared, and how many variables may
    still differ. Each one that differs is read and decrypted."""

    def __init__(self, *, is_write: bool) -> None:
        self.is_write = is_write
        """Whether all others wait. Levels above the services are then not compared, as they do not change."""
        self._left = MAX_COMPARED_IN_WRITE if is_write else MAX_COMPARED
        self._share = FairShare()
        self.known: dict[tuple[str, tuple[KeptVariable, ...]], LevelDifference] = {}

    async def count(self) -> None:
        """Counts a variable that differs. Raises Invalid for too many."""
        if self._left == 0:
            raise Invalid(
                "Choose single services: more variables and secrets differ from that deployment than are "
                "compared at once"
            )
        self._left -= 1
        if not self.is_write:
            await self._share.pause()


async def difference_of(
    ctx: Context, reads: Reads, service: Row, earlier_deployment: DeploymentRow, comparison: ReleaseComparison
) -> ReleaseDifference:
    """Returns what a rollback of a service to an earlier deployment would change."""
    kept = await read_kept(reads, earlier_deployment.id)
    version = await reads.deployment_inputs.version(service.id, kept.service) if kept else None
    if kept is None or version is None:
        return ReleaseDifference(service, earlier_deployment)
    level, *above = await reads.tree.above(service.id)
    shared: list[VariableChange] = []
    for other in () if comparison.is_write else above:
        reason = f"It belongs to the {ctx.registry[other.family].noun}, which other services share"
        found = await compare_level(ctx, reads, other, kept.of(other.id), comparison)
        shared += [msgspec.structs.replace(change, reason=reason) for change in found.changes]
    return ReleaseDifference(
        service,
        earlier_deployment,
        is_known=True,
        settings=[*_setting_changes(ctx, service, version), *_advanced_changes(ctx, service, version)],
        own=await compare_level(ctx, reads, level, kept.of(level.id), comparison),
        shared=shared,
        advanced=_known_advanced(version.body),
    )


async def is_same_release(
    reads: Reads, ctx: Context, service: Row, kept: KeptInputs | None, others: KeptInputs | None
) -> bool:
    """Returns whether two deployments of a service ran with the same settings and variables of the service,
    given their kept inputs. True if Windlass kept none."""
    if kept is None or others is None:
        return True
    if kept.of(service.id) != others.of(service.id):
        return False
    if kept.service == others.service:
        return True
    first = await reads.deployment_inputs.version(service.id, kept.service)
    second = await reads.deployment_inputs.version(service.id, others.service)
    if first is None or second is None:
        return True
    as_present = msgspec.structs.replace(service, body=first.body)
    changes = (*_setting_changes(ctx, as_present, second), *_advanced_changes(ctx, as_present, second))
    return not changes


# Settings


def _setting_changes(ctx: Context, service: Row, version: ResourceVersionRow) -> Iterator[SettingChange]:
    family, kind = ctx.registry[service.family], ctx.kinds[service.family]
    present = kind.release_settings(_settings_in(family, service.body))
    former = kind.release_settings(_settings_in(family, version.body))
    paths = _nested_staying(family)
    for entry in family.sent_fields:
        name = entry.name
        if name in family.staying or name in SAYS_NOTHING_OF_RUNNING:
            continue
        ours, theirs = present.get(name, UNSET), former.get(name, UNSET)
        if _comparable(ours, name, paths) == _comparable(theirs, name, paths):
            continue
        if theirs is UNSET and entry.info.default not in (UNSET, None):
            continue  # the field is newer than the deployment
        yield SettingChange(
            family.enum_value, name, ours, _with_present_credentials(family, name, ours, theirs)
        )


def _settings_in(family: Family, body: bytes) -> Document:
    return narrow_document(msgspec.json.decode(body), family.spec)


def _nested_staying(family: Family) -> Collection[str]:
    return [path for path in family.staying if "." in path]


def _comparable(value: object, name: str, paths: Collection[str]) -> object:
    """Returns a value without nested fields that stay, and without nulls, which are equivalent to missing
    fields."""
    value = _without_nulls(value)
    for path in paths:
        first, _, rest = path.partition(".")
        if first == name:
            value = _without(value, rest)
    return value


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return UNSET if value is None else value


def _without(value: object, path: str) -> object:
    if not isinstance(value, dict):
        return value
    first, dot, rest = path.partition(".")
    if not dot:
        return {name: inner for name, inner in value.items() if name != first}
    return {**value, first: _without(value[first], rest)} if first in value else value


def _with_present_credentials(family: Family, name: str, present: object, former_value: object) -> object:
    """Returns the former value of a field with the present credentials in it, as far as they are for the same
    address."""
    for path in _nested_staying(family):
        first, _, rest = path.partition(".")
        if first != name or path not in family.references or not isinstance(former_value, dict):
            continue
        opened = family.references[path].opens.partition(".")[2]
        if value_at(present, opened) == value_at(former_value, opened):
            former_value = _with_value(former_value, rest, value_at(present, rest))
    return former_value


def _with_value(document: Document, path: str, value: object) -> Document:
    first, dot, rest = path.partition(".")
    if not dot:
        without = {name: inner for name, inner in document.items() if name != first}
        return without if value is UNSET else {**without, first: value}
    inner = document.get(first)
    return {**document, first: _with_value(inner, rest, value)} if isinstance(inner, dict) else document


def _advanced_changes(ctx: Context, service: Row, version: ResourceVersionRow) -> Iterator[SettingChange]:
    scope = ctx.registry[service.family].enum_value
    present, former = _known_advanced(service.body), _known_advanced(version.body)
    for name in _ADVANCED:
        ours, theirs = present.get(name, UNSET), former.get(name, UNSET)
        if ours != theirs:
            yield SettingChange(scope, name, ours, theirs, is_advanced=True)


def _known_advanced(body: bytes) -> Document:
    """Returns the changed advanced settings in a document, without those that Windlass does not have any
    more."""
    changed = changed_in(body)
    return {name: changed[name] for name in _ADVANCED if name in changed}


def _as_json(value: object) -> str | None:
    return None if value is UNSET else msgspec.json.encode(value).decode()


# Variables


async def compare_level(
    ctx: Context,
    reads: Reads,
    level: Row,
    kept_variables: Sequence[KeptVariable],
    comparison: ReleaseComparison,
) -> LevelDifference:
    """Returns the variables and secrets of a level that differ from kept ones."""
    place = (level.id, tuple(kept_variables))
    if place not in comparison.known:
        comparison.known[place] = await _compare_level(ctx, reads, level, kept_variables, comparison)
    return comparison.known[place]


async def _compare_level(
    ctx: Context,
    reads: Reads,
    level: Row,
    kept_variables: Sequence[KeptVariable],
    comparison: ReleaseComparison,
) -> LevelDifference:
    scope = ctx.registry[level.family].enum_value
    present = {row.name or "": row for row in await variables_at(reads, level)}
    former = {variable.key: variable for variable in kept_variables}
    changes: list[VariableChange] = []
    missing: list[str] = []
    for key in sorted(present.keys() | former.keys()):
        row, then = present.get(key), former.get(key)
        if row and then and (row.id, row.tag) == (then.id, then.tag):
            continue
        await comparison.count()
        version = await reads.deployment_inputs.version(then.id, then.tag) if then else None
        if then and version is None:
            continue  # the level was deleted and created again
        earlier = _as_row(version, key) if version else None
        change = VariableChange(scope, level, key, row, earlier)
        if row is None and earlier and is_secret(earlier.family) and earlier.sealed is None:
            missing.append(key)
        elif row is None or earlier is None or not _is_equal(ctx, row, earlier):
            changes.append(msgspec.structs.replace(change, reason=_obstacle(row, earlier)))
    return LevelDifference(changes, missing)


def _as_row(version: ResourceVersionRow, key: str) -> Row:
    return Row(
        version.id,
        version.family,
        version.org,
        version.holder,
        pos=0,
        name=key,
        created=0,
        tag=version.tag,
        body=version.body,
        sealed=version.sealed,
    )


def _is_equal(ctx: Context, row: Row, earlier_row: Row) -> bool:
    """Returns whether two versions of a variable have the same effect. The value of an alias is that of the
    variable for which it stands."""
    if row.family != earlier_row.family:
        return False
    if row.read(Levelled).variable_type == _ALIAS == earlier_row.read(Levelled).variable_type:
        return True
    if is_secret(row.family) and row.id != earlier_row.id and earlier_row.sealed is None:
        return True  # it was deleted and created again, so only its present value is known
    return _effect(ctx, row) == _effect(ctx, earlier_row)


def _effect(ctx: Context, row: Row) -> Document:
    """Returns what services get of a variable. A field that is not set counts as false."""
    values = restored_values(ctx, row)
    return values | {"enable_interpolation_in_file": bool(values["enable_interpolation_in_file"])}


def restored_values(ctx: Context, row: Row) -> Document:
    """Returns the fields of a variable that go back with a rollback."""
    stored = row.read(Variable)
    return {
        "value": value_of(ctx, row),
        "mount_path": stored.mount_path or None,
        "enable_interpolation_in_file": stored.enable_interpolation_in_file,
    }


def _obstacle(row: Row | None, earlier_row: Row | None) -> str:
    if row and earlier_row and row.family != earlier_row.family:
        noun = "a secret" if is_secret(row.family) else "an environment variable"
        return f"It is {noun} now: delete it first to go back"
    return ""


def _shown_value(row: Row | None) -> str | None:
    return None if row is None or is_secret(row.family) else row.read(Variable).value
