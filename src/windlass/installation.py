"""An installation, put together and running: settings in, a whole Windlass out.

The composition root. `serve` puts it behind a socket; tests call it directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from windlass.api.app import App
from windlass.api.limits import Budgets
from windlass.api.metrics import Metrics
from windlass.api.pages import Pages
from windlass.base.clock import SECOND, Clock, SystemClock
from windlass.base.errors import Unavailable
from windlass.base.http_out import fetch
from windlass.base.log import log
from windlass.base.seal import Seal
from windlass.config import DATABASE as DATABASE
from windlass.config import Settings
from windlass.control.context import Context
from windlass.control.identity import Gate, signer_of
from windlass.control.logs import Logs
from windlass.control.organizations import NOBODY, SYSTEM, found
from windlass.control.worker import SWEEP, Worker
from windlass.core.registry import Registry
from windlass.engines.absent import AbsentEngine
from windlass.engines.engine import Engine
from windlass.families import registry
from windlass.families.organization import Organization
from windlass.key import FACT, check_key, found_seal
from windlass.store.store import Store, Tx

_log = log("main")


class Installation:
    """Everything that runs, and how it stops."""

    def __init__(self, ctx: Context, fetcher: Callable[[str], Awaitable[bytes]]) -> None:
        self.ctx = ctx
        self.gate = Gate(ctx, fetcher)
        self.budgets = Budgets(ctx.store, ctx.clock, ctx.settings.rate_limit)
        self.worker = Worker(ctx)
        self.metrics = Metrics(self._gauges)
        self.stopping = False
        self.first_token: str | None = None
        """The Admin token that the first start made; nobody else will ever see it."""
        pages = Pages(ctx, self._document, self.metrics.text, self._trouble, lambda: signer_of(ctx))
        self.app = App(ctx, self.gate, self.budgets, pages, self.metrics)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Loops in the background: work, and small notes."""
        self._tasks = [asyncio.create_task(self.worker.run()), asyncio.create_task(self._note_uses())]

    async def stop(self) -> None:
        self.stopping = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for last in (self.worker.stop, self.gate.note, self.budgets.give_back):
            try:
                await last()
            except Unavailable as error:
                _log.warning("stopping without the database", extra={"error": str(error)})
        await self.ctx.store.close()

    async def _note_uses(self) -> None:
        while True:
            await asyncio.sleep(1)
            try:
                await self.gate.note()
            except Unavailable:
                continue  # The database is away, as others say already; what was not noted is kept.
            except Exception:  # noqa: BLE001 (the loop must outlive whatever goes wrong once)
                _log.exception("the last use of tokens could not be noted")

    async def _trouble(self) -> str:
        if self.stopping:
            return "This server is stopping"
        await self.ctx.store.reads.fact(FACT)
        return ""

    def _document(self) -> bytes:
        from windlass.api.openapi import served  # noqa: PLC0415 (made at the first request for it, not at every start)

        return served(self.ctx.registry)

    def _gauges(self) -> dict[str, float]:
        store = self.ctx.store
        return {"work_running": self.worker.running, "writes": store.writes, "write_groups": store.groups}


async def install(
    settings: Settings,
    *,
    clock: Clock | None = None,
    engine: Engine | None = None,
    fetcher: Callable[[str], Awaitable[bytes]] = fetch,
    families: Registry | None = None,
) -> Installation:
    """Opens the store, checks the key, and makes the first organization if there is none."""
    clock = clock or SystemClock()
    folder = Path(settings.data_dir)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # noqa: ASYNC240 (once, before serving)
    store = await open_store(settings, clock)
    try:
        seal = await _opened_seal(settings, store)
        logs = Logs(folder / "logs", settings.log_retention_bytes)
        ctx = Context(settings, families or registry(), store, clock, seal, engine or AbsentEngine(), logs)
        installation = Installation(ctx, fetcher)
        installation.first_token = await store.write(lambda tx: _seed(ctx, tx))
    except BaseException:
        await store.close()
        raise
    return installation


async def open_store(settings: Settings, clock: Clock) -> Store:
    if settings.database_url:
        from windlass.store.postgres import PostgresStore  # noqa: PLC0415 (asyncpg is heavy, and often not needed)

        return await PostgresStore.open(settings.database_url, clock)
    from windlass.store.sqlite import SqliteStore  # noqa: PLC0415 (one database or the other)

    return await SqliteStore.open(Path(settings.data_dir) / DATABASE, clock)


async def _opened_seal(settings: Settings, store: Store) -> Seal:
    """The key of this installation: given, found, or made where nothing is sealed yet."""
    known = await store.reads.fact(FACT)
    seal = found_seal(settings, may_make=known is None)

    async def settle(tx: Tx) -> str:
        """Of replicas that start together, the first decides which key it is."""
        decided = await tx.fact(FACT)
        if decided is None:
            await tx.set_fact(FACT, seal.fingerprint.encode())
        return (decided or seal.fingerprint.encode()).decode()

    decided = known.decode() if known else await store.write(settle)
    check_key(seal, decided)
    return seal


async def _seed(ctx: Context, tx: Tx) -> str | None:
    """The first organization with its cluster; its Admin token, unless one was given in the settings."""
    await tx.ask(SWEEP, SWEEP, tx.now + 60 * SECOND)
    if await tx.first(NOBODY, "organization"):
        return None
    with_token = not ctx.settings.admin_token
    _, token = await found(ctx, tx, Organization(name="default"), SYSTEM, with_token=with_token)
    return token
