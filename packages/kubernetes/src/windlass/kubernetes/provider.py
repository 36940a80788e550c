"""The provider of the Kubernetes engine; see `windlass.engines.provider`.

Modules for an open engine are imported only when an engine is opened.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from msgspec.structs import replace

from windlass.base.addresses import Reach
from windlass.base.errors import BadSetting, Invalid
from windlass.base.subprocesses import in_thread
from windlass.builders.publisher import ImagePublisher
from windlass.engines.engine import EngineError
from windlass.engines.findings import Finding, fail, ok, warn
from windlass.engines.provider import (
    Availability,
    EngineReport,
    OpenedEngine,
    RemoteEngine,
    Server,
    SharedResource,
    StartReport,
)
from windlass.engines.registries import BuildRegistry, RegistryLogin
from windlass.engines.servers import NoServers
from windlass.kubernetes.access import (
    BadAccess,
    ClusterAccess,
    pod_account,
    pod_namespace,
    read_kubeconfig,
)
from windlass.kubernetes.settings import OwnKubernetesSettings

if TYPE_CHECKING:
    from windlass.kubernetes.engine import KubernetesEngine

NAME: Final = "kubernetes"
_ANYWHERE: Final = ("0.0.0.0/0", "::/0")
_NAMESPACE_PATTERN: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NO_ACCESS: Final = (
    "kubernetes_config: name a kubeconfig file, or run Windlass in a Pod of the cluster with a service "
    "account"
)


def make_engine(
    access: ClusterAccess,
    allowed_addresses: Reach,
    *,
    folder: Path,
    installation: str,
    helper_image: str,
    storage_class: str = "",
    allowed_sources: Sequence[str] = (),
    name: str = "",
    expected_id: str = "",
    registry: BuildRegistry | None = None,
    publisher: ImagePublisher | None = None,
) -> KubernetesEngine:
    """Returns an engine that is not connected yet."""
    from windlass.kubernetes.api import ClusterApi  # noqa: PLC0415 (see above)
    from windlass.kubernetes.builder import NoBuilder  # noqa: PLC0415 (see above)
    from windlass.kubernetes.engine import KubernetesEngine  # noqa: PLC0415 (see above)
    from windlass.kubernetes.manifests import ClusterOptions  # noqa: PLC0415 (see above)

    options = ClusterOptions(
        installation=installation,
        helper_image=helper_image,
        storage_class=storage_class,
        allowed_sources=tuple(allowed_sources),
    )
    return KubernetesEngine(
        ClusterApi(access, allowed_addresses, name),
        folder=folder,
        options=options,
        allowed_addresses=allowed_addresses,
        expected_id=expected_id,
        registry=registry,
        publisher=publisher or NoBuilder(),
    )


class KubernetesSettings(OwnKubernetesSettings, frozen=True, kw_only=True):
    build_registry: BuildRegistry | None = None
    outbound_allow: Sequence[str] = ()

    @property
    def pulled_registry(self) -> BuildRegistry | None:
        """The registry of the installation, with the login for nodes."""
        name, password = self.kubernetes_registry_username, self.kubernetes_registry_password
        if self.build_registry is None or not name:
            return self.build_registry
        return replace(self.build_registry, pull_login=RegistryLogin(name, password))


class KubernetesProvider:
    name = NAME
    word = "KUBERNETES"
    takes: Literal["image"] = "image"
    rank = -10
    is_of_server = False
    settings_type = KubernetesSettings

    async def presence(self, settings: KubernetesSettings) -> Availability:
        """Returns that it is not there: `auto` never takes this engine, which has to be chosen by its
        name."""
        return Availability(False, "the engine kubernetes is used only where the setting engine names it")

    async def open(self, settings: KubernetesSettings, server: Server) -> OpenedEngine:
        access = await in_thread(access_of, settings)
        publisher = _publisher(server, server.folder / NAME, settings.pulled_registry, None)
        engine = make_engine(
            access,
            Reach(_ANYWHERE),
            folder=server.folder / NAME,
            installation=server.installation,
            helper_image=settings.kubernetes_helper_image,
            storage_class=settings.kubernetes_storage_class,
            allowed_sources=sources_of(settings),
            registry=settings.pulled_registry,
            publisher=publisher,
        )
        return OpenedEngine(engine=engine, builder=publisher, servers=NoServers())

    def folders(self, data: Path) -> Sequence[Path]:
        return ()

    async def start_report(self, settings: KubernetesSettings) -> StartReport:
        return StartReport()

    async def shared_resource(self, settings: KubernetesSettings) -> SharedResource | None:
        return None

    async def server_host(self, settings: KubernetesSettings) -> str:
        return ""

    def service_of(self, pid: int, data: Path) -> str:
        return ""

    async def diagnose_presence(self, settings: KubernetesSettings, *, is_used: bool) -> Finding | None:
        if not is_used:
            return None
        try:
            access = await in_thread(access_of, settings)
        except BadSetting as error:
            return fail("Kubernetes", str(error), "or choose another engine with --engine")
        return ok("Kubernetes", f"the API server is {access.server}")

    async def diagnose(self, settings: KubernetesSettings) -> AsyncIterator[Finding]:
        from windlass.kubernetes.checks import check_cluster  # noqa: PLC0415 (see above)

        if settings.build_registry is not None and not settings.kubernetes_registry_username:
            yield warn(
                "Login of the nodes",
                "the nodes have registry_username, which pushes, and charts can read it",
                "set kubernetes_registry_username to a user of the registry that may only pull",
            )
        try:
            access = await in_thread(access_of, settings)
        except BadSetting:
            return  # the check of the presence reports it
        async for finding in check_cluster(access, Reach(_ANYWHERE)):
            yield finding

    # Clusters of organizations

    def connect(
        self,
        remote: RemoteEngine,
        allowed_addresses: Reach,
        settings: KubernetesSettings,
        server: Server,
        folder: Path,
    ) -> OpenedEngine:
        publisher = _publisher(server, folder / NAME, remote.registry, Reach(settings.outbound_allow))
        engine = make_engine(
            remote_access(remote),
            allowed_addresses,
            folder=folder / NAME,
            installation=server.installation,
            helper_image=settings.kubernetes_helper_image,
            storage_class=settings.kubernetes_storage_class,
            allowed_sources=remote.allow_from,
            name=remote.name,
            expected_id=remote.engine_id,
            registry=remote.registry,
            publisher=publisher,
        )
        connected = remote

        async def reconnect(remote: RemoteEngine) -> None:
            nonlocal connected
            former, connected = connected, remote
            engine.logins.use(remote.registry)
            publisher.use(remote.registry)
            engine.accept_from(remote.allow_from)
            if (former.config, former.engine_id) != (remote.config, remote.engine_id):
                await engine.move(remote_access(remote), remote.engine_id)

        return OpenedEngine(engine=engine, builder=publisher, servers=NoServers(), reconnect=reconnect)

    async def identity(self, remote: RemoteEngine, allowed_addresses: Reach) -> str:
        from windlass.kubernetes.checks import refuse_unusable  # noqa: PLC0415 (see above)

        try:
            access = await in_thread(read_kubeconfig, remote.config)
            return await refuse_unusable(access, allowed_addresses, remote.name)
        except (BadAccess, EngineError) as error:
            raise Invalid(
                f"kubeconfig: {error}".replace("kubeconfig: kubeconfig: ", "kubeconfig: ")
            ) from error

    async def report(self, remote: RemoteEngine, allowed_addresses: Reach, installation: str) -> EngineReport:
        from windlass.kubernetes.checks import report_of  # noqa: PLC0415 (see above)

        return await report_of(remote_access(remote), allowed_addresses, remote.name, installation)


def _publisher(
    server: Server, folder: Path, registry: BuildRegistry | None, allowed_registries: Reach | None
) -> ImagePublisher:
    from windlass.kubernetes.builder import NoBuilder  # noqa: PLC0415 (see above)

    if server.open_publisher is None:
        return NoBuilder()
    publisher = server.open_publisher(server.installation, folder / "builds", allowed_registries)
    publisher.use(registry)
    return publisher


def remote_access(remote: RemoteEngine) -> ClusterAccess:
    """Returns the access of a stored cluster, whose kubeconfig was read before. Raises EngineError."""
    try:
        return read_kubeconfig(remote.config)
    except BadAccess as error:
        raise EngineError(f"Send the kubeconfig of the cluster {remote.name} again: {error}") from error


def access_of(settings: KubernetesSettings) -> ClusterAccess:
    """Returns the access that the settings name. Raises BadSetting."""
    if not settings.kubernetes_config:
        if account := pod_account():
            return account
        raise BadSetting(_NO_ACCESS)
    try:
        return read_kubeconfig(Path(settings.kubernetes_config).read_text())
    except BadAccess as error:
        raise BadSetting(f"kubernetes_config: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(f"kubernetes_config: the file cannot be read: {error}") from error


def sources_of(settings: OwnKubernetesSettings) -> Sequence[str]:
    """Returns the namespaces and networks from which connections are accepted: that of the Pod in which this
    server and its gateway run, if they run in one, and those of the setting. Raises BadSetting."""
    for source in settings.kubernetes_allow_from:
        if not (_is_network(source) if "/" in source else _NAMESPACE_PATTERN.fullmatch(source)):
            raise BadSetting(
                f"kubernetes_allow_from: {source!r} is neither a namespace, such as ingress-nginx, nor a "
                "network, such as 10.0.0.5/32"
            )
    return tuple(dict.fromkeys(filter(None, (pod_namespace(), *settings.kubernetes_allow_from))))


def _is_network(text: str) -> bool:
    try:
        ip_network(text)
    except ValueError:
        return False
    return True
