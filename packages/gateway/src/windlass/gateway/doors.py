"""The doors of a gateway, with the routes that servers have sent.

A door is a router with its own HTTP port, for the services of this machine or of some clusters."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from windlass.base.http_in.connections import trust_check
from windlass.base.log import log
from windlass.gateway.journal import Journal
from windlass.gateway.messages import (
    Change,
    ClientFile,
    Complete,
    DropCertificate,
    DropChallenge,
    Forget,
    Keep,
    Open,
    PutCertificate,
    PutChallenge,
    Reserve,
    Retire,
    Sealed,
    ServiceTraffic,
    SetRoutes,
    is_same_place,
)
from windlass.gateway.sealed_files import SealedFolder
from windlass.routers.builtin import BuiltinRouter
from windlass.routers.builtin.shared_state import ClientWait
from windlass.routers.router import Endpoint, RouteError

_log = log("gateway")

Sockets = dict[tuple[str, str, int], socket.socket]
"""Listening sockets by door, address and port."""
_BIND_TIMEOUT, _BIND_PAUSE = 3.0, 0.05
"""Seconds for which binding a port in use is retried, and seconds between two attempts."""


class Doors:
    def __init__(
        self, journal: Journal, folder: Path, ask_wake: Callable[[str], bool] = lambda service: False
    ) -> None:
        """`folder`: the gateway's folder. `ask_wake` asks servers to wake a sleeping service, and returns
        whether there are any."""
        self._ask_wake = ask_wake
        self._journal = journal
        self._folder = folder
        self._routers: dict[str, BuiltinRouter] = {}
        self._partial: set[tuple[str, str]] = set()
        """Pairs of door and service whose external ports could not be reopened. These services are reachable
        by host name only."""
        self._retiring: dict[asyncio.Task[None], BuiltinRouter] = {}

    @property
    def connections(self) -> int:
        """The number of open connections of clients."""
        return sum(router.connections for router in self._all_routers())

    @property
    def dropped_lines(self) -> int:
        return sum(router.dropped_lines for router in self._all_routers())

    def traffic(self) -> Iterator[ServiceTraffic]:
        """Yields the traffic of each service that had requests. A service has one door."""
        for router in self._routers.values():
            for service, traffic in router.traffic().items():
                if traffic.requests:
                    yield ServiceTraffic(
                        service,
                        traffic.requests,
                        traffic.active,
                        tuple(traffic.answers),
                        tuple(traffic.buckets),
                        traffic.seconds,
                        router.idle_seconds(traffic),
                    )

    def awaited(self) -> list[str]:
        """Returns the sleeping services for which requests wait."""
        return [service for router in self._routers.values() for service in router.awaited]

    def port(self, listener_key: str) -> int:
        return self._routers[listener_key].port

    def services(self, listener_key: str) -> frozenset[str]:
        """Returns the services of this door whose routes and ports are all in effect."""
        partial = {service for at, service in self._partial if at == listener_key}
        return self._journal.told.services(listener_key) - partial

    async def restore(self, inherited_sockets: Sockets) -> None:
        """Reopens the doors and ports that the journal lists. Uses the listening sockets that the previous
        gateway has handed over, if any."""
        for opened in list(self._journal.told.doors.values()):
            try:
                await self._open(opened, inherited_sockets, is_restored=True)
            except RouteError as error:
                _log.error("a door cannot be opened", extra={"door": opened.door, "reason": str(error)})
        for listening in inherited_sockets.values():
            listening.close()
        inherited_sockets.clear()

    async def change(self, change: Change) -> None:
        """Applies a change and records it in the journal. Raises RouteError if the change is not possible;
        the state is then as before."""
        match change:
            case Open():
                change = await self._open_or_move(change)
            case Retire():
                self._retire_router(change)
            case Reserve():
                await self._find_router(change.door).reserve(change.service, change.ports)
            case SetRoutes():
                if reserved := self._missing_reservation(change):
                    await self._find_router(change.door).reserve(change.service, reserved.ports)
                await self._find_router(change.door).set(change.service, change.routes)
                self._partial.discard((change.door, change.service))
            case Forget():
                if router := self._routers.get(change.door):
                    await router.forget(change.service)
                self._partial.discard((change.door, change.service))
            case Complete():
                for router in self._routers.values():
                    await router.complete()
            case Keep():
                pass  # stored in the journal only
        self._journal.note(change)

    async def change_sealed(self, change: Sealed) -> None:
        """Applies a change of certificates or challenges, which are stored sealed. Raises RouteError."""
        router = self._find_router(change.door)
        match change:
            case PutCertificate():
                await router.put_certificate(change.id, change.certificate)
            case DropCertificate():
                await router.drop_certificate(change.id)
            case PutChallenge():
                await router.put_challenge(change.id, change.challenge)
            case DropChallenge():
                await router.drop_challenge(change.id)

    async def certificates(self, listener_key: str) -> Mapping[str, str]:
        return await self._find_router(listener_key).certificates()

    async def challenges(self, listener_key: str) -> Mapping[str, int]:
        return await self._find_router(listener_key).challenges()

    def _missing_reservation(self, change: SetRoutes) -> Reserve | None:
        """Returns the port reservation of a service if its ports could not be opened when this gateway
        started."""
        at = change.door, change.service
        return self._journal.told.reserved(*at) if at in self._partial else None

    async def drain(self, endpoints: Sequence[Endpoint], timeout: float) -> None:
        await asyncio.gather(*(router.drain(endpoints, timeout) for router in self._all_routers()))

    async def stop(self) -> None:
        for task in [*self._retiring]:
            task.cancel()
        await asyncio.gather(*self._retiring, return_exceptions=True)
        for router in self._routers.values():
            await router.stop()
        self._routers.clear()

    def _all_routers(self) -> list[BuiltinRouter]:
        return [*self._routers.values(), *self._retiring.values()]

    # Handing over

    def sockets(self) -> Sockets:
        return {
            (door, *at): listening
            for door, router in self._routers.items()
            for at, listening in router.listening().items()
        }

    def leave(self, give_away: Callable[[str, int, int, ClientWait], None]) -> None:
        """Accepts no more connections, and hands over each connection as soon as it is idle."""
        for door, router in self._routers.items():
            router.leave(partial(give_away, door))

    def adopt(self, message: ClientFile, connection: socket.socket) -> None:
        """Continues a client connection that the previous gateway has handed over."""
        if router := self._routers.get(message.door):
            router.adopt(connection, message.port, message.waited)
        else:
            connection.close()

    # Opening

    async def _open_or_move(self, request: Open) -> Open:
        """Opens a door, or moves it if it is open at another address. Returns the request with the actual
        port."""
        opened = self._journal.told.doors.get(request.door)
        router = self._routers.get(request.door)
        if router is None or opened is None:
            await self._open_soon(request)
        elif is_same_place(opened, request):
            router.set_https_port(request.https_port, request.public_https_port)
            router.trust(trust_check(request.trusted))
            router.await_headers(trust_check(request.proxy_protocol_from))
            router.offer_http2(request.offers_http2)
            await router.log_to(request.access_log)
        else:
            await self._move(router, opened, request)
        return replace(request, port=self.port(request.door))

    async def _open_soon(self, request: Open) -> None:
        """Opens a door. Retries for a moment if the port is in use: a gateway that is exiting may not have
        released it."""
        until = asyncio.get_running_loop().time() + _BIND_TIMEOUT
        while True:
            try:
                return await self._open(request, {})
            except RouteError as error:
                taken = isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRINUSE
                if not taken or asyncio.get_running_loop().time() > until:
                    raise
            await asyncio.sleep(_BIND_PAUSE)

    async def _move(self, previous_router: BuiltinRouter, current: Open, request: Open) -> None:
        """Moves a door to another address. If that fails, reopens the door at its old address.

        The door is closed first, because the old and the new address may overlap, and the external ports of
        services move with the door."""
        if request.port != current.port:
            await _check_free(request)
        await previous_router.stop()
        try:
            await self._open_soon(request)
        except RouteError:
            await self._open_soon(current)
            raise

    async def _open(self, request: Open, inherited_sockets: Sockets, *, is_restored: bool = False) -> None:
        """Opens a door. `is_restored`: no server waits for the result, and HTTP is served in any case."""
        own = {at[1:]: inherited_sockets.pop(at) for at in list(inherited_sockets) if at[0] == request.door}
        router = BuiltinRouter(
            request.host,
            request.port,
            trusts=trust_check(request.trusted),
            inherited_sockets=own,
            is_complete=self._journal.told.is_complete,
            store=SealedFolder(self._folder, request.door),
        )
        router.await_headers(trust_check(request.proxy_protocol_from))
        router.wake_with(self._ask_wake)
        router.offer_http2(request.offers_http2)
        await router.start()
        try:
            router.set_https_port(request.https_port, request.public_https_port)
        except RouteError as error:
            if not is_restored:
                await router.stop()
                raise
            _log.error("HTTPS is not served", extra={"door": request.door, "reason": str(error)})
        await router.log_to(request.access_log)
        for change in list(self._journal.told.of(request.door)):
            await self._replay_change(router, change)
        router.close_inherited()
        self._routers[request.door] = router

    async def _replay_change(self, router: BuiltinRouter, change: Change) -> None:
        """Applies a change from the journal. If a port of a service is in use, the service is reachable by
        host name only."""
        match change:
            case Reserve():
                with suppress(RouteError):
                    await router.reserve(change.service, change.ports)
            case SetRoutes():
                try:
                    await router.set(change.service, change.routes)
                except RouteError as error:
                    extra = {"service": change.service, "reason": str(error)}
                    _log.warning("a service is reached by name only", extra=extra)
                    self._partial.add((change.door, change.service))
                    named = [replace(route, external=None) for route in change.routes if route.kind == "http"]
                    await router.set(change.service, named)

    def _retire_router(self, change: Retire) -> None:
        if router := self._routers.pop(change.door, None):
            task = asyncio.create_task(router.retire(change.patience))
            self._retiring[task] = router
            task.add_done_callback(self._retiring.pop)
            SealedFolder(self._folder, change.door).clear()

    def _find_router(self, listener_key: str) -> BuiltinRouter:
        if (router := self._routers.get(listener_key)) is None:
            raise RouteError(f"the door {listener_key} is not open")
        return router


async def _check_free(request: Open) -> None:
    """Raises RouteError if the port of a door is in use."""
    router = BuiltinRouter(request.host, request.port)
    await router.start()
    await router.stop()
