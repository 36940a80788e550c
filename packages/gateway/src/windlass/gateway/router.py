"""A router that delegates to the gateway, which runs in another process."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final

from msgspec.structs import replace

from windlass.base.metrics import Metric, gauge
from windlass.gateway.link import AskGateway, GatewayLink, HearWakes
from windlass.gateway.messages import (
    AskCertificates,
    AskTraffic,
    Complete,
    DrainEndpoints,
    DropCertificate,
    DropChallenge,
    Forget,
    GatewayState,
    Keep,
    Open,
    PutCertificate,
    PutChallenge,
    Reserve,
    Retire,
    ServiceTraffic,
    ServiceUses,
    SetRoutes,
)
from windlass.gateway.traffic import metrics_of
from windlass.routers.router import (
    Certificate,
    Challenge,
    Endpoint,
    IsKnown,
    Listen,
    Route,
    RouteError,
)

_SCRAPE_SECONDS: Final = 2.0
"""Time limit for the gateway to report its metrics, in seconds."""


class GatewayRouter:
    def __init__(
        self,
        link: GatewayLink,
        listener_key: str,
        host: str,
        port: int,
        trusted: Sequence[str] = (),
        access_log: str = "",
        https_port: int = 0,
        proxy_protocol_from: Sequence[str] = (),
        public_https_port: int = 0,
        *,
        offers_http2: bool = False,
    ) -> None:
        """`listener_key`: the name of this router in the gateway."""
        self._link = link
        self._opening = Open(
            listener_key,
            host,
            port,
            tuple(trusted),
            access_log,
            https_port,
            tuple(proxy_protocol_from),
            public_https_port,
            offers_http2,
        )
        self._door = listener_key
        self._port = port
        self._is_open = False
        self._reserved: dict[str, Reserve] = {}
        self._routes: dict[str, SetRoutes] = {}
        """Routes that this server has sent. They are sent again if the gateway loses them."""
        self._is_complete = False
        self._stays = False

    @property
    def port(self) -> int:
        return self._port

    async def start(self) -> None:
        async with AsyncExitStack() as undo:
            await self._link.start(self._opening)
            undo.push_async_callback(self._link.stop)
            state = await self._link.call(self._opening)
            undo.pop_all()
        self._is_open = True
        self._port = state.port
        self._opening = replace(self._opening, port=state.port)
        self._link.greet_with(self._restore_door)

    async def stop(self) -> None:
        """Closes the link. The gateway keeps running."""
        if self._is_open:
            self._is_open = False
            self._link.forget_greeting(self._restore_door)
            await self._link.stop()

    async def retire(self, timeout: float) -> None:
        """Accepts no further connections. Requests in progress may continue for `timeout` seconds."""
        await self._link.call(Retire(self._door, timeout))
        await self.stop()

    async def reserve(self, service: str, ports: Sequence[Listen]) -> None:
        change = Reserve(self._door, service, tuple(ports))
        await self._link.call(change)
        self._reserved[service] = change

    async def set(self, service: str, routes: Sequence[Route]) -> None:
        change = SetRoutes(self._door, service, tuple(routes))
        await self._link.call(change)
        self._routes[service] = change

    async def drain(self, endpoints: Sequence[Endpoint], timeout: float) -> None:
        await self._link.call(DrainEndpoints(self._door, tuple(endpoints), timeout))

    async def forget(self, service: str) -> None:
        await self._link.call(Forget(self._door, service))
        self._reserved.pop(service, None)
        self._routes.pop(service, None)

    async def complete(self) -> None:
        await self._link.call(Complete())
        self._is_complete = True

    async def keep(self, *, stays: bool) -> None:
        await self._link.call(Keep(stays))
        self._stays = stays

    async def put_certificate(self, id: str, certificate: Certificate) -> None:
        await self._link.call(PutCertificate(self._door, id, certificate))

    async def drop_certificate(self, id: str) -> None:
        await self._link.call(DropCertificate(self._door, id))

    async def certificates(self) -> Mapping[str, str]:
        return (await self._link.call(AskCertificates(self._door))).certificates

    async def put_challenge(self, id: str, challenge: Challenge) -> None:
        await self._link.call(PutChallenge(self._door, id, challenge))

    async def drop_challenge(self, id: str) -> None:
        await self._link.call(DropChallenge(self._door, id))

    async def challenges(self) -> Mapping[str, int]:
        return (await self._link.call(AskCertificates(self._door))).challenges

    async def service_traffic(self) -> Sequence[ServiceTraffic]:
        """Returns the traffic counters of all services of the gateway."""
        return (await self._ask_traffic()).traffic

    async def service_uses(self) -> ServiceUses:
        """Returns the traffic of all services of the gateway, and since when it was counted."""
        state = await self._ask_traffic()
        return ServiceUses(state.age, {row.service: row for row in state.traffic}, state.of_elders)

    def hear_wakes(self, hear: HearWakes) -> None:
        """Sets what is called with sleeping services that have requests, of all doors of the gateway."""
        self._link.hear_wakes = hear

    async def _ask_traffic(self) -> GatewayState:
        return await self._link.call(AskTraffic())

    async def metrics(self) -> Sequence[Metric]:
        try:
            async with asyncio.timeout(_SCRAPE_SECONDS):
                state = await self._ask_traffic()
        except (RouteError, TimeoutError):
            return [_up_metric(False), *metrics_of(())]
        return [_up_metric(True), *metrics_of(state.traffic, state.dropped_lines)]

    async def services(self) -> Collection[str]:
        return (await self._link.call(self._opening)).services

    async def close_others(self, is_known: IsKnown, timeout: float) -> None:
        state = await self._link.call(self._opening)
        for door in state.doors - {self._door}:
            if not await is_known(door):
                await self._link.call(Retire(door, timeout))

    async def _restore_door(self, ask_gateway: AskGateway) -> None:
        """Reopens the door, and sends the routes of services that the gateway does not have. Existing routes
        stay, because another server may have sent newer ones.

        A failure for one service does not prevent the other services' routes from being sent. Raises the
        first failure at the end."""
        services = (await ask_gateway(self._opening)).services
        failed: RouteError | None = None
        for changes in (self._reserved, self._routes):
            for service in changes.keys() - services:
                try:
                    await ask_gateway(changes[service])
                except RouteError as error:
                    failed = failed or error  # if reserving ports fails, setting the routes fails, too
        if failed:
            raise failed
        if self._is_complete:
            await ask_gateway(Complete())
        if self._stays:
            await ask_gateway(Keep(stays=True))


def _up_metric(is_up: bool) -> Metric:
    return gauge("gateway_up", "1 if the gateway answered this scrape", is_up)
