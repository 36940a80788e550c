"""Assigns ports of this machine: a port for each port of an instance, and a permanent port for each port of a
service."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from windlass.base import filelock
from windlass.base.atomic_files import write_whole
from windlass.base.subprocesses import in_thread
from windlass.engines.engine import PORTS_OF_ENGINES, EngineError, EngineUnavailable
from windlass.process.records import InstanceKey, names, safe

LOOPBACK: Final = "127.0.0.1"
SERVICE_NUMBERS: Final = range(100_001, 100_001 + 32_767)
"""Numbers of services, from which their addresses are derived. They are stored together with ports, so they
are larger than any port."""
_NUMBER_KEY: Final = 0
"""The key of a service's number. It takes the place of an internal port."""
INSTANCE_PORTS: Final = PORTS_OF_ENGINES[:10_000]
SERVICE_PORTS: Final = PORTS_OF_ENGINES[10_000:]

_LOCK_TIMEOUT: Final = 5.0
"""Seconds to wait while another server holds the lock."""

Places = dict[str, dict[int, int]]
"""For each service, the permanent port of each internal port."""


def free(port: int) -> bool:
    """Returns whether the port is unused at this moment."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((LOOPBACK, port))
            tried.listen(1)
        except OSError:
            return False
    return True


def _choose(ports: range, good: Callable[[int], bool]) -> int:
    start = random.randrange(len(ports))  # noqa: S311 (only to avoid collisions)
    for step in range(len(ports)):
        port = ports[(start + step) % len(ports)]
        if good(port):
            return port
    raise EngineError(f"every port from {ports[0]} to {ports[-1]} of this machine is taken: remove services")


class PortClaims:
    """The ports that instances have claimed. Each claim is a symbolic link from the port to the instance,
    because its creation is atomic."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "ports"
        self._services = folder / "services"

    def prepare(self) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)

    def claim(self, key: InstanceKey) -> int:
        return _choose(INSTANCE_PORTS, lambda port: self._claim(port, key))

    def _claim(self, port: int, key: InstanceKey) -> bool:
        link = self._folder / str(port)
        try:
            link.symlink_to(f"{key.service}/{key.generation}-{key.index}")
        except FileExistsError:
            return False
        if free(port):
            return True
        link.unlink()
        return False

    def release(self, port: int, key: InstanceKey) -> None:
        """Releases a port, unless another instance has claimed it in the meantime."""
        link = self._folder / str(port)
        with suppress(FileNotFoundError):
            if str(link.readlink()) == f"{key.service}/{key.generation}-{key.index}":
                link.unlink()

    def tidy(self) -> None:
        """Releases the ports of removed instances. An instance's folder exists before the instance claims
        ports."""
        for name in names(self._folder):
            with suppress(FileNotFoundError):
                if not (self._services / (self._folder / name).readlink()).exists():
                    (self._folder / name).unlink()


@contextmanager
def _translate_timeout() -> Iterator[None]:
    """Turns a LockTimeout into an EngineUnavailable, so that the caller tries again."""
    try:
        yield
    except filelock.LockTimeout as error:
        raise EngineUnavailable(str(error)) from error


class PortAddresses:
    """The permanent ports. Other services have them in variables, so they are synced to the disk."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "whereabouts.json"
        self._lock = folder / "whereabouts.lock"
        self._decoder = msgspec.json.Decoder(Places)
        self._known: Places = {}
        """A cache of ports, valid until the service is removed."""

    async def learn(self, service: str, internal: int = _NUMBER_KEY) -> None:
        """Reads or chooses a port in a thread, so that `of` and `number_of` find it in the cache.

        Another server may be paused while it holds the lock, and waiting for it must not block the event
        loop.
        """
        if internal not in self._known.get(service, {}):
            await in_thread(self.of, service, internal)

    def of(self, service: str, internal: int) -> int:
        port = self._known.get(service, {}).get(internal)
        if port is None:
            port = self._read().get(safe(service), {}).get(internal) or self._choose(service, internal)
            self._known.setdefault(service, {})[internal] = port
        return port

    def number_of(self, service: str) -> int:
        """Returns the permanent number of a service. Numbers begin with 1."""
        number = self._known.get(service, {}).get(_NUMBER_KEY)
        if number is None:
            number = self._read().get(safe(service), {}).get(_NUMBER_KEY) or self._choose(
                service, _NUMBER_KEY
            )
            self._known.setdefault(service, {})[_NUMBER_KEY] = number
        return number - SERVICE_NUMBERS[0] + 1

    def services(self) -> set[str]:
        return set(self._read())

    def known(self, service: str) -> dict[int, int]:
        """Returns the permanent port of each internal port."""
        return self._read().get(service, {})

    def restore(self, service: str, ports: dict[int, int]) -> None:
        """Restores ports, except for ports that another service has been assigned."""
        with self._changing() as places:
            taken = {port for other, own in places.items() if other != service for port in own.values()}
            kept = {internal: port for internal, port in ports.items() if port not in taken}
            places[service] = kept | places.get(service, {})

    def forget(self, service: str) -> None:
        self._known.pop(service, None)
        if service in self._read():
            with self._changing() as places:
                places.pop(service, None)

    def _choose(self, service: str, internal: int) -> int:
        with self._changing() as places:
            ports = places.setdefault(service, {})
            if internal not in ports:
                taken = {port for own in places.values() for port in own.values()}
                if internal == _NUMBER_KEY:
                    ports[internal] = _choose(SERVICE_NUMBERS, lambda number: number not in taken)
                else:
                    ports[internal] = _choose(SERVICE_PORTS, lambda port: port not in taken and free(port))
            return ports[internal]

    @contextmanager
    def _changing(self) -> Iterator[Places]:
        with _translate_timeout(), filelock.holding(self._lock, _LOCK_TIMEOUT):
            places = self._read()
            before = msgspec.json.encode(places)
            yield places
            after = msgspec.json.encode(places)
            if after != before:
                write_whole(self._file, after)

    def _read(self) -> Places:
        try:
            return self._decoder.decode(self._file.read_bytes())
        except FileNotFoundError:
            return {}
