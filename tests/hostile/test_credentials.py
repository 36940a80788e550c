"""Stored credentials are sent to their own host only, whatever is changed."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, inspect

from tests.hostile.credentials import (
    CANARY,
    Ground,
    chart_ground,
    git_ground,
    listening,
    registry_ground,
    webhook_ground,
)
from tests.hostile.fields import fields_of
from tests.marks import either
from tests.world import ADMIN, Answer
from windlass.control.request import changing, creating
from windlass.control.services import container_registries, git_tokens
from windlass.control.workloads import repositories
from windlass.core.declare.document import apply_patch, narrow_document
from windlass.core.declare.fields import hidden
from windlass.core.declare.resource import Family
from windlass.families import registry
from windlass.helm import repositories as repositories_of_charts

pytestmark = pytest.mark.slow

ADDRESS = re.compile(r"https?")


Caller = tuple[str, str]
"""Method and token."""


GROUNDS = {
    ("gitToken", "token"): git_ground,
    ("webhook", "target_secret"): webhook_ground,
    ("helmRepository", "config.password"): chart_ground,
    ("containerRegistry", "config.password"): registry_ground("GENERIC_CR", username="acme", password=CANARY),
    ("containerRegistry", "config.scaleway_secret_key"): registry_ground(
        "SCALEWAY_CR", region="fr-par", scaleway_secret_key=CANARY
    ),
    ("containerRegistry", "config.json_credentials"): registry_ground(
        "GCP_ARTIFACT_REGISTRY", region="europe-west1", json_credentials=f'{{"key": "{CANARY}"}}'
    ),
}
"""The use of each credential that the server sends."""


class Change(Struct, frozen=True):
    family: Family
    field: tuple[str, ...]
    kind: str

    def __str__(self) -> str:
        return f"{self.family.name}.{'.'.join(self.field)} {self.kind}"


def changes(family: Family) -> list[Change]:
    """Every way to turn an address of the credential, or of what refers to it."""
    referring = [
        other
        for other in registry().families.values()
        if other is not family and family.name in referred(other)
    ]
    return [change for one in (family, *referring) for change in changes_of(one)]


def referred(family: Family) -> set[str]:
    return {reference.family for reference in family.references.values()}


def changes_of(family: Family) -> Iterator[Change]:
    declared = {field for fields in family.sent_to.values() for field in fields}
    for path, kind in fields_of(inspect.type_info(family.spec), in_lists=False):
        if isinstance(kind, inspect.StrType) and ADDRESS.search(kind.pattern or ""):
            takes_path = re.search(kind.pattern or "", "http://127.0.0.1:80/acme/shop.git")
            yield Change(family, path, "elsewhere" if takes_path else "another host")
        elif path[0] in declared and isinstance(kind, inspect.BoolType):
            yield Change(family, path, "on")
        elif path[0] in declared and isinstance(kind, inspect.LiteralType):
            for value in kind.values:
                yield Change(family, path, str(value))


async def make(ground: Ground, change: Change, method: str, token: str) -> Answer:
    """With PUT it sends the document back as it is shown, with this change; with PATCH the change alone."""
    path, known = ground.paths[change.family.name], {fact.name for fact in change.family.sent_fields}
    elsewhere = ground.ears.elsewhere
    values = {"elsewhere": elsewhere.url(path="/acme/shop.git"), "another host": elsewhere.url(path="")}
    value = (values | {"on": True}).get(change.kind, change.kind)
    body: Any = value
    for step in reversed(change.field):
        body = {step: body}
    if method == "PUT":
        shown = narrow_document((await ground.world.get(path, token=token)).json, change.family.spec)
        sent = {name: value for name, value in shown.items() if name in known - change.family.fixed}
        body = apply_patch(sent, body, change.family.spec)
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
            for path in [*ground.paths.values()][::-1]:
                await world.delete(path)


SENT = [(family, secret) for family in registry().families.values() for secret in family.sent_to]


KEYS = {
    ("cluster", "engine_key"),
    ("cluster", "kubeconfig"),
    ("containerRegistry", "config.secret_access_key"),
    ("helmRepository", "config.secret_access_key"),
    ("helmRepository", "config.scaleway_secret_key"),
}
"""Keys sign and are never sent themselves; tests/running/test_clusters.py and tests/registries have their
rules. A kubeconfig has its own address. Repositories of OCI need https, which nothing here offers;
tests/helm_services/test_repositories.py has their rule."""


SOMEWHERE = [
    (family, secret)
    for family, secret in SENT
    if family.sent_to[secret] and (family.name, secret) not in KEYS
]


each_credential = pytest.mark.parametrize(
    ("family", "secret"), SOMEWHERE, ids=[f"{family.name}.{secret}" for family, secret in SOMEWHERE]
)


def test_the_credential_tests_cover_every_credential_that_the_server_sends():
    assert {(family.name, secret) for family, secret in SOMEWHERE} == set(GROUNDS)
    for family, secret in SOMEWHERE:
        assert changes(family), f"{family.name}.{secret}"


@each_credential
async def test_each_stored_credential_is_sent_to_the_host_it_was_stored_for(
    family: Family, secret: str, tmp_path: Path
):
    async with listening(tmp_path) as (world, ears):
        ground = await GROUNDS[family.name, secret](world, ears)
        await ground.use()
        assert ears.heard(ears.own)


@each_credential
async def test_no_change_of_a_resource_sends_its_credential_to_another_host(
    family: Family, secret: str, tmp_path: Path
):
    assert [leak async for leak in leaks(family, secret, tmp_path)] == []


@pytest.mark.nightly
@each_credential
async def test_without_the_rules_a_changed_address_would_receive_the_stored_credential(
    family: Family, secret: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async def nothing(*_: Any) -> None:
        """Judges nothing."""

    for module in (changing, container_registries, repositories_of_charts):
        monkeypatch.setattr(module, "check_addresses", lambda *_: False)
    for module in (creating, changing):
        monkeypatch.setattr(module, "check_openings", nothing)
    for module in (git_tokens, repositories):
        monkeypatch.setattr(module, "why_not_sent", lambda *_: "")
    async with contextlib.aclosing(leaks(family, secret, tmp_path)) as found:
        assert await anext(found, "")


def test_an_encrypted_field_must_declare_where_it_is_sent():

    with pytest.raises(TypeError, match="sent_to"):
        hidden("token_set")  # type: ignore[call-arg]
