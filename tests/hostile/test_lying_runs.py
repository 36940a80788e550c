"""Runs whose programs send what no program sends, with the credential of their own run."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.terraform_services.test_settings import body, made
from tests.world import Answer, World, make_world
from windlass.core.words.masking import Mask
from windlass.terraform import operations, run_requests
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


NUMBERS = b",".join([b"0"] * 1_500_000)
"""3 MB of values without lists and objects."""


@pytest.mark.parametrize(
    ("method", "what", "sent"),
    [
        ("POST", "state", STATE % b"[%s]" % NUMBERS),
        ("PUT", "resources", b'{"values": {"outputs": {"a": {"value": [%s]}}}}' % NUMBERS),
    ],
)
async def test_a_message_with_millions_of_values_is_refused_before_decoding(
    world: World, method: str, what: str, sent: bytes
):
    run = await begun(world)
    refused = await run.send(method, what, sent)
    assert (refused.status, "values: divide the module" in refused.message) == (400, True)


@pytest.mark.parametrize("is_in_thread", [True, False], ids=["in a thread", "without the thread"])
@pytest.mark.parametrize("what", ["resources", "plan"])
async def test_secrets_are_masked_while_other_requests_are_answered(
    monkeypatch: pytest.MonkeyPatch, world: World, what: str, is_in_thread: bool
):
    """The longest texts take seconds."""

    async def directly(function: Any, *arguments: Any) -> Any:
        return function(*arguments)

    if not is_in_thread:
        monkeypatch.setattr(run_requests, "in_thread", directly)
    loop, masked = threading.get_ident(), list[bool]()

    class NotingMask(Mask):
        def text(self, text: str) -> str:
            masked.append(threading.get_ident() == loop)
            return super().text(text)

    monkeypatch.setattr(run_requests, "Mask", NotingMask)
    monkeypatch.setattr(run_requests, "EMPTY_MASK", NotingMask(()))
    monkeypatch.setattr(type(world.installation.ctx.logs.masks), "of", lambda masks, id: NotingMask([SECRET]))
    run = await begun(world)
    resource = {"address": "a.b", "values": {"x": [SECRET]}}
    sent = {
        "resources": {"values": {"root_module": {"resources": [resource]}}},
        "plan": plan(1) | {"text": f"+ {SECRET}"},
    }
    assert (await run.send("POST", "state", state({}))).status == 200
    assert (await run.send("PUT", what, sent[what])).status == 200
    assert masked
    assert any(masked) is not is_in_thread


async def test_a_plan_longer_than_any_launcher_sends_is_refused(
    monkeypatch: pytest.MonkeyPatch, world: World
):
    monkeypatch.setattr(run_requests, "MAX_PLAN_LENGTH", 1000)
    run = await begun(world)
    action = {"address": "a.b", "action": "create"}
    for fields, status in (
        ({"text": "x" * 900}, 200),
        ({"text": "x" * 1001}, 400),
        ({"resources": [action] * 9}, 200),
        ({"resources": [action] * 100}, 400),
    ):
        assert (await run.send("PUT", "plan", plan(1) | fields)).status == status


async def test_only_the_newest_plans_are_listed_if_all_are_too_long(
    monkeypatch: pytest.MonkeyPatch, world: World
):
    monkeypatch.setattr(operations, "MAX_LISTED_PLANS_BYTES", 3000)
    service = await made(world)
    runs = []
    for _ in range(2):
        deployment = (await world.post(f"/terraform/{service}/deploy", {"action": "PLAN"}))["id"]
        runs.append(Run(world, service, deployment))
        assert (await runs[-1].send("PUT", "plan", plan(1) | {"text": "x" * 2000})).status == 200
        await world.settle()
    listed = await world.get(f"/terraform/{service}/plan")
    assert [plan["deployment_id"] for plan in listed["results"]] == [runs[-1].deployment]
    for run in runs:
        one = await world.get(f"/terraform/{service}/plan?deployment_id={run.deployment}")
        assert [plan["text"] for plan in one["results"]] == ["x" * 2000]


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
    assert (await run.send("PUT", "snapshot", state({}))).status == 409
    assert (await world.get(f"/terraform/{service}/stateVersion"))["results"] == []
    applying = await begun(world)  # the control
    assert (await applying.send("POST", "state", state({}))).status == 200
