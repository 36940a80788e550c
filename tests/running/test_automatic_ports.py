"""An application whose ports are left out gets one public HTTP port, if its build finds a web process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.running.deployments import deploy, deployed, deployment, under_way
from tests.world import REPOSITORY, World, make_world
from windlass.core.words.events import Event
from windlass.engines.rollout import readiness
from windlass.engines.rollout.listeners import ListeningPort
from windlass.engines.workload import StaticSite

WEB = {"command": ("gunicorn", "app:app"), "processes": {"web": ("gunicorn",), "worker": ("celery",)}}
GIT = {"git_repository": {"url": REPOSITORY}}


def probe(kind: str, **asked: Any) -> Any:
    return {"readiness_probe": {"type": {kind: asked}}}


@pytest.fixture
async def world():
    async with make_world() as made:
        made.builder.names = WEB | {"web_port": 8000}
        yield made


async def left_out(world: World, **fields: Any) -> str:
    """An application that was created without ports, and deployed."""
    app = await world.application(**fields)
    await deploy(world, app)
    await world.settle()
    return f"/application/{app}"


async def ports_of(world: World, path: str) -> list[int]:
    return [port["internal_port"] for port in (await world.get(path))["ports"]]


async def test_a_web_process_gets_one_public_port_marked_as_automatic(world):
    path = await left_out(world, name="shop")
    shown = await world.get(path)
    (port,) = shown["ports"]
    assert shown["automatic_port"] is True
    assert (port["internal_port"], port["protocol"], port["publicly_accessible"]) == (8000, "HTTP", True)
    assert (port["name"], port["is_default"]) == ("p8000", True)
    (link,) = (await world.get(f"{path}/link"))["results"]
    assert link["url"].startswith("http://shop-")
    assert link["internal_port"] == 8000
    assert await world.state(path) == "RUNNING"
    assert (await world.get(f"{path}/status"))["service_deployment_status"] == "UP_TO_DATE"


@pytest.mark.parametrize(
    ("names", "fields", "expected"),
    [
        (WEB | {"web_port": 8000, "ports": (3000, 4000)}, {}, [3000]),
        ({"command": ("nginx",), "ports": (80,)}, {}, [80]),
        (WEB | {"web_port": 8000}, {"process": "worker"}, []),
        ({"processes": {"worker": ("celery",)}, "command": ("celery",), "web_port": 8000}, {}, []),
        ({"command": ("python", "main.py")}, {}, []),
        ({"command": ("sh", "-c", "exec serve --port ${PORT:-5000}")}, {}, [8080]),
        (WEB | {"web_port": 8000}, {"start_command": "celery -A shop worker"}, []),
        (WEB | {"web_port": 8000}, {"start_command": "gunicorn --workers 2 shop:app"}, [8000]),
        ({"command": ("run",)}, {"start_command": "serve --port $PORT"}, [8080]),
        ({"command": ("run",)}, {"healthchecks": probe("http")}, [8080]),
        ({"command": ("run",)}, {"healthchecks": probe("tcp", port=3000)}, [3000]),
        ({"command": ("run",)}, {"healthchecks": probe("exec", command=["true"])}, []),
    ],
)
async def test_the_automatic_port_follows_from_the_build_and_the_settings(world, names, fields, expected):
    world.builder.names = names
    path = await left_out(world, **fields)
    assert await world.state(path) == "RUNNING", (await world.get(f"{path}/status"))["message"]
    assert await ports_of(world, path) == expected
    assert len((await world.get(f"{path}/link"))["results"]) == len(expected)


@pytest.mark.parametrize(
    ("names", "fields", "lacks"),
    [
        ({"command": ("python", "main.py")}, {}, True),
        ({"command": ("python", "main.py")}, {"ports": []}, False),
        (WEB | {"web_port": 8000}, {"process": "worker"}, False),
        (WEB | {"web_port": 8000}, {}, False),
    ],
)
async def test_the_list_of_services_tells_which_running_ones_were_to_get_a_port_and_have_none(
    world, names, fields, lacks
):
    world.builder.names = names
    app = await world.application(**fields)
    services = f"/organization/{world.org}/services"
    assert [service["lacks_port"] for service in (await world.get(services))["results"]] == [False]
    await deploy(world, app)
    await world.settle()
    assert [service["lacks_port"] for service in (await world.get(services))["results"]] == [lacks]


async def test_a_static_site_gets_an_automatic_port_without_an_instance(world):
    world.builder.names = {"static": StaticSite(folder="dist")}
    path = await left_out(world, name="shop")
    assert (await world.state(path), await ports_of(world, path)) == ("RUNNING", [80])
    (link,) = (await world.get(f"{path}/link"))["results"]
    assert link["url"].startswith("http://shop-")
    assert not world.engine.instances


async def test_the_automatic_port_is_the_value_of_a_declared_variable_port(world):
    app = await world.application()
    await world.post(f"/application/{app}/environmentVariable", {"key": "PORT", "value": "5005"})
    await deploy(world, app)
    await world.settle()
    assert await ports_of(world, f"/application/{app}") == [5005]


@pytest.mark.parametrize("given", [{"ports": []}, {"automatic_port": False}])
async def test_an_empty_ports_list_or_automatic_port_false_means_no_port(world, given):
    path = await left_out(world, **given)
    assert (await ports_of(world, path), (await world.get(path))["automatic_port"]) == ([], False)


async def test_an_application_created_under_compat_gets_no_automatic_port(world):
    environment = await world.environment()
    made = await world.post(f"/compat/environment/{environment}/application", GIT | {"name": "web"})
    await deploy(world, str(made["id"]))
    await world.settle()
    assert await ports_of(world, f"/application/{made['id']}") == []


async def test_declared_ports_replace_an_automatic_port_at_the_next_deployment(world):
    path = await left_out(world)
    changed = await world.patch(path, {"ports": [{"internal_port": 9000, "publicly_accessible": True}]})
    assert (changed.status, changed["automatic_port"]) == (200, False)
    assert (await world.get(f"{path}/status"))["service_deployment_status"] == "OUT_OF_DATE"
    await deploy(world, path.rpartition("/")[2])
    await world.settle()
    assert await ports_of(world, path) == [9000]


@pytest.mark.parametrize("base", ["", "/compat"])
async def test_sending_back_an_application_with_an_automatic_port_changes_nothing(world, base):
    path = await left_out(world)
    before = await world.get(f"{base}{path}")
    sent = {name: before[name] for name in ("name", "git_repository", "ports", "automatic_port")}
    sent["git_repository"] = {"url": REPOSITORY, "branch": "main"}
    assert (await world.put(f"{base}{path}", sent)).json == before.json
    without = {name: value for name, value in sent.items() if name != "automatic_port"}
    assert (await world.put(f"{base}{path}", without)).json == before.json
    assert (await world.patch(f"{base}{path}", {"ports": before["ports"]})).json == before.json


async def test_an_empty_ports_list_set_before_the_first_deployment_means_no_port(world):
    app = await world.application()
    assert (await world.get(f"/application/{app}"))["automatic_port"] is True
    assert (await world.patch(f"/application/{app}", {"ports": []}))["automatic_port"] is False


async def test_ports_that_are_removed_are_chosen_again(world):
    app = await world.application(ports=[{"internal_port": 9000}])
    patched = await world.patch(f"/application/{app}", {"ports": None})
    assert (patched["ports"], patched["automatic_port"]) == ([], True)
    await deploy(world, app)
    await world.settle()
    assert await ports_of(world, f"/application/{app}") == [8000]


async def test_a_new_automatic_port_number_keeps_the_ports_id_and_host(world):
    path = await left_out(world, name="shop")
    before, links = (await world.get(path))["ports"], (await world.get(f"{path}/link"))["results"]
    world.builder.names = WEB | {"ports": (3000,)}
    world.git.push("exposes 3000")
    await deploy(world, path.rpartition("/")[2])
    await world.settle()
    after = (await world.get(path))["ports"]
    assert [(port["id"], port["internal_port"]) for port in after] == [(before[0]["id"], 3000)]
    assert [link["url"] for link in (await world.get(f"{path}/link"))["results"]] == [
        link["url"] for link in links
    ]


async def test_a_rollback_to_a_version_without_a_web_process_has_no_port(world):
    world.builder.names = {"command": ("python", "bot.py")}
    path = await left_out(world)
    world.builder.names = WEB | {"web_port": 8000}
    world.git.push("serves")
    await deploy(world, path.rpartition("/")[2])
    await world.settle()
    assert await ports_of(world, path) == [8000]
    assert (await world.post(f"{path}/rollback")).status == 202
    await world.settle()
    assert (await ports_of(world, path), await world.state(path)) == ([], "RUNNING")
    assert (await world.get(f"{path}/link"))["results"] == []


async def test_ports_declared_during_a_build_are_kept(world):
    app = await world.application()
    build = world.builder.build

    async def slow(*words: Any) -> Any:
        await world.patch(f"/application/{app}", {"ports": [{"internal_port": 9000}]})
        return await build(*words)

    world.builder.build = slow
    await deploy(world, app)
    await world.settle()
    assert await ports_of(world, f"/application/{app}") == [9000]


async def test_two_applications_with_the_same_name_get_different_hosts(world):
    first, second = [
        await left_out(world, environment=await world.environment(name="prod"), name="shop") for _ in "12"
    ]
    urls = {(await world.get(f"{path}/link"))["results"][0]["url"] for path in (first, second)}
    assert len(urls) == 2


async def test_choosing_an_automatic_port_is_an_update_event_by_windlass_and_changes_the_etag(world):
    app = await world.application()
    before = (await world.get(f"/application/{app}")).headers["etag"]
    await deploy(world, app)
    await world.settle()
    after = await world.get(f"/application/{app}")
    assert after.headers["etag"] != before
    stale = await world.patch(f"/application/{app}", {"cpu": 100}, headers={"If-Match": before})
    assert stale.status == 412
    (event,) = [event for event in await world.events(Event.UPDATED) if event.target == app]
    assert event.actor == "windlass"


async def test_a_deployment_that_chooses_the_same_port_changes_nothing(world):
    path = await left_out(world)
    before = await world.get(path)
    world.git.push("another commit")
    await deploy(world, path.rpartition("/")[2])
    await world.settle()
    after = await world.get(path)
    assert (after["ports"], after.headers["etag"]) == (before["ports"], before.headers["etag"])
    assert len(await world.events(Event.UPDATED)) == 1


async def test_the_build_log_says_that_the_port_was_chosen(world):
    app = await world.application()
    id = await deploy(world, app)
    await world.settle()
    assert (await deployment(world, app, id))["status"] == "SUCCEEDED"
    lines = (await world.get(f"/application/{app}/deployment/{id}/log"))["results"]
    assert any(line["message"].startswith("Port 8000 is made public") for line in lines)


async def test_an_application_with_declared_ports_keeps_them(world):
    app = await deployed(world)
    assert await ports_of(world, f"/application/{app}") == [8080]


# A port that is taken over


@pytest.fixture
def sure_at_once(monkeypatch):
    for name in ("CHECK_INTERVAL", "SURE_AFTER"):
        monkeypatch.setattr(readiness, name, 0.0)


def listens_on(world: World, port: int) -> None:
    """Every program listens there only, and answers HTTP."""
    world.probes.problem = "nothing listens there"
    world.probes.listeners, world.probes.speaks = [ListeningPort(port, "0.0.0.0")], {port}


@pytest.mark.usefixtures("sure_at_once")
async def test_a_chosen_port_is_replaced_by_the_one_on_which_the_program_answers(world):
    listens_on(world, 5000)
    path = await left_out(world, name="shop")
    assert await world.state(path) == "RUNNING"
    assert await ports_of(world, path) == [5000]
    (link,) = (await world.get(f"{path}/link"))["results"]
    assert link["internal_port"] == 5000
    assert [[port.internal for port in one.ports] for one in world.engine.applied] == [[8000], [5000]]
    assert len(world.engine.instances) == 1
    log = (await world.get(f"{path}/deployment/{(await world.get(f'{path}/status'))['execution_id']}/log"))[
        "results"
    ]
    assert any(line["message"].startswith("shop listens on port 5000, and not on ") for line in log)


@pytest.mark.usefixtures("sure_at_once")
async def test_a_port_detected_at_run_time_is_used_at_once_by_the_next_deployment(world):
    listens_on(world, 5000)
    path = await left_out(world)
    before = len(world.engine.applied)
    world.git.push("another commit")
    await deploy(world, path.rpartition("/")[2])
    await world.settle()
    assert [[port.internal for port in one.ports] for one in world.engine.applied[before:]] == [[5000]]


@pytest.mark.usefixtures("sure_at_once")
async def test_a_program_that_listens_on_another_port_at_each_start_fails_with_advice(world):
    numbers = iter(range(5000, 6000))
    begun = world.engine._begun

    async def begin(wanted: Any, index: int) -> Any:
        listens_on(world, next(numbers))
        return await begun(wanted, index)

    world.engine._begun = begin
    path = await left_out(world, name="shop")
    message = (await world.get(f"{path}/status"))["message"]
    assert message.startswith(
        "Set ports[0].internal_port to 5001: shop listens on 5001, and the application says 5000"
    )


@pytest.mark.usefixtures("sure_at_once")
async def test_a_port_that_a_person_named_is_not_replaced():
    async with make_world(ready_seconds=1) as world:
        listens_on(world, 5000)
        path = f"/application/{await world.application(ports=[{'internal_port': 8000}])}"
        await deploy(world, path.rpartition("/")[2])
        await world.settle()
        assert await world.state(path) == "ERROR"
        assert await ports_of(world, path) == [8000]


@pytest.mark.usefixtures("sure_at_once")
@pytest.mark.parametrize("verb", ["end", "run"], ids=["before it is written", "after it is written"])
async def test_switching_to_a_detected_port_continues_after_the_server_was_killed(world, verb):
    listens_on(world, 5000)
    act, calls, go = getattr(world.engine, verb), 0, asyncio.Event()

    async def slow(*words: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == (1 if verb == "end" else 2):
            await go.wait()
        return await act(*words, **more)

    setattr(world.engine, verb, slow)
    app = await world.application()
    await deploy(world, app)
    await under_way(world, lambda: calls == (1 if verb == "end" else 2))
    await world.installation.worker.stop()
    go.set()
    await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"
    assert await ports_of(world, f"/application/{app}") == [5000]
    assert len(world.engine.instances) == 1
