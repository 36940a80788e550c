"""Help for tests of key rotation: sealed values with their keys, and a command that is killed."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

from tests.identity.people import PASSWORD, new_person
from tests.operate.installations import again, furnish, settings_of
from tests.world import World, make_world
from windlass.base.encryption import HEAD_BYTES, key_of
from windlass.config import Settings
from windlass.control.records.sealing_keys import read_keys
from windlass.control.request.hidden_fields import decrypt_hidden
from windlass.install.database import reading_snapshot
from windlass.install.key import load_encryption
from windlass.operate.keys import rotate
from windlass.store import NEVER, CertificateRow, OrderRow, Tx
from windlass.store.archive import Snapshot
from windlass.store.tables import sealed

UNDER = {"Idempotency-Key": "before"}
_SHORTEST = 77
"""Bytes of an empty value that is sealed: format, nonce, wrapped key and tag."""
Rows = dict[str, list[tuple[Any, ...]]]


async def rows_of(settings: Settings) -> tuple[Rows, Rows]:
    """Returns all rows of all tables without their sealed values, and the sealed values with their places."""
    plain: Rows = {}
    values: Rows = {}
    heads = {bytes.fromhex(id) for id in load_encryption(settings).known}
    async with reading_snapshot(settings) as line:
        moment = Snapshot(line)
        for table in await moment.tables():
            for row in [tuple(row) async for row in moment.rows(table)]:
                found = {place for place in table.binary if is_sealed(row[place], heads)}
                plain.setdefault(table.name, []).append(
                    tuple(value for place, value in enumerate(row) if place not in found)
                )
                for place in found:
                    name = f"{table.name}.{table.columns[place]}"
                    values.setdefault(name, []).append((row[0], bytes(row[place])))
    return {name: sorted(rows, key=repr) for name, rows in plain.items()}, values


def is_sealed(value: Any, heads: Collection[bytes]) -> bool:
    """True for bytes that name one of the keys, or that have the format of values that name none."""
    if value is None:
        return False
    return any(value[1:HEAD_BYTES] == head for head in heads) or (
        value[:1] == b"\1" and len(value) >= _SHORTEST
    )


async def keys_of_values(settings: Settings) -> Counter[str]:
    """Counts values by the key that sealed them, in every column of every table."""
    _, values = await rows_of(settings)
    async with reading_snapshot(settings) as line:
        state = await read_keys(Snapshot(line).reads)
    assert state is not None
    return Counter(key_of(value) or state.records[0].id for rows in values.values() for _, value in rows)


def undeclared(values: Rows) -> set[str]:
    """Returns columns with sealed values that the store does not declare."""
    return set(values) - {column.name for column in sealed.COLUMNS}


async def rotated(settings: Settings, **options: Any) -> list[str]:
    """Replaces the key; returns what an operator is told."""
    told: list[str] = []
    await rotate(settings, told.append, **options)
    return told


def killed_at(settings: Settings, point: str, time: int = 1) -> bool:
    """Runs the command in a process of its own, and kills it at a point. Returns False if it ends first."""
    child = os.fork()
    if not child:
        _be_killed(settings, point, time)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def _be_killed(settings: Settings, point: str, time: int) -> None:
    seen: Counter[str] = Counter()

    async def at(name: str) -> None:
        seen[name] += 1
        if (name, seen[name]) == (point, time):
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        asyncio.run(rotate(settings, lambda text: None, point=at))
    except BaseException:  # noqa: BLE001 (nothing may return into the tests)
        os._exit(1)
    os._exit(0)


def key_file(settings: Settings) -> Path:
    return Path(settings.data_dir) / "key"


async def sealed_installation(database_url: str, folder: Path) -> Settings:
    async with make_world(database_url, folder=folder) as world:
        await furnish(world)
        await world.post("/account/session")
        body = {"name": "kept", "scopes": ["Read"]}
        await world.post(f"/organization/{world.org}/apiToken", body, headers=UNDER)
        person = await new_person(world, "ada@example.com")
        assert (await person.call("POST", "/account/secondFactor", {"password": PASSWORD})).status == 201
        await world.post(f"/service/{await world.application()}/gitWebhook")
        registries = f"/organization/{world.org}/containerRegistry"
        generic = {"name": "r", "kind": "GENERIC_CR", "url": "https://registry.example.com", "config": {}}
        registry = await world.made(registries, generic)
        await world.post(f"{registries}/{registry}/renewWebhook")
        await seal_certificate(world)
        return settings_of(world)


async def seal_certificate(world: World) -> None:
    """Stores a certificate and the order for the next one, with their keys."""
    encrypt, org = world.installation.ctx.encryption.encrypt, world.org
    key = encrypt(b"key", *sealed.CERTIFICATE_KEY.owner(id="domain"))
    next_key = encrypt(b"next key", *sealed.ORDER_KEY.owner(id="domain"))
    names = ("domain", org, "service", "shop.example.com")

    async def change(tx: Tx) -> None:
        await tx.certificates.set(CertificateRow(*names, "chain", key, "00", 0, NEVER, NEVER, "ACME"))
        await tx.certificates.set_order(OrderRow(*names, "https://ca.example", "/order/1", next_key))

    await world.installation.ctx.store.write(change)


def present(settings: Settings) -> str:
    return load_encryption(settings).fingerprint


async def secret_of(world: World) -> dict[str, str]:
    """The values of all variables, by key."""
    reads = world.installation.ctx.store.reads
    rows = [row for row in await reads.resources.of_org(world.org, "environmentVariable") if row.sealed]
    rows += [row for row in await reads.resources.of_org(world.org, "secret") if row.sealed]
    return {row.name or "": decrypt_hidden(world.installation.ctx, row)["value"] for row in rows}


async def serve_once(settings: Settings) -> None:
    async with again(settings) as world:
        assert await secret_of(world) == {f"KEY_{number}": f"sealed {number}" for number in range(3)}
