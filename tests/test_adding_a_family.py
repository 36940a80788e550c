"""The worked example of the manual does what the manual says."""

import re
import sys
import types
from pathlib import Path

import pytest

from tests.world import make_world
from windlass.base.encryption import key_of
from windlass.control.request.hidden_fields import decrypt_hidden
from windlass.families import find_declarations, registry_of
from windlass.install.key import add_key

PAGE = Path(__file__).parent.parent / "docs" / "adding-a-family.md"


@pytest.fixture
async def world(database_url, monkeypatch):
    source = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    module = types.ModuleType("runbook_of_the_manual")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(source, str(PAGE), "exec"), vars(module))
    families = registry_of(*find_declarations(), module.runbook)
    async with make_world(database_url, families=families) as made:
        yield made


STEPS = {"steps": ["look at the graphs"]}


async def test_the_five_verbs_follow_from_the_declaration(world):
    project = await world.project()
    runbook = await world.made(f"/project/{project}/runbook", {"name": "Disk full", **STEPS})
    assert (await world.get(f"/project/{project}/runbook"))["results"][0]["id"] == runbook
    assert (await world.put(f"/runbook/{runbook}", {"severity": "LOW", "name": "Disk"}))["name"] == "Disk"
    assert (await world.get(f"/runbook/{runbook}"))["project"] == {"id": project}
    assert (await world.delete(f"/runbook/{runbook}")).status == 204
    assert (await world.get(f"/runbook/{runbook}")).status == 404


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (STEPS, "name: is required"),
        ({"name": "x", "steps": []}, "steps: must have a length of at least 1"),
        ({"name": "x", "steps": [5]}, "steps[0]: must be a string, not an integer"),
        ({"name": "x", **STEPS, "colour": "red"}, "colour: is not a field here"),
        (
            {"name": "x", **STEPS, "severity": "HIGH"},
            "pager_key: set it: a runbook of HIGH severity needs one",
        ),
    ],
)
async def test_each_invalid_field_is_refused_by_name(world, body, message):
    project = await world.project()
    answer = await world.post(f"/project/{project}/runbook", body)
    assert (answer.status, answer.message) == (400, message)


async def test_scopes_and_tenancy_follow_from_the_declaration(world):
    project = await world.project()
    path, body = f"/project/{project}/runbook", {"name": "x", **STEPS}
    _, stranger = await world.organization()
    assert (await world.post(path, body, token=await world.new_token("Read"))).status == 403
    assert (await world.post(path, body, token=stranger)).status == 404
    assert (await world.post(path, body, token=await world.new_token("Write"))).status == 201


async def test_the_hidden_field_is_kept_and_never_answered(world):
    project = await world.project()
    answer = await world.post(f"/project/{project}/runbook", {"name": "x", **STEPS, "pager_key": "canary"})
    assert answer["pager_key_set"] is True
    assert b"canary" not in answer.body
    assert b"canary" not in (await world.get(f"/runbook/{answer['id']}")).body


async def test_the_operations_are_in_the_document(world):
    paths = (await world.get("/openapi.json"))["paths"]
    assert paths["/project/{project_id}/runbook"]["post"]["operationId"] == "createRunbook"
    assert set(paths["/runbook/{runbook_id}"]) >= {"get", "put", "delete"}


async def test_the_hidden_field_is_sealed_again_when_the_key_is_replaced(world):
    project = await world.project()
    body = {"name": "x", **STEPS, "pager_key": "canary"}
    runbook = await world.made(f"/project/{project}/runbook", body)
    ctx = world.installation.ctx
    new = add_key(ctx.settings)
    await world.installation.key_rotation.adopt_keys()
    await world.settle()
    row = await ctx.store.reads.resources.get(runbook)
    assert key_of(row.sealed) == new
    assert decrypt_hidden(ctx, row) == {"pager_key": "canary"}
