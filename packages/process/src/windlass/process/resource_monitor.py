"""Checks all instances every second: changes by other engines, and excessive use of shared resources.

Each check is a separate step. An error in one step, such as a lack of file descriptors, is logged. All steps
run again a second later.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from itertools import starmap
from typing import Final

from msgspec import structs

from windlass.base import cgroups, closed_connections, disk_reserve, kernel, kernel_shares
from windlass.base.cgroups import Cgroups
from windlass.base.disk_reserve import Amount, DiskShare, DiskWatch
from windlass.base.isolation.user_limits import most_files, most_processes, present_files, present_processes
from windlass.base.log import log
from windlass.base.open_files import inherited_files, mapped_files, open_files
from windlass.base.process_memory import (
    HiddenFiles,
    TooManyFiles,
    TooManyMounts,
    TooMuchToMeasure,
    available_memory,
    hidden_memory,
    is_memory_short,
)
from windlass.base.repeated_measurement import MeasurementInterval, measure_until_stable
from windlass.process import exit_reason, files, memory, memory_shares, waiting_threads
from windlass.process.disk_shares import SHORTAGE_FACTOR, DiskShares
from windlass.process.instances import Instances
from windlass.process.measurements import Measurements, MeasurementTimeout
from windlass.process.memory_shares import MemoryUse
from windlass.process.networks import Networks
from windlass.process.orphans import Orphans
from windlass.process.output_reader import OutputReader
from windlass.process.ports import PortClaims
from windlass.process.process_table import (
    InstanceProcesses,
    OwnedProcess,
    ProcessCounter,
    ProcessTable,
    members,
)
from windlass.process.records import InstanceKey, Record, RecordStore

ROUND_INTERVAL: Final = 1.0
"""Seconds between two rounds."""
_TIDY_INTERVAL: Final = 60.0
"""Seconds between two checks for unused networks."""
_MEASUREMENT_TIMEOUT: Final = 30.0
"""Seconds after which an instance whose open files cannot be measured counts as hiding them."""
_UNMEASURED_WARNING_SECONDS: Final = 60.0
"""Seconds without a measurement after which the operator is informed."""
_RECENT_GROWTH_SECONDS: Final = 60.0
"""Seconds for which a change in a volume counts as recent growth when the disk fills up. Also the minimum
interval of warnings."""
_DISK_UNEXPLAINED: Final = (
    "free disk space: less than the reserve of the disk is free, and no service is known to hold enough of "
    "it to be ended; builds, databases, other programs, or open files without a name (lsof +L1) may have "
    "filled it. Restart services that the log says may have more: they hold files whose size cannot be seen"
)
_UNEXPLAINED_USE_ADVICE: Final = (
    "find out which programs use most of what gets scarce on this machine: most of it is used by no known "
    "service, so none is ended"
)
_log = log("engines.process")

Step = Callable[[], Awaitable[None]]
Count = Callable[[ProcessTable, Record, Collection[OwnedProcess]], int]


def _threads(table: ProcessTable, record: Record, processes: Collection[OwnedProcess]) -> int:
    return sum(process.stat.threads + table.dead_children[process.stat.pid] for process in processes)


def _files(table: ProcessTable, record: Record, processes: Collection[OwnedProcess]) -> int:
    """Returns the number of open files. Files that a process inherited are counted for each process, which is
    fast but may be too high."""
    pids = [process.stat.pid for process in processes]
    return sum(open_files(pid) + mapped_files(pid) for pid in pids)


def _own_files(table: ProcessTable, record: Record, processes: Collection[OwnedProcess]) -> int:
    pids = {process.stat.pid for process in processes}
    pairs = ((each.stat.pid, each.stat.parent) for each in processes if each.stat.parent in pids)
    return _files(table, record, processes) - sum(starmap(inherited_files, pairs))


def _count_most(count: Callable[[Collection[OwnedProcess]], int], processes: InstanceProcesses) -> int:
    return max(count(found.values()) for found in measure_until_stable(processes.find))


def _closed_connections(table: ProcessTable, record: Record, processes: Collection[OwnedProcess]) -> int:
    """Returns the number of closed connections in the instance's network. Connections in the machine's
    network cannot be assigned to an instance."""
    if record.cell is None or "network" not in record.cell:
        return 0
    return max((closed_connections.in_network_of(each.stat.thread) for each in [*processes][-1:]), default=0)


def _waiting_threads(table: ProcessTable, record: Record, processes: Collection[OwnedProcess]) -> int:
    """Returns the number of threads that wait in the kernel or run. Returns 0 for an instance that is already
    being ended, because its threads may still have to wait for kernel locks."""
    pids = [] if record.verdict else [process.stat.pid for process in processes]
    return sum(map(waiting_threads.waiting_threads, pids))


def _without_limits(records: Mapping[InstanceKey, Record]) -> Mapping[InstanceKey, Record]:
    """Returns the instances without a memory control group, such as instances that were started before the
    machine had control groups."""
    return {key: record for key, record in records.items() if not cgroups.limits_memory(record.groups)}


class ResourceMonitor:
    def __init__(
        self,
        records: RecordStore,
        instances: Instances,
        output: OutputReader,
        claims: PortClaims,
        groups: Cgroups,
        counter: ProcessCounter,
        orphans: Orphans,
        networks: Networks,
        weigh_every: float,
        reserve: int,
        shares: DiskShares,
        start_takes: Callable[[], float],
    ) -> None:
        """`start_takes` returns the seconds that the start in progress has taken so far."""
        self._records, self._instances, self._output, self._claims = records, instances, output, claims
        self._groups, self._counting, self._orphans = groups, counter, orphans
        self._networks, self._weigh_every = networks, weigh_every
        self._disk, self._shares = DiskWatch(records.folder, reserve), shares
        self._start_takes = start_takes
        self._memory_pace = MeasurementInterval()
        self._memory_uses: Measurements[MemoryUse] = Measurements()
        self._next_warnings: dict[str, float] = {}
        self._weights: Measurements[bool] = Measurements()
        self._open_files: Measurements[Amount] = Measurements()
        self._steps: tuple[Step, ...] = (
            self._follow_others,
            self._share_processes,
            self._share_files,
            self._share_closed_connections,
            self._share_locks,
            self._keep_reserve,
            self._keep_memory,
            self._weigh_when_due,
            self._tidy_when_due,
            self._renew_rules,
        )
        self._under_way: set[Step] = set()
        self._weigh_at = time.monotonic() + weigh_every
        self._tidy_at = time.monotonic() + _TIDY_INTERVAL
        self._weighed_at = time.monotonic()
        """The last time when no measurement was overdue."""
        self._has_found = self._has_renewed = False
        self._notified = -1
        self._was_reading = False

    @property
    def measures_memory(self) -> bool:
        return time.monotonic() - self._weighed_at < _UNMEASURED_WARNING_SECONDS + self._weigh_every

    async def find(self) -> None:
        """Watches running instances and ends processes that must no longer run."""
        table = await self._counting.now()
        self._notified, self._was_reading = self._records.last_notification(), self._output.is_reader()
        keys = self._records.find()
        self._output.agree(keys)
        for key in keys:
            if not self._instances.finishes_removal(key):
                self._instances.adopt(key)
        await self._orphans.end(table)
        self._claims.tidy()
        self._instances.go(self._output.finish_all())
        self._has_found = True

    async def run(self, prepare: Callable[[], None]) -> None:
        async with asyncio.TaskGroup() as tasks:  # all steps end with this task
            while True:
                await asyncio.sleep(ROUND_INTERVAL)
                if not self._has_found:
                    await self._run_step(partial(self._begin, prepare))
                for step in self._steps if self._has_found else ():
                    if step not in self._under_way:  # a long step does not delay the other steps
                        self._under_way.add(step)
                        tasks.create_task(self._run_step(step))

    async def _begin(self, prepare: Callable[[], None]) -> None:
        prepare()
        await self.find()

    async def _run_step(self, step: Step) -> None:
        try:
            await step()
        except Exception:  # noqa: BLE001 (a failing step does not stop the others)
            _log.exception("A look at the instances failed; the next one follows")
        finally:
            self._under_way.discard(step)

    async def _renew_rules(self) -> None:
        """Updates the firewall rules of networks that an earlier server has created. This happens once."""
        if self._output.holds and not self._has_renewed:
            await self._networks.renew_rules()
            self._has_renewed = True

    async def _tidy_when_due(self) -> None:
        if time.monotonic() >= self._tidy_at or self._networks.trunk_has_ended():
            self._tidy_at = time.monotonic() + _TIDY_INTERVAL
            await self.tidy_networks()
            await asyncio.to_thread(self._groups.tidy, lambda: {key.id for key in self._records.find()})

    async def _weigh_when_due(self) -> None:
        if time.monotonic() >= self._weigh_at:
            self._weigh_at = time.monotonic() + self._weigh_every
            await self._check_memory()

    async def tidy_networks(self) -> None:
        """Ends unused networks, and restarts instances whose hub was killed."""
        connected: dict[InstanceKey, tuple[Record, str]] = {}
        for key in self._records.find():
            record = self._records.known(key)
            if record is None or record.cell is None or "network" not in record.cell:
                continue
            connected[key] = record, record.cell["network"].get("outer", "")
        lost = await self._networks.tidy({hub for _, hub in connected.values()})
        cut_off = 0
        for key, (record, hub) in connected.items():
            is_cut_off = hub in lost or self._networks.has_ended(hub)
            if is_cut_off and kernel.is_running(record.process) and not record.once:
                assert record.process is not None
                cut_off += 1
                self._instances.go(self._instances.end_for(key, record.process, exit_reason.NO_NETWORK))
        if cut_off:
            why = "a process that holds a network was killed: the instances in it are started again"
            _log.warning(why, extra={"instances": cut_off})

    async def _follow_others(self) -> None:
        """Applies the changes that another engine made in the same folder."""
        present = self._records.last_notification(), self._output.is_reader()
        if present == (self._notified, self._was_reading):
            return
        self._notified, self._was_reading = present
        keys = self._records.find()
        self._output.agree(keys)
        for service in self._instances.agree(keys):
            self._instances.notice(service)
        await self._output.finish_all()

    async def _check_memory(self) -> None:
        """Ends programs that exceed their memory limit if no control group enforces it."""
        records = await self.unlimited()
        if not records or not self._output.holds:
            self._weighed_at = time.monotonic()
            return
        hangs = False
        table, hidden = await self._counting.now(), await asyncio.to_thread(hidden_memory)
        self._weights.forget_others({(key, record.process) for key, record in records.items()})
        for key, record in records.items():
            if record.process is None:
                continue
            processes = members(table, self._records.home(key), record.process, record)
            verdict = exit_reason.too_much(record.memory)
            try:
                is_heavy = memory.looks_heavy(record, processes, hidden) and await self._weights.measure(
                    (key, record.process),
                    partial(memory.is_heavy, record, self._processes(table, key, record)),
                )
            except MeasurementTimeout:  # the result is used by a later round
                hangs = True
                continue
            except TooManyMounts:
                is_heavy, verdict = True, exit_reason.TOO_MANY_MOUNTS
            except TooManyFiles:
                is_heavy, verdict = True, exit_reason.TOO_MANY_FILES
            except HiddenFiles:
                is_heavy, verdict = True, exit_reason.HIDDEN_FILES
            except (OSError, ValueError):  # an error with one instance must not hide the others
                _log.exception("An instance cannot be weighed", extra={"instance": key.id})
                continue
            if is_heavy:
                self._instances.go(self._instances.end_for(key, record.process, verdict))
        if not hangs:
            self._weighed_at = time.monotonic()

    async def _share_processes(self) -> None:
        scarce = kernel_shares.Scarce("processes", most_processes(), present_processes())
        await self._share(scarce, _threads, exit_reason.too_many_processes)

    async def _share_files(self) -> None:
        scarce = kernel_shares.Scarce("open files", most_files(), present_files())
        await self._share(scarce, _files, exit_reason.too_many_files, _own_files)

    async def _share_closed_connections(self) -> None:
        scarce = kernel_shares.Scarce(
            "closed connections", closed_connections.most(), closed_connections.present()
        )
        await self._share(scarce, _closed_connections, exit_reason.too_many_closed_connections)

    async def _share_locks(self) -> None:
        present = (
            waiting_threads.MAX_THREADS if self._start_takes() > waiting_threads.DELAYED_START_SECONDS else 0
        )
        scarce = kernel_shares.Scarce("turns at locks of the kernel", waiting_threads.MAX_THREADS, present)
        await self._share(scarce, _waiting_threads, exit_reason.too_many_waiting_threads)

    async def _share(
        self,
        scarce: kernel_shares.Scarce,
        count: Count,
        verdict: Callable[[int], str],
        exact: Count | None = None,
    ) -> None:
        """Ends an instance of the organization with the highest use if a resource is scarce.

        `exact` is slower than `count`, so it is used only for the environment in which an instance would be
        ended.
        """
        if not scarce.is_scarce() or not self._output.holds:
            return
        table = await self._counting.now()
        records = self._known(self._records.find())

        async def use(key: InstanceKey, count: Count) -> kernel_shares.KernelUse:
            record = records[key]
            processes = self._processes(table, key, record)
            used = await asyncio.to_thread(_count_most, partial(count, table, record), processes)
            environment = record.environment or record.service
            return kernel_shares.KernelUse(record.org or record.service, used, environment)

        uses = {key: await use(key, count) for key, record in records.items() if record.process}
        most, unsure = kernel_shares.heaviest(uses, scarce), {*uses}
        while exact and most is not None and most in unsure:
            place = uses[most].environment
            counted = [key for key in unsure if uses[key].environment == place]
            uses |= {key: await use(key, exact) for key in counted}
            unsure.difference_update(counted)
            most = kernel_shares.heaviest(uses, scarce)
        if most is not None and (process := records[most].process):
            _log.warning(
                "%s get scarce on this machine: an instance of the organization with most is ended",
                scarce.name,
                extra={
                    "instance": most.id,
                    "count": uses[most].count,
                    "present": scarce.present,
                    "most": scarce.most,
                },
            )
            self._instances.go(self._instances.end_for(most, process, verdict(uses[most].count)))
        elif kernel_shares.is_unexplained(uses, scarce):
            known = sum(use.count for use in uses.values())
            facts = {
                "resource": scarce.name,
                "of services": known,
                "present": scarce.present,
                "most": scarce.most,
            }
            self._warn(_UNEXPLAINED_USE_ADVICE, facts)

    def _processes(self, table: ProcessTable, key: InstanceKey, record: Record) -> InstanceProcesses:
        return InstanceProcesses(table, self._records, key, record)

    def _warn(self, words: str, facts: Mapping[str, object]) -> None:
        """Logs a warning, at most once a minute."""
        if time.monotonic() >= self._next_warnings.get(words, 0):
            self._next_warnings[words] = time.monotonic() + _RECENT_GROWTH_SECONDS
            _log.warning(words, extra=dict(facts))

    async def _keep_reserve(self) -> None:
        """Ends an instance of the organization with the highest disk use once the reserve is in use. For
        organizations that exceed their share, this happens as soon as the disk is near its reserve."""
        space = (
            self._disk.shortage(SHORTAGE_FACTOR if self._shares.above else 1) if self._output.holds else None
        )
        if space is None or not self._disk.is_due(space):
            return
        began, table = time.monotonic(), await self._counting.now()
        records = self._known(self._records.find())
        self._open_files.forget_others({(key, record.process) for key, record in records.items()})
        uses = {
            key: await self._disk_share(table, key, record, space.most_at)
            for key, record in records.items()
            # The end of an instance that is not running is about to be recorded.
            if not record.process or kernel.is_running(record.process)
        }
        orgs = {key: records[key].org or key.service for key in uses}
        environments = {key: records[key].environment or key.service for key in uses}
        payers = None if space.free < space.reserve else self._shares.above
        key = disk_reserve.heaviest(space, uses, orgs, self._shares.held, payers, environments)
        record = None if key is None else self._records.known(key)
        if key is not None and record is not None:
            verdict = exit_reason.filled_the_disk(uses[key], space)
            _log.warning(
                "the disk is near its reserve or below: an instance of the organization with most is ended",
                extra={
                    "instance": key.id,
                    "organization": orgs[key],
                    space.unit: uses[key].size(space),
                    "free": space.free,
                },
            )
            await self._instances.end_and_empty(key, record.process, verdict)
            return
        if space.free < space.reserve:
            known = sum(use.whole(space) for use in uses.values())
            facts = {"free": space.free, "of services": known, "unit": space.unit}
            have_more = [key.id for key, use in uses.items() if use.own.has_unmeasured]
            self._warn(_DISK_UNEXPLAINED, facts | ({"may have more": have_more} if have_more else {}))
        self._disk.postpone(space, time.monotonic() - began)

    async def _keep_memory(self) -> None:
        """Ends the instance or service with excessive memory once the memory reserve of the machine is in
        use."""
        available, whole = available_memory()
        if not self._output.holds or not is_memory_short(available, whole):
            return
        if await self._end_heaviest(available) or "memory" not in self._groups.controllers:
            return
        await self._share_memory(kernel_shares.Scarce("memory", whole, whole - available))

    async def unlimited(self) -> Mapping[InstanceKey, Record]:
        """Returns the running instances without a memory control group. Reads the limit of a process once, so
        that hundreds of limited instances cost nothing."""
        supervisors = self._instances.supervisors
        records = await asyncio.to_thread(self._known, supervisors.perhaps_unlimited())
        unlimited = await asyncio.to_thread(_without_limits, records)
        for key in records.keys() - unlimited.keys():
            supervisors.note_limit(key, records[key].process)
        return unlimited

    def _known(self, keys: Iterable[InstanceKey]) -> Mapping[InstanceKey, Record]:
        return {key: record for key in keys if (record := self._records.known(key))}

    async def _end_heaviest(self, available: int) -> bool:
        """Ends the instance that exceeds its memory limit most, among instances without a control group.
        Returns whether one was ended. Kernel buffers of its sockets and pipes count as its memory."""
        records = await asyncio.to_thread(lambda: _without_limits(self._known(self._records.find())))
        if not records or not self._memory_pace.is_due(available):
            return False
        began, table = time.monotonic(), await self._counting.now()
        self._memory_uses.forget_others({(key, record.process) for key, record in records.items()})
        uses = {}
        for key, record in records.items():
            if record.process is not None:
                processes = self._processes(table, key, record)
                with suppress(MeasurementTimeout, TooMuchToMeasure, OSError, ValueError):  # skip it
                    uses[key] = await self._memory_uses.measure(
                        (key, record.process), partial(memory.use, record, processes)
                    )
        heaviest = memory_shares.heaviest(uses)
        if heaviest is not None and (process := records[heaviest].process):
            verdict = exit_reason.took_memory_of_others(uses[heaviest])
            _log.warning(
                "memory of this machine gets short: the instance that is most above its own is ended",
                extra={"instance": heaviest.id, "bytes": uses[heaviest].size, "available": available},
            )
            await self._instances.end_for(heaviest, process, verdict)
            return True
        self._memory_pace.postpone(available, time.monotonic() - began)
        return False

    async def _share_memory(self, scarce: kernel_shares.Scarce) -> None:
        """Ends a service of the organization with the highest memory use, if there are several organizations.

        Each instance is within its limit, but the sum of the limits may exceed the memory of the machine. The
        kernel would then kill the largest process, and memory without a process, such as files in memory,
        would remain. If builds of the organization use more than the chosen service, no service is ended,
        because the kernel ends the builds first.
        """
        records = self._known(self._records.find())
        orgs = {key.service: record.org or key.service for key, record in records.items() if record.process}
        if len({*orgs.values()}) < 2:
            return
        environments = {key.service: record.environment or key.service for key, record in records.items()}
        uses = {
            service: kernel_shares.KernelUse(
                org, await asyncio.to_thread(self._groups.memory_of, service), environments[service]
            )
            for service, org in orgs.items()
        }
        for org in {*orgs.values()}:
            held = await asyncio.to_thread(self._groups.memory_of_steps, org)
            uses[f"builds of {org}"] = kernel_shares.KernelUse(org, held)
        service = kernel_shares.heaviest(uses, scarce)
        if service is None or service not in orgs or kernel_shares.is_unexplained(uses, scarce):
            return
        _log.warning(
            "memory of this machine gets short: a service of the organization with most is ended",
            extra={"service": service, "bytes": uses[service].count, "present": scarce.present},
        )
        verdict = exit_reason.most_memory(uses[service].count)
        for key, record in records.items():
            if key.service == service and record.process:
                self._instances.go(self._instances.end_for(key, record.process, verdict))

    async def _disk_share(
        self, table: ProcessTable, key: InstanceKey, record: Record, new_since: float
    ) -> DiskShare:
        home = self._records.home(key)
        own = [home / name for name in (*files.WRITABLE_FOLDERS, files.RECORDER_FOLDER, "output")]
        processes = self._processes(table, key, record)
        made_at = record.made_at / 1000

        def measure() -> DiskShare:
            volumes = [self._records.volumes / key.service]
            share = DiskShare(
                disk_reserve.measure([*own, self._records.caches / key.service], 0, new_since)
                + disk_reserve.measure([home / "app"], made_at, max(made_at, new_since)),
                *disk_reserve.measure_with_all(volumes, time.time() - _RECENT_GROWTH_SECONDS, new_since),
            )
            before = self._shares.least_of_volumes(key.service)
            return share if before is None else share.grown_from(before)

        try:
            held = await self._open_files.measure(
                (key, record.process), partial(disk_reserve.unlinked, processes.find, home, new_since)
            )
        except MeasurementTimeout as hangs:
            held = Amount(is_hidden=hangs.seconds > _MEASUREMENT_TIMEOUT)
        share = await asyncio.to_thread(measure)
        return structs.replace(share, own=share.own + held)
