"""Writes the settings and variables of an earlier deployment back, as changes of the caller.

What was created since is deleted, what was deleted since is created again, and all else gets its former
value. The value of a secret that a rollback deletes stays with the deployments that used it, so that another
rollback can bring it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import UNSET

from windlass.base.errors import Conflict, Forbidden, Invalid
from windlass.control.context.call import Call
from windlass.control.context.context import Context
from windlass.control.request.changing import apply_changes, restore_fields
from windlass.control.request.creating import NewResource, create_in
from windlass.control.request.deleting import delete_resource, requester_of
from windlass.control.request.permissions import allows
from windlass.control.services.release_differences import ReleaseDifference, VariableChange, restored_values
from windlass.control.variables.deriving import Derivation, create_derived, visible_at
from windlass.control.variables.variables import kept_secrets, spec_of
from windlass.core.access import Scope
from windlass.core.declare.rollbacks import PRESENT
from windlass.core.settings.checks import check_values
from windlass.core.settings.values import SETTINGS_FIELD, acting_at_once, changed_in
from windlass.families.variable import Levelled, SecretShown, Variable, VariableShown, is_secret
from windlass.store import Row, Tx, route_topic

_INSTEAD = f'or send {{"settings": "{PRESENT}"}} to keep the present settings'


async def go_back(
    ctx: Context,
    tx: Tx,
    call: Call,
    difference: ReleaseDifference,
    recreated: dict[str, Row] | None = None,
) -> Row:
    """Writes the settings and variables of a service back. Returns the service as it is then. `recreated`:
    variables of its environment that were created again, by their former ids."""
    service, version = difference.service, f"v{difference.earlier.number}"
    refuse_missing(difference.own.missing, version)
    if not difference.goes_back:
        return service
    await require_write(tx, call, service)
    try:
        await restore_variables(ctx, tx, call, difference.own.changes, {**(recreated or {})})
        if difference.settings:
            await _restore_settings(ctx, tx, call, difference)
    except (Invalid, Conflict) as refusal:
        raise type(refusal)(f"{refusal.message}; {_INSTEAD}") from refusal
    return await tx.resources.get(service.id) or service


def refuse_missing(keys: Sequence[str], version: str) -> None:
    if keys:
        noun = "secret" if len(keys) == 1 else "secrets"
        raise Conflict(
            f"Create the {noun} {', '.join(keys)} again first, {_INSTEAD}: {version} ran with "
            f"{'it' if len(keys) == 1 else 'them'}, and a deleted value is not kept"
        )


async def require_write(tx: Tx, call: Call, row: Row) -> None:
    if not await allows(tx, call.actor, Scope.WRITE, row):
        raise Forbidden(
            f"Use a token with the scope Write, too, {_INSTEAD}: settings or variables of the {row.family} "
            "would change"
        )


async def _restore_settings(ctx: Context, tx: Tx, call: Call, difference: ReleaseDifference) -> None:
    service = difference.service
    fields = {change.field: change.former for change in difference.settings if not change.is_advanced}
    former, present = {**difference.advanced}, changed_in(service.body)
    check_values(former)
    await restore_fields(ctx, tx, call, service, fields, {SETTINGS_FIELD: former or UNSET})
    if acting_at_once(former) != acting_at_once(present):
        tx.nudge(route_topic(service.id))


async def restore_variables(
    ctx: Context, tx: Tx, call: Call, changes: Iterable[VariableChange], recreated: dict[str, Row]
) -> None:
    """Writes variables and secrets of one level back. Derived variables come last, because they refer to
    others. Adds those that are created again to `recreated`, by their former ids."""
    wanted = [change for change in changes if not change.reason]
    for change in wanted:
        if change.former is None and change.present is not None:
            await _remove(ctx, tx, call, change.present)
    for change in sorted(wanted, key=lambda change: bool(_original_of(change.former))):
        if change.former is None:
            continue
        if change.present is not None:
            await apply_changes(ctx, tx, call, change.present, restored_values(ctx, change.former))
        else:
            await _create(ctx, tx, call, change, recreated)


async def _remove(ctx: Context, tx: Tx, call: Call, row: Row) -> None:
    """Deletes a variable, and keeps the versions of a secret with which deployments ran."""
    if await tx.resources.get(row.id) is None:
        return  # it was derived from a variable that was deleted before
    kept = await kept_secrets(tx, row) if is_secret(row.family) else []
    await delete_resource(ctx, tx, row, requester_of(call))
    await tx.deployment_inputs.seal(kept)


async def _create(
    ctx: Context, tx: Tx, call: Call, change: VariableChange, recreated: dict[str, Row]
) -> None:
    former, level = change.former, change.level
    assert former is not None
    family = ctx.registry[former.family]
    values, stored = restored_values(ctx, former), former.read(Levelled)
    spec = spec_of(family)(
        key=former.read(Variable).key,
        description=stored.description,
        value=str(values["value"]),
        mount_path=values["mount_path"] or UNSET,  # type: ignore[arg-type]
        enable_interpolation_in_file=former.read(Variable).enable_interpolation_in_file,
    )
    original = _original_of(former)
    if not original:
        await create_in(ctx, tx, NewResource(family, spec, level, call.actor, call))
    else:
        target = recreated.get(original) or await visible_at(ctx, tx, call, level, family, original)
        if target is None:
            raise Conflict(f"Create {change.key} again first: the variable from which it was derived is gone")
        await create_derived(ctx, tx, call, Derivation(family, level, target), spec, stored.variable_type)
    if created := await tx.resources.named(level.id, family.name, former.name or ""):
        recreated[former.id] = created


def _original_of(row: Row | None) -> str:
    """Returns the id of the variable from which another is derived; empty if it is not derived."""
    if row is None:
        return ""
    shown, secret = row.read(VariableShown), row.read(SecretShown)
    for original in (
        shown.aliased_variable,
        shown.overridden_variable,
        secret.aliased_secret,
        secret.overridden_secret,
    ):
        if original:
            return original.id
    return ""
