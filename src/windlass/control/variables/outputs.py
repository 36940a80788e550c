"""Variables that a run of a job sets: read from the file that it has written, and stored in its environment.

The file is an object of JSON: `{"BUCKET": {"value": "shop-7f3a", "sensitive": false, "description": "…"}}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from windlass.base.errors import Conflict
from windlass.control.context.call import ITSELF, Call, Dialect
from windlass.control.context.context import Context
from windlass.control.records.deployments import name_of
from windlass.control.request.changing import apply_changes
from windlass.control.request.creating import NewResource, create_in
from windlass.control.request.deleting import Requester, delete_resource
from windlass.control.request.hidden import decrypt_hidden
from windlass.core.access import SYSTEM
from windlass.core.declare.fields import Key, Note, Text
from windlass.core.declare.resource import Family
from windlass.core.deploy.injected_variables import PREFIX
from windlass.core.deploy.progress import Initiator
from windlass.core.words.startup_names import changes_starts
from windlass.core.words.variables import has_references
from windlass.families.variable import Secret, Variable, secret, variable
from windlass.store import Row, RunRow, Tx

MOST: Final = 200
"""Variables of one run."""
MOST_OF_ALL: Final = 128 * 1024
"""Bytes of the variables that one job has set: with too many of them, no service could be started."""
SET_BY: Final = "set_by_job"
"""The field of a variable with the id of the job that has set it. No job changes a variable without it, nor
one of another job."""
_WORDS: Final = Dialect(name="plain", state=str, event=str)
_LONGEST_NOTE: Final = 255


class BadOutput(Exception):
    """The output file of a run cannot be used; the message is for the person whose job it is."""


class OutputValue(Struct, forbid_unknown_fields=True):
    """A variable in the output file of a run."""

    value: Text | int | float | bool
    sensitive: bool = False
    description: Note = ""

    @property
    def text(self) -> str:
        return self.value if isinstance(self.value, str) else msgspec.json.encode(self.value).decode()


Outputs = Mapping[str, OutputValue]
_decode = msgspec.json.Decoder(dict[Key, OutputValue]).decode


class OutputVariable(Struct):
    """The part of a variable or a secret that an output sets."""

    key: str
    value: str = ""
    description: str | None = ""
    set_by_job: str = ""


def read_outputs(content: bytes | None) -> Outputs:
    """Returns the variables in the output file of a run; none if it wrote none."""
    if not content or not content.strip():
        return {}
    try:
        outputs = _decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadOutput(
            'Write an object such as {"BUCKET": {"value": "shop", "sensitive": false}} to the output file: '
            f"{error}"
        ) from error
    for key, output in outputs.items():
        _check(key, output)
    if len(outputs) > MOST:
        raise BadOutput(f"Write at most {MOST} variables to the output file: it has {len(outputs)}")
    return outputs


def _check(key: str, output: OutputValue) -> None:
    if key.startswith(PREFIX):
        raise BadOutput(f"Write another name than {key} to the output file: Windlass itself sets such names")
    if changes_starts(key):
        raise BadOutput(
            f"Write another name than {key} to the output file: it would change how the programs of all "
            "services start. People can set it as a variable"
        )
    if "\0" in output.text:
        raise BadOutput(f"Write no NUL to the output file: no process takes it in the variable {key}")
    if has_references(output.text):
        raise BadOutput(
            f"Write no {{{{NAME}}}} to the output file: in {key} it would stand for another variable"
        )


async def set_outputs(ctx: Context, tx: Tx, run: RunRow, outputs: Outputs) -> tuple[str, ...]:
    """Stores the variables that a run sets in its environment. Returns their keys."""
    job = await tx.resources.get(run.job)
    environment = await tx.resources.get(job.parent) if job else None
    if job is None or environment is None:
        return ()
    present, above = await _variables_at(tx, environment.id), await _variables_at(tx, environment.parent)
    jobs = {row.id: name_of(row) for row in await tx.resources.of_parent(environment.id, job.family)}
    own = [row for row in present.values() if row.read(OutputVariable).set_by_job == job.id]
    _refuse_too_many(ctx, outputs, own)
    for key, output in outputs.items():
        row = present.get(key)
        if row is None and key in above:
            raise _refusal(key, "project", "no job has set it")
        owner = row.read(OutputVariable).set_by_job if row else job.id
        if not owner:
            raise _refusal(key, "environment", "no job has set it")
        if owner != job.id and owner in jobs:  # else that job is not there any more
            raise _refusal(key, "environment", f"the job {jobs[owner]} has set it")
        await _set(ctx, tx, environment, job, key, output, row)
    return tuple(sorted(outputs))


def _refusal(key: str, level: str, reason: str) -> Conflict:
    return Conflict(
        f"Write another name than {key} to the output file, or delete that variable of the {level}: {reason}"
    )


def _refuse_too_many(ctx: Context, outputs: Outputs, own: Sequence[Row]) -> None:
    """Raises Conflict if the job sets too much, together with the variables of its earlier runs."""
    sizes = {row.read(OutputVariable).key: len(_value_of(ctx, row).encode()) for row in own}
    sizes |= {key: len(output.text.encode()) for key, output in outputs.items()}
    if len(sizes) > MOST or sum(sizes.values()) > MOST_OF_ALL:
        raise Conflict(
            "Write less to the output file, or delete variables of earlier runs: one job sets at most "
            f"{MOST} variables, with {MOST_OF_ALL} bytes"
        )


async def _variables_at(tx: Tx, level: str) -> dict[str, Row]:
    """Returns the variables and secrets of a level by key."""
    rows = [row for family in (variable, secret) for row in await tx.resources.of_parent(level, family.name)]
    return {row.read(OutputVariable).key: row for row in rows}


async def _set(
    ctx: Context, tx: Tx, environment: Row, job: Row, key: str, output: OutputValue, row: Row | None
) -> None:
    family = secret if output.sensitive else variable
    note, owner = _note(name_of(job), output.description), {SET_BY: job.id}
    if row is not None and row.family != family.name:
        await _refuse_derived(tx, row, key)
        await delete_resource(ctx, tx, row, Requester(Initiator(SYSTEM.id, SYSTEM.name), ITSELF))
        row = None
    if row is None:
        kind = Secret if output.sensitive else Variable
        spec = kind(key=key, value=output.text, description=note)
        await create_in(ctx, tx, NewResource(family, spec, environment, SYSTEM, extras=owner))
        return
    stored = row.read(OutputVariable)
    if (_value_of(ctx, row), stored.description, stored.set_by_job) != (output.text, note, job.id):
        call = _call(ctx, family, environment, row, owner)
        await apply_changes(ctx, tx, call, row, {"value": output.text, "description": note})


def _note(job: str, description: str) -> str:
    return f"Set by the job {job}{': ' if description else ''}{description}"[:_LONGEST_NOTE]


async def _refuse_derived(tx: Tx, row: Row, key: str) -> None:
    """Refuses to delete what people have derived from a variable, together with it."""
    for link in ("aliases", "overrides"):
        if await tx.links.sources(row.id, link):
            raise Conflict(
                f"Leave sensitive of {key} in the output file as it was, or delete the aliases and overrides "
                "of that variable first"
            )


def _value_of(ctx: Context, row: Row) -> str:
    return decrypt_hidden(ctx, row).get("value", row.read(OutputVariable).value)


def _call(ctx: Context, family: Family, environment: Row, row: Row, extras: Mapping[str, str]) -> Call:
    """Returns a call that changes a variable of an environment, as Windlass itself makes it. `extras` are
    fields that no client sends."""
    for operation in ctx.registry.handled_by(f"{family.name}.patch"):
        if operation.parent and operation.parent.name == environment.family:
            return Call(
                operation=operation,
                actor=SYSTEM,
                ids=(environment.id, row.id),
                dialect=_WORDS,
                origin=ITSELF,
                prepared=dict(extras),
            )
    raise LookupError(f"no operation changes a {family.name} of a {environment.family}")
