"""The worked examples of the manual, kinds of service in two files each, do what the manual says."""

from __future__ import annotations

import importlib
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import windlass.control.kinds
import windlass.families
from tests.fakes.engine import FakeEngine
from tests.world import make_world
from windlass.control.kinds import find_kinds as declared_kinds
from windlass.control.kinds import kinds_of
from windlass.engines.workload import OutputLine
from windlass.families import find_declarations, registry_of

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "adding-a-service-kind.md"
PACKAGES = {"families": windlass.families, "kinds": windlass.control.kinds}
EXAMPLES = ("cache", "migration")
# Puts all files where they would be, before anything looks for families.
PLUGIN = """
import windlass.families
import windlass.control.kinds
windlass.families.__path__.append({families!r})
windlass.control.kinds.__path__.append({kinds!r})
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, str]:
    """The folders with the files of the page: a family and a kind for each example."""
    sources = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    folders = {name: str(tmp_path_factory.mktemp(name)) for name in PACKAGES}
    places = itertools.product(EXAMPLES, PACKAGES)
    for (example, name), source in zip(places, sources, strict=True):
        Path(folders[name], f"{example}.py").write_text(source)
    return folders


@pytest.fixture
def added(files, monkeypatch) -> Iterator[None]:
    """All files are there, and forgotten afterwards."""
    for name, package in PACKAGES.items():
        monkeypatch.setattr(package, "__path__", [*package.__path__, files[name]])
    importlib.invalidate_caches()
    yield
    for package, example in itertools.product(PACKAGES.values(), EXAMPLES):
        sys.modules.pop(f"{package.__name__}.{example}", None)
        vars(package).pop(example, None)


@pytest.fixture
async def world(added, database_url):
    families, kinds = registry_of(*find_declarations()), kinds_of(*declared_kinds())
    async with make_world(database_url, families=families, kinds=kinds, engine=FakeEngine("image")) as made:
        yield made


async def cache(world, environment: str | None = None, **fields: object) -> str:
    environment = environment or await world.environment()
    return str(await world.made(f"/environment/{environment}/cache", {"name": world.name("cache")} | fields))


async def deployed(world, one: str, verb: str = "deploy", body: object = None) -> str:
    """The id of a deployment that succeeded."""
    answer = await world.post(f"/cache/{one}/{verb}", body)
    assert answer.status == 202, answer
    await world.settle()
    ended = await world.get(f"/cache/{one}/deployment/{answer['id']}")
    assert ended["status"] == "SUCCEEDED", ended
    return str(answer["id"])


async def test_a_service_of_the_new_kind_is_deployed_with_its_command(world):
    one = await cache(world, memory=128)
    await deployed(world, one)
    running = world.engine.running[one]
    assert running.artifact.ref == "memcached:1.6"
    assert (running.command, running.memory) == (("memcached", "-m", "128"), 128)
    assert await world.state(f"/cache/{one}") == "RUNNING"


async def test_the_output_of_the_new_kind_is_read_as_a_log(world):
    one = await cache(world)
    await deployed(world, one)
    world.engine.says(one, OutputLine(at=world.clock.now(), message="server listening"))
    assert [line["message"] for line in (await world.get(f"/cache/{one}/log"))["results"]] == [
        "server listening"
    ]


async def test_a_service_of_the_new_kind_is_stopped_rolled_back_and_deleted(world):
    one = await cache(world, version="1.5")
    first = await deployed(world, one)
    await world.patch(f"/cache/{one}", {"version": "1.6"})
    await deployed(world, one)
    await deployed(world, one, "rollback", {"deployment_id": first})
    assert world.engine.running[one].artifact.ref == "memcached:1.5"
    await deployed(world, one, "stop")
    assert one not in world.engine.running
    assert (await world.delete(f"/cache/{one}")).status == 204
    await world.settle()
    assert one in world.engine.discarded


async def test_the_new_kind_is_in_statuses_and_bulk_actions_of_the_environment(world):
    environment = await world.environment()
    one = await cache(world, environment)
    chosen = await world.post(f"/environment/{environment}/service/deploy", {"caches": [one]})
    assert chosen.status == 202, chosen
    await world.settle()
    statuses = await world.get(f"/environment/{environment}/statuses")
    assert [(status["id"], status["state"]) for status in statuses["caches"]] == [(one, "RUNNING")]
    await world.post(f"/environment/{environment}/service/stop", {"cache_ids": [one]})
    await world.settle()
    assert await world.state(f"/cache/{one}") == "STOPPED"
    await world.post(f"/environment/{environment}/deploy")
    await world.settle()
    assert await world.state(f"/cache/{one}") == "RUNNING"


async def test_neighbours_find_a_service_of_the_new_kind(world):
    environment = await world.environment()
    one = await cache(world, environment)
    app = await world.application(environment)
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    variables = world.engine.running[app].variables
    assert variables[f"QOVERY_CACHE_Z{one[:8].upper()}_PORT_INTERNAL"]


async def test_a_token_is_limited_to_a_service_of_the_new_kind(world):
    one, other = await cache(world), await cache(world)
    token = await world.new_token("Read", limited_to=[one])
    assert (await world.get(f"/cache/{one}", token=token)).status == 200
    assert (await world.get(f"/cache/{other}", token=token)).status == 404


async def test_a_deployment_of_the_new_kind_fails_where_the_engine_runs_no_images(added, database_url):
    families, kinds = registry_of(*find_declarations()), kinds_of(*declared_kinds())
    async with make_world(database_url, families=families, kinds=kinds) as world:
        environment = await world.environment()
        answer = await world.post(f"/environment/{environment}/cache", {"name": "x"})
        assert answer.status == 201
        await world.post(f"/cache/{answer.json['id']}/deploy")
        await world.settle()
        status = (await world.get(f"/cache/{answer.json['id']}/status")).json
        assert status["state"] == "ERROR"
        assert status["message"].startswith("version: the cluster of this environment runs no images")


async def test_the_new_kind_is_in_the_document_the_audit_and_the_metrics(world):
    one = await cache(world)
    await deployed(world, one)
    document = (await world.get("/openapi.json")).json
    assert document["paths"]["/cache/{cache_id}/deploy"]["post"]["operationId"] == "deployCache"
    assert "caches" in document["components"]["schemas"]["EnvironmentStatuses"]["properties"]
    kinds = {row.kind for row in await world.events() if row.subject == one}
    assert kinds >= {"CREATE", "DEPLOYMENT_SUCCEEDED"}
    assert "createCache" in (await world.get("/metrics")).body.decode()


async def test_variables_can_be_imported_at_a_service_of_the_new_kind(world):
    body = {"name": "schema", "image_name": "acme/schema", "tag": "7"}
    one = await world.made(f"/environment/{await world.environment()}/migration", body)
    sent = {"name": "MODE", "value": "fast", "scope": "MIGRATION", "is_secret": False}
    answer = await world.post(f"/migration/{one}/environmentVariable/import", {"vars": [sent]})
    assert answer.status == 201, answer
    listed = (await world.get(f"/migration/{one}/environmentVariable"))["results"]
    assert ("MODE", "fast", "MIGRATION") in [(row["key"], row["value"], row["scope"]) for row in listed]


async def test_deploying_a_kind_that_runs_once_is_a_run_with_an_exit_code(world):
    environment = await world.environment()
    body = {"name": "schema", "image_name": "acme/shop", "tag": "1.0", "arguments": ["migrate"]}
    one = await world.made(f"/environment/{environment}/migration", body)
    deployment = (await world.post(f"/migration/{one}/deploy"))["id"]
    await world.settle()
    shown = await world.get(f"/migration/{one}/deployment/{deployment}")
    assert (shown["action"], shown["status"], shown["run"]["exit_code"]) == ("RUN", "SUCCEEDED", 0)
    (started,) = world.engine.applied
    assert (started.command, started.time_limit) == (("migrate",), 600)


def with_the_files(
    files: dict[str, str], folder: Path, *command: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs a Python of its own in which all files are there."""
    (folder / "with_cache.py").write_text(PLUGIN.format(**files))
    environment = {**os.environ, **variables, "PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_the_new_kind_is_on_the_command_line(files, tmp_path):
    said = with_the_files(
        files,
        tmp_path,
        "-c",
        "import with_cache; from windlass.cli.main import main; main(['cache', '--help'])",
    )
    assert {"create", "deploy", "log", "rollback"} <= set(said.stdout.split()), said


@pytest.mark.nightly
def test_the_derived_tests_pass_with_the_new_kind(added, files, tmp_path):
    known = registry_of(*find_declarations())
    operations = [operation.id for operation in known.operations if "cache" in operation.path]
    assert len(operations) > 15
    options = ("-p", "with_cache", "-n", "0", "-p", "no:cacheprovider", "-k", "sqlite", "-rA")
    rows = " ".join([*operations, *EXAMPLES])
    # Tables without a row for caches are skipped, which in CI would be a failure.
    said = with_the_files(
        files,
        tmp_path,
        "-m",
        "pytest",
        "tests/derived",
        *options,
        ROW=rows,
        CI="",
        WINDLASS_TESTS="quick",
    )
    assert said.returncode == 0, said.stdout[-5000:]
    assert "test_a_deployed_service_runs_and_is_up_to_date[sqlite]" in said.stdout
    assert int(re.findall(r"(\d+) passed", said.stdout)[-1]) > 80
