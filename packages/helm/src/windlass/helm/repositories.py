"""Helm repositories. They are checked when saved and on request, and cannot be deleted while services use
them."""

from __future__ import annotations

from typing import Final

import msgspec

from windlass.base.clock import stamp
from windlass.base.errors import Conflict, Failure, Invalid, Unavailable
from windlass.control.context.call import Call, Reply, encode, prepares, reads, results, writes
from windlass.control.context.context import Context
from windlass.control.records.deployments import name_of
from windlass.control.request.behaviour import Behaviour, Change, Draft, behaves
from windlass.control.request.changing import changeable
from windlass.control.request.hidden_fields import decrypt_hidden
from windlass.control.request.paths import parent_to_create_in, target
from windlass.control.request.reading import paging, slice_of
from windlass.control.request.references import check_addresses
from windlass.control.services.container_registries import services_that_use
from windlass.core.declare.document import Document, merge_patched, replace_spec, sent_in, with_hidden
from windlass.core.declare.resource import Spec, Verb
from windlass.core.declare.stored import read_decoded, rewritten
from windlass.families.container_registry import RegistryCheck
from windlass.helm.chart_error import ChartError
from windlass.helm.charts import ChartRepositoryReader, problem_of
from windlass.helm.families.helm_repository import (
    REPOSITORY_KINDS,
    ChartsQuery,
    HelmRepository,
    helm_repository,
)
from windlass.registries.refusals import Problem, RegistryFailure
from windlass.store import Row, Tx

_CHECK_NAME: Final = "check"
_MAX_NAMED_SERVICES: Final = 5
_FIELDS: Final = {Problem.LOGIN: "config", Problem.RIGHT: "config"}
"""The field to report for a kind of problem; by default the address."""


def repository_settings(ctx: Context, row: Row) -> HelmRepository:
    """Returns the settings of a stored repository, with its secrets."""
    document = with_hidden(msgspec.json.decode(row.body), decrypt_hidden(ctx, row))
    return read_decoded(document, HelmRepository)


def chart_failure_answer(error: ChartError | RegistryFailure) -> Failure:
    """Returns the API's error for a chart that cannot be read."""
    if problem_of(error) is Problem.RATE_LIMIT:
        return Unavailable(str(error))
    return Conflict(str(error))


@prepares(f"{helm_repository.name}.{Verb.CREATE}")
async def check_new_repository(ctx: Context, call: Call) -> None:
    """Checks a repository before it is stored."""
    above = await parent_to_create_in(ctx.store.reads, call)
    spec = call.sent(HelmRepository)
    helm_repository.normalise(spec)
    call.prepared[_CHECK_NAME] = await _check_to_save(ctx, above.id, spec)


@prepares(*(f"{helm_repository.name}.{verb}" for verb in (Verb.UPDATE, Verb.PATCH)))
async def check_changed_repository(ctx: Context, call: Call) -> None:
    """Checks a repository before a changed address or login is stored."""
    row = await target(ctx.store.reads, call)
    before: Document = msgspec.json.decode(row.body)
    hidden = decrypt_hidden(ctx, row)
    changes = changeable(helm_repository, before, sent_in(call.sent(Spec)))
    merge = merge_patched if call.operation.handler.endswith(f".{Verb.PATCH}") else replace_spec
    spec = merge(helm_repository, before, hidden, changes)
    assert isinstance(spec, HelmRepository)
    helm_repository.normalise(spec)
    check_addresses(helm_repository, with_hidden(before, hidden), spec, changes)
    former = repository_settings(ctx, row)
    if (spec.url, spec.config) != (former.url, former.config):
        call.prepared[_CHECK_NAME] = await _check_to_save(ctx, row.org, spec)


async def _check_to_save(ctx: Context, org: str, spec: HelmRepository) -> RegistryCheck:
    """Checks a repository, and returns the outcome. Raises Invalid if it answers but cannot be used."""
    try:
        await ChartRepositoryReader(ctx, org, spec).check()
    except RegistryFailure as failure:
        if not failure.is_silent:
            raise Invalid(f"{_FIELDS.get(failure.problem, 'url')}: {failure}") from failure
        return _outcome(ctx, failure)
    except ChartError as error:
        raise Invalid(f"url: {error}") from error
    return _outcome(ctx, None)


def _outcome(ctx: Context, failure: ChartError | RegistryFailure | None) -> RegistryCheck:
    at = stamp(ctx.clock.now())
    if failure is None:
        return RegistryCheck(status="OK", checked_at=at)
    return RegistryCheck(
        status="FAILED", problem=problem_of(failure).value, message=str(failure), checked_at=at
    )


@prepares(f"{helm_repository.name}.check")
async def look_at_repository(ctx: Context, call: Call) -> None:
    row = await target(ctx.store.reads, call)
    try:
        await ChartRepositoryReader(ctx, row.org, repository_settings(ctx, row)).check()
        call.prepared[_CHECK_NAME] = _outcome(ctx, None)
    except (RegistryFailure, ChartError) as failure:
        call.prepared[_CHECK_NAME] = _outcome(ctx, failure)


@writes(f"{helm_repository.name}.check")
async def note_repository_check(ctx: Context, tx: Tx, call: Call) -> Reply:
    """Stores the outcome of a check in the repository's document. The tag does not change, because no client
    has changed the repository."""
    row, outcome = await target(tx, call), msgspec.to_builtins(call.prepared[_CHECK_NAME])
    await tx.resources.rewrite(row.id, rewritten(row.body, {_CHECK_NAME: outcome}))
    return Reply(encode(outcome))


@behaves(helm_repository)
class HelmRepositories(Behaviour[HelmRepository]):
    async def creating(self, ctx: Context, tx: Tx, draft: Draft[HelmRepository]) -> None:
        draft.extras[_CHECK_NAME] = msgspec.to_builtins(draft.extras[_CHECK_NAME])

    async def updating(self, ctx: Context, tx: Tx, change: Change[HelmRepository]) -> None:
        if _CHECK_NAME in change.extras:
            change.extras[_CHECK_NAME] = msgspec.to_builtins(change.extras[_CHECK_NAME])

    async def updated(self, ctx: Context, tx: Tx, row: Row) -> None:
        """Updates the services whose documents contain this repository."""
        for service in await services_that_use(ctx, tx, row):
            changes = ctx.kinds[service.family].with_registry(service, row)
            await tx.resources.rewrite(service.id, rewritten(service.body, changes))

    async def deleting(self, ctx: Context, tx: Tx, row: Row) -> None:
        names = sorted(name_of(service) for service in await services_that_use(ctx, tx, row))
        if names:
            shown = ", ".join(names[:_MAX_NAMED_SERVICES]) + (
                ", …" if len(names) > _MAX_NAMED_SERVICES else ""
            )
            raise Conflict(
                f"Give the services that use it another repository, or delete them: {len(names)} use it "
                f"({shown})"
            )


# Charts, and kinds of repositories


@reads(f"{helm_repository.name}.charts")
async def list_charts(ctx: Context, call: Call) -> Reply:
    row, query = await target(ctx.store.reads, call), call.asked(ChartsQuery)
    reader = ChartRepositoryReader(ctx, row.org, repository_settings(ctx, row))
    try:
        if query.chartName:
            charts = {query.chartName: await reader.versions(query.chartName)}
        else:
            charts = await reader.charts()
    except (RegistryFailure, ChartError) as error:
        raise chart_failure_answer(error) from error
    items = [(name, versions) for name, versions in charts.items() if versions]
    page = items[slice_of(call)] if call.paging_asked else items
    bodies = [encode({"chart_name": name, "versions": versions}) for name, versions in page]
    return Reply(results(bodies, *paging(call), len(items)))


@reads("listAvailableHelmRepository")
async def list_available_repositories(ctx: Context, call: Call) -> Reply:
    return Reply(_AVAILABLE)


_AVAILABLE: Final = encode(
    {
        "results": [
            {
                "kind": word,
                "required_config": dict.fromkeys(kind.required, "string"),
                "is_mandatory": bool(kind.required),
                "optional_config": dict.fromkeys(kind.optional, "string"),
            }
            for word, kind in REPOSITORY_KINDS.items()
        ]
    }
)
