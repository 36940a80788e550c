"""How fast news gets to receivers: couriers against a bare loop of the same client, and how soon it is there.

In one process: an installation on SQLite with fake engines, whose couriers call a receiver on the other core.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from msgspec import Struct

from bench.machine import LOAD_CORE, SERVER_CORE, run_module
from tests.engines.servers import server
from tests.fakes.builder import FakeBuilder, FakeRepositories, FakeServers
from tests.fakes.engine import FakeEngine
from tests.fakes.router import FakeRouter
from windlass.base.http_out import HttpSender
from windlass.base.ids import new_id
from windlass.base.signing import key_of, new_secret, signature
from windlass.config import Settings
from windlass.control.context.call import encode
from windlass.control.records.outbox import DELIVERY_WORK, work_of
from windlass.control.reporting.delivery import MAX_CONCURRENT_SERVICES
from windlass.control.reporting.webhooks import attempts_of
from windlass.core.words.webhook_payload import NamedId, Subscription, WebhookPayload, render
from windlass.gateway.link import GatewayLink
from windlass.install.connecting import ClusterConnector
from windlass.install.installation import Installation, install
from windlass.install.parts import Parts
from windlass.serve.server import tune_interpreter
from windlass.store import Tx

ADMIN = "admin-token-of-the-bench-0123456789abcdef"
LOOPBACK = ("127.0.0.0/8",)


class Calling(Struct, frozen=True):
    folder: str
    deliveries: int
    calls: int
    """How many pieces of news are timed one by one."""
    rounds: int


class Called(Struct, frozen=True):
    """Deliveries per second, and milliseconds until the first byte; round by round."""

    ours: Sequence[float]
    bare: Sequence[float]
    soon: Sequence[float]
    """Medians."""
    late: Sequence[float]
    """Of nine receivers beside a tenth that answers: the 99th of a hundred."""
    late_with_one_dead: Sequence[float]


def called(given: Calling) -> Called:
    return msgspec.json.decode(
        run_module("bench.couriers", msgspec.json.encode(given), SERVER_CORE), type=Called
    )


class Caller:
    """An installation, and what is put on its way in it."""

    def __init__(self, installation: Installation, url: str) -> None:
        self._installation = installation
        self._ctx = installation.ctx
        self._url = url
        self._secret = new_secret()
        self._org = ""

    async def begin(self) -> None:
        self._org = (await self._ask("GET", "/organization"))["id"]

    async def subscribed(self, url: str) -> str:
        body = {"target_url": url, "events": ["DEPLOYMENT_SUCCEEDED"], "target_secret": self._secret}
        return str((await self._ask("POST", f"/organization/{self._org}/webhook", body))["id"])

    async def unsubscribe(self, webhook: str) -> None:
        await self._ask("DELETE", f"/organization/{self._org}/webhook/{webhook}")

    async def ours(self, count: int) -> float:
        """Deliveries per second, from the moment when all wait to that when all are written down as taken."""
        webhook = await self.subscribed(self._url)
        lanes = [new_id() for _ in range(MAX_CONCURRENT_SERVICES)]
        await self._put([(webhook, lanes[number % len(lanes)]) for number in range(count)])
        began = time.perf_counter()
        while await self._ctx.store.reads.deliveries.next(webhook) is not None:  # noqa: ASYNC110 (nothing says so)
            await asyncio.sleep(0.01)
        took = time.perf_counter() - began
        await self.unsubscribe(webhook)
        return count / took

    async def bare(self, count: int) -> float:
        """The same client, the same body, the same signatures: and nothing is written down."""
        subscription = await self._subscription()
        body = encode(render(subscription, _news(), "http://127.0.0.1:8080"))
        left = iter(range(count))
        out = HttpSender(LOOPBACK)

        async def loop() -> None:
            for _ in left:
                id, seconds = new_id(), int(time.time())
                headers = {
                    "Content-Type": "application/json",
                    "webhook-id": id,
                    "webhook-timestamp": str(seconds),
                    "webhook-signature": signature([key_of(self._secret)], id, seconds, body),
                }
                await out.send("POST", self._url, body, headers)

        began = time.perf_counter()
        await asyncio.gather(*(loop() for _ in range(MAX_CONCURRENT_SERVICES)))
        took = time.perf_counter() - began
        await out.close()
        return count / took

    async def delays(self, count: int, receivers: int, tenth: str = "") -> list[float]:
        """Milliseconds from the moment before news is written to the first byte at each of so many; `tenth`
        is told as well, and not looked at."""
        living = [await self.subscribed(self._url) for _ in range(receivers)]
        others = [await self.subscribed(tenth)] if tenth else []
        found = []
        for _ in range(count):
            began = time.monotonic_ns()
            lane = new_id()
            made = await self._put([(webhook, lane) for webhook in living + others])
            for webhook, id in zip(living, made, strict=False):
                found.append((await self._reached(webhook, id) - began) / 1e6)
        for webhook in living + others:
            await self.unsubscribe(webhook)
        return found

    async def _reached(self, webhook: str, id: str) -> int:
        while True:
            row = await self._ctx.store.reads.deliveries.get(webhook, id)
            assert row is not None
            if row.state == "DELIVERED":
                return int(attempts_of(row.story)[-1].body)
            await asyncio.sleep(0.001)

    async def _put(self, places: Sequence[tuple[str, str]]) -> list[str]:
        """As an event does: for all who asked for it, in one transaction."""
        body = encode(_news())

        async def change(tx: Tx) -> list[str]:
            made = await tx.deliveries.add(
                [(webhook, lane, "DEPLOYMENT_SUCCEEDED", body) for webhook, lane in places]
            )
            for webhook in {webhook for webhook, _ in places}:
                await tx.work.schedule(DELIVERY_WORK, work_of(webhook), org=self._org)
            return made

        return await self._ctx.store.write(change)

    async def _subscription(self) -> Subscription:
        webhook = await self.subscribed(self._url)
        found = await self._ask("GET", f"/organization/{self._org}/webhook/{webhook}")
        await self.unsubscribe(webhook)
        return msgspec.convert(found, Subscription)

    async def _ask(self, method: str, path: str, body: Any = None) -> Any:
        sent = b"" if body is None else msgspec.json.encode(body)
        headers = [(b"authorization", f"Token {ADMIN}".encode()), (b"content-type", b"application/json")]
        if sent:
            headers.append((b"content-length", b"%d" % len(sent)))
        scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
            "headers": headers, "client": ("127.0.0.1", 1), "scheme": "http", "http_version": "1.1",
        }  # fmt: skip
        answer: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": sent, "more_body": False}

        async def send(message: Any) -> None:
            answer.append(message)

        await self._installation.app(scope, receive, send)
        assert answer[0]["status"] < 300, answer
        text = b"".join(part.get("body", b"") for part in answer[1:])
        return msgspec.json.decode(text) if text else None


def _news() -> WebhookPayload:
    named = NamedId(new_id(), "example")
    return WebhookPayload(
        kind="DEPLOYMENT_SUCCEEDED", at="2026-01-31T09:05:00.007Z", family="application", service=named,
        environment=named, mode="PRODUCTION", project=named, organization=named, deployment=new_id(),
        number=1, action="DEPLOY", status="SUCCEEDED", commit="9fceb02d0ae598e95dc970b74767f19372d61af8",
    )  # fmt: skip


def _hundredth(found: Sequence[float]) -> float:
    return statistics.quantiles(found, n=100)[98]


def _connector(folder: str) -> ClusterConnector:
    return ClusterConnector(
        Settings(data_dir=folder), server(Path(folder), "bench"), GatewayLink(Path(folder))
    )


async def measure(given: Calling, url: str, dead: str) -> Called:
    engine = FakeEngine()
    parts = Parts(
        engine=engine, builder=FakeBuilder(engine.takes), router=FakeRouter(), git=FakeRepositories(),
        servers=FakeServers(), connector=_connector(given.folder),
    )  # fmt: skip
    settings = Settings(
        data_dir=given.folder, admin_token=ADMIN, rate_limit=1_000_000_000, outbound_allow=LOOPBACK
    )
    installation = await install(settings, parts=parts)
    await installation.start()
    tune_interpreter()
    caller = Caller(installation, url)
    await caller.begin()
    ours, bare, soon, late, with_dead = [], [], [], [], []
    await caller.ours(100)
    for _ in range(given.rounds):
        ours.append(await caller.ours(given.deliveries))
        bare.append(await caller.bare(given.deliveries))
        soon.append(statistics.median(await caller.delays(given.calls, 1)))
        late.append(_hundredth(await caller.delays(given.calls, 9, url)))
        with_dead.append(_hundredth(await caller.delays(given.calls, 9, dead)))
    await installation.stop()
    return Called(ours, bare, soon, late, with_dead)


def main() -> None:
    given = msgspec.json.decode(sys.stdin.buffer.read(), type=Calling)
    receiver = subprocess.Popen(
        ["taskset", "-c", str(LOAD_CORE), sys.executable, "-m", "bench.receiver"], stdout=subprocess.PIPE
    )
    try:
        assert receiver.stdout
        url, dead = (f"http://127.0.0.1:{port.decode()}/" for port in receiver.stdout.readline().split())
        found = uvloop.run(measure(given, url, dead))
    finally:
        receiver.kill()
        receiver.wait()
    sys.stdout.buffer.write(msgspec.json.encode(found))


if __name__ == "__main__":
    main()
