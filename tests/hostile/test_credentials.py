"""A credential is sent to the host that it was given for, and to no other: whatever is changed beside it.

Every sealed field of the registry is tried against every address beside it, and against every address of what
refers to it. Two listeners stand on loopback: the credential's own host, and another one.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct, inspect

from tests.forms import either
from tests.hostile.fields import fields_of
from tests.loopback import Receiver, receiver
from tests.world import ADMIN, Answer, World, make_world
from windlass.builders.git import Git
from windlass.control.request import changing, creating
from windlass.control.services import git_tokens
from windlass.control.workloads import repositories
from windlass.core.declare.document import narrowed, patched
from windlass.core.declare.fields import hidden
from windlass.core.declare.resource import Family
from windlass.families import registry
from windlass.store import Row

CANARY = "ghp_CANARY0123456789"
LOOPBACK = ["127.0.0.0/8"]
ADDRESS = re.compile(r"https?")
Caller = tuple[str, str]
"""Method and token."""


class Ears(Struct):
    """Two listeners: the host of the credential, and another one."""

    own: Receiver
    elsewhere: Receiver

    def heard(self, who: Receiver) -> bool:
        """True if the secret arrived, as it is or as git sends it."""
        return any(CANARY in plainly(request) for request in who.requests)


def plainly(request: bytes) -> str:
    text = request.decode(errors="replace")
    for found in re.findall(r"Authorization: Basic (\S+)", text, re.IGNORECASE):
        text += base64.b64decode(found).decode(errors="replace")
    return text


class Ground(Struct):
    """A credential in its place, and how to make the server use it."""

    world: World
    ears: Ears
    paths: Mapping[str, str]
    """Family to the path of the thing: the credential, and what refers to it."""
    use: Callable[[], Awaitable[None]]


@contextlib.asynccontextmanager
async def listening(tmp_path: Path) -> AsyncIterator[tuple[World, Ears]]:
    git = Git(allow_local=True, outbound_allow=LOOPBACK, home=tmp_path / "git")
    async with (
        receiver() as own,
        receiver() as elsewhere,
        make_world(outbound_allow=LOOPBACK, out=None, git=git) as world,
    ):
        yield world, Ears(own, elsewhere)


async def git_ground(world: World, ears: Ears) -> Ground:
    body = {"name": "g", "type": "GITHUB", "token": CANARY, "git_api_url": ears.own.url(path="/api/v3")}
    token = await world.made(f"/organization/{world.org}/gitToken", body)
    repository = {"url": ears.own.url(path="/acme/shop.git"), "branch": "main", "git_token_id": token}
    app = await world.application(git_repository=repository)

    async def use() -> None:
        await world.get(f"/application/{app}/commit")
        await world.post(f"/application/{app}/deploy")
        await world.settle()

    paths = {"gitToken": f"/organization/{world.org}/gitToken/{token}", "application": f"/application/{app}"}
    return Ground(world, ears, paths, use)


async def webhook_ground(world: World, ears: Ears, *, send_secret: bool = True) -> Ground:
    body = {"target_url": ears.own.url(), "events": ["DEPLOYMENT_STARTED"], "target_secret": CANARY}
    webhook = await world.made(f"/organization/{world.org}/webhook", body | {"send_secret": send_secret})
    path = f"/organization/{world.org}/webhook/{webhook}"

    async def use() -> None:
        await world.post(f"{path}/test")
        await world.post(f"{path}/replay", {"only_failed": False})
        await world.settle()

    return Ground(world, ears, {"webhook": path}, use)


GROUNDS = {("gitToken", "token"): git_ground, ("webhook", "target_secret"): webhook_ground}
"""How each credential that the server sends is put to use."""


class Change(Struct, frozen=True):
    family: Family
    field: tuple[str, ...]
    kind: str

    def __str__(self) -> str:
        return f"{self.family.name}.{'.'.join(self.field)} {self.kind}"


def changes(family: Family) -> list[Change]:
    """Every way to turn an address of the credential, or of what refers to it."""
    referring = [other for other in registry().families.values() if family.name in referred(other)]
    return [change for one in (family, *referring) for change in changes_of(one)]


def referred(family: Family) -> set[str]:
    return {reference.family for reference in family.references.values()}


def changes_of(family: Family) -> Iterator[Change]:
    declared = {field for fields in family.sent_to.values() for field in fields}
    for path, kind in fields_of(inspect.type_info(family.spec), in_lists=False):
        if isinstance(kind, inspect.StrType) and ADDRESS.search(kind.pattern or ""):
            yield Change(family, path, "elsewhere")
        elif path[0] in declared and isinstance(kind, inspect.BoolType):
            yield Change(family, path, "on")
        elif path[0] in declared and isinstance(kind, inspect.LiteralType):
            for value in kind.values:
                yield Change(family, path, str(value))


async def make(ground: Ground, change: Change, method: str, token: str) -> Answer:
    """With PUT it sends the document back as it is shown, with this change; with PATCH the change alone."""
    path, known = ground.paths[change.family.name], {fact.name for fact in change.family.facts}
    value = {"elsewhere": ground.ears.elsewhere.url(path="/acme/shop.git"), "on": True}.get(
        change.kind, change.kind
    )
    body: Any = value
    for step in reversed(change.field):
        body = {step: body}
    if method == "PUT":
        shown = narrowed((await ground.world.get(path, token=token)).json, change.family.spec)
        sent = {name: value for name, value in shown.items() if name in known - change.family.fixed}
        body = patched(sent, body, change.family.spec)
    return await ground.world.call(method, path, body, token=token)


Way = tuple[Change, ...]


def ways(family: Family, callers: Sequence[Caller]) -> Iterator[tuple[Way, Caller]]:
    """Sequences of one and of two changes, with callers; in the quick form a pair has one of them."""
    every = changes(family)
    yield from itertools.product(itertools.permutations(every, 1), callers)
    pairs = itertools.permutations(every, 2)
    yield from either(zip(pairs, itertools.cycle(callers), strict=False), itertools.product(pairs, callers))


async def leaks(family: Family, secret: str, tmp_path: Path) -> AsyncGenerator[str, None]:
    """Yields the sequences of changes after which the secret came elsewhere."""
    async with listening(tmp_path) as (world, ears):
        write = await world.new_token("Write", "Deploy")
        for way, (method, token) in ways(family, [("PUT", write), ("PATCH", write), ("PUT", ADMIN)]):
            ears.elsewhere.requests.clear()
            ground = await GROUNDS[family.name, secret](world, ears)
            for change in way:
                await make(ground, change, method, token)
            await ground.use()
            if ears.heard(ears.elsewhere):
                yield " then ".join(map(str, way))
            for path in ground.paths.values():
                await world.delete(path)


SENT = [(family, secret) for family in registry().families.values() for secret in family.sent_to]
KEYS = {("cluster", "engine_key")}
"""Private keys sign and are never sent themselves; tests/running/test_clusters.py has their rules."""
SOMEWHERE = [
    (family, secret)
    for family, secret in SENT
    if family.sent_to[secret] and (family.name, secret) not in KEYS
]
each_credential = pytest.mark.parametrize(
    ("family", "secret"), SOMEWHERE, ids=[f"{family.name}.{secret}" for family, secret in SOMEWHERE]
)


def test_every_credential_that_the_server_sends_is_put_to_use_here():
    assert {(family.name, secret) for family, secret in SOMEWHERE} == set(GROUNDS)
    for family, secret in SOMEWHERE:
        assert changes(family), f"{family.name}.{secret}"


@each_credential
async def test_a_credential_reaches_its_own_host(family: Family, secret: str, tmp_path: Path):
    async with listening(tmp_path) as (world, ears):
        ground = await GROUNDS[family.name, secret](world, ears)
        await ground.use()
        assert ears.heard(ears.own)


@pytest.mark.sized
@each_credential
async def test_no_change_sends_a_credential_to_another_host(family: Family, secret: str, tmp_path: Path):
    assert [leak async for leak in leaks(family, secret, tmp_path)] == []


@each_credential
async def test_without_the_rules_a_credential_would_follow_the_address(
    family: Family, secret: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async def nothing(*_: Any) -> None:
        """Judges nothing."""

    monkeypatch.setattr(changing, "check_addresses", lambda *_: False)
    for module in (creating, changing):
        monkeypatch.setattr(module, "check_openings", nothing)
    for module in (git_tokens, repositories):
        monkeypatch.setattr(module, "why_not_sent", lambda *_: "")
    async with contextlib.aclosing(leaks(family, secret, tmp_path)) as found:
        assert await anext(found, "")


def test_a_sealed_field_says_where_it_is_sent():

    with pytest.raises(TypeError, match="sent_to"):
        hidden("token_set")  # type: ignore[call-arg]


# What the review did


async def stored_elsewhere(world: World, app: str, url: str) -> None:
    """As an earlier version would have stored it."""

    async def change(tx: Any) -> None:
        row: Row = await tx.resources.get(app)
        document = msgspec.json.decode(row.body)
        document["git_repository"]["url"] = url
        await tx.resources.rewrite(row.id, msgspec.json.encode(document))

    await world.installation.ctx.store.write(change)


async def test_an_address_that_was_stored_before_gets_no_git_token(tmp_path: Path):
    async with listening(tmp_path) as (world, ears):
        ground = await git_ground(world, ears)
        app = ground.paths["application"]
        await stored_elsewhere(world, app.rpartition("/")[2], ears.elsewhere.url(path="/acme/shop.git"))
        answer = await world.get(f"{app}/commit")
        assert answer.status == 409
        assert "git_repository.git_token_id: this git token is for 127.0.0.1" in answer.message
        deployment = (await world.post(f"{app}/deploy"))["id"]
        await world.settle()
        shown = await world.get(f"{app}/deployment/{deployment}")
        assert shown["status"] == "FAILED"
        assert "git_token_id" in shown["message"]
        assert not ears.elsewhere.requests
        # The rest of the application can still be changed.
        assert (await world.put(app, {"cpu": 600})).status == 200


async def test_a_repository_on_another_host_is_refused_with_the_way_out(tmp_path: Path):
    async with listening(tmp_path) as (world, ears):
        ground = await git_ground(world, ears)
        url = ears.elsewhere.url(path="/acme/shop.git")
        repository = (await world.get(ground.paths["application"]))["git_repository"]
        sent = {"url": url, "git_token_id": repository["git_token_id"]}
        answer = await world.put(ground.paths["application"], {"git_repository": sent})
        assert answer.status == 400
        assert answer.message == (
            f"git_repository.git_token_id: this git token is for 127.0.0.1:{ears.own.port}, "
            f"and the repository is on 127.0.0.1:{ears.elsewhere.port}: choose a git token "
            f"whose git_api_url is on 127.0.0.1:{ears.elsewhere.port}, or none"
        )
        without = {"git_repository": {"url": url, "git_token_id": None}}
        assert (await world.put(ground.paths["application"], without)).status == 200


@pytest.mark.parametrize(
    ("type", "api", "url", "sent"),
    [
        ("GITHUB", None, "https://github.com/acme/shop.git", True),
        ("GITHUB", None, "https://GitHub.com./acme/shop", True),
        ("GITHUB", None, "https://github.com:443/acme/shop", True),
        ("GITHUB", None, "https://github.com:8443/acme/shop", False),
        ("GITHUB", None, "https://github.com.evil.example/acme/shop", False),
        ("GITHUB", None, "https://github.com@evil.example/acme/shop", False),
        ("GITHUB", None, "https://evil.example/github.com/shop", False),
        ("GITHUB", None, "https://gitlab.com/acme/shop", False),
        ("GITHUB", None, "https://gist.github.com/acme/shop", False),
        ("GITHUB", None, "git://github.com/acme/shop", False),
        ("GITHUB", "https://git.acme.example/api/v3", "https://git.acme.example/acme/shop", True),
        ("GITHUB", "https://git.acme.example/api/v3", "https://github.com/acme/shop", False),
        ("GITHUB", "https://api.acme.ghe.com", "https://acme.ghe.com/acme/shop", True),
        ("GITHUB", "https://api.acme.ghe.com", "https://other.ghe.com/acme/shop", False),
        ("GITLAB", None, "https://gitlab.com/acme/shop", True),
        ("GITLAB", "https://[2001:db8::7]:8443/api/v4", "https://[2001:DB8:0::7]:8443/acme/shop", True),
        ("BITBUCKET", None, "https://bitbucket.org/acme/shop", True),
    ],
)
async def test_a_git_token_is_for_the_host_of_its_api(type: str, api: str | None, url: str, sent: bool):
    async with make_world() as world:
        body = {"name": "g", "type": type, "token": CANARY, "workspace": "acme"}
        body |= {"git_api_url": api} if api else {}
        token = await world.made(f"/organization/{world.org}/gitToken", body)
        environment = await world.environment()
        repository = {"url": url, "git_token_id": token}
        application = {"name": "a", "git_repository": repository}
        answer = await world.post(f"/environment/{environment}/application", application)
        assert answer.status == (201 if sent else 400), answer
        assert sent or answer.message.startswith("git_repository.git_token_id: ")


async def test_a_limited_token_turns_no_repository_that_a_git_token_opens(tmp_path: Path):
    async with listening(tmp_path) as (world, ears):
        ground = await git_ground(world, ears)
        app = ground.paths["application"]
        limited = await world.new_token("Write", limited_to=[app.rpartition("/")[2]])
        assert (await world.get(f"/organization/{world.org}/gitToken", token=limited))["results"] == []
        repository = (await world.get(app, token=limited))["git_repository"]
        kept = {"url": repository["url"], "git_token_id": repository["git_token_id"]}
        another = kept | {"url": ears.own.url(path="/acme/other.git")}
        answer = await world.put(app, {"git_repository": another}, token=limited)
        assert (answer.status, answer.message.partition(":")[0]) == (403, "git_repository.url")
        # What it does not change, it may send back; and it may go on without the git token.
        assert (await world.put(app, {"git_repository": kept, "cpu": 600}, token=limited)).status == 200
        without = another | {"git_token_id": None}
        assert (await world.put(app, {"git_repository": without}, token=limited)).status == 200


async def test_another_host_of_a_git_token_asks_for_its_value(tmp_path: Path):
    async with listening(tmp_path) as (world, ears):
        path = (await git_ground(world, ears)).paths["gitToken"]
        for change in ({"git_api_url": ears.elsewhere.url(path="/api")}, {"type": "GITLAB"}):
            answer = await world.put(path, change)
            assert (answer.status, answer.message.partition(":")[0]) == (400, "token")
            assert (await world.put(path, change | {"token": "another"})).status == 200
        assert (await world.put(path, {"description": "for builds"})).status == 200


async def test_another_address_of_a_webhook_asks_for_its_secret(tmp_path: Path):
    async with listening(tmp_path) as (world, ears):
        path = (await webhook_ground(world, ears, send_secret=False)).paths["webhook"]
        write = await world.new_token("Write")
        for change in (
            {"target_url": ears.elsewhere.url()},
            {"target_url": ears.own.url(path="/other")},
            {"send_secret": True},
        ):
            answer = await world.put(path, change, token=write)
            assert (answer.status, answer.message.partition(":")[0]) == (400, "target_secret")
        # It can be said again, or given up; and what does not move it asks for nothing.
        moved = {"target_url": ears.elsewhere.url(), "target_secret": "another one"}
        assert (await world.put(path, moved, token=write)).status == 200
        assert (await world.put(path, {"target_url": ears.own.url(), "target_secret": ""})).status == 200
        assert (await world.get(path))["target_secret_set"] is False
        assert (await world.put(path, {"enabled": False, "send_secret": False})).status == 200


async def test_a_secret_that_is_being_replaced_signs_nothing_at_another_address(tmp_path: Path):
    async with listening(tmp_path) as (world, ears):
        path = (await webhook_ground(world, ears, send_secret=False)).paths["webhook"]
        await world.post(f"{path}/rotateSecret", {"target_secret": "the second", "overlap_in_hours": 24})
        await world.post(f"{path}/test")
        await world.settle()
        moved = {"target_url": ears.elsewhere.url(), "target_secret": "the third"}
        assert (await world.put(path, moved)).status == 200
        await world.post(f"{path}/test")
        await world.settle()
        assert [signatures(one.requests[-1]) for one in (ears.own, ears.elsewhere)] == [2, 1]


def signatures(request: bytes) -> int:
    found = re.search(rb"webhook-signature: (.*)\r\n", request, re.IGNORECASE)
    return len(found[1].split()) if found else 0


async def test_deliveries_are_replayed_to_the_address_they_were_sent_to_alone(tmp_path: Path):
    async with listening(tmp_path) as (world, ears):
        path = (await webhook_ground(world, ears)).paths["webhook"]
        first = (await world.post(f"{path}/test"))["id"]
        await world.settle()
        waiting = await world.post(f"{path}/test")
        moved = {"target_url": ears.elsewhere.url(), "target_secret": "another one"}
        assert (await world.put(path, moved)).status == 200
        answer = await world.post(f"{path}/replay", {"event_id": first})
        assert (answer.status, answer.message.partition(":")[0]) == (409, "event_id")
        assert (await world.post(f"{path}/replay", {"only_failed": False}))["replayed"] == 0
        await world.settle()
        assert not [one for one in ears.elsewhere.requests if one.startswith(b"POST")]
        listed = {one["id"]: one["status"] for one in (await world.get(f"{path}/event"))["results"]}
        assert listed == {first: "DELIVERED", waiting["id"]: "FAILED"}
        # Back at the first address, both can be replayed.
        assert (await world.put(path, {"target_url": ears.own.url(), "target_secret": CANARY})).status == 200
        assert (await world.post(f"{path}/replay", {"event_id": first}))["replayed"] == 1
