"""Reads a chart before a Helm service is created from it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from windlass.base import ids
from windlass.base.errors import Conflict, Invalid
from windlass.base.file_names import read_beginning
from windlass.base.subprocesses import in_thread
from windlass.control.context.call import Call, Reply, encode, reads
from windlass.control.context.context import Context
from windlass.control.request.paths import target
from windlass.control.request.references import check_reference
from windlass.control.services.repository_files import file_inside, look_into
from windlass.control.workloads.work_folders import DETECTION_PREFIX, work_folder
from windlass.helm.archives import unpack
from windlass.helm.chart_error import ChartError
from windlass.helm.chart_files import ChartDescription
from windlass.helm.chart_folders import described
from windlass.helm.charts import ChartRepositoryReader
from windlass.helm.families.helm_checks import DefaultValuesRequest, HelmCheckRequest
from windlass.helm.families.helm_repository import helm_repository
from windlass.helm.families.shapes import MAX_VALUES_LENGTH, ChartRepository, check_source
from windlass.helm.repositories import chart_failure_answer, repository_settings
from windlass.registries.refusals import RegistryFailure

VALUES_FILE: Final = "values.yaml"
_TEXT: Final = {"content-type": "text/plain; charset=utf-8"}


@reads("environment.checkHelmRepository")
async def check_chart(ctx: Context, call: Call) -> Reply:
    asked = call.sent(HelmCheckRequest)

    async def describe(org: str, folder: Path) -> ChartDescription:
        return await described(ctx, org, folder)

    try:
        found = await look_into(ctx, call, asked.git_repository, "git_repository", "chart", describe)
    except ChartError as error:
        raise Invalid(f"git_repository.root_path: {error}") from error
    return Reply(encode({"chart_name": found.name, "chart_version": found.version}))


@reads("environment.helmDefaultValues")
async def read_default_values(ctx: Context, call: Call) -> Reply:
    source = call.sent(DefaultValuesRequest).source
    check_source(source)
    if repository := source.git_repository:

        async def read(org: str, folder: Path) -> bytes:
            await described(ctx, org, folder)
            return await in_thread(_values_in, folder)

        try:
            content = await look_into(ctx, call, repository, "source.git_repository", "chart values", read)
        except ChartError as error:
            raise Invalid(f"source.git_repository.root_path: {error}") from error
        return Reply(content, headers=_TEXT)
    chart = source.helm_repository
    assert isinstance(chart, ChartRepository)
    return Reply(await _values_of_chart(ctx, call, chart), headers=_TEXT)


async def _values_of_chart(ctx: Context, call: Call, chart: ChartRepository) -> bytes:
    reads_of_store, environment = ctx.store.reads, await target(ctx.store.reads, call)
    path, id = "source.helm_repository.repository", str(chart.repository)
    await check_reference(reads_of_store, path, helm_repository.name, id, environment.org, call.actor)
    row = await reads_of_store.resources.find(helm_repository.name, id)
    assert row is not None
    reader = ChartRepositoryReader(ctx, row.org, repository_settings(ctx, row))
    try:
        fetched = await reader.fetch(chart.chart_name, chart.chart_version)
        async with work_folder(ctx, f"{DETECTION_PREFIX}{ids.new_id()}") as folder:
            await in_thread(unpack, fetched.archive, folder / "chart")
            await described(ctx, row.org, folder / "chart")
            return await in_thread(_values_in, folder / "chart")
    except (RegistryFailure, ChartError) as error:
        raise chart_failure_answer(error) from error


def _values_in(chart: Path) -> bytes:
    """Returns the values of a chart; empty if it has none."""
    if not (chart / VALUES_FILE).exists():
        return b""
    content = read_beginning(chart, file_inside(chart, VALUES_FILE, "root_path"), MAX_VALUES_LENGTH + 1)
    if len(content) > MAX_VALUES_LENGTH:
        raise Conflict(
            f"Read it in the chart itself: {VALUES_FILE} has more than {MAX_VALUES_LENGTH >> 20} MiB"
        )
    return content
