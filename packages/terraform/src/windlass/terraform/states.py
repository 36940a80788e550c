"""Stores the state of Terraform services: its versions, the lock, plans, and the credentials of runs.

All contents are encrypted. A change of the state adds a new version and does not replace an existing one.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from windlass.base import ids
from windlass.base.clock import SECOND
from windlass.base.errors import Conflict, Invalid, TooLarge
from windlass.base.foreign_json import BadJson, read_json
from windlass.base.settings import settings_of
from windlass.control.context.context import Context
from windlass.control.records.deployments import particulars
from windlass.core.declare.document import Document
from windlass.core.deploy.states import OPEN_STATES_OF_DEPLOYMENTS
from windlass.store import DeploymentRow, Reads, Row, Tx
from windlass.store.tables.plans import StoredPlan
from windlass.store.tables.sealed import PLAN, RESOURCES, STATE
from windlass.store.tables.terraform import StateLock, StateVersion
from windlass.terraform.settings import TerraformSettings
from windlass.terraform.state_files import BadState, StateFile, read_state

MAX_LOCK_BYTES: Final = 16 * 1024
"""Maximum bytes of the description of a lock."""
MAX_KEPT_PLANS: Final = 20
"""Number of plans of a service that are kept."""


class PlanRecord(Struct, frozen=True):
    """The encrypted part of a plan."""

    text: str
    resources: list[dict[str, str]]
    file: bytes
    state: str
    """The number and the digest of the state on which the plan is based."""


class LockConflict(Conflict):
    """Raised if another run has locked the state. The Terraform program gets the lock as the response."""

    status = 423

    def __init__(self, lock: StateLock) -> None:
        super().__init__(f"Wait for the deployment {lock.deployment}: it has locked the state")
        self.lock = lock


# The credentials of a run


class CredentialHolder(StrEnum):
    """The holder of a credential."""

    LAUNCHER = "terraform run"
    PROGRAM = "terraform state"
    """The Terraform program. The module's own programs can read this credential, so it gives access only to
    the state."""


def run_credential(
    ctx: Context, deployment: str, holder: CredentialHolder = CredentialHolder.LAUNCHER
) -> str:
    """Returns a credential for the run of a deployment. It is valid until the run has ended."""
    return f"{deployment}.{ctx.encryption.mark(holder.encode(), deployment.encode())}"


async def run_of(
    ctx: Context, reads: Reads, service: str, credential: str, holders: Collection[CredentialHolder]
) -> DeploymentRow | None:
    """Returns the deployment in progress to which a credential belongs. Returns None if the credential is
    invalid or belongs to none of the `holders`."""
    deployment, _, _ = credential.partition(".")
    own = [run_credential(ctx, deployment, holder) for holder in holders if ids.is_id(deployment)]
    if not any(hmac.compare_digest(credential.encode(), text.encode()) for text in own):
        return None
    row = await reads.deployments.get(deployment)
    return row if row and row.service == service and row.status in OPEN_STATES_OF_DEPLOYMENTS else None


# Versions


async def newest_content(ctx: Context, reads: Reads, service: str) -> bytes:
    """Returns the newest state, or empty bytes if there is none."""
    version = await reads.terraform.newest(service)
    return await content_of(ctx, reads, version) if version else b""


async def content_of(ctx: Context, reads: Reads, version: StateVersion) -> bytes:
    sealed = await reads.terraform.content(version.id)
    if sealed is None:
        return b""
    owner = STATE.owner(org=version.org, service=version.service, id=version.id)
    return ctx.encryption.decrypt(sealed, *owner)


async def newest_state(
    ctx: Context, reads: Reads, service: str
) -> tuple[StateVersion | None, StateFile | None]:
    """Returns the newest version and the part of its content that Windlass reads."""
    version = await reads.terraform.newest(service)
    content = await content_of(ctx, reads, version) if version else b""
    return version, read_state(content) if content else None


async def add_version(
    ctx: Context, tx: Tx, service: Row, deployment: str, content: bytes, *, restored: int = 0
) -> StateVersion:
    """Stores a state as the newest version. Does nothing if the state equals the newest version. Returns the
    newest version."""
    settings = settings_of(TerraformSettings, ctx.settings)
    if len(content) > settings.terraform_state_bytes:
        raise TooLarge(
            "Divide the module, or ask the operator to raise the setting terraform_state_bytes: the state "
            f"has {len(content)} bytes, and {settings.terraform_state_bytes} are allowed"
        )
    if content:
        try:
            read_state(content)
        except BadState as error:
            raise Invalid(f"the state is refused: {error}") from error
    digest = hashlib.sha256(content).hexdigest()
    newest = await tx.terraform.newest(service.id)
    if newest and newest.digest == digest:
        return newest
    version = StateVersion(
        id=ids.new_id(),
        org=service.org,
        service=service.id,
        number=newest.number + 1 if newest else 1,
        created=tx.now,
        deployment=deployment,
        restored=restored,
        bytes=len(content),
        digest=digest,
    )
    owner = STATE.owner(org=version.org, service=version.service, id=version.id)
    sealed = ctx.encryption.encrypt(content, *owner)
    await tx.terraform.add(version, sealed, settings.terraform_state_versions)
    return version


async def note_attributes(ctx: Context, tx: Tx, service: str, attributes: bytes) -> None:
    """Stores the attributes of the resources, as JSON, in the newest version. Sensitive values are already
    hidden."""
    version = await tx.terraform.newest(service)
    if version is not None:
        owner = RESOURCES.owner(org=version.org, service=version.service, id=version.id)
        sealed = ctx.encryption.encrypt(attributes, *owner)
        await tx.terraform.record_shown(version.id, sealed)


async def attributes_of(ctx: Context, reads: Reads, version: StateVersion) -> dict[str, Document]:
    """Returns the attributes of the resources of a version, by address. Empty if none are stored."""
    sealed = await reads.terraform.shown(version.id)
    if sealed is None:
        return {}
    owner = RESOURCES.owner(org=version.org, service=version.service, id=version.id)
    decrypted = ctx.encryption.decrypt(sealed, *owner)
    return msgspec.json.decode(decrypted, type=dict[str, Document])


# The lock


LockWord = Annotated[str, Meta(max_length=255, pattern=r"^[^\x00-\x1f\x7f]*\Z")]


class LockInfo(Struct):
    """The description of a lock in the format of Terraform."""

    id: LockWord = msgspec.field(name="ID", default="")
    operation: LockWord = msgspec.field(name="Operation", default="")


async def lock_state(tx: Tx, run: DeploymentRow, info: bytes) -> None:
    """Locks the state for a run. Raises LockConflict if another run has locked it. A repeated request
    succeeds."""
    sent = _lock_info(info)
    present = await tx.terraform.lock(run.service)
    if present is not None:
        if present.deployment == run.id and present.id == sent.id:
            return
        raise LockConflict(present)
    operation = sent.operation.removeprefix("OperationType").lower()
    owner = particulars(run).actor.name
    lock = StateLock(run.service, sent.id, run.id, operation, owner, tx.now, info)
    await tx.terraform.take_lock(lock)


async def unlock_state(tx: Tx, run: DeploymentRow, info: bytes) -> None:
    """Releases the lock of this run. A missing lock is not an error, because the request may be a
    repetition."""
    sent = _lock_info(info)
    present = await tx.terraform.lock(run.service)
    if present is None:
        return
    if present.deployment != run.id or (sent.id and sent.id != present.id):
        raise LockConflict(present)
    await tx.terraform.release_lock(run.service)


async def check_lock(tx: Tx, run: DeploymentRow, lock_id: str) -> None:
    """Checks that the run may write the state. Raises LockConflict if another run has locked it."""
    present = await tx.terraform.lock(run.service)
    if present is not None and (present.deployment != run.id or lock_id not in ("", present.id)):
        raise LockConflict(present)


async def describe_lock(reads: Reads, service: str, now: int, ending: str = "") -> str:
    """Returns a message with the owner and the age of the lock, and how to release it. Empty if the state is
    not locked.

    `ending` is a deployment whose run has ended, even if its record does not show this yet.
    """
    lock = await reads.terraform.lock(service)
    if lock is None:
        return ""
    holder = await reads.deployments.get(lock.deployment)
    run = f"v{holder.number}" if holder else "an earlier deployment"
    is_over = holder is None or holder.id == ending or holder.status not in OPEN_STATES_OF_DEPLOYMENTS
    way_out = "Deploy with the action FORCE_UNLOCK" if is_over else f"Wait for the end of {run}, or cancel it"
    has_ended = ", which has ended" if is_over else ""
    age = max(0, now - lock.created) // SECOND
    return (
        f"{way_out}: the state has been locked for {age} seconds by {run} of {lock.owner} "
        f"({lock.operation}){has_ended}"
    )


def _lock_info(info: bytes) -> LockInfo:
    if not info:
        return LockInfo()
    if len(info) > MAX_LOCK_BYTES:
        raise Invalid(f"the lock is refused: it has more than {MAX_LOCK_BYTES} bytes")
    try:
        return read_json(info, LockInfo)
    except BadJson as error:
        raise Invalid(f"the lock is refused: {error}") from error


# Plans


async def put_plan(
    ctx: Context, tx: Tx, run: DeploymentRow, counts: tuple[int, int, int], record: PlanRecord
) -> None:
    """Stores the plan of a deployment. A repeated request replaces the plan."""
    owner = PLAN.owner(org=run.org, service=run.service, deployment=run.id)
    sealed = ctx.encryption.encrypt(msgspec.msgpack.encode(record), *owner)
    await tx.plans.put(StoredPlan(run.id, run.org, run.service, tx.now, *counts, sealed), MAX_KEPT_PLANS)


def plan_record(ctx: Context, plan: StoredPlan) -> PlanRecord:
    owner = PLAN.owner(org=plan.org, service=plan.service, deployment=plan.deployment)
    return msgspec.msgpack.decode(ctx.encryption.decrypt(plan.sealed, *owner), type=PlanRecord)


async def present_state(reads: Reads, service: str) -> str:
    """Returns the number and the digest of the newest state, or an empty string.

    A plan becomes stale even if a restored state is identical to the state of the plan, because the number
    differs.
    """
    version = await reads.terraform.newest(service)
    return f"{version.number} {version.digest}" if version else ""
