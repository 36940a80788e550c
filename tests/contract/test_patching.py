"""PATCH is a JSON merge patch (RFC 7396), on every base: it changes what it names, and nothing else."""

from __future__ import annotations

import asyncio

import pytest

from tests.contract.contract import is_refused
from tests.tables import rows
from windlass.core.declare.document import apply_patch
from windlass.core.declare.resource import Spec, Verb
from windlass.families import registry

BASES = ("", "/api/v1", "/compat")
REPOSITORY = {"url": "https://git.example/acme/front.git", "branch": "main", "root_path": "/web"}
PROBE = {"type": {"tcp": {"port": 3000}}, "period_seconds": 20}


class Anything(Spec):
    """A document without declared fields, as in the examples of the RFC."""


def test_a_patch_exists_for_every_put():
    twins = {one.path: one for one in registry().operations if one.method == "PATCH"}
    puts = {one.path: one for one in registry().operations if one.handler.endswith(f".{Verb.UPDATE}")}
    assert twins.keys() == puts.keys() != set()
    for path, twin in twins.items():
        put = puts[path]
        assert (twin.need, twin.family, twin.conditional, twin.tagged) == (
            put.need,
            put.family,
            put.conditional,
            put.tagged,
        )


@rows(
    ("before", "patch", "after"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_objects_merge_as_in_appendix_a_of_the_rfc(before, patch, after):
    assert apply_patch(before, patch, Anything) == after


@pytest.mark.parametrize("base", BASES)
async def test_fields_that_a_patch_does_not_name_stay(embedded, base):
    made = await embedded.application(git_repository=REPOSITORY, entrypoint="sh", cpu=250)
    app = f"{base}/application/{made}"
    before = (await embedded.get(app)).json
    after = (await embedded.patch(app, {"memory": 1024})).json
    assert after == {**before, "memory": 1024, "updated_at": after["updated_at"]}
    assert (await embedded.get(app)).json == after


async def test_an_object_is_merged_and_a_list_is_replaced(embedded):
    app = f"/application/{await embedded.application(git_repository=REPOSITORY, arguments=['a', 'b'])}"
    after = await embedded.patch(app, {"git_repository": {"branch": "next"}, "arguments": ["c"]})
    assert after.status == 200
    assert (after["git_repository"]["branch"], after["git_repository"]["root_path"]) == ("next", "/web")
    assert after["arguments"] == ["c"]


async def test_objects_are_merged_at_every_depth(embedded):
    app = f"/application/{await embedded.application(healthchecks={'readiness_probe': PROBE})}"
    change = {"readiness_probe": {"type": {"tcp": None, "http": {"path": "/ok", "port": 80}}}}
    after = await embedded.patch(app, {"healthchecks": change})
    probe = after["healthchecks"]["readiness_probe"]
    assert probe["type"] == {"http": {"path": "/ok", "port": 80}}
    assert probe["period_seconds"] == 20


async def test_null_in_a_patch_removes_a_field_or_resets_it_to_its_default(embedded):
    app = f"/application/{await embedded.application(entrypoint='sh', cpu=2000, description='Old')}"
    after = await embedded.patch(app, {"entrypoint": None, "cpu": None, "description": None})
    assert after.status == 200
    assert "entrypoint" not in after.json
    assert (after["cpu"], after["description"]) == (500, "")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": None}, "name"),
        ({"git_repository": {"url": None}}, "git_repository.url"),
        ({"git_repository": None}, "git_repository"),
        ({"cpu": "many"}, "cpu"),
        ({"healthchecks": {"readiness_probe": {"type": []}}}, "healthchecks.readiness_probe.type"),
        ({"ports": [{"protocol": "HTTP"}]}, "ports[0].internal_port"),
        ({"surprise": 1}, "surprise"),
    ],
)  # fmt: skip
async def test_a_patch_with_a_wrong_result_is_refused_by_field(embedded, body, field):
    app = f"/application/{await embedded.application(healthchecks={'readiness_probe': PROBE})}"
    before = await embedded.get(app)
    answer = await embedded.patch(app, body)
    is_refused(answer, 400)
    assert answer.message.startswith(f"{field}: ")
    assert (await embedded.get(app)).body == before.body


async def test_a_patch_of_a_field_updates_the_fields_derived_from_it(embedded):
    app = f"/application/{await embedded.application(git_repository=REPOSITORY)}"
    moved = {"git_repository": {"url": "https://gitlab.com/shop/back.git"}}
    repository = (await embedded.patch(app, moved))["git_repository"]
    assert (repository["provider"], repository["owner"], repository["name"]) == ("GITLAB", "shop", "back")
    assert repository["branch"] == "main"
    named = {"git_repository": {"url": "https://git.example/a/b", "owner": "somebody"}}
    assert (await embedded.patch(app, named))["git_repository"]["owner"] == "somebody"


async def test_a_sealed_value_that_is_not_named_is_kept_and_null_removes_it(embedded):
    webhooks = f"/organization/{embedded.org}/webhook"
    body = {"target_url": "https://a.example", "events": ["DEPLOYMENT_FAILED"], "target_secret": "s"}
    path = f"{webhooks}/{(await embedded.post(webhooks, body))['id']}"
    assert (await embedded.patch(path, {"description": "x"}))["target_secret_set"] is True
    assert (await embedded.patch(path, {"target_secret": None}))["target_secret_set"] is False


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("application/merge-patch+json", 200),
        ("application/merge-patch+json; charset=utf-8", 200),
        ("application/json-patch+json", 400),
        ("text/plain", 400),
    ],
)
async def test_a_patch_accepts_only_json_and_merge_patch_content_types(embedded, kind, status):
    path = f"/project/{await embedded.project()}"
    answer = await embedded.patch(path, {"description": "New"}, headers={"Content-Type": kind})
    assert answer.status == status
    if status == 400:
        assert answer.message.startswith("Content-Type: ")
    assert ((await embedded.get(path))["description"] == "New") == (status == 200)


async def test_an_empty_patch_changes_nothing(embedded):
    path = f"/project/{await embedded.project()}"
    before = await embedded.get(path)
    for raw in (b"", b"{}", b"null"):
        answer = await embedded.call("PATCH", path, raw=raw)
        assert (answer.status, answer.body) == (200, before.body)


async def test_patches_of_different_fields_at_once_are_all_kept(world):
    app = f"/application/{await world.application()}"
    fields = {
        "cpu": 750,
        "memory": 1024,
        "description": "New",
        "entrypoint": "sh",
        "gpu": 1,
        "arguments": ["a"],
    }
    answers = await asyncio.gather(*(world.patch(app, {name: value}) for name, value in fields.items()))
    assert {answer.status for answer in answers} == {200}
    after = (await world.get(app)).json
    assert {name: after[name] for name in fields} == fields


async def test_the_flag_of_a_sealed_value_shows_whether_it_is_set(embedded):
    webhooks = f"/organization/{embedded.org}/webhook"
    body = {"target_url": "https://a.example", "events": ["DEPLOYMENT_FAILED"]}
    path = f"{webhooks}/{(await embedded.post(webhooks, body))['id']}"
    assert (await embedded.patch(path, {"target_secret": "s"}))["target_secret_set"] is True
    assert (await embedded.patch(path, {"target_secret": ""}))["target_secret_set"] is False


@pytest.mark.parametrize("path", ["a" * 2000, f"{'a/' * 1000}b", f"a/{'b' * 2000}"])
async def test_fields_derived_from_the_longest_address_can_be_sent_back(embedded, path):
    made = await embedded.application(git_repository={"url": f"https://git.example/{path}", "branch": "main"})
    app = f"/compat/application/{made}"
    before = await embedded.get(app)
    assert (await embedded.put(app, before.json)).body == before.body
    assert (await embedded.patch(app, {"cpu": 250})).status == 200
