"""Reads chart repositories: the versions of charts, and their archives, whose digests are verified."""

from __future__ import annotations

import hashlib
import re
from typing import Annotated, Final
from urllib.parse import urljoin, urlsplit

from msgspec import Meta, Struct, to_builtins

from windlass.base.bounded import OutOfBounds
from windlass.base.foreign_json import BadJson, read_json
from windlass.control.context.context import Context
from windlass.control.workloads.registries import login_of
from windlass.core.declare.stored import read_decoded
from windlass.engines.registries import RegistryLogin, is_loopback, repository_of
from windlass.families.container_registry import ContainerRegistry, RegistryConfig
from windlass.helm.archives import MAX_ARCHIVE_BYTES
from windlass.helm.chart_error import ChartError
from windlass.helm.chart_files import ChartEntry, read_index
from windlass.helm.chart_versions import newest_version_first
from windlass.helm.downloads import Download, basic_authorization, fetch_file
from windlass.helm.families.helm_repository import HTTPS, OCI_SCHEME, HelmRepository
from windlass.registries.client import RegistryClient
from windlass.registries.refusals import Problem, RegistryFailure

MAX_INDEX_BYTES: Final = 32 * 1024 * 1024
MAX_TAGS: Final = 10_000
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_CHART_LAYER: Final = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
_KIND_PREFIX: Final = "OCI_"
_TAG_OF_PLUS: Final = "_"
"""Tags cannot have a plus sign, so that Helm writes another one into them."""
Digest = Annotated[str, Meta(pattern=r"^sha256:[0-9a-f]{64}\Z")]


class FetchedChart(Struct, frozen=True):
    """The archive of a chart, pinned by its digest."""

    archive: bytes
    version: str
    digest: str


class _Layer(Struct):
    mediaType: str
    digest: Digest
    size: Annotated[int, Meta(ge=0)] = 0


class _ChartManifest(Struct):
    layers: list[_Layer]


class ChartRepositoryReader:
    """Reads one repository on behalf of an organization."""

    def __init__(self, ctx: Context, org: str, repository: HelmRepository) -> None:
        self._ctx, self._org, self._repository = ctx, org, repository
        self._is_oci = repository.url.startswith(OCI_SCHEME)

    async def check(self) -> None:
        """Checks that the repository answers and accepts the login. Raises RegistryFailure or ChartError."""
        if self._is_oci:
            await (await self._registry()).check()
        else:
            await self._index()

    async def charts(self) -> dict[str, list[str]]:
        """Returns the versions of all charts, the newest first."""
        if self._is_oci:
            raise ChartError("chartName: name a chart: an OCI registry does not list its charts")
        return {name: [entry.version for entry in entries] for name, entries in (await self._index()).items()}

    async def versions(self, chart: str) -> list[str]:
        """Returns the versions of a chart, the newest first."""
        if not self._is_oci:
            return (await self.charts()).get(chart, [])
        tags = await (await self._registry()).tags(self._name(chart), MAX_TAGS)
        return newest_version_first(tag.replace(_TAG_OF_PLUS, "+") for tag in tags.names)

    async def fetch(self, chart: str, version: str) -> FetchedChart:
        """Returns the archive of a version of a chart. Raises RegistryFailure or ChartError."""
        if self._is_oci:
            return await self._pull(chart, version)
        entries = (await self._index()).get(chart)
        if not entries:
            raise ChartError(f"Choose another chart_name: {self._host} has no chart {chart}")
        entry = next((entry for entry in entries if entry.version in _spellings(version)), None)
        if entry is None:
            newest = ", ".join(entry.version for entry in entries[:5])
            raise ChartError(f"Choose another chart_version: {chart} has no version {version}, but {newest}")
        return await self._download(entry)

    @property
    def _host(self) -> str:
        return urlsplit(self._repository.url).netloc

    async def _login(self) -> RegistryLogin | None:
        """Returns the login of the repository. Each kind of OCI is a kind of container registry."""
        repository, names = self._repository, RegistryConfig.__struct_fields__
        if repository.kind == HTTPS:
            config = repository.config
            return RegistryLogin(config.username, config.password or "") if config.username else None
        config_document = {
            name: value for name, value in to_builtins(repository.config).items() if name in names
        }
        document = {
            "name": repository.name,
            "kind": repository.kind.removeprefix(_KIND_PREFIX),
            "url": _registry_url(repository.url),
            "config": config_document,
        }
        return await login_of(self._ctx, read_decoded(document, ContainerRegistry))

    # Repositories with an index

    async def _index(self) -> dict[str, list[ChartEntry]]:
        url = self._repository.url
        content = await fetch_file(
            self._ctx.out,
            Download(
                url=f"{url}/index.yaml",
                home=url,
                authorization=basic_authorization(await self._login()),
                limit=MAX_INDEX_BYTES,
                what="index.yaml",
            ),
        )
        try:
            return await self._ctx.calls.run(self._org, read_index, content)
        except OutOfBounds as error:
            raise ChartError(f"Use a smaller repository: its index cannot be read: {error}") from error

    async def _download(self, entry: ChartEntry) -> FetchedChart:
        url = urljoin(f"{self._repository.url}/", entry.url)
        parts = urlsplit(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(url)):
            raise ChartError(
                f"Ask the owner of the repository to offer {entry.version} over https: it is at {url[:200]}"
            )
        archive = await fetch_file(
            self._ctx.out,
            Download(
                url=url,
                home=self._repository.url,
                authorization=basic_authorization(await self._login()),
                limit=MAX_ARCHIVE_BYTES,
                what=f"the archive of {entry.version}",
            ),
        )
        return _verified(archive, entry.version, entry.digest)

    # Registries of OCI

    async def _registry(self) -> RegistryClient:
        repository = self._repository
        return RegistryClient(
            self._ctx.out,
            repository.kind.removeprefix(_KIND_PREFIX),
            _registry_url(repository.url),
            await self._login(),
            self._ctx.registry_pauses,
        )

    def _name(self, chart: str) -> str:
        """Returns the name of a chart inside its registry."""
        folder = urlsplit(self._repository.url).path.strip("/")
        return repository_of(_registry_url(self._repository.url), f"{folder}/{chart}".lstrip("/"))

    async def _pull(self, chart: str, version: str) -> FetchedChart:
        registry, name = await self._registry(), self._name(chart)
        content = await registry.manifest(name, version.replace("+", _TAG_OF_PLUS), _MANIFEST)
        try:
            manifest = read_json(content, _ChartManifest)
        except BadJson as error:
            raise ChartError(
                f"Choose another chart: {chart} {version} of {self._host} is not a chart ({error})"
            ) from error
        layer = next((layer for layer in manifest.layers if layer.mediaType == _CHART_LAYER), None)
        if layer is None:
            raise ChartError(
                f"Choose another chart: {chart} {version} of {self._host} is an image, not a chart"
            )
        url, headers = registry.blob_request(name, layer.digest)
        archive = await fetch_file(
            self._ctx.out,
            Download(
                url=url,
                home=url,
                authorization=headers.get("Authorization", ""),
                limit=MAX_ARCHIVE_BYTES,
                what=f"the archive of {chart}",
            ),
        )
        return _verified(archive, version, layer.digest.removeprefix("sha256:"))


def _verified(archive: bytes, version: str, expected: str) -> FetchedChart:
    digest = hashlib.sha256(archive).hexdigest()
    if expected and digest != expected:
        raise ChartError(
            f"Ask the owner of the repository to publish {version} again: its archive has the digest "
            f"{digest[:12]}…, "
            f"but the repository announces {expected[:12]}…"
        )
    return FetchedChart(archive, version, digest)


def _spellings(version: str) -> tuple[str, str]:
    return version, version.removeprefix("v") if version.startswith("v") else f"v{version}"


def _registry_url(url: str) -> str:
    """Returns the address of the registry of an OCI repository. Registries on this machine speak plain
    HTTP."""
    host = re.split("/", url.removeprefix(OCI_SCHEME), maxsplit=1)[0]
    plain = f"http://{host}"
    return plain if is_loopback(plain) else f"https://{host}"


def problem_of(error: ChartError | RegistryFailure) -> Problem:
    return error.problem if isinstance(error, RegistryFailure) else Problem.NOT_A_REGISTRY
