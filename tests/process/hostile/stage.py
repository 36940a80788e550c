"""A server with a victim and an attacker, as services of the engine of processes. Prints what the attacker
achieved.

Arguments: the mode of isolation, and `runs` or `builds`: when the attacker attacks.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import shutil
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any, cast

from tests.engines.stations import until, wanted
from windlass.base.clock import SystemClock
from windlass.base.isolation.isolation import Isolation, Mode
from windlass.builders.builder import Order
from windlass.engines.workload import Artifact, OutputLine, Volume
from windlass.process.builds import NativeBuilder
from windlass.process.engine import ProcessEngine
from windlass.process.records import InstanceKey, RecordStore

ATTACK = Path(__file__).with_name("attempts.py").read_text()
VICTIM, ATTACKER = "11111111-aaaa-4aaa-8aaa-000000000001", "22222222-aaaa-4aaa-8aaa-000000000002"
SLEEPS = (
    "import os, time; open(os.environ['WINDLASS_VOLUME_DATA'] + '/kept', 'w').write('x'); time.sleep(1000)"
)
SERVER_NUMBER = 0x57000000 + os.getpid()


class Stage:
    def __init__(self, folder: Path, mode: Mode) -> None:
        self.data = folder / "data"
        self.data.mkdir(mode=0o700)
        for name in ("key", "windlass.db"):
            (self.data / name).write_text("secret")
        self.isolation = Isolation(mode, self.data)
        self.engine = ProcessEngine(self.data / "run", SystemClock(), isolation=self.isolation)
        self.lines: list[str] = []
        self.private = folder / "private"
        self.private.write_text("secret")
        self.private.chmod(0o600)
        self.shared = Path(tempfile.mkdtemp(dir="/dev/shm")) / "shared"
        self.shared.write_text("secret")
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(f"\0windlass-{os.getpid()}")
        self.socket.listen()
        self._memory = ctypes.CDLL(None).shmget(SERVER_NUMBER, 4096, 0o1600)

    async def begin(self) -> None:
        def heard(service: str, lines: Any) -> None:
            self.lines += [line.message for line in cast(list[OutputLine], lines)]

        await self.engine.start(lambda service: None, heard)
        volume = Volume(name="data", mount="/elsewhere")
        it = wanted(
            self.built(VICTIM, SLEEPS), service=VICTIM, volumes=(volume,), files={"/etc/secret": b"x"}
        )
        await self.engine.run(it, 0)
        kept = self.data / "run" / "volumes" / VICTIM / "data" / "kept"

        async def there() -> bool:
            return kept.exists()

        await until(there)

    def built(self, service: str, program: str) -> Artifact:
        folder = self.data / "builds" / service / "key"
        (folder / "app").mkdir(parents=True)
        (folder / "app" / "main.py").write_text(program)
        command = (sys.executable, "-I", "-S", "main.py", "stay")
        return Artifact(
            kind="native", ref=str(folder), command=command, environment={"PATH": os.environ["PATH"]}
        )

    def told(self) -> str:
        shelf, victim = RecordStore(self.data / "run"), InstanceKey(VICTIM, 1, 0)
        record = shelf.read(victim)
        assert record is not None
        assert record.process is not None
        return json.dumps(
            {
                "server": os.getpid(),
                "victim": record.process.pid,
                "data": str(self.data),
                "home": str(shelf.home(victim)),
                "volume": str(shelf.volumes / VICTIM / "data"),
                "built": str(self.data / "builds" / VICTIM / "key"),
                "own": str(self.data / "builds" / ATTACKER / "key" / "app"),
                "temporary": str(self.private),
                "shared": str(self.shared),
                "number": SERVER_NUMBER,
                "socket": f"\0windlass-{os.getpid()}",
                "private": str(self.private),
            }
        )

    async def attack_running(self) -> None:
        it = wanted(self.built(ATTACKER, ATTACK), service=ATTACKER, variables={"ATTEMPTS": self.told()})
        await self.engine.run(it, 0)
        await self._worked()

    async def attack_building(self) -> None:
        builder = NativeBuilder(self.data / "builds", {}, isolation=self.isolation)
        source = self.data / "work" / "commit"
        source.mkdir(parents=True)
        (source / "attempts.py").write_text(ATTACK)
        (source / "told.json").write_text(self.told())
        attack = f"{sys.executable} -I -S attempts.py told.json"
        package = {"name": "x", "version": "1.0.0", "scripts": {"postinstall": attack, "start": "node x.js"}}
        (source / "package.json").write_text(json.dumps(package))
        (source / ".npmrc").write_text("foreground-scripts=true\noffline=true\n")
        (source / "x.js").write_text("")
        self.built(ATTACKER, "")
        order = Order(
            service=ATTACKER,
            org="33333333-aaaa-4aaa-8aaa-000000000003",
            name="attacker",
            deployment="44444444-aaaa-4aaa-8aaa-000000000004",
            key="another",
            commit="c" * 40,
            source=source,
        )
        await builder.build(order, self.lines.append)
        await self._worked()

    async def _worked(self) -> None:
        async def said() -> str:
            return next((line for line in self.lines if "WORKED " in line), "")

        line = await until(said, lambda: f"it never said what worked: {self.lines}")
        print("RESULT " + str(line).partition("WORKED ")[2])

    async def end(self) -> None:
        for service in (VICTIM, ATTACKER):
            await self.engine.discard(service)
        await self.engine.stop()
        ctypes.CDLL(None).shmctl(self._memory, 0, None)
        shutil.rmtree(self.shared.parent)


async def main(mode: Mode, when: str) -> None:
    with tempfile.TemporaryDirectory(prefix="windlass-stage-", dir="/tmp") as folder:
        stage = Stage(Path(folder), mode)
        try:
            await stage.begin()
            await (stage.attack_running() if when == "runs" else stage.attack_building())
        finally:
            await stage.end()


if __name__ == "__main__":
    asyncio.run(main(cast(Mode, sys.argv[1]), sys.argv[2]))
