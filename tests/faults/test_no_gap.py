"""Requests see nothing of releases, of the way back, and of growing and shrinking: none fails."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import aiohttp
import pytest
from msgspec.structs import replace

from tests.faults.inside import HTTP, Inside, Service, inside, until
from tests.world import HandClock
from windlass.control.background.housekeeping import Autoscaler
from windlass.core.deploy.scaling import DOWN_AFTER, UP_AFTER
from windlass.gateway.link import HearWakes
from windlass.install.parts import Parts
from windlass.routers.builtin import BuiltinRouter
from windlass.routers.router import Endpoint
from windlass.store import Claim

pytestmark = pytest.mark.slow

IN_EACH = 200
"""Requests at least, while one thing is done."""
CLIENTS = 6
"""Number of clients of each sort: with kept connections, and with new ones."""
BETWEEN_REQUESTS = 0.01
"""Seconds. Without it, clients would take the processors from what they look at."""


class Crowd:
    """Asks on and on, and counts what was not answered well."""

    def __init__(self, port: int, host: str, path: str, enough: int) -> None:
        self._url, self._host = f"http://127.0.0.1:{port}{path}", host
        self._enough = enough
        self.answers: Counter[str] = Counter()
        self.failed: list[str] = []
        self._over = False

    async def __aenter__(self) -> Crowd:
        self._asking = [asyncio.create_task(self._ask(close)) for close in (False, True) * CLIENTS]
        await self.goes_on()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._over = True
        await asyncio.gather(*self._asking)

    async def goes_on(self) -> None:
        enough = self.answers.total() + self._enough

        async def asked() -> bool:
            return self.answers.total() >= enough or bool(self.failed)

        await until(asked)

    async def meets(self, instance: str) -> None:
        async def met() -> bool:
            return instance in self.answers or bool(self.failed)

        await until(met)

    async def _ask(self, close: bool) -> None:
        connector = aiohttp.TCPConnector(force_close=close)
        async with aiohttp.ClientSession(connector=connector, headers={"Host": self._host}) as session:
            turn = 0
            while not self._over:
                turn += 1
                method, body = ("POST", b"x" * 1000) if turn % 3 == 0 else ("GET", None)
                try:
                    # aiohttp itself would repeat what is safe to repeat, and hide that it had to.
                    async with session.request(method, self._url, data=body) as answer:
                        await self._note(answer)
                except (aiohttp.ClientError, OSError) as error:
                    self.failed.append(f"{method}: {error!r}")
                await asyncio.sleep(BETWEEN_REQUESTS)

    async def _note(self, answer: aiohttp.ClientResponse) -> None:
        text = await answer.text()
        if answer.status == 200:
            self.answers[text] += 1
        else:
            self.failed.append(f"{answer.status} {text[:200]}")


async def crowd_of(service: Service, path: str = "/", enough: int = IN_EACH) -> Crowd:
    return Crowd(service.inside.ctx.places.local.router.port, await service.address(), path, enough)


async def test_no_request_fails_during_a_release_a_rollback_and_scaling(
    tmp_path: Path,
):
    async with inside(tmp_path) as there:
        shop = await there.application("answers", ports=[HTTP])
        assert (await shop.do("deploy"))["status"] == "SUCCEEDED"
        async with await crowd_of(shop) as crowd:
            there.code.push()
            assert (await shop.do("deploy"))["status"] == "SUCCEEDED"
            await crowd.goes_on()
            assert (await shop.do("rollback"))["status"] == "SUCCEEDED"
            await crowd.goes_on()
            for count in (3, 1):
                await shop.edit(min_running_instances=count, max_running_instances=count)
                assert (await shop.do("redeploy"))["status"] == "SUCCEEDED"
                await shop.runs(count)
                await crowd.goes_on()
        assert crowd.failed == []
        assert crowd.answers.total() >= 5 * IN_EACH
        assert set(crowd.answers) >= {"1-0", "2-0", "3-0", "4-0", "4-1", "4-2", "5-0"}


@pytest.mark.nightly
async def test_no_request_fails_while_the_autoscaler_scales_up_and_down(tmp_path: Path):
    async with inside(tmp_path) as there:
        shop = await there.application("answers", ports=[HTTP], max_running_instances=2, cpu=100)
        await shop.do("deploy")
        scaler, clock = Autoscaler(), HandClock()
        async with await crowd_of(shop) as crowd:
            await look(there, scaler, clock)
            clock.ms += UP_AFTER
            await look(there, scaler, clock)
            await worked(there)
            clock.turn(0.05)  # as if all that work had been done in so short a time
            await look(there, scaler, clock)
            await crowd.meets("1-1")
            clock.ms += DOWN_AFTER
            await look(there, scaler, clock)
            clock.ms += DOWN_AFTER * 100
            await look(there, scaler, clock)
            await shop.runs(1)
            await crowd.goes_on()
        assert crowd.failed == []
        assert set(crowd.answers) == {"1-0", "1-1"}


async def worked(there: Inside) -> None:
    """Until the instances took so much processor time that no rounding of the engine's hides it."""

    async def spent() -> int:
        return sum(usage.cpu_ms for usage in (await there.ctx.places.local.engine.usage()).values())

    before = await spent()

    async def enough() -> bool:
        return await spent() >= before + 50

    await until(enough)


async def look(there: Inside, scaler: Autoscaler, clock: HandClock) -> None:
    await scaler.scale(replace(there.ctx, clock=clock), Claim("nobody's", "scale", 0, 0))


class Careless(BuiltinRouter):
    """Does not wait for requests under way."""

    def hear_wakes(self, hear: HearWakes) -> None:
        """Nothing sleeps here."""

    async def drain(self, endpoints: Sequence[Endpoint], timeout: float) -> None:
        return None


@pytest.mark.nightly
async def test_a_router_that_does_not_drain_fails_some_requests(tmp_path: Path):
    """Otherwise the tests above would show nothing."""

    def careless(parts: Parts) -> Parts:
        return replace(parts, router=Careless("127.0.0.1", 0))

    async with inside(tmp_path, change=careless) as there:
        shop = await there.application("answers", ports=[HTTP])
        await shop.do("deploy")
        async with await crowd_of(shop, "/slow", enough=4 * CLIENTS) as crowd:
            await shop.do("redeploy")
        assert crowd.failed
