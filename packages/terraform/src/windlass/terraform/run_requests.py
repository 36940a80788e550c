"""Handles requests of Terraform runs to this server. They read and write the state, its lock, the plan and
the resources.

A run can access only its own service, and only until its deployment has ended.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta, Struct

from windlass.base.errors import Conflict, Invalid, Missing, NotAllowed, Unauthorized
from windlass.base.foreign_json import BadJson, read_json
from windlass.base.locks import Locks
from windlass.base.settings import settings_of
from windlass.base.subprocesses import in_thread
from windlass.config import Settings
from windlass.control.context.context import Context
from windlass.control.kinds.run_api import RunAnswer, RunMessage
from windlass.control.records.deployments import particulars
from windlass.control.records.sealed_workload import find_secrets
from windlass.core.words.masking import EMPTY_MASK, Mask
from windlass.launch.terraform import MIGRATE, PLAN_ONLY, UNLOCK
from windlass.store import DeploymentRow, Row, Tx
from windlass.terraform.settings import TerraformSettings
from windlass.terraform.state_files import (
    HIDDEN_VALUE,
    BadState,
    ShownState,
    check_parts,
    sensitive_texts,
    serial_of,
    shown_attributes,
)
from windlass.terraform.states import (
    CredentialHolder,
    LockConflict,
    PlanRecord,
    add_version,
    check_lock,
    content_of,
    lock_state,
    newest_content,
    note_attributes,
    plan_record,
    present_state,
    put_plan,
    run_of,
    unlock_state,
)

T = TypeVar("T")
_BASIC_SCHEME: Final = b"basic "
_STATE_PATH: Final = "state"
_MAX_SIZE_FACTOR: Final = 2
"""Maximum size of a request in relation to the state. A plan contains the state once, and is encoded as
Base64."""
MAX_PLAN_LENGTH: Final = 6 * 1024 * 1024
"""Maximum characters of a plan's text and of its planned actions. The launcher sends up to 4 MiB of text."""


Count = Annotated[int, Meta(ge=0, le=1_000_000)]


class SentPlan(Struct):
    """A plan in the form in which the run sends it."""

    text: str
    file: str
    resources: list[dict[str, str]]
    added: Count
    changed: Count
    destroyed: Count


def credential_of(header: bytes | None) -> str:
    """Returns the password in an `Authorization` header. Empty if there is none."""
    if header is None or not header.lower().startswith(_BASIC_SCHEME):
        return ""
    try:
        return base64.b64decode(header[len(_BASIC_SCHEME) :], validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return ""


class TerraformRunApi:
    """The API for runs: an HTTP backend of Terraform with locking, and the requests of the launcher."""

    word = "terraform-run"
    operation = "terraformRun"

    def __init__(self) -> None:
        self._masking = Locks()

    def most_bytes(self, settings: Settings) -> int:
        return _MAX_SIZE_FACTOR * settings_of(TerraformSettings, settings).terraform_state_bytes

    async def find_run(
        self, ctx: Context, service: str, run_id: str, authorization: bytes | None
    ) -> DeploymentRow:
        return await _find_run(ctx, service, run_id, authorization)

    async def answer(self, ctx: Context, run: DeploymentRow, request: RunMessage) -> RunAnswer:
        try:
            return RunAnswer(await _answer(ctx, run, request, self._masking))
        except LockConflict as locked:
            if not locked.lock.info:
                raise
            return RunAnswer(locked.lock.info, locked.status)  # Terraform reads the lock in the body


async def _find_run(ctx: Context, service: str, run_id: str, header: bytes | None) -> DeploymentRow:
    holders = tuple(CredentialHolder) if run_id == _STATE_PATH else (CredentialHolder.LAUNCHER,)
    run = await run_of(ctx, ctx.store.reads, service, credential_of(header), holders)
    if run is None:
        raise Unauthorized(
            "Send the credential of a run that is under way: only runs of Terraform come here",
            {"www-authenticate": 'Basic realm="a run of Terraform"'},
        )
    return run


async def _answer(ctx: Context, run: DeploymentRow, request: RunMessage, masking: Locks) -> bytes:
    what, _, rest = request.what.partition("/")
    if (reading := _READ_HANDLERS.get((request.method, what))) is not None:
        return await reading(ctx, run, rest)
    if rest:
        raise NotAllowed("A run does nothing of this kind")
    writing = _WRITE_HANDLERS.get((request.method, what)) or await _mask(ctx, run, what, request, masking)

    async def change(tx: Tx) -> bytes:
        service = await tx.resources.get(run.service)
        current = await tx.deployments.get(run.id)
        if service is None or current is None or current.status != run.status:
            raise Conflict("Deploy again: the deployment of this run has ended")
        return await writing(ctx, tx, service, run, request)

    return await ctx.store.write(change)


async def _mask(ctx: Context, run: DeploymentRow, what: str, request: RunMessage, masking: Locks) -> Writing:
    """Returns the function that stores what a run has sent, without its secrets. Masking takes seconds for
    the longest texts, so it runs in a thread, one at a time for an organization."""
    handler = _MASKED_HANDLERS.get((request.method, what))
    if handler is None:
        raise NotAllowed("A run does nothing of this kind")
    if ctx.logs.masks.of(run.id) is None:  # another server may have started the run
        await find_secrets(ctx, run.id)
    mask = ctx.logs.masks.of(run.id) or EMPTY_MASK
    async with masking[run.org]:
        return await in_thread(handler, mask, request.body)


async def _answer_greeting(ctx: Context, run: DeploymentRow, arguments: str) -> bytes:
    return b""


async def _read_state(ctx: Context, run: DeploymentRow, arguments: str) -> bytes:
    content = await newest_content(ctx, ctx.store.reads, run.service)
    if not content:
        raise Missing("Deploy first: there is no state yet")
    return content


async def _read_plan(ctx: Context, run: DeploymentRow, arguments: str) -> bytes:
    """Returns the plan that this run is to apply. A run cannot read other plans."""
    plan = await ctx.store.reads.plans.get(arguments)
    if plan is None or plan.service != run.service or particulars(run).of != arguments:
        raise Missing("Make a new plan, and apply that: this one is not kept any more")
    record = plan_record(ctx, plan)
    if record.state != await present_state(ctx.store.reads, run.service):
        raise Conflict("Make a new plan, and apply that: the state has changed since this one")
    return record.file


async def _write_state(ctx: Context, tx: Tx, service: Row, run: DeploymentRow, request: RunMessage) -> bytes:
    _refuse_to_planner(run)
    await check_lock(tx, run, request.query.get("ID", ""))
    await _refuse_overtaken(ctx, tx, run, request.body)
    await add_version(ctx, tx, service, run.id, request.body)
    return b""


async def _refuse_overtaken(ctx: Context, tx: Tx, run: DeploymentRow, content: bytes) -> None:
    """Refuses a state that is older than the newest one of the same run. A server that was paused may
    complete a request late, after another server has stored a newer state."""
    newest, sent = await tx.terraform.newest(run.service), serial_of(content)
    is_own = newest is not None and newest.deployment == run.id and not newest.restored
    if newest is None or sent is None or not is_own or particulars(run).sub_action == MIGRATE:
        return
    if sent < (serial_of(await content_of(ctx, tx, newest)) or 0):
        raise Conflict("Go on: this run has stored a later state meanwhile")


async def _purge_state(ctx: Context, tx: Tx, service: Row, run: DeploymentRow, request: RunMessage) -> bytes:
    _refuse_to_planner(run)
    await check_lock(tx, run, "")
    await add_version(ctx, tx, service, run.id, b"")
    return b""


def _refuse_to_planner(run: DeploymentRow) -> None:
    """Refuses a state change by a run that only plans. Terraform itself does not request this, but a module
    could."""
    if particulars(run).sub_action == PLAN_ONLY:
        raise Conflict("Deploy without the action PLAN: a run that only plans changes no state")


async def _lock(ctx: Context, tx: Tx, service: Row, run: DeploymentRow, request: RunMessage) -> bytes:
    await lock_state(tx, run, request.body)
    return b""


async def _unlock(ctx: Context, tx: Tx, service: Row, run: DeploymentRow, request: RunMessage) -> bytes:
    await unlock_state(tx, run, request.body)
    return b""


async def _force_unlock(ctx: Context, tx: Tx, service: Row, run: DeploymentRow, request: RunMessage) -> bytes:
    """Releases a lock of an earlier run. The run has ended, because deployments of a service run one after
    the other."""
    if particulars(run).sub_action != UNLOCK:
        raise Conflict("Deploy with the action FORCE_UNLOCK: this run is for something else")
    present = await tx.terraform.lock(service.id)
    if present is None:
        return b"the state is not locked"
    await tx.terraform.release_lock(service.id)
    return f"the lock of {present.owner} ({present.operation}) is released".encode()


async def _take_snapshot(
    ctx: Context, tx: Tx, service: Row, run: DeploymentRow, request: RunMessage
) -> bytes:
    """Stores a copy of a state in another backend, so that Windlass can show its outputs and resources."""
    _refuse_to_planner(run)
    await add_version(ctx, tx, service, run.id, request.body)
    return b""


def _masked_plan(mask: Mask, body: bytes) -> Writing:
    """Returns the function that stores a plan. Long texts are masked here, before the transaction begins."""
    sent = _decode(body, SentPlan)
    length = len(sent.text) + sum(
        len(word) for item in sent.resources for pair in item.items() for word in pair
    )
    if length > MAX_PLAN_LENGTH:
        raise Invalid(f"text: the plan has {length:,} characters, and may have {MAX_PLAN_LENGTH:,}")
    try:
        file = base64.b64decode(sent.file, validate=True)
    except binascii.Error as error:
        raise Invalid("file: must be Base64") from error
    text = mask.text(sent.text)
    resources = [{name: mask.text(value) for name, value in item.items()} for item in sent.resources]
    counts = sent.added, sent.changed, sent.destroyed

    async def store(ctx: Context, tx: Tx, service: Row, run: DeploymentRow, request: RunMessage) -> bytes:
        state = await present_state(tx, service.id)
        await put_plan(ctx, tx, run, counts, PlanRecord(text, resources, file, state))
        return b""

    return store


def _masked_resources(mask: Mask, body: bytes) -> Writing:
    """Returns the function that stores the attributes of all resources. A value that is sensitive in one
    place is hidden everywhere."""
    shown = _decode(body, ShownState)
    try:
        mask = Mask([*mask.values, *sensitive_texts(shown)])
        attributes = {name: _mask_values(mask, value) for name, value in shown_attributes(shown).items()}
        encoded = msgspec.json.encode(attributes)
    except RecursionError as error:
        raise Invalid("the resources are nested too deep") from error

    async def store(ctx: Context, tx: Tx, service: Row, run: DeploymentRow, request: RunMessage) -> bytes:
        await note_attributes(ctx, tx, service.id, encoded)
        return b""

    return store


def _mask_values(mask: Mask, value: object) -> object:
    match value:
        case str() if value != HIDDEN_VALUE:
            return mask.text(value)
        case list():
            return [_mask_values(mask, item) for item in value]
        case dict():
            return {mask.text(name): _mask_values(mask, item) for name, item in value.items()}
        case _:
            return value


def _decode(body: bytes, struct_type: type[T]) -> T:
    try:
        check_parts(body)
        return read_json(body, struct_type)
    except (BadState, BadJson) as error:
        raise Invalid(str(error)) from error


Reading = Callable[[Context, DeploymentRow, str], Awaitable[bytes]]
Writing = Callable[[Context, Tx, Row, DeploymentRow, RunMessage], Awaitable[bytes]]

_READ_HANDLERS: Final[Mapping[tuple[str, str], Reading]] = {
    ("GET", "run"): _answer_greeting,
    ("GET", _STATE_PATH): _read_state,
    ("GET", "plan"): _read_plan,
}
_WRITE_HANDLERS: Final[Mapping[tuple[str, str], Writing]] = {
    ("POST", _STATE_PATH): _write_state,
    ("DELETE", _STATE_PATH): _purge_state,
    ("LOCK", _STATE_PATH): _lock,
    ("UNLOCK", _STATE_PATH): _unlock,
    ("DELETE", "lock"): _force_unlock,
    ("PUT", "snapshot"): _take_snapshot,
}
_MASKED_HANDLERS: Final[Mapping[tuple[str, str], Callable[[Mask, bytes], Writing]]] = {
    ("PUT", "plan"): _masked_plan,
    ("PUT", "resources"): _masked_resources,
}
