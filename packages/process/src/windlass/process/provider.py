"""The provider of the process engine; see `windlass.engines.provider`.

Modules that only an open engine needs are imported when it is opened, because imports delay the start of
Windlass.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final, Literal

from windlass.base.errors import BadSetting
from windlass.base.subprocesses import in_thread
from windlass.engines.findings import Finding, fail
from windlass.engines.provider import Availability, OpenedEngine, Server, SharedResource, StartReport
from windlass.process.settings import ProcessSettings, concerns, isolation_of

NAME: Final = "process"
ONE_USER: Final = SharedResource(
    "share a user: one service can use up the kernel's limits of that user, such as epoll watches, and stop "
    "all others and Windlass",
    "run Windlass as root, or use the Docker engine, unless these organizations trust each other",
)


class ProcessProvider:
    name = NAME
    takes: Literal["native"] = "native"
    rank = 0
    is_of_server = True
    settings_type = ProcessSettings

    async def presence(self, settings: ProcessSettings) -> Availability:
        return Availability(True, "it needs nothing but this machine")

    async def open(self, settings: ProcessSettings, server: Server) -> OpenedEngine:
        from windlass.process.builds.builder import NativeBuilder  # noqa: PLC0415
        from windlass.process.builds.cache_limits import CacheLimits  # noqa: PLC0415
        from windlass.process.databases import NativeDatabases  # noqa: PLC0415
        from windlass.process.engine import ProcessEngine  # noqa: PLC0415

        isolation = await in_thread(isolation_of, settings)
        engine = ProcessEngine(
            settings.folder.resolve(),
            server.clock,
            isolation=isolation,
            builds=server.folder,
            disk_reserve=settings.disk_reserve_bytes,
        )
        builder = NativeBuilder(
            server.folder / "builds",
            isolation=isolation,
            fetches=settings.toolchain_downloads,
            limits=CacheLimits(settings.build_cache_bytes, settings.build_cache_days),
            toolchain_limits=CacheLimits(settings.toolchain_bytes, settings.toolchain_days),
            network=engine.network_of_steps,
            calls=server.calls,
            build_memory=settings.build_memory,
            build_processes=settings.build_processes,
            disk_reserve=settings.disk_reserve_bytes,
        )
        return OpenedEngine(
            engine=engine, builder=builder, servers=NativeDatabases(server.folder / "databases")
        )

    def folders(self, data: Path) -> Sequence[Path]:
        return (data / "run",)

    async def start_report(self, settings: ProcessSettings) -> StartReport:
        def report() -> StartReport:
            isolation = isolation_of(settings)
            return StartReport(concerns(isolation), isolation.holds())

        return await in_thread(report)

    async def shared_resource(self, settings: ProcessSettings) -> SharedResource | None:
        try:
            has_users = await in_thread(lambda: isolation_of(settings).gives_users())
        except BadSetting:
            return None  # reported by the check of isolation
        return None if has_users else ONE_USER

    async def server_host(self, settings: ProcessSettings) -> str:
        return ""

    def service_of(self, pid: int, data: Path) -> str:
        from windlass.process import process_table  # noqa: PLC0415
        from windlass.process.records import RecordStore  # noqa: PLC0415

        records = RecordStore((data / "run").resolve())
        table = process_table.count(records.folder)
        for key in records.find():
            if (record := records.known(key)) is not None:
                home, leader = records.home(key), record.process
                members = process_table.members(table, home, leader, record)
                if any(member.stat.pid == pid for member in members):
                    return key.service
        return ""

    async def diagnose_presence(self, settings: ProcessSettings, *, is_used: bool) -> Finding | None:
        from windlass.base import kernel  # noqa: PLC0415

        if not is_used or kernel.can_identify_processes():
            return None
        advice = "run it on Linux 5.4 or later, or start Docker"
        return fail("Engine", "process, which does not work on this system", advice)

    async def diagnose(self, settings: ProcessSettings) -> AsyncIterator[Finding]:
        from windlass.process import doctor  # noqa: PLC0415

        async for finding in doctor.diagnose(settings):
            yield finding
