"""States without a run: an output that holds the value of a secret input variable, and is not declared as
sensitive; and very many resources."""

from __future__ import annotations

import msgspec
import pytest

from tests.terraform_services.modules import SECRET
from tests.terraform_services.test_settings import body
from tests.variables.town import inputs
from tests.world import World
from windlass.store import Tx
from windlass.terraform import kind, operations
from windlass.terraform.state_files import StateFile, read_state
from windlass.terraform.states import add_version

MADE = "made-by-the-module-7f3a"
VALUES = {
    "url": f"https://run:{SECRET}@vault.example",
    "list": [SECRET],
    "size": 3,
    "made": MADE,
    "address": f"https://{MADE}@vault.example",
}


async def test_no_list_shows_an_output_that_contains_a_secret_input_value(world: World):
    environment = await world.environment()
    app = await world.application(environment)
    password = {"key": "password", "value": SECRET, "secret": True}
    source = {"terraform_variables_source": {"tf_vars": [password]}}
    service = await world.made(f"/environment/{environment}/terraform", body(**source))
    outputs = {name: {"value": value, "sensitive": name == "made"} for name, value in VALUES.items()}

    async def store(tx: Tx) -> None:
        row = await tx.resources.get(service)
        assert row is not None
        content = msgspec.json.encode({"version": 4, "serial": 1, "outputs": outputs})
        await add_version(world.installation.ctx, tx, row, service, content)

    await world.installation.ctx.store.write(store)

    prefix = f"WINDLASS_TERRAFORM_Z{service[:8].upper()}_"
    got = await inputs(world, app)
    assert got.variables[f"{prefix}URL"] == VALUES["url"], "the control: its neighbours get it"
    assert {key for key in got.secrets if key.startswith(prefix)} == {
        f"{prefix}{name}" for name in ("URL", "LIST", "MADE", "ADDRESS")
    }
    ids = {"{terraform_id}": service, "{env_id}": environment, "{app_id}": app}
    paths = [f"/variable?parent_id={app}&scope=APPLICATION"]
    for operation in world.installation.ctx.registry.operations:
        is_quick = operation.method == "GET" and not (operation.streams or operation.outside)
        path = operation.path
        for name, id in ids.items():
            path = path.replace(name, id)
        if is_quick and path != operation.path and "{" not in path:
            paths.append(path)
    assert {f"/terraform/{service}/output", f"/environment/{environment}/environmentVariable"} <= {*paths}
    for path in paths:
        for base in ("/api/v1", "/compat"):
            shown = (await world.get(base + path)).body
            assert SECRET.encode() not in shown, path
            assert MADE.encode() not in shown, path


async def test_the_state_is_read_once_for_all_lists_of_its_outputs(monkeypatch, world: World):
    """A state may have megabytes, and changes read the outputs of all services of the environment, too."""
    read = []

    def counted(content: bytes) -> StateFile:
        read.append(content)
        return read_state(content)

    monkeypatch.setattr(kind, "read_state", counted)
    environment = await world.environment()
    service = await world.made(f"/environment/{environment}/terraform", body())

    async def listed() -> set[str]:
        path = f"/compat/environment/{environment}/environmentVariable?page_size=100"
        variables = (await world.get(path))["results"]
        return {
            one["value"] for one in variables if "TERRAFORM" in one["key"] and one["key"].endswith("_SIZE")
        }

    for number in (1, 2):
        content = {"version": 4, "serial": number, "outputs": {"size": {"value": f"of {number}"}}}

        async def store(tx: Tx, content: bytes = msgspec.json.encode(content)) -> None:
            row = await tx.resources.get(service)
            assert row is not None
            await add_version(world.installation.ctx, tx, row, service, content)

        await world.installation.ctx.store.write(store)
        assert await listed() == await listed() == {f"of {number}"}
        assert len(read) == number


@pytest.mark.parametrize("most", [2, operations.MAX_LISTED_RESOURCES])
async def test_a_state_with_very_many_resources_lists_none(monkeypatch, world: World, most: int):
    """A list of all of them would take the memory and the processor of the server."""
    monkeypatch.setattr(operations, "MAX_LISTED_RESOURCES", most)
    service = await world.made(f"/environment/{await world.environment()}/terraform", body())
    made = {
        "mode": "managed",
        "type": "t",
        "name": "n",
        "instances": [{"index_key": key} for key in range(3)],
    }

    async def store(tx: Tx) -> None:
        row = await tx.resources.get(service)
        assert row is not None
        content = msgspec.json.encode({"version": 4, "serial": 1, "resources": [made]})
        await add_version(world.installation.ctx, tx, row, service, content)

    await world.installation.ctx.store.write(store)
    answer = await world.get(f"/terraform/{service}/terraformResources")
    assert answer.status == (409 if most == 2 else 200)
    if most > 2:
        assert [one["address"] for one in answer["results"]] == ["t.n[0]", "t.n[1]", "t.n[2]"]
