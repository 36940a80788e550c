"""Fetches the charts that a chart of git needs, unless its repository has them.

Their versions are those of Chart.lock, or exact ones of Chart.yaml: a range would give another chart at the
next deployment of the same commit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from windlass.base.errors import Invalid
from windlass.base.file_names import read_beginning
from windlass.base.subprocesses import in_thread
from windlass.control.context.context import Context
from windlass.control.services.repository_files import file_inside
from windlass.control.workloads.build_input import BuildInput
from windlass.helm.chart_error import ChartError
from windlass.helm.chart_files import LOCK_FILE, ChartDependency, ChartDescription, read_lock
from windlass.helm.charts import ChartRepositoryReader, FetchedChart
from windlass.helm.families.helm_repository import (
    OCI_SCHEME,
    HelmRepository,
    HelmRepositoryConfig,
    RepositoryWord,
)
from windlass.registries.refusals import Problem, RegistryFailure

MAX_DESCRIPTION_BYTES: Final = 1024 * 1024
_FOLDER: Final = "charts"
_EXACT_PATTERN: Final = re.compile(r"v?[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?\Z")
_ADDRESS_PATTERN: Final = re.compile(r"(https|oci)://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?\Z")


async def add_dependencies(
    ctx: Context, build_input: BuildInput, chart: Path, description: ChartDescription
) -> None:
    """Fetches the dependencies that the folder `charts` lacks. Raises ChartError or RegistryFailure."""
    missing = await in_thread(_missing, chart, description.dependencies)
    if not missing:
        return
    lock = await in_thread(_lock_in, chart)
    locked = await ctx.calls.run(build_input.service.org, read_lock, lock) if lock else ()
    versions = {needed.name: needed for needed in locked}
    for needed in missing:
        exact = versions.get(needed.name, needed)
        if not _EXACT_PATTERN.match(exact.version):
            raise ChartError(
                f"Run `helm dependency update`, and commit {LOCK_FILE}: the chart needs {needed.name} in the "
                f"version {needed.version or 'any'}, which may be several"
            )
        address = needed.repository or exact.repository
        if not _ADDRESS_PATTERN.match(address):
            raise ChartError(
                f"Run `helm dependency build`, and commit the folder {_FOLDER}: {needed.name} is missing "
                f"there, and its repository has no address that begins with https:// or {OCI_SCHEME}"
            )
        build_input.say(f"Fetching {needed.name} {exact.version} of {address}, which the chart needs")
        reader = ChartRepositoryReader(ctx, build_input.service.org, _repository(address))
        try:
            fetched = await reader.fetch(needed.name, exact.version)
        except RegistryFailure as failure:
            if failure.problem not in {Problem.LOGIN, Problem.RIGHT}:
                raise
            raise ChartError(
                f"Run `helm dependency build`, and commit the folder {_FOLDER}: {address} gives "
                f"{needed.name} only with a login"
            ) from failure
        await in_thread(_keep, chart, needed.name, fetched)


def _missing(chart: Path, dependencies: Sequence[ChartDependency]) -> list[ChartDependency]:
    folder = chart / _FOLDER
    present = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return [
        needed
        for needed in dependencies
        if not any(entry == needed.name or entry.startswith(f"{needed.name}-") for entry in present)
    ]


def _lock_in(chart: Path) -> bytes:
    """Returns the content of Chart.lock; empty if there is none."""
    try:
        return read_beginning(chart, file_inside(chart, LOCK_FILE, "root_path"), MAX_DESCRIPTION_BYTES)
    except (Invalid, OSError):
        return b""


def _keep(chart: Path, name: str, fetched: FetchedChart) -> None:
    folder = chart / _FOLDER
    if folder.is_symlink():
        raise ChartError(f"Make {_FOLDER} a folder of the chart: it is a link")
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / f"{name}-{fetched.version}.tgz").write_bytes(fetched.archive)


def _repository(address: str) -> HelmRepository:
    """Returns the repository at an address, without a login: only services that name a repository of the
    organization may use its login."""
    url = address.rstrip("/")
    kind: RepositoryWord = "OCI_GENERIC_CR" if url.startswith(OCI_SCHEME) else "HTTPS"
    return HelmRepository(name=url, kind=kind, url=url, config=HelmRepositoryConfig())
