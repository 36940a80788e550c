"""The applications that are deployed while everything goes wrong, and the repository that they come from.

Each keeps a connection to a witness for as long as it lives: so it is known for certain, and not by looking
often, whether there ever were two of one.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tests.engines.dockers import BOX
from tests.faults.witness import CALLS, MACHINE, Witness
from tests.repositories import Repository
from tests.sources.test_uploads import entry, packed

SERVES = """
server = socket.create_server(("127.0.0.1", int(os.environ["PORT"])), backlog=512)
print("listening", flush=True)
while True:
    caller, _ = server.accept()
    with caller:
        caller.recv(65536)
        caller.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\nhi")
"""
ANSWERS = """
import asyncio, signal
what = name.split("-", 5)[5].encode()  # after the id of the service: generation and index

async def answer(reader, writer):
    try:
        while head := await reader.readuntil(b"\\r\\n\\r\\n"):
            if b"POST" in head[:4]:
                await reader.readexactly(1000)
                # Long enough to be under way when somebody ends it.
                await asyncio.sleep(5 if b" /slow " in head else 0.08)
            writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n%b" % (len(what), what))
    except (EOFError, ConnectionError):
        writer.close()

async def serve():
    await asyncio.start_server(answer, "127.0.0.1", int(os.environ["PORT"]), backlog=512)
    await asyncio.Event().wait()

asyncio.run(serve())
"""
SLEEPS = """
print("here", flush=True)
time.sleep(100000)
"""
EXITS = """
print("cannot read its settings", flush=True)
sys.exit(3)
"""
FLOODS = """
line = b"x" * 1000 + b"\\n"
while True:
    os.write(1, line * 100)
"""
STAYS = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("here", flush=True)
while True:
    time.sleep(1000)
"""
ENDLESS = {
    "pyproject.toml": """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "endless"
version = "1"
""",
    "backend.py": "import time\ntime.sleep(100000)\n",
    "main.py": "",
}
"""A build of it never ends."""
PROGRAMS = {
    "serves": SERVES,
    "answers": ANSWERS,
    "sleeps": SLEEPS,
    "floods": FLOODS,
    "stays": STAYS,
    "exits": EXITS,
}
IN_CONTAINERS = {
    "serves": "echo listening; exec httpd -f -p $PORT",
    "answers": "mkdir -p /tmp/www; echo hi > /tmp/www/index.html; exec httpd -f -p $PORT -h /tmp/www",
    "sleeps": "echo here; exec sleep 100000",
    "exits": "echo cannot read its settings; exit 3",
    "floods": f"exec yes {'x' * 1000}",
    "stays": "trap '' TERM; echo here; while true; do sleep 1000; done",
}
"""The same as commands of a shell. There are no twins to betray: the engine tells of every start and end."""
PYTHON = str(Path(sys.executable).resolve())
START = f"web: {PYTHON} -I -S main.py\n"


class Code:
    """One repository; each program has a folder of its own in it."""

    def __init__(self, folder: Path, *, contained: bool = False) -> None:
        self._folder = folder
        self._witness = Witness()
        self._repository = Repository(folder / "code.git")
        self._contained = contained
        self.url = self._repository.url
        for program in IN_CONTAINERS if contained else PROGRAMS:
            self._put(program, program)
        self._put("deaf", "sleeps")
        self._put("frail", "serves")
        self._repository.put({"nothing/README": "Nothing that could be started.\n"})
        self._repository.put({"page/index.html": "<h1>A page</h1>\n"})
        self._repository.put({f"endless/{name}": text for name, text in ENDLESS.items()})
        self._repository.put({"endless/Procfile": START})
        self.good = self.push()
        self._put("frail", "exits")
        self.broken = self.push()
        self._put("frail", "sleeps")
        self.deaf = self.push()
        self._put("frail", "serves")
        self.newest = self.push()

    def put(self, files: dict[str, str | bytes]) -> str:
        self._repository.put(files)
        return self.push()

    def push(self) -> str:
        """A new commit, which has to be built."""
        self.newest = self._repository.commit()
        return self.newest

    def folder(self) -> bytes:
        """Returns the archive of a folder that was never sent before: a static site."""
        return packed(entry("index.html", os.urandom(1000)))

    def grow(self, name: str, megabytes: int) -> str:
        """As much of what cannot be made smaller."""
        return self.put({f"{name}/ballast": os.urandom(megabytes << 20)})

    @property
    def twins(self) -> list[str]:
        return sorted(self._witness.twins)

    def remove(self) -> None:
        self._witness.close()
        shutil.rmtree(self._folder)

    def _put(self, name: str, program: str) -> None:
        self._repository.put({f"{name}/{file}": text for file, text in self._files(program).items()})

    def _files(self, program: str) -> dict[str, str | bytes]:
        if self._contained:
            return {"Dockerfile": f"FROM {BOX}\nCMD {IN_CONTAINERS[program]}\n"}
        begin = CALLS.format(host=MACHINE, port=self._witness.port)
        return {"main.py": begin + PROGRAMS[program], "Procfile": START}
