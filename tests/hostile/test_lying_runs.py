"""Runs whose programs send what no program sends, with the credential of their own run."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.terraform_services.test_settings import body, made
from tests.world import Answer, World, make_world
from windlass.terraform.states import run_credential

LONG = "x" * 64 * 1024
"""The longest output that is a variable of others."""
SECRET = "s3cret-of-the-module"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world() as opened:
        yield opened


class Run:
    """A run that is under way, and its credential."""

    def __init__(self, world: World, service: str, deployment: str) -> None:
        self.world, self.service, self.deployment = world, service, deployment
        pair = f"run:{run_credential(world.installation.ctx, deployment)}"
        self.header = f"Basic {base64.b64encode(pair.encode()).decode()}"

    async def send(self, method: str, what: str, body: Any = b"", service: str = "") -> Answer:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        path = f"/terraform-run/{service or self.service}/{what}"
        return await self.world.call(method, path, raw=raw, token=self.header)


async def begun(world: World, **fields: Any) -> Run:
    service = await made(world, **fields)
    return Run(world, service, (await world.post(f"/terraform/{service}/deploy"))["id"])


def state(outputs: Any, **fields: Any) -> dict[str, Any]:
    return {"version": 4, "serial": 1, "lineage": "x", "outputs": outputs, "resources": []} | fields


def plan(added: int) -> dict[str, Any]:
    return {"text": "", "file": "", "resources": [], "added": added, "changed": 0, "destroyed": 0}


DEEP = b"[" * 50_000 + b"]" * 50_000
STATE = b'{"version": 4, "outputs": {"a": {"value": %s}}}'


@pytest.mark.parametrize(
    ("method", "what", "sent"),
    [
        ("POST", "state", STATE % DEEP),
        ("POST", "state", STATE % b'"\xff"'),
        ("PUT", "snapshot", STATE % DEEP),
        ("LOCK", "state", b'{"ID": "\xff"}'),
        ("LOCK", "state", b'{"else": %s}' % DEEP),
        ("LOCK", "state", {"ID": "a\0b"}),
        ("LOCK", "state", {"ID": "a", "Operation": "\x1b[2J"}),
        ("LOCK", "state", {"ID": "a", "Info": "x" * 20_000}),
        ("PUT", "plan", b"\xff"),
        (
            "PUT",
            "plan",
            plan(10**30),
        ),
        ("PUT", "plan", plan(-1)),
        ("PUT", "resources", b'{"values": %s}' % DEEP),
        ("PUT", "resources", {"values": 5}),
        ("PUT", "resources", {"values": {"root_module": {"resources": [{"values": {}}]}}}),
        ("PUT", "resources", {"values": {"outputs": {"a": 1}}}),
    ],
)
async def test_a_malformed_message_of_a_terraform_run_is_refused(
    world: World, method: str, what: str, sent: Any
):
    """Negative control: `test_outputs_with_invalid_names_or_values_do_not_become_variables`."""
    run = await begun(world)
    await run.send("POST", "state", state({}))
    refused = await run.send(method, what, sent)
    assert refused.status == 400, refused


MANY = b",".join([b"[]"] * 600_000)
"""1.8 MB, which would be read while all other requests wait."""


@pytest.mark.parametrize(
    ("method", "what", "sent"),
    [
        ("POST", "state", STATE % b"[%s]" % MANY),
        ("PUT", "snapshot", b'{"version": 4, "resources": [%s]}' % MANY.replace(b"[]", b"{}")),
        ("PUT", "resources", b'{"values": {"outputs": {"a": {"value": [%s]}}}}' % MANY),
        ("PUT", "plan", b'{"text": "", "else": [%s]}' % MANY),
    ],
)
async def test_a_message_with_millions_of_elements_is_refused_before_decoding(
    world: World, method: str, what: str, sent: bytes
):
    run = await begun(world)
    refused = await run.send(method, what, sent)
    assert (refused.status, "lists and objects" in refused.message) == (400, True)


async def test_a_terraform_state_with_20000_resources_is_accepted(world: World):
    """Negative control: as many as a large module has."""
    run = await begun(world)
    resource = b'{"mode": "managed", "type": "t", "name": "n", "instances": [{"attributes": {"a": ["x"]}}]}'
    sent = b'{"version": 4, "resources": [%s]}' % b",".join([resource] * 20_000)
    assert (await run.send("POST", "state", sent)).status == 200


async def test_deeply_nested_modules_cause_no_server_error(world: World):
    run = await begun(world)
    await run.send("POST", "state", state({}))
    for depth in (200, 300, 350, 400, 450):
        module: dict[str, Any] = {}
        for _ in range(depth):
            module = {"child_modules": [module]}
        assert (await run.send("PUT", "resources", {"values": {"root_module": module}})).status in (200, 400)


async def test_outputs_with_invalid_names_or_values_do_not_become_variables(world: World):
    environment = await world.environment()
    service = await world.made(f"/environment/{environment}/terraform", body())
    planned = await world.post(f"/terraform/{service}/deploy")
    run = Run(world, service, planned["id"])
    hostile = {
        "a=b": {"value": "x"},
        "a\0b": {"value": "x"},
        "nul": {"value": "x\0y"},
        "long": {"value": LONG + "x"},
        "good": {"value": "bucket-7f3a"},
    } | {f"much_{number}": {"value": LONG} for number in range(40)}
    assert (await run.send("POST", "state", state(hostile))).status == 200
    app = await world.application(environment)
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"
    variables = world.engine.running[app].variables
    prefix = f"WINDLASS_TERRAFORM_Z{service[:8].upper()}_"
    assert variables[f"{prefix}GOOD"] == "bucket-7f3a"
    assert not {f"{prefix}A=B", f"{prefix}NUL", f"{prefix}LONG"} & variables.keys()


async def test_a_runs_credential_is_valid_only_for_its_service_and_until_its_end(world: World):
    """Negative control: the service of the run."""
    run, other = await begun(world), await begun(world)
    assert (await run.send("POST", "state", state({}))).status == 200
    for method, what in (("GET", "state"), ("POST", "state"), ("DELETE", "state"), ("LOCK", "state")):
        assert (await run.send(method, what, state({}), other.service)).status == 401
    assert (await run.send("GET", f"plan/{other.deployment}")).status == 404
    assert (await run.send("GET", "state")).status == 200
    await world.settle()
    assert (await run.send("GET", "state")).status == 401


async def test_an_address_that_holds_a_secret_value_is_masked(world: World):
    """Negative control: the rest of the address is shown."""
    secret = {"tf_vars": [{"key": "who", "value": SECRET, "secret": True}]}
    run = await begun(world, terraform_variables_source=secret)
    instance = {"index_key": SECRET, "attributes": {}}
    resource = {"mode": "managed", "type": "file", "name": "of", "provider": "p", "instances": [instance]}
    assert (await run.send("POST", "state", state({}, resources=[resource]))).status == 200
    shown = await world.get(f"/terraform/{run.service}/terraformResources")
    assert shown["results"][0]["address"].startswith('file.of["')
    assert SECRET not in str(shown.json)


async def test_a_run_that_only_plans_changes_no_state(world: World):
    service = await made(world)
    planned = await world.post(f"/terraform/{service}/deploy", {"action": "PLAN"})
    run = Run(world, service, planned["id"])
    assert (await run.send("LOCK", "state", {"ID": "a"})).status == 200
    assert (await run.send("POST", "state", state({}))).status == 409
    assert (await run.send("DELETE", "state")).status == 409
    assert (await world.get(f"/terraform/{service}/stateVersion"))["results"] == []
    applying = await begun(world)  # the control
    assert (await applying.send("POST", "state", state({}))).status == 200
