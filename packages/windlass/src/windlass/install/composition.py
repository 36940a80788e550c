"""Builds the parts of an installation: its data directory, its store, its keys and its context."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from windlass.base.acme import AuthorityHttp
from windlass.base.acme.signing import ExternalAccount
from windlass.base.clock import SECOND, Clock, SystemClock
from windlass.base.dns import DnsClient, parse_server
from windlass.base.encryption import Encryption
from windlass.base.http_out import HttpSender
from windlass.base.http_out.tls_visits import TlsVisits
from windlass.base.ids import new_id
from windlass.base.log import log
from windlass.base.private import close_to_others, is_traversable, private_folder
from windlass.base.zones.provider import BadZoneSetting, ZoneAccess, ZoneProvider, open_provider
from windlass.config import DATABASE, BadSetting, Settings
from windlass.control.background.clock_set_back import follow_earlier_clock
from windlass.control.background.housekeeping import (
    SCALE,
    SCALE_ELSEWHERE,
    SCALE_INTERVAL,
    SWEEP,
    TIDY,
    TIDY_ELSEWHERE,
)
from windlass.control.background.key_rotation import KeyRotation
from windlass.control.background.service_data import INSTALLATION_KEY, set_service_aside
from windlass.control.context.authority import Authority, Visits
from windlass.control.context.context import Context, OutgoingHttp, Routing, no_point
from windlass.control.context.git_reader import LimitedGitReader
from windlass.control.context.log_store import LOGS_FOLDER, Logs
from windlass.control.context.neighbours import Neighbours
from windlass.control.context.nudges import Nudges
from windlass.control.context.ownership import Ownership
from windlass.control.context.place import Place
from windlass.control.context.places import LOCAL_ID, Places
from windlass.control.context.shared_readers import SharedReaders
from windlass.control.context.upload_files import UPLOADS_FOLDER, UploadFiles
from windlass.control.context.usage_files import USAGE_FOLDER, UsageFiles
from windlass.control.context.variable_digests import VariableDigests
from windlass.control.kinds.service_kind import AnyKind
from windlass.control.people.organizations import NO_PARENT, found_organization
from windlass.control.records.own_certificates import schedule_shared
from windlass.control.records.sealed_workload import find_secrets
from windlass.control.records.sealing_keys import CURRENT_KEY_FACT, read_keys, unlock
from windlass.control.request.creating import NewResource, create_in
from windlass.control.services.clusters import find_access
from windlass.core.access import SYSTEM
from windlass.core.declare.registry import Registry, runs_once
from windlass.families.cluster import THIS_MACHINE, Cluster, cluster
from windlass.families.organization import Organization, organization
from windlass.install.key import check_keys, given_keys, load_encryption
from windlass.install.ownership import (
    OwnershipReport,
    PartsFor,
    holdings,
)
from windlass.install.parts import Parts
from windlass.routers.sites.store import SITES_FOLDER, SiteStore
from windlass.sources.push import repositories_of
from windlass.store import FIRST_PLACE, Row, Store, Tx

_log = log("main")
_PASSABLE_FOLDERS = ("run", "builds", "databases")
"""Folders that other users may traverse: services that run as their own users reach their files through
them."""
_MAX_ATTEMPTS, _RETRY_PAUSE = 11, 0.1


def make_private(folder: Path) -> None:
    """Denies other users access to the data directory. Logs a warning if they could read files of it until
    now."""
    private_folder(folder)
    if (exposed := close_to_others(folder, passable=_PASSABLE_FOLDERS)) and is_traversable(folder):
        _log.warning(
            "other users of this machine could read files of the data directory until now. If other people "
            "have accounts here, replace the secrets in these files",
            extra={"files": exposed},
        )


def assemble(
    settings: Settings,
    id: str,
    local_parts: Parts,
    store: Store,
    clock: Clock,
    encryption: Encryption,
    transport: OutgoingHttp,
    families: Registry,
    kinds: Mapping[str, AnyKind],
    point: Callable[[str], Awaitable[None]] | None,
) -> Context:
    folder = Path(settings.data_dir)
    ctx = Context(
        settings=settings,
        installation=id,
        registry=families,
        kinds=kinds,
        store=store,
        clock=clock,
        encryption=encryption,
        places=Places(
            _local(local_parts, settings), store.reads, lambda id: find_access(ctx, id), local_parts.connector
        ),
        git=local_parts.git,
        git_reader=LimitedGitReader(local_parts.git),
        calls=local_parts.calls,
        logs=Logs(folder / LOGS_FOLDER, settings.log_retention_bytes, settings.log_retention_days, clock),
        nudges=Nudges(store),
        readers=SharedReaders(),
        neighbours=Neighbours(),
        variable_digests=VariableDigests(store.reads),
        out=transport,
        dns=(dns := dns_client(settings)),
        zones=zone_provider(settings, transport, dns),
        authority=Authority(
            settings.acme_directory,
            _authority_http(settings, settings.acme_directory),
            _external_account(settings.acme_key_id, settings.acme_key),
        ),
        fallback=Authority(
            settings.acme_fallback_directory,
            _authority_http(settings, settings.acme_fallback_directory),
            _external_account(settings.acme_fallback_key_id, settings.acme_fallback_key),
        )
        if settings.acme_fallback_directory
        else None,
        visits=Visits(
            HttpSender(settings.outbound_allow, resolve=dns.addresses), TlsVisits(settings.outbound_allow)
        ),
        work=folder.absolute() / "work",
        sites=SiteStore(folder.absolute() / SITES_FOLDER, settings.disk_reserve_bytes),
        uploads=UploadFiles(
            folder.absolute() / UPLOADS_FOLDER, settings.upload_reserve_bytes, settings.disk_reserve_bytes
        ),
        usage_files=UsageFiles(folder.absolute() / USAGE_FOLDER),
        pushed=repositories_of(settings),
        routing=Routing(),
        server=local_parts.server,
        ownership=Ownership(settings.place, local_parts.owner, local_parts.home),
        point=point or no_point,
    )
    ctx.logs.find_secrets = partial(find_secrets, ctx)
    for name, kind in kinds.items():
        if runs_once(kind.family):
            ctx.meters.expect_runs(name, may_skip=kind.has_runs)
    return ctx


def way_out(settings: Settings) -> HttpSender:
    trust = _make_tls_context(settings.outbound_ca_file) if settings.outbound_ca_file else None
    try:
        return HttpSender(settings.outbound_allow, settings.outbound_proxy, trust=trust)
    except ValueError as error:
        raise BadSetting(str(error)) from error


def dns_client(settings: Settings) -> DnsClient:
    try:
        return DnsClient([parse_server(server) for server in settings.dns_servers])
    except ValueError as error:
        raise BadSetting(f"dns_servers: name addresses, such as 192.0.2.53:53: {error}") from error


def zone_provider(settings: Settings, transport: OutgoingHttp, dns: DnsClient) -> ZoneProvider | None:
    if not settings.dns_provider:
        return None
    access = ZoneAccess(
        credentials=settings.dns_credentials,
        server=settings.dns_update_server,
        command=settings.dns_hook,
        domain=settings.public_domain.lower(),
        out=transport,
        dns=dns,
    )
    try:
        return open_provider(settings.dns_provider, access)
    except BadZoneSetting as error:
        raise BadSetting(str(error)) from error


def _authority_http(settings: Settings, directory: str) -> AuthorityHttp:
    file = settings.acme_ca_file
    trust = _make_tls_context(file, "acme_ca_file") if file else None
    return AuthorityHttp(directory, trust, settings.outbound_allow, settings.outbound_proxy)


def _external_account(id: str, key: str) -> ExternalAccount | None:
    return ExternalAccount(id, key) if id else None


def _make_tls_context(file: str, setting: str = "outbound_ca_file") -> ssl.SSLContext:
    """Returns a TLS context that trusts the authorities of the system and of a PEM file."""
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(cafile=file)
    except (OSError, ssl.SSLError) as error:
        raise BadSetting(
            f"{setting}: name a file with certificates in PEM: {file} cannot be read as one"
        ) from error
    return context


async def open_store(settings: Settings, clock: Clock, attempts: int = _MAX_ATTEMPTS) -> Store:
    if settings.database_url:
        from windlass.store.postgres import PostgresStore  # noqa: PLC0415 (asyncpg is heavy, and often not needed)

        return await PostgresStore.open(settings.database_url, clock)
    from windlass.store.sqlite import InUse, SqliteStore  # noqa: PLC0415 (only one database is used)

    # A killed server's child process keeps the database lock from its fork until its exec.
    for _ in range(attempts - 1):
        with suppress(InUse):
            return await SqliteStore.open(Path(settings.data_dir) / DATABASE, clock)
        await asyncio.sleep(_RETRY_PAUSE)
    return await SqliteStore.open(Path(settings.data_dir) / DATABASE, clock)


async def check_installation(settings: Settings, store: Store) -> tuple[Encryption, str]:
    """Returns the encryption and the id of this installation. Creates a key if nothing is encrypted yet."""
    earlier = await read_keys(store.reads)
    encryption = load_encryption(settings, may_make=earlier is None)

    async def settle(tx: Tx) -> tuple[bytes, bytes]:
        """Stores the key's fingerprint and the id, unless another replica has stored them before."""
        key, id = await tx.facts.get(CURRENT_KEY_FACT), await tx.facts.get(INSTALLATION_KEY)
        if id is None:
            id = new_id().encode()
            await tx.facts.set(INSTALLATION_KEY, id)
        if key is None:
            key = encryption.fingerprint.encode()
            await tx.facts.set(CURRENT_KEY_FACT, key)
        return key, id

    if earlier:
        check_keys(encryption, earlier)
    _, id = await store.write(settle)
    state = await read_keys(store.reads)
    assert state is not None, "settled"
    check_keys(encryption, state)
    await unlock(encryption, store.reads, state)
    return encryption, id.decode()


def rotation_of(ctx: Context) -> KeyRotation:
    load, is_shared = given_keys(ctx.settings), bool(ctx.settings.database_url)
    return KeyRotation(
        ctx.store,
        ctx.encryption,
        load,
        is_shared=is_shared,
        address=ctx.settings.url,
        point=ctx.point,
    )


async def take_over(ctx: Context, report: OwnershipReport, create_parts: PartsFor) -> None:
    """Sets services aside that are not in the database, including services of the data directory's former
    installation."""
    for label, unknown in report.unknown.items():
        async with holdings(ctx.settings, create_parts, label) as held:
            for service, kept in unknown.items():
                await set_service_aside(ctx, held, service, kept, label, report.reason)


async def seed(ctx: Context, tx: Tx) -> str | None:
    """Schedules the recurring work, and creates the first organization with its cluster if there is none.

    Returns the Admin token of a new organization. Returns None without a new organization, or if the settings
    contain a token.
    """
    place = ctx.ownership.place
    await follow_earlier_clock(tx)
    if isinstance(ctx.clock, SystemClock) and (last_change := await tx.events.last_time()) is not None:
        ctx.clock.compare_with(last_change)
    await tx.work.schedule(SWEEP, SWEEP, tx.now + 60 * SECOND)
    await tx.work.schedule(TIDY_ELSEWHERE, TIDY_ELSEWHERE, tx.now + 10 * SECOND)
    await tx.work.schedule(SCALE_ELSEWHERE, SCALE_ELSEWHERE, tx.now + SCALE_INTERVAL)
    for kind, later in ((TIDY, 10 * SECOND), (SCALE, SCALE_INTERVAL)):
        id = kind if place == FIRST_PLACE else f"{kind}:{place}"
        await tx.work.schedule(kind, id, tx.now + later, queue=ctx.ownership.queues.housekeeping)
    await schedule_shared(ctx, tx)
    if first := await tx.resources.first(NO_PARENT, organization.name):
        await _create_cluster_of_place(ctx, tx, first)
        return None
    with_token = not ctx.settings.admin_token
    _, token = await found_organization(ctx, tx, Organization(name="default"), SYSTEM, with_token=with_token)
    return token


async def _create_cluster_of_place(ctx: Context, tx: Tx, org: Row) -> None:
    """Creates a cluster for this machine in the first organization, when a server starts here for the first
    time."""
    place = ctx.ownership.place
    if place == FIRST_PLACE or await tx.owners.get(place):
        return
    clusters = [row.read(Cluster) for row in await tx.resources.of_parent(org.id, cluster.name)]
    if any(spec.place == place or spec.name == place for spec in clusters):
        return
    new = Cluster(name=place, engine=THIS_MACHINE, place=place)
    await create_in(ctx, tx, NewResource(cluster, new, org, SYSTEM))


def _local(local_parts: Parts, settings: Settings) -> Place:
    return Place(
        id=LOCAL_ID,
        engine=local_parts.engine,
        builder=local_parts.builder,
        router=local_parts.router,
        servers=local_parts.servers,
        public_host=_public_host(settings),
        machine=settings.place,
    )


def _public_host(settings: Settings) -> str:
    """Returns the host name in addresses of this machine's public ports."""
    named = urlsplit(settings.public_url).hostname if settings.public_url else None
    anywhere = settings.gateway_host in {"", "0.0.0.0", "::"}  # noqa: S104 (compared, not listened on)
    return named or ("localhost" if anywhere else settings.gateway_host)
