"""A receiver written from the documentation loses nothing, when it or the server is killed."""

from __future__ import annotations

import asyncio
import base64
import os
import random
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.conftest import brood, code
from tests.faults.house import House, house_for
from tests.faults.inside import until
from tests.faults.programs import Code
from tests.forks import Brood
from tests.marks import either

pytestmark = pytest.mark.slow

__all__ = ["brood", "code"]

SECRET = "whsec_" + base64.b64encode(b"secret of the tests").decode()
ROUNDS = int(os.environ.get("RESTARTS", "0")) or either(3, 120)
"""RESTARTS=300: so many rounds of deployments and deaths."""
TOLD = either(5, 8)
"""At least so many events are told meanwhile, however slow the machine is."""
DOCS = Path(__file__).parents[2] / "docs/webhooks.md"


class Receiver:
    """The program of the documentation, which may be killed and started again."""

    def __init__(self, folder: Path) -> None:
        (found,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
        self._program = folder / "receiver.py"
        self._program.write_text(found)
        self._printed = folder / "printed"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}/"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._printed.open("ab") as printed, (self._printed.with_suffix(".errors")).open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, self._program, str(self._port)],
                env={**os.environ, "SECRET": SECRET},
                stdout=printed,
                stderr=errors,
            )

    def kill(self) -> None:
        assert self._process
        self._process.kill()
        self._process.wait()

    @property
    def heard(self) -> list[tuple[str, str]]:
        """Id and kind of each event, in the order in which it was first heard."""
        lines = [line.split() for line in self._printed.read_text().splitlines()]
        return list(dict.fromkeys((line[0], line[1]) for line in lines if len(line) == 2))


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    made = Receiver(tmp_path)
    made.start()
    yield made
    made.kill()


async def deliveries(house: House, path: str) -> list[Any]:
    return list((await house.call("GET", f"{path}/event?page_size=1000"))["results"])


@pytest.mark.timeout(120 + 3 * ROUNDS)
async def test_nothing_is_lost_while_either_side_is_killed_at_random(
    tmp_path: Path, brood: Brood, code: Code, receiver: Receiver, database_url: str
):
    async with house_for(tmp_path, brood, code, database_url, outbound_allow=["127.0.0.0/8"]) as house:
        await house.start()
        await house.make_environment()
        org = (await house.call("GET", "/organization"))["id"]
        body = {
            "target_url": receiver.url,
            "events": ["DEPLOYMENT_STARTED", "DEPLOYMENT_SUCCEEDED", "DEPLOYMENT_FAILED"],
            "target_secret": SECRET,
            "enabled": True,
        }
        webhook = await house.call("POST", f"/organization/{org}/webhook", body)
        path = f"/organization/{org}/webhook/{webhook['id']}"
        apps = [await house.application("sleeps") for _ in range(2)]
        wanted: dict[str, list[tuple[str, str]]] = {}
        while sum(map(len, wanted.values())) <= TOLD:
            await problem(house, receiver, apps)
            await house.converges()
            wanted = await told(house, apps)

        async def all_heard() -> bool:
            sent = await deliveries(house, path)
            return {one["id"] for one in sent} <= {id for id, _ in receiver.heard} and all(
                one["status"] == "DELIVERED" for one in sent
            )

        await until(all_heard)
        sent = {one["id"]: one["request"]["payload"] for one in await deliveries(house, path)}
        heard = [(sent[id]["service_id"], sent[id]["deployment_id"], kind) for id, kind in receiver.heard]
        for app in apps:
            assert [each[1:] for each in heard if each[0] == app] == wanted[app]


async def problem(house: House, receiver: Receiver, apps: list[str]) -> None:
    """Deploys, and kills the server or the receiver now and then."""
    rng = random.Random(7)
    for _ in range(ROUNDS):
        is_struck = False
        async with house.mortal():
            for app in apps:
                await house.do(app, "deploy")
            is_struck = rng.random() < 0.5
            if is_struck:
                house.strike()
            await asyncio.sleep(rng.random() / 2)
        if is_struck and house.pid:  # a busy machine ends it later
            await house.dies()
        if not house.pid:
            await house.start()
        if rng.random() < 0.5:
            receiver.kill()
            await asyncio.sleep(rng.random() / 4)
            receiver.start()


async def told(house: House, apps: list[str]) -> dict[str, list[tuple[str, str]]]:
    """Returns the expected events of each application, from the deployments themselves."""
    wanted = {}
    for app in apps:
        page = await house.call("GET", f"/application/{app}/deployment?page_size=1000")
        deployments = sorted(page["results"], key=lambda one: int(one["number"]))
        wanted[app] = [
            (one["id"], word)
            for one in deployments
            for word in ("DEPLOYMENT_STARTED", f"DEPLOYMENT_{one['status']}")
            if one["started_at"] and word != "DEPLOYMENT_SUPERSEDED"
        ]
    return wanted
