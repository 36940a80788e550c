"""A running installation, built from its settings.

`serve` connects it to a socket. Tests call it directly.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path

from windlass.api.app import App
from windlass.api.callers import Callers
from windlass.api.limits import Budgets
from windlass.api.metrics import Metrics
from windlass.api.pages import Pages
from windlass.base.allocator import release_unused
from windlass.base.clock import SECOND, Clock, SystemClock
from windlass.base.commit import commit
from windlass.base.errors import Unavailable
from windlass.base.kernel import current_process
from windlass.base.log import log
from windlass.base.loops import keep_running
from windlass.base.subprocesses import in_thread
from windlass.base.unix_forwarder import UnixForwarder
from windlass.base.version import VERSION
from windlass.config import DATABASE as DATABASE
from windlass.config import Settings
from windlass.console.files import find_file
from windlass.control.background.all_places import run_at_all_places
from windlass.control.background.certificate_delivery import CertificateDelivery
from windlass.control.background.disk_meter import DiskMeter
from windlass.control.background.instance_check import InstanceCheck
from windlass.control.background.place_lease import PlaceLease
from windlass.control.background.push_addresses import update_push_addresses
from windlass.control.background.sampling import Sampler
from windlass.control.background.service_data import restore_service
from windlass.control.background.sleepers import Sleepers
from windlass.control.background.worker import LEASE_TIME, Worker
from windlass.control.context.context import Context, OutgoingHttp
from windlass.control.context.log_store import LOGS_FOLDER, recover
from windlass.control.context.place import Place
from windlass.control.context.server_addresses import ALL_ADDRESSES, run_socket_in
from windlass.control.deploying.console_route import set_console_route
from windlass.control.deploying.restored_database import examine
from windlass.control.deploying.route_updates import RouteUpdates, request_check
from windlass.control.deploying.routes import take_over_routes
from windlass.control.kinds import check_kinds, find_kinds, kinds_of
from windlass.control.kinds.service_kind import AnyKind
from windlass.control.people.authenticate import Authenticator
from windlass.control.people.browser_sessions import create_link
from windlass.control.people.sessions import signer_of
from windlass.control.records.deployments import RECONCILE
from windlass.control.records.names import note_api_port
from windlass.control.records.sole_organization import note_sharing
from windlass.control.reporting.audit_check import AuditCheck
from windlass.control.reporting.metrics import InstallationMetrics
from windlass.core.declare.registry import Registry
from windlass.engines.engine import EngineError
from windlass.engines.workload import Instance, Phase
from windlass.families import registry
from windlass.install import last_backup, mark
from windlass.install.address_domain import with_address_domain
from windlass.install.composition import (
    assemble,
    check_installation,
    make_private,
    open_store,
    rotation_of,
    seed,
    take_over,
    way_out,
)
from windlass.install.engines import forget_removals, kept_engine
from windlass.install.ownership import OwnershipReport, PartsFor, check_start
from windlass.install.parts import Parts, real_parts
from windlass.routers.router import RouteError
from windlass.store import CLUSTER_PREFIX, ROUTE_PREFIX, Tx
from windlass.store.migrate import newest

_log = log("main")
_CHANGES_PAUSE = 0.05
_DATABASE_SILENT = "The database does not answer"
_OWNER_LOOK = 1.0
"""Seconds between two checks whether this server has become the owner of its place."""
_SHARING_LOOK = 30.0
"""Seconds between two looks whether several organizations may use its machine."""
_DATABASE_RETRY_PAUSE = 1.0
"""Seconds before the database is tried again after an error."""
MARK_INTERVAL = 5
"""Seconds between two updates of the data directory's mark, if the database has new events."""
_MEMORY_RELEASE_INTERVAL = 30.0
"""Seconds between two releases of unused memory."""
_ENGINE_TIMEOUT = 5.0
"""Seconds that the start waits for an engine that does not respond."""


class Installation:
    """A running installation: its parts and its background loops."""

    def __init__(
        self,
        ctx: Context,
        fetcher: Callable[[str], Awaitable[bytes]],
        lease: int = LEASE_TIME,
    ) -> None:
        self.ctx = ctx
        self.authenticator = Authenticator(ctx, fetcher)
        self.budgets = Budgets(ctx.store, ctx.clock, ctx.settings.rate_limit)
        self.worker = Worker(ctx, lease)
        self.place_owner = PlaceLease(ctx, lease)
        self.sampler = Sampler(ctx)
        self.disk_meter = DiskMeter(ctx)
        self.key_rotation = rotation_of(ctx)
        self.metrics = Metrics(ctx.registry.operations)
        self.metrics.gauge("work_running", "Work under way at this server", lambda: self.worker.running)
        self.metrics.gauge(
            "last_backup_timestamp_seconds", "Time of the last backup, or 0", self._last_backup
        )
        self.metrics.gauge(
            "clock_behind_seconds",
            "Seconds by which the clock is behind the time of this server, since it was set back",
            lambda: ctx.clock.behind / SECOND if isinstance(ctx.clock, SystemClock) else 0,
        )
        self.metrics.info("build_info", "The version of this server, and its schema", version_labels)
        store = ctx.store
        self.metrics.counter("writes_total", "Changes committed by this server", lambda: store.writes)
        self.metrics.counter("write_groups_total", "Groups of committed changes", lambda: store.groups)
        ownership = ctx.ownership
        self.metrics.gauge(
            "place_owned", "1 if this server may run services here", lambda: int(ownership.is_owner)
        )
        self.metrics.gauge(
            "place_lost", "1 if a server that runs services is gone", lambda: int(bool(ownership.lost))
        )
        self.metrics.gauge(
            "memory_measured",
            "0 if memory of an instance, which no control group limits, was not measured for a minute",
            lambda: int(ctx.places.local.engine.measures_memory),
        )
        self.metrics.add(InstallationMetrics(ctx).all)
        self.metrics.add(ctx.places.local.router.metrics)
        store.measure_with(ctx.meters.take)
        self.stopping = False
        self.first_token: str | None = None
        """The Admin token that the first start created. It is shown only once."""
        self.first_code = ""  # code of a sign-in link for a browser, after the first start
        pages = Pages(ctx, self.metrics.text, self._find_problem, lambda: signer_of(ctx))
        callers = Callers(self.authenticator, self.budgets, ctx.clock)
        self.app = App(ctx, callers, pages, self.metrics, find_file)
        self._tasks: list[asyncio.Task[None]] = []
        self._changed: dict[str, float] = {}
        """Services whose instances changed according to the engine, with the times of the changes."""
        self._something_changed = asyncio.Event()
        self.routes = RouteUpdates(ctx)
        self.sleepers = Sleepers(ctx)
        ctx.places.local.router.hear_wakes(self.sleepers.hear)
        self.instance_check = InstanceCheck(ctx, self.note_change)
        self.audit_check = AuditCheck(ctx)
        self.certificates = CertificateDelivery(ctx)
        self.metrics.gauge(
            "audit_faults",
            "Events of the audit that do not follow from the one before, as this server checked them last",
            lambda: len(self.audit_check.faults),
        )
        self.left_running = 0
        """Number of services that keep running after the server has stopped, as far as the engine reports."""
        self.marked_engine = ctx.places.local.engine.name
        """The engine that is recorded in the mark of the data directory."""
        self._run_socket: UnixForwarder | None = None
        self._mark: mark.Mark | None = None
        """The mark of the data directory as it was last written."""

    async def start(self) -> None:
        """Starts the router and the engine, finds running services, and starts the background loops."""
        ctx = self.ctx
        # The router starts first, so that a port in use is reported before other parts start.
        await ctx.places.local.router.start()
        await ctx.places.local.router.keep(stays=True)
        await note_api_port(ctx)
        await update_push_addresses(ctx)
        await ctx.git.sweep()
        await ctx.pushed.clear()
        missed = partial(self.instance_check.note, ctx.places.local.id)
        await ctx.places.local.engine.start(self.note_change, ctx.logs.take, missed)
        if ctx.places.adopts:  # some engines report their identity only after they were started
            await self.place_owner.take()
        await self.place_owner.renew()
        await self.key_rotation.adopt_keys()
        ctx.store.listen(self._note_nudge, ROUTE_PREFIX.rstrip(":"), CLUSTER_PREFIX.rstrip(":"))
        await self._open_run_socket()
        await ctx.places.start(self.note_change, ctx.logs.take, self.instance_check.note)
        if ctx.ownership.is_owner:
            with suppress(EngineError):  # an unavailable engine is examined before its first action
                await examine(ctx, ctx.places.local)
        await take_over_routes(ctx)
        await set_console_route(ctx)
        self.routes.note(await ctx.store.write(self._ask_to_keep))
        await self._find_routes()
        loops = (
            self.worker.run,
            self.place_owner.run,
            self.key_rotation.run,
            self._note_uses,
            self._note_marks,
            self.sampler.run,
            self.disk_meter.run,
            self.sleepers.run,
            self.sleepers.run_wakes,
            self._note_changes,
            self.instance_check.run,
            self.audit_check.run,
            self.routes.run,
            self.routes.watch_sites,
            self.certificates.run,
            ctx.places.follow_clusters,
            self._note_sharing,
            self._release_memory,
            *(loop for kind in ctx.kinds.values() for loop in kind.loops(ctx)),
        )
        self._tasks = [asyncio.create_task(keep_running(loop)) for loop in loops]

    async def _open_run_socket(self) -> None:
        """Opens the Unix socket through which runs on this machine reach this server, independent of their
        networks."""
        settings = self.ctx.settings
        if folder := self.ctx.places.local.engine.server_folder:
            host = "127.0.0.1" if settings.host in ALL_ADDRESSES else settings.host
            self._run_socket = UnixForwarder(run_socket_in(folder, settings.port), host, settings.port)
            await self._run_socket.open()

    async def take_first_token(self, token: str) -> None:
        """Stores the first start's Admin token until it is shown, and creates a sign-in link with it."""
        owner = await self.authenticator.admit(f"Token {token}".encode())
        self.first_token = token
        self.first_code, _ = await self.ctx.store.write(lambda tx: create_link(self.ctx, tx, owner))

    async def stop(self) -> None:
        self.stopping = True
        if self._run_socket:
            await self._run_socket.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        reasons: set[str] = set()
        deadline = asyncio.get_running_loop().time() + await self._last_write_seconds()
        for last in (
            self.worker.stop,
            self.authenticator.note,
            self.budgets.give_back,
            self.note_mark,
            self.key_rotation.stop,
        ):
            try:
                async with asyncio.timeout_at(deadline):
                    await last()
            except (Unavailable, TimeoutError) as error:
                reasons.add(str(error) or _DATABASE_SILENT)
        for reason in reasons:
            _log.warning("stopping without the database", extra={"error": reason})
        await self.ctx.git_reader.stop()
        await self.ctx.git.stop()
        await self.ctx.out.close()
        await self.ctx.authority.http.close()
        if self.ctx.fallback:
            await self.ctx.fallback.http.close()
        await self.ctx.visits.http.close()
        await self._count_running()
        await self.app.stop_pushes()
        await self.app.stop_mails()
        await self.app.stop_logging()
        await self.ctx.places.stop()
        self.ctx.logs.close()
        await self.ctx.store.close()

    async def _last_write_seconds(self) -> float:
        """Returns the seconds allowed for the last writes to the database; 0 if the database cannot write
        now."""
        try:
            problem = await self.ctx.store.problem()
        except Unavailable as error:
            problem = str(error)
        return 0.0 if problem else max(_ENGINE_TIMEOUT, self.ctx.settings.stop_seconds)

    async def _count_running(self) -> None:
        """Counts the running services, and stops the gateway if no instance is running."""
        instances: list[Instance] = []

        async def look(place: Place) -> None:
            instances.extend(await place.engine.all())

        with suppress(EngineError, TimeoutError, RouteError):
            async with asyncio.timeout(_ENGINE_TIMEOUT):
                await run_at_all_places(self.ctx, look)
                self.left_running = len(
                    {instance.service for instance in instances if instance.phase is Phase.RUNNING}
                )
                if all(instance.phase is Phase.EXITED for instance in instances):
                    await self.ctx.places.local.router.keep(stays=False)

    async def _ask_to_keep(self, tx: Tx) -> set[str]:
        """Schedules a check of every service that should be running, and returns their ids."""
        serving = await tx.statuses.serving()
        await tx.work.schedule_all(RECONCILE, [(service, org) for service, org, _ in serving])
        return {service for service, *_ in serving}

    async def _find_routes(self) -> None:
        """Restores the routes of running services, for a limited time. Services that do not run get an error
        page."""
        await self.routes.catch_up(_ENGINE_TIMEOUT)
        self.routes.note_all(await self.ctx.store.reads.statuses.services())

    def note_change(self, service: str) -> None:
        """Records that an instance of a service started or ended. Engines call this."""
        self._changed[service] = time.monotonic()
        self._something_changed.set()

    def _note_nudge(self, topic: str) -> None:
        if topic.startswith(ROUTE_PREFIX):
            self.routes.note([topic.removeprefix(ROUTE_PREFIX)])
        elif topic.startswith(CLUSTER_PREFIX):
            self.ctx.places.note_changed(topic.removeprefix(CLUSTER_PREFIX))

    async def _note_changes(self) -> None:
        """Schedules checks of changed services after a short delay, so that many changes become one write."""
        while True:
            await self._something_changed.wait()
            await asyncio.sleep(_CHANGES_PAUSE)
            self._something_changed.clear()
            await self.note_changes()

    async def note_changes(self) -> None:
        changed, self._changed = self._changed, {}
        self.routes.note_since(changed)
        try:
            await self.ctx.store.write(lambda tx: request_check(changed, tx))
        except Unavailable:
            self._changed = changed | self._changed
            self._something_changed.set()
            await asyncio.sleep(_DATABASE_RETRY_PAUSE)

    async def _note_sharing(self) -> None:
        """Records the machine's isolation features each time this server becomes the owner of its place, and
        regularly: instances that were started without limits may end.

        The features are tried out in the background, because trying takes a moment.
        """
        was_owner, next_look = False, 0.0
        while True:
            is_owner, now = self.ctx.ownership.is_owner, time.monotonic()
            if is_owner and (not was_owner or now >= next_look):
                await note_sharing(self.ctx)
                next_look = now + _SHARING_LOOK
            was_owner = is_owner
            await asyncio.sleep(_OWNER_LOOK)

    async def _note_uses(self) -> None:
        while True:
            await asyncio.sleep(1)
            # Other loops log that the database is unavailable. Uses that are not stored yet are kept.
            with suppress(Unavailable):
                await self.authenticator.note()

    async def _note_marks(self) -> None:
        while True:
            await asyncio.sleep(MARK_INTERVAL)
            with suppress(Unavailable):
                await self.note_mark()

    async def note_mark(self) -> None:
        """Records the newest event of the database in the `installation` file of the data directory, if it
        has changed. See `mark`."""
        ctx = self.ctx
        server = None if self.stopping else current_process()
        now = await mark.present(ctx.settings, ctx.installation, ctx.store.reads, self.marked_engine, server)
        if now != self._mark:
            await in_thread(mark.write, ctx.settings, now)
            self._mark = now

    async def _release_memory(self) -> None:
        """Returns unused memory to the system, so that a server does not keep what a burst of deployments
        needed. This takes less than a millisecond."""
        while True:
            await asyncio.sleep(_MEMORY_RELEASE_INTERVAL)
            await in_thread(release_unused)

    async def _find_problem(self) -> str:
        if self.stopping:
            return "This server is stopping"
        return self.key_rotation.problem or await self.ctx.store.problem()

    def _last_backup(self) -> float:
        note = last_backup.read(self.ctx.settings)
        return note.at / SECOND if note else 0


async def install(
    settings: Settings,
    *,
    clock: Clock | None = None,
    parts: Parts | None = None,
    fetcher: Callable[[str], Awaitable[bytes]] | None = None,
    families: Registry | None = None,
    kinds: Mapping[str, AnyKind] | None = None,
    transport: OutgoingHttp | None = None,
    point: Callable[[str], Awaitable[None]] | None = None,
    lease: int = LEASE_TIME,
    adopt: bool = False,
    keeps_engine: bool = False,
    gateway: int = 0,
) -> Installation:
    """Opens the store, checks the keys, and creates the first organization if there is none.

    `adopt`: starts even if the data directory and the database do not belong together, and sets unknown
    services aside. `keeps_engine`: the mark keeps the engine that the data directory was used with, whatever
    the settings name. `lease`: milliseconds after which another replica takes over the work of a killed
    server. `gateway`: process id of the gateway that was started for this server, or 0.
    """
    settings = with_address_domain(settings)
    clock, transport = clock or SystemClock(), transport or way_out(settings)
    make_private(Path(settings.data_dir))

    async def parts_for(installation: str) -> Parts:
        return parts or await real_parts(settings, clock, installation, gateway)

    report = await check_start(settings, parts_for, adopt=adopt)
    store = await open_store(settings, clock)
    async with AsyncExitStack() as undo:
        undo.push_async_callback(store.close)
        # a restore must not run while this process has the database open
        await in_thread(recover, Path(settings.data_dir) / LOGS_FOLDER)
        encryption, id = await check_installation(settings, store)
        own = await parts_for(id)
        declarations = families or registry(), kinds or kinds_of(*find_kinds())
        check_kinds(*declarations)
        ctx = assemble(settings, id, own, store, clock, encryption, transport, *declarations, point)
        ctx.places.adopts = adopt
        installation = Installation(ctx, fetcher or transport.fetch, lease)
        if keeps_engine:
            installation.marked_engine = kept_engine(settings) or own.engine.name
        await _complete(installation, report, parts_for, adopt=adopt)
        undo.pop_all()
    return installation


async def _complete(
    installation: Installation, report: OwnershipReport, create_parts: PartsFor, *, adopt: bool
) -> None:
    """Creates the first organization, and restores services that were set aside."""
    ctx = installation.ctx
    if adopt:
        await in_thread(forget_removals, ctx.settings)
        await installation.place_owner.take()
    if token := await ctx.store.write(lambda tx: seed(ctx, tx)):
        await installation.take_first_token(token)
    if report.reason:
        await take_over(ctx, report, create_parts)
    await restore_service(ctx)
    await installation.note_mark()


def version_labels() -> dict[str, str]:
    return {"version": VERSION, "commit": commit(), "schema": str(newest())}
