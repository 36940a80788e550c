"""Handles requests of Helm runs to this server: the credential for the cluster, and the plan.

A run can access only its own service, and only until its deployment has ended.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from windlass.base import ids
from windlass.base.bounded import OutOfBounds
from windlass.base.errors import Conflict, Invalid, NotAllowed, Unauthorized, Unavailable
from windlass.base.foreign_json import BadJson, read_json
from windlass.base.log import log
from windlass.config import Settings
from windlass.control.context.context import Context
from windlass.control.kinds.run_api import RunAnswer, RunMessage
from windlass.control.records.sealed_workload import find_secrets
from windlass.core.deploy.states import OPEN_STATES_OF_DEPLOYMENTS
from windlass.core.words.masking import EMPTY_MASK
from windlass.engines.engine import EngineError, EngineUnavailable
from windlass.engines.namespace_access import NamespaceAccess
from windlass.helm.chart_error import ChartError
from windlass.helm.families.helm import Helm, helm
from windlass.helm.health import DeployedController
from windlass.helm.manifests import ManifestDifference, compare
from windlass.helm.plans import ReleasePlan, plan_in, put_plan
from windlass.helm.run_programs import NO_CLUSTER
from windlass.store import DeploymentRow, Row, Tx

RUN_WORD: Final = "helm-run"
CREDENTIAL_MARGIN_SECONDS: Final = 600.0
"""Seconds for which the credential of a run is valid after the time limit of the run, so that it can end."""
MAX_BODY_BYTES: Final = 16 * 1024 * 1024
_log = log("helm")
_HOLDER: Final = b"helm run"
_BASIC_SCHEME: Final = b"basic "


class SentManifests(Struct):
    """The manifests of the release before and after a run."""

    before: str
    after: str
    namespace: str
    revision: Annotated[int, Meta(ge=0, le=2**31)] = 0


class SentControllers(Struct):
    """The Deployments and StatefulSets of the release after a run."""

    controllers: Annotated[list[DeployedController], Meta(max_length=1_000)]


def run_credential(ctx: Context, deployment: str) -> str:
    """Returns a credential for the run of a deployment. It is valid until the run has ended."""
    return f"{deployment}.{ctx.encryption.mark(_HOLDER, deployment.encode())}"


class HelmRunApi:
    """The API for runs of Helm."""

    word = RUN_WORD
    operation = "helmRun"

    def most_bytes(self, settings: Settings) -> int:
        return MAX_BODY_BYTES

    async def find_run(
        self, ctx: Context, service: str, run_id: str, authorization: bytes | None
    ) -> DeploymentRow:
        credential = _credential_in(authorization)
        deployment, _, _ = credential.partition(".")
        if ids.is_id(deployment) and hmac.compare_digest(
            credential.encode(), run_credential(ctx, deployment).encode()
        ):
            row = await ctx.store.reads.deployments.get(deployment)
            if row and row.service == service and row.status in OPEN_STATES_OF_DEPLOYMENTS:
                return row
        raise Unauthorized(
            "Send the credential of a run in progress: only Helm runs may call this address",
            {"www-authenticate": 'Basic realm="a run of Helm"'},
        )

    async def answer(self, ctx: Context, run: DeploymentRow, request: RunMessage) -> RunAnswer:
        match request.method, request.what:
            case "GET", "run":
                return RunAnswer(b"")
            case "GET", "credential":
                return RunAnswer(await _give_credential(ctx, run))
            case "PUT", "plan":
                await _take_plan(ctx, run, request.body)
                return RunAnswer(b"")
            case "PUT", "controllers":
                await _take_controllers(ctx, run, request.body)
                return RunAnswer(b"")
        raise NotAllowed("A Helm run has no such request")


def _credential_in(header: bytes | None) -> str:
    """Returns the password in an `Authorization` header. Empty if there is none."""
    if header is None or not header.lower().startswith(_BASIC_SCHEME):
        return ""
    try:
        return base64.b64decode(header[len(_BASIC_SCHEME) :], validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return ""


async def _give_credential(ctx: Context, run: DeploymentRow) -> bytes:
    """Returns a credential for the cluster, which is made for this run and stored nowhere."""
    service = await ctx.store.reads.resources.get(run.service)
    if service is None:
        raise Conflict("Deploy again: the service of this run was deleted")
    place = await ctx.places.of_environment(ctx.store.reads, service.parent)
    if not isinstance(place.engine, NamespaceAccess):
        raise Conflict(NO_CLUSTER)
    spec = service.read(Helm)
    await _refuse_beside(ctx, service)
    try:
        credential = await place.engine.namespace_credential(
            service.parent,
            service.org,
            run=run.id,
            seconds=(spec.timeout_sec or ctx.settings.run_seconds) + CREDENTIAL_MARGIN_SECONDS,
            has_whole_cluster=spec.allow_cluster_wide_resources,
        )
    except EngineUnavailable as error:
        raise Unavailable(str(error)) from error
    except EngineError as error:
        raise Conflict(str(error)) from error
    await _refuse_beside(ctx, service)  # it may have got this permission meanwhile
    return msgspec.json.encode(credential)


async def _refuse_beside(ctx: Context, service: Row) -> None:
    """Refuses a run with rights only in the namespace beside a service that may change the whole cluster: the
    chart could change the record of that service's release, which Helm keeps in the namespace and trusts."""
    if service.read(Helm).allow_cluster_wide_resources:
        return
    for other in await ctx.store.reads.resources.of_parent(service.parent, helm.name):
        if (spec := other.read(Helm)).allow_cluster_wide_resources:
            raise Conflict(
                "Create this service in another environment, and delete it here with skipReconcile: "
                f"{spec.name} has allow_cluster_wide_resources, and other charts of its environment could "
                "get this permission"
            )


async def end_credential(ctx: Context, service: Row, run: DeploymentRow) -> None:
    """Ends the credential of a run for the cluster. One that cannot be ended now ends by itself."""
    place = await ctx.places.of_environment(ctx.store.reads, service.parent)
    if not isinstance(place.engine, NamespaceAccess):
        return
    try:
        await place.engine.revoke_credential(service.parent, run.id)
    except EngineError as error:
        _log.warning(
            "the credential of a run ends only by itself", extra={"deployment": run.id, "why": str(error)}
        )


async def _take_plan(ctx: Context, run: DeploymentRow, body: bytes) -> None:
    try:
        sent = read_json(body, SentManifests)
        compared = await ctx.calls.run(run.org, compare, sent.before, sent.after, sent.namespace)
    except (BadJson, ChartError) as error:
        raise Invalid(str(error)) from error
    except OutOfBounds as error:
        raise Conflict(f"Make the chart smaller: its objects cannot be compared: {error}") from error
    if ctx.logs.masks.of(run.id) is None:  # another server may have started the run
        await find_secrets(ctx, run.id)
    plan = ReleasePlan(_masked(ctx, run, compared), sent.revision)

    async def store(tx: Tx) -> None:
        current = await tx.deployments.get(run.id)
        if current is None or current.status != run.status:
            raise Conflict("Deploy again: the deployment of this run has ended")
        await put_plan(ctx, tx, run, plan)

    await ctx.store.write(store)


async def _take_controllers(ctx: Context, run: DeploymentRow, body: bytes) -> None:
    """Adds to the plan how the run has left the release, so that later changes by others are noticed."""
    try:
        sent = read_json(body, SentControllers)
    except BadJson as error:
        raise Invalid(str(error)) from error
    stored = await ctx.store.reads.plans.get(run.id)
    if stored is None:
        raise Conflict("Send the plan of the run first")
    plan = replace(plan_in(ctx, stored), controllers=sent.controllers)

    async def store(tx: Tx) -> None:
        await put_plan(ctx, tx, run, plan)

    await ctx.store.write(store)


def _masked(ctx: Context, run: DeploymentRow, compared: ManifestDifference) -> ManifestDifference:
    """Hides the values of secret variables wherever the chart writes them."""
    mask = ctx.logs.masks.of(run.id) or EMPTY_MASK
    changes = [replace(change, difference=mask.text(change.difference)) for change in compared.changes]
    return ManifestDifference(changes, compared.services)
