"""Lists, restores and erases services that were set aside because the database did not know them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

from windlass.base.clock import SystemClock
from windlass.config import Settings, to_type
from windlass.control.background.service_data import (
    Occupied,
    OtherEngine,
    OtherVersion,
    ServiceDataStores,
    SetAside,
    records,
)
from windlass.install.ownership import check, holdings, read_state
from windlass.install.parts import real_parts
from windlass.terminal.command_errors import CommandRefused


def set_aside_services(settings: Settings) -> list[SetAside]:
    return [*records(Path(settings.data_dir)).values()]


async def put_back(settings: Settings, service: str) -> SetAside:
    await check(settings)
    record = _record(settings, service)
    if service not in (await read_state(settings, None)).present:
        raise CommandRefused(
            f"the service {_title(record)} cannot be put back: this database has no record of it. "
            f"Start with the database of installation {record.installation}, or restore a backup with it"
        )
    async with _holdings(settings, record) as held:
        try:
            await held.put_back(service)
        except Occupied as error:
            raise CommandRefused(
                f"the service {_title(record)} was deployed again meanwhile, and nothing is replaced: "
                f"uninstall it first ({error})"
            ) from error
        except (OtherEngine, OtherVersion) as error:
            raise CommandRefused(str(error)) from error
    return record


async def purge(settings: Settings, services: Sequence[str]) -> None:
    """Erases services that are set aside. If the database has a service again, only its data that is set
    aside is erased."""
    await check(settings)
    present = (await read_state(settings, None)).present
    for service in services:
        record = _record(settings, service)
        async with _holdings(settings, record) as held:
            try:
                await held.purge(service, everywhere=service not in present)
            except (OtherEngine, OtherVersion) as error:
                raise CommandRefused(str(error)) from error


def _record(settings: Settings, service: str) -> SetAside:
    record = records(Path(settings.data_dir)).get(service)
    if record is None:
        shown = to_type(settings, "set-aside list")
        raise CommandRefused(f"no service {service} is set aside: `{shown}` shows those that are")
    return record


def _title(record: SetAside) -> str:
    return f"{record.name} ({record.service})" if record.name else record.service


def _holdings(settings: Settings, record: SetAside) -> AbstractAsyncContextManager[ServiceDataStores]:
    return holdings(settings, partial(real_parts, settings, SystemClock()), record.installation)
