"""Stored documents are read as structs, and nothing of them is lost."""

from __future__ import annotations

import msgspec
import pytest

from tests.tables import rows
from tests.world import World
from windlass.core.declare.resource import Family
from windlass.core.declare.stored import NamedDocument, read, rewritten, stored_form
from windlass.families import registry
from windlass.families.application import Application
from windlass.families.environment import Environment
from windlass.families.webhook import Webhook
from windlass.store import Tx

OLD = b'{"id":"a","name":"web","git_repository":{"url":"https://example.com/a.git"}}'
"""An application as a version stored it that had few fields."""


def test_a_field_missing_in_an_old_document_gets_its_default() -> None:
    application = read(OLD, Application)
    assert isinstance(application, Application)
    assert application.git_repository
    assert (application.cpu, application.storage, application.git_repository.root_path) == (500, [], "/")


@pytest.mark.parametrize(
    "body",
    [
        b'{"name":"web","git_repository":{"url":"u","has_access":true,"later":1},"later":{"a":1}}',
        b'{"name":"web","git_repository":{"url":"u"},"ports":[{"internal_port":80,"later":1}]}',
    ],
)
def test_a_stored_field_of_a_later_version_is_ignored(body: bytes) -> None:
    assert read(body, Application).name == "web"


def test_a_document_that_earlier_rules_allowed_is_read() -> None:
    """The name has a blank at its end, and the mode is none that a client can send."""
    stored = read(b'{"name":"shop ","mode":"PREVIEW"}', Environment)
    assert (stored.name, str(stored.mode)) == ("shop ", "PREVIEW")


def test_a_stored_document_with_a_wrong_type_raises_an_error() -> None:
    with pytest.raises(msgspec.ValidationError):
        read(b'{"name":1}', NamedDocument)


def test_an_encrypted_field_is_not_in_the_document() -> None:
    webhook = read(b'{"target_url":"https://a.example","events":[]}', Webhook)
    assert not isinstance(webhook.target_secret, str)


@rows("family", registry().families.values(), ids=lambda family: family.name)
def test_every_family_has_a_stored_form(family: Family) -> None:
    for struct in (family.spec, family.shown, family.view):
        assert issubclass(stored_form(struct), struct)


def test_rewriting_a_stored_document_keeps_unknown_fields() -> None:
    body = b'{"name":"web","later":[1],"git_repository":{"url":"u","later":{"a":1}}}'
    changes = {"name": "shop", "git_repository": {"deployed_commit_id": "c"}}
    assert msgspec.json.decode(rewritten(body, changes)) == {
        "name": "shop",
        "later": [1],
        "git_repository": {"url": "u", "later": {"a": 1}, "deployed_commit_id": "c"},
    }


async def test_a_change_keeps_fields_that_a_later_version_stored(world: World) -> None:
    app = await world.application(await world.environment())
    ctx = world.installation.ctx
    later = {"later": [1], "git_repository": {"later": {"a": 1}}}

    async def store(tx: Tx) -> None:
        row = await tx.resources.get(app)
        assert row is not None
        await tx.resources.rewrite(app, rewritten(row.body, later))

    await ctx.store.write(store)
    changed = (await world.call("PATCH", f"/application/{app}", {"cpu": 750})).json
    assert (changed["cpu"], changed["later"]) == (750, [1])
    assert changed["git_repository"]["later"] == {"a": 1}
