"""A whole server whose second cluster has an engine that never answers: others go on, and learn nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web

from tests.engines.test_second_host import Cluster, connected
from tests.faults.inside import Inside, until
from tests.hostile.engines import ID, HostileEngine, hangs, says
from tests.hostile.test_engine_of_another import server
from windlass.docker import names

pytestmark = pytest.mark.slow

CANARY = "canary-of-others-7f3a"


async def creates_no_instance(request: web.Request) -> web.StreamResponse:
    """Creates the container that prepares the volumes, and hangs for that of an instance."""
    is_instance = not request.query["name"].endswith("-volumes")
    return await (hangs if is_instance else says({"Id": ID}, 201))(request)


async def creates_volume(request: web.Request) -> web.StreamResponse:
    return await says({**await request.json(), "CreatedAt": "2026-01-31T09:05:00Z"}, 201)(request)


async def begun(there: Inside, engine: HostileEngine) -> Cluster:
    """A deployment on the cluster of the engine, which never finishes to create the container."""
    made = await connected(there, "east", engine.fields())
    assert made.status == 201, made
    east = Cluster(there, made["id"], "east")
    await east.make()
    environment = (await there.call("GET", east.path))["environment"]["id"]
    label = {
        names.INSTALLATION_LABEL: f"{there.ctx.installation}.{east.id}",
        names.ENVIRONMENT_LABEL: environment,
    }
    network = {"Id": ID, "Created": "2026-01-31T09:05:00Z", "Labels": label}

    engine.answers |= {
        "/networks": says([network]),
        "/volumes/create": creates_volume,
        "/json": says({"Id": "sha256:" + ID, "Config": {}}),
        "-1-0/json": says({"message": "no such container"}, 404),
        "/containers/create": creates_no_instance,
    }
    own = {"key": "OWN", "value": "told-to-its-own-engine"}
    await there.call("POST", f"{east.path}/environmentVariable", own)
    asked = await there.call("POST", f"{east.path}/deploy", {})
    assert asked.status == 202, asked

    async def creates() -> bool:
        return sum(line.endswith("/containers/create") for line in engine.asked) > 1

    await until(creates)
    return east


async def test_other_services_are_deployed_while_a_remote_engine_hangs(tmp_path: Path):
    async with server(tmp_path) as (there, engine):
        await begun(there, engine)
        for path in [*engine.answers]:
            engine.answers[path] = hangs
        app = await there.application("sleeps")
        assert (await app.do("deploy"))["status"] == "SUCCEEDED"
        assert (await app.do("stop"))["status"] == "SUCCEEDED"
        assert (await there.call("GET", "/healthz")).status == 200
        assert (await there.call("DELETE", app.path)).status == 204

        async def gone() -> bool:
            return (await there.call("GET", app.path)).status == 404

        await until(gone)


async def test_an_engine_receives_only_the_variables_of_its_own_services(tmp_path: Path):
    async with server(tmp_path) as (there, engine):
        app = await there.application("sleeps", name=CANARY)
        for scope in (app.path, f"/environment/{there.environment}"):
            for kind in ("environmentVariable", "secret"):
                variable = {"key": f"A_{kind}", "value": CANARY}
                await there.call("POST", f"{scope}/{kind}", variable)
        await app.do("deploy")
        await begun(there, engine)
        sent = b"".join(engine.sent)
        assert b"told-to-its-own-engine" in sent, "the control of the next line"
        assert CANARY.encode() not in sent
        for word in (there.environment, app.id, "engine_key", "BEGIN PRIVATE KEY"):
            assert word.encode() not in sent
