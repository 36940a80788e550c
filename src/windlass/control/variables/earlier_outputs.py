"""Gives the outputs that earlier versions stored as variables of an environment the names that they have now.

An earlier version let a run choose the key of such a variable. Aliases of it go on, and stand for the output;
overrides of it become variables of their own level.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.base.log import log
from windlass.control.context.context import Context
from windlass.control.records.job_outputs import JobOutput, outputs_of, store_outputs
from windlass.control.request.hidden import decrypt_hidden
from windlass.core.declare.stored import rewritten
from windlass.core.deploy.injected_variables import identity, output_word, prefixes_of
from windlass.families.job import job as job_family
from windlass.families.organization import organization
from windlass.families.variable import secret, variable
from windlass.store import Row, Tx

RENAMED: Final = "outputs_renamed"
_log = log("main")


class EarlierOutput(Struct):
    """The part of a variable or a secret that an output of an earlier version had set."""

    key: str
    value: str = ""
    description: str | None = ""
    set_by_job: str = ""


async def rename_earlier_outputs(ctx: Context, tx: Tx) -> None:
    """Does nothing from the second start on."""
    if await tx.facts.get(RENAMED):
        return
    for org in await tx.resources.of_parent("", organization.name):
        by_job: dict[str, list[Row]] = {}
        for family in (variable, secret):
            for row in await tx.resources.of_org(org.id, family.name):
                if job := row.read(EarlierOutput).set_by_job:
                    by_job.setdefault(job, []).append(row)
        for job, rows in by_job.items():
            await _rename(ctx, tx, job, rows)
    await tx.facts.set(RENAMED, b"1")


async def _rename(ctx: Context, tx: Tx, job_id: str, rows: list[Row]) -> None:
    job = await tx.resources.get(job_id)
    listed, twin = prefixes_of(job_family.enum_value, job_id)
    outputs = {**await outputs_of(ctx, tx, job_id)}
    for row in rows:
        earlier = row.read(EarlierOutput)
        word = output_word(earlier.key)
        _log.warning(
            "%s of the environment %s is %s%s now: services get it so with their next deployment. Name it "
            "{{%s%s}} in a variable, or give it another name with an alias",
            earlier.key, row.parent, twin, word, twin, word,
        )  # fmt: skip
        await _release_overrides(tx, row)
        if job is None:  # people may still need the value, and delete it if not
            await _keep(ctx, tx, row, twin + word)
            continue
        outputs.setdefault(word, _output(ctx, row))
        await _move_aliases(ctx, tx, row, job, listed + word)
        await tx.remove(row)
    if job is not None:
        await store_outputs(ctx, tx, job.org, job.id, outputs)


def _output(ctx: Context, row: Row) -> JobOutput:
    earlier, is_secret = row.read(EarlierOutput), _is_secret(ctx, row)
    value = decrypt_hidden(ctx, row).get("value", "") if is_secret else earlier.value
    return JobOutput(value, is_secret, earlier.description or "")


async def _release_overrides(tx: Tx, row: Row) -> None:
    """The values that people have set under the key of an output stay theirs."""
    for override in await tx.links.sources(row.id, "overrides"):
        document = msgspec.json.decode(override.body)
        document.pop("overridden_variable", None)
        document.pop("overridden_secret", None)
        document["variable_type"] = "FILE" if document.get("mount_path") else "VALUE"
        await tx.resources.change(replace(override, body=msgspec.json.encode(document)))
        await tx.links.unset(override.id, "overrides")


async def _move_aliases(ctx: Context, tx: Tx, row: Row, job: Row, key: str) -> None:
    id = identity(job.id, key)
    shown = {"id": id, "key": key, "scope": "BUILT_IN", "variable_type": "BUILT_IN", "mount_path": ""}
    for alias in await tx.links.sources(row.id, "aliases"):
        await tx.resources.rewrite(alias.id, rewritten(alias.body, {_alias_field(ctx, row): shown}))
        await tx.links.set(alias.id, "aliases", id)


async def _keep(ctx: Context, tx: Tx, row: Row, key: str) -> None:
    document = msgspec.json.decode(row.body)
    del document["set_by_job"]
    document["key"] = key
    await tx.resources.change(replace(row, name=key, body=msgspec.json.encode(document)))
    for alias in await tx.links.sources(row.id, "aliases"):
        shown = {_alias_field(ctx, row): {"key": key}}
        await tx.resources.rewrite(alias.id, rewritten(alias.body, shown))


def _alias_field(ctx: Context, row: Row) -> str:
    """The field in which an alias shows the variable that it stands for."""
    return "aliased_secret" if _is_secret(ctx, row) else "aliased_variable"


def _is_secret(ctx: Context, row: Row) -> bool:
    return "value" in ctx.registry[row.family].hidden
