"""Secrets are answered once or never, are in no log, and lie sealed in the database."""

from __future__ import annotations

import asyncio
import base64
import io
import logging
import re
import secrets
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from tests.store.stores import Place
from tests.tables import rows
from tests.world import ADMIN, HandClock, World, make_world
from windlass.base.encryption import CannotDecrypt, Encryption, new_key
from windlass.base.log import JsonLines, TextLines
from windlass.config import BadSetting, Settings, describe
from windlass.control.request.hidden_fields import decrypt_hidden
from windlass.install.key import WrongKey

KEY = new_key().hex()


def under(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


# Looking for them


def forms(secret: str) -> Iterator[bytes]:
    """A secret as it is, and in the disguises that hide nothing."""
    plain = secret.encode()
    yield plain
    yield plain.hex().encode()
    yield plain.hex().upper().encode()
    yield plain[::-1]
    for code in (base64.b64encode, base64.urlsafe_b64encode):
        for shift in range(3):
            # Characters at both ends depend on what stands beside it.
            yield code(bytes(shift) + plain)[4 if shift else 0 : -4]


def found_in(haystack: bytes, needles: Iterable[str]) -> list[str]:
    return [needle for needle in needles if any(form in haystack for form in forms(needle))]


async def database(place: Place) -> bytes:
    """All that an operator, a thief or a backup could see of the data."""
    if not place.url:
        return b"".join(file.read_bytes() for file in place.folder.glob("windlass.db*"))
    tables = await place.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    rows: list[tuple[Any, ...]] = []
    for (table,) in tables:
        rows += await place.sql(f"SELECT * FROM {table}")
    values = [value for row in rows for value in row]
    return b"\n".join(bytes(value) if isinstance(value, bytes) else str(value).encode() for value in values)


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """All log records of the process, in both forms."""
    stream = io.StringIO()
    root = logging.getLogger()
    level, handlers = root.level, [logging.StreamHandler(stream) for _ in range(2)]
    handlers[0].setFormatter(JsonLines())
    handlers[1].setFormatter(TextLines())
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield stream
    root.setLevel(level)
    for handler in handlers:
        root.removeHandler(handler)


class Canaries:
    """A world in which secrets were given and made, and everything that was said of it since."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.secrets: dict[str, str] = {"admin token": ADMIN, "key": KEY}
        self.said: list[bytes] = []
        self.variable = self.new("variable", keep=False)

    def new(self, what: str, *, keep: bool = True) -> str:
        canary = f"canary{secrets.token_hex(16)}"
        if keep:
            self.secrets[what] = canary
        return canary

    async def ask(self, method: str, path: str, body: Any = msgspec.UNSET, **options: Any) -> Any:
        answer = await self.world.call(method, path, body, **options)
        self.said.append(answer.body + repr(sorted(answer.headers.items())).encode())
        return answer

    async def told_once(self, what: str, path: str, body: Any, field: str, **options: Any) -> Any:
        """A creation that answers a secret: that answer is the one place where it may be."""
        answer = await self.world.post(path, body, **options)
        assert answer.status in {200, 201}, answer
        self.secrets[what] = answer[field]
        return answer

    @property
    def leaked(self) -> list[str]:
        return found_in(b"\n".join(self.said), self.secrets.values())


@pytest.fixture
async def canaries(
    place: Place, clock: HandClock, logged: io.StringIO, tmp_path: Path
) -> AsyncIterator[Canaries]:
    logging_to: dict[str, Any] = {"access_log": True, "access_log_file": str(tmp_path / "access.log")}
    async with make_world(place.url, folder=place.folder, clock=clock, key=KEY, **logging_to) as world:
        told = Canaries(world)
        await give_secrets(told)
        await make_tokens(told)
        yield told


async def give_secrets(told: Canaries) -> None:
    world = told.world
    project = await world.project()
    environment = await world.environment(project)
    app = await world.application(environment)
    levels = {
        f"/project/{project}": "SECRET_P",
        f"/environment/{environment}": "SECRET_E",
        f"/application/{app}": "SECRET_A",
    }
    ids = {}
    for path, key in levels.items():
        body = {"key": key, "value": told.new(f"secret of {key}"), "description": "shown"}
        ids[key] = (await told.ask("POST", f"{path}/secret", body, headers=under(key)))["id"]
        await told.ask("POST", f"{path}/secret", body, headers=under(key))
        await told.ask("GET", f"{path}/secret")
    here = f"/application/{app}/secret"
    await told.ask("POST", f"{here}/{ids['SECRET_P']}/override", {"value": told.new("override")})
    await told.ask("POST", f"{here}/{ids['SECRET_E']}/alias", {"key": "ALIAS"})
    await told.ask("PUT", f"{here}/{ids['SECRET_A']}", {"value": told.new("second value")})
    for path in levels:
        await told.ask("GET", f"{path}/secret")
    await told.ask(
        "POST", f"/application/{app}/environmentVariable", {"key": "PLAIN", "value": told.variable}
    )
    await refused_secrets(told, here)
    await a_webhook(told)
    await told.ask("POST", f"/application/{app}/deploy", headers=under("deploy"))
    await world.settle()
    world.engine.crash = RuntimeError("a crash, with its trace")
    await told.ask("POST", f"/application/{app}/deploy")
    await world.settle()
    for path in (f"/application/{app}", f"/application/{app}/status", f"/application/{app}/log"):
        await told.ask("GET", path)


async def refused_secrets(told: Canaries, path: str) -> None:
    """Messages about a wrong request do not repeat its values."""
    canary = told.new("refused")
    for body in (
        {"key": "not a key", "value": canary},
        {"key": "SECRET_A", "value": canary},
        {"key": "K", "value": [canary]},
        {"key": "K", "value": canary * 4_000},
        {"key": "K", "value": canary, "mount_path": "no path"},
        {"value": canary},
        [canary],
        canary,
    ):
        answer = await told.ask("POST", path, body)
        assert answer.status in {400, 409}, answer
    answer = await told.ask("POST", path, raw=f'{{"key": "K", "value": "{canary}"'.encode())
    assert answer.status == 400


async def a_webhook(told: Canaries) -> None:
    path = f"/organization/{told.world.org}/webhook"
    body = {"target_url": "https://hooks.example/", "events": ["DEPLOYMENT_FAILED"]}
    made = await told.ask(
        "POST", path, {**body, "target_secret": told.new("webhook")}, headers=under("webhook")
    )
    assert made["target_secret_set"]
    await told.ask("PUT", f"{path}/{made['id']}", {"target_secret": told.new("webhook, changed")})
    await told.ask("GET", path)
    await told.ask("GET", f"{path}/{made['id']}")


async def make_tokens(told: Canaries) -> None:
    world = told.world
    path = f"/organization/{world.org}/apiToken"
    for number, headers in enumerate(({}, under("token"))):
        body = {"name": f"token {number}", "scopes": ["Admin"]}
        answer = await told.told_once(f"token {number}", path, body, "token", headers=headers)
        token = answer["token"]
        if headers:
            # The same answer, to the same caller, for the same request: that is what a key is for.
            again = await world.post(path, body, headers=headers)
            assert again.body == answer.body
        await told.ask("GET", "/organization", token=token)
        await told.ask("GET", f"{path}/{answer['id']}", token=token)
        await told.ask("GET", "/organization", token=token[:-1])
        session = await world.post("/account/session", token=token, headers=under("session"))
        assert session.status in {200, 201}, session
        told.secrets[f"session {number}"] = session["token"]
        await told.ask("GET", "/organization", token=f"Bearer {session['token']}")
    await told.told_once(
        "another organization's token",
        "/organization",
        {"name": "other", "plan": "FREE"},
        "admin_token",
        headers=under("organization"),
    )
    await told.ask("GET", path)
    await told.ask("GET", f"/organization/{world.org}/project", token="wrong-" + told.new("a wrong token"))
    await world.installation.authenticator.note()


# And not finding them


async def test_a_secret_is_shown_only_in_the_answer_to_its_creation(canaries: Canaries):
    assert len(canaries.secrets) >= 14
    assert canaries.leaked == []


async def test_the_value_of_a_plain_variable_is_shown(canaries: Canaries):
    assert found_in(b"\n".join(canaries.said), [canaries.variable])


async def test_no_log_line_shows_a_secret(canaries: Canaries, logged: io.StringIO, tmp_path: Path):
    if log := canaries.world.installation.app.access_log:
        await log.write()
    lines = logged.getvalue() + (tmp_path / "access.log").read_text()
    assert found_in(lines.encode(), canaries.secrets.values()) == []
    assert "a crash, with its trace" in lines
    assert len(re.findall("POST /application", lines)) >= 10


async def test_the_database_contains_no_plain_text_secrets_but_plain_variables(
    canaries: Canaries, place: Place
):
    before = await database(place)
    assert found_in(before, canaries.secrets.values()) == []
    assert found_in(before, [canaries.variable])
    assert found_in(before, ["SECRET_A"])


async def test_no_file_contains_a_plain_text_secret_while_running_or_stopped(place: Place, clock: HandClock):
    async with make_world(place.url, folder=place.folder, clock=clock, key=KEY) as world:
        canaries = Canaries(world)
        await give_secrets(canaries)
        await make_tokens(canaries)
        running = files(place)
    stopped = files(place)
    for names, content in (running, stopped):
        assert found_in(content, canaries.secrets.values()) == []
        assert bool(found_in(content, [canaries.variable])) is (not place.url)
        assert "key" not in names  # it was given in the settings
    assert place.url or "windlass.db-wal" in running[0]


def files(place: Place) -> tuple[set[str], bytes]:
    found = [file for file in place.folder.rglob("*") if file.is_file()]
    return {file.name for file in found}, b"".join(file.read_bytes() for file in found)


@rows("number", range(10))
def test_the_search_for_secrets_finds_encoded_values(number: int):
    canary = f"canary{secrets.token_hex(16)}"
    disguised = list(forms(canary))[number]
    assert len(disguised) > 30
    assert found_in(b"before" + disguised + b"after", [canary]) == [canary]
    assert found_in(b"beforeafter", [canary]) == []


async def test_displayed_settings_mask_their_secrets(place: Place, clock: HandClock):
    settings = Settings(admin_token=ADMIN, key=KEY, database_url="postgresql://u:canary-password@host/db")
    shown = repr(describe(settings, {}))
    assert found_in(shown.encode(), [ADMIN, KEY, "canary-password"]) == []


# Sealed values are bound to their place


async def sealed_secrets(world: World) -> list[str]:
    app = await world.application()
    path = f"/application/{app}/secret"
    return [
        await world.made(path, {"key": f"KEY_{number}", "value": f"value {number}"}) for number in range(2)
    ]


async def test_a_sealed_value_moved_to_another_resource_cannot_be_decrypted(world: World, place: Place):
    one, other = await sealed_secrets(world)
    ctx = world.installation.ctx
    row = await ctx.store.reads.resources.get(one)
    assert row
    assert decrypt_hidden(ctx, row) == {"value": "value 0"}
    stolen = await place.sql("SELECT sealed FROM resource WHERE id = $1", one)
    await place.sql("UPDATE resource SET sealed = $1 WHERE id = $2", stolen[0][0], other)
    moved = await ctx.store.reads.resources.get(other)
    assert moved
    assert moved.sealed == row.sealed
    with pytest.raises(CannotDecrypt):
        decrypt_hidden(ctx, moved)


@pytest.mark.parametrize("field", ["org", "id", "tag"])
async def test_a_secret_is_bound_to_its_organization_resource_and_version(world: World, field: str):
    id, _ = await sealed_secrets(world)
    ctx = world.installation.ctx
    row = await ctx.store.reads.resources.get(id)
    assert row
    with pytest.raises(CannotDecrypt):
        decrypt_hidden(ctx, msgspec.structs.replace(row, **{field: "another"}))


async def test_an_idempotent_answer_cannot_be_decrypted_for_another_caller(world: World, place: Place):
    await world.post(f"/organization/{world.org}/project", {"name": "shop"}, headers=under("k"))
    ((caller, answer),) = await place.sql("SELECT caller, answer FROM idempotency")
    encryption = world.installation.ctx.encryption
    assert b"shop" in encryption.decrypt(answer, caller, "k")
    for other in ((caller, "l"), ("token:another", "k"), (f"{caller}|k",)):
        with pytest.raises(CannotDecrypt):
            encryption.decrypt(answer, *other)


async def test_a_secret_that_does_not_open_is_not_shown(world: World, place: Place):
    """A person is told that something is wrong here, and nothing about it."""
    id, other = await sealed_secrets(world)
    await place.sql("UPDATE resource SET sealed = $1 WHERE id = $2", b"\x01" + bytes(100), id)
    ((app,),) = await place.sql("SELECT parent FROM resource WHERE id = $1", id)
    answer = await world.post(f"/application/{app}/secret/{id}/alias", {"key": "ALIAS"})
    assert answer.status == 500
    assert "seal" not in answer.message
    assert (await world.post(f"/application/{app}/secret/{other}/alias", {"key": "ALIAS"})).status == 201


# The key


async def opened(place: Place, **settings: Any) -> None:
    async with make_world(place.url, folder=place.folder, **settings):
        pass


async def test_a_start_without_the_key_file_is_refused_with_advice(place: Place):
    await opened(place)
    file = place.folder / "key"
    kept = file.read_text()
    file.unlink()
    with pytest.raises(WrongKey, match=r"bring back the file `key`.*or set WINDLASS_KEY"):
        await opened(place)
    assert not file.exists()  # making another one would lose all that is sealed
    await opened(place, key=kept.strip())
    file.write_text(kept)
    await opened(place)


async def test_a_start_with_another_key_is_refused_with_the_required_fingerprint(place: Place):
    await opened(place, key=KEY)
    with pytest.raises(WrongKey, match="bring back the file `key`") as refusal:
        await opened(place, key=new_key().hex())
    assert Encryption(bytes.fromhex(KEY)).fingerprint in str(refusal.value)
    assert KEY not in str(refusal.value)
    with pytest.raises(WrongKey):
        await opened(place)
    await opened(place, key=KEY)


@pytest.mark.parametrize("key", ["", "12", "zz" * 32, "00" * 31, "00" * 33])
async def test_a_key_file_that_holds_no_key_is_refused_by_name(tmp_path: Path, key: str):
    (tmp_path / "key").write_text(key)
    with pytest.raises(BadSetting, match=r"file `key`.*64 hexadecimal digits"):
        await opened(Place("", tmp_path))


async def test_the_key_file_is_private_and_written_atomically(place: Place):
    await opened(place)
    file = place.folder / "key"
    assert file.stat().st_mode & 0o777 == 0o600
    assert re.fullmatch(r"[0-9a-f]{64}\n", file.read_text())
    assert file.stat().st_nlink == 1
    assert [one.name for one in place.folder.iterdir() if one.name.startswith(".")] == []


async def test_replicas_that_start_at_once_with_different_keys_do_not_both_start(
    empty_database: str, tmp_path: Path
):
    places = [Place(empty_database, tmp_path / name) for name in "abc"]
    outcomes = await asyncio.gather(*(opened(place) for place in places), return_exceptions=True)
    assert sorted(str(type(outcome).__name__) for outcome in outcomes) == ["NoneType", "WrongKey", "WrongKey"]
    connection = await asyncpg.connect(empty_database)
    assert await connection.fetchval("SELECT count(*) FROM fact WHERE name = 'key_fingerprint'") == 1
    await connection.close()
