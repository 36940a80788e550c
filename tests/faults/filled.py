"""A Windlass on a small disk, which one application fills. Says as JSON what others saw.

Run in a mount namespace of its own, with a folder where nothing is yet: the disk is gone with the process.
The second argument is the setting `disk_reserve_bytes`, the third one the application: `fills` its HOME, or
`stores` in a volume, `reserves` in its output, or `sends` a file without a name to itself; `sleeps` fills
nothing, and is killed while a file of no service fills the disk. `shares` stores in a volume, and its
organization has a small share of the disk.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.faults.grounds import instances
from tests.faults.inside import Inside, Service, inside, until
from tests.faults.programs import START
from tests.faults.scenes import STORAGE

SIZE = 128
"""Megabytes."""
FILLS = """
import os, time
print("here", flush=True)
time.sleep(1)
while True:
    try:
        with open(os.environ["HOME"] + "/zeros", "ab", buffering=0) as file:
            file.write(bytes(1 << 20))
    except OSError:
        time.sleep(0.01)
"""
STORES = """
import os, time
print("here", flush=True)
while True:  # slowly, once there is little room
    disk = os.statvfs("data")
    time.sleep(0.01 if disk.f_bavail * disk.f_frsize > 12 << 20 else 1)
    with open("data/zeros", "ab") as file:
        file.write(bytes(1 << 20))
"""
RESERVES = """
import os, time
print("here", flush=True)
output = next(line.split()[4] for line in open("/proc/self/mountinfo") if line.split()[4].endswith("/output"))
file = os.open(output, os.O_WRONLY)
passed = os.fstat(file).st_size
os.ftruncate(file, passed + (4 << 30))
os.pwrite(file, b"x\\n", passed + (4 << 30))
time.sleep(3)  # the reader comes there
while True:
    try:
        os.posix_fallocate(file, passed, 1 << 20)
        passed += 1 << 20
    except OSError:
        time.sleep(0.01)
"""
"""Takes room in the part of its output that was read."""
SENDS = """
import os, socket, time
print("here", flush=True)
file = os.open(os.environ["HOME"] + "/zeros", os.O_RDWR | os.O_CREAT)
os.unlink(os.environ["HOME"] + "/zeros")
size, ends = 0, socket.socketpair()
try:
    while True:
        os.posix_fallocate(file, size, 1 << 20)
        size += 1 << 20
except OSError:
    socket.send_fds(ends[0], [b"x"], [file])
    os.close(file)
time.sleep(1000)
"""
"""Takes room in a file that has no name, and that no process has open: it is in a message."""
KEEPS = """
import os, socket, time
ends = socket.socketpair()
with open(os.devnull) as file:
    socket.send_fds(ends[0], [b"x"], [file.fileno()])
print("here", flush=True)
time.sleep(100000)
"""
"""Leaves a harmless file in a message, as programs do that hand descriptors on."""
FULL = "the disk of the machine is full"
ABOVE = "its organization holds more than its share"
SHARE = 20 << 20


async def main(folder: Path, reserve: int, program: str) -> None:
    data = folder / "data"
    data.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}m", "none", data], check=True)
    share = SHARE if program == "shares" else 0
    async with inside(folder, disk_reserve_bytes=reserve, organization_disk_bytes=share) as there:
        there.code.put({"keeps/main.py": KEEPS, "keeps/Procfile": START})
        there.code.put({"fills/main.py": FILLS, "fills/Procfile": START})
        for name in ("stores", "shares"):
            there.code.put({f"{name}/main.py": STORES, f"{name}/Procfile": START})
        there.code.put({"reserves/main.py": RESERVES, "reserves/Procfile": START})
        there.code.put({"sends/main.py": SENDS, "sends/Procfile": START})
        for _ in range(70):  # a server that has just started has no room yet
            await writes(there, 200)
        quiet, filler = await there.application("keeps"), await there.application(program, storage=[STORAGE])
        seen: dict[str, Any] = {"deployed": [(await each.do("deploy"))["status"] for each in (quiet, filler)]}
        if program == "sleeps":
            await outsider(there, data, quiet, seen)
            return
        if share:
            await measured(there, data, filler, seen)
            return
        if reserve:
            seen["reason"] = await until(lambda: reason_of(filler))
            await until(lambda: writes(there, 200))
        else:
            await until(lambda: writes(there, 503))
        seen["stop"] = (await there.call("POST", f"{filler.path}/stop", {})).status
        if seen["stop"] == 202:
            await filler.runs(0)
            if program == "fills":
                await until(lambda: writes(there, 200))
            seen["writes"] = [await writes(there, 200) for _ in range(5)]
        seen["neighbour"] = await quiet.running()
        print(json.dumps(seen), flush=True)


async def measured(there: Inside, data: Path, filler: Service, seen: dict[str, Any]) -> None:
    """Measures what the organization holds, again and again, until its service is ended."""
    while not (reason := await reason_of(filler, ABOVE)):
        await there.installation.disk_meter.measure(pause_seconds=0)
        await asyncio.sleep(0.1)
    seen["reason"], disk = reason, os.statvfs(data)
    seen["free"] = disk.f_bavail * disk.f_frsize
    seen["deploy"] = (await there.call("POST", f"{filler.path}/deploy", {})).status
    seen["stop"] = (await there.call("POST", f"{filler.path}/stop", {})).status
    print(json.dumps(seen), flush=True)


async def outsider(there: Inside, data: Path, quiet: Service, seen: dict[str, Any]) -> None:
    await asyncio.sleep(2)  # what prints its first line on a full disk may end itself
    before = await there.ground.living()
    outside = data / "outside"
    with suppress(OSError), outside.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 12))
    await asyncio.sleep(3)
    seen["ended for it"] = sorted(set(before) - set(await there.ground.living()))
    for key, pid in instances(data):
        if key[0] == quiet.id:
            os.kill(pid, signal.SIGKILL)
    await asyncio.sleep(2)
    outside.unlink()

    async def all_run() -> bool:
        return sorted(await there.ground.living()) == sorted(before)

    seen["runs again"] = bool(await until(all_run))
    print(json.dumps(seen), flush=True)


async def reason_of(service: Service, words: str = FULL) -> str:
    observation = await service.inside.ctx.places.local.engine.observe(service.id)
    reasons = [instance.reason for instance in observation.instances if words in (instance.reason or "")]
    return reasons[0] if reasons else ""


_names = itertools.count()


async def writes(there: Inside, status: int) -> bool:
    """Returns whether a write of a caller is answered like this."""
    org = (await there.call("GET", "/organization"))["id"]
    made = await there.call("POST", f"/organization/{org}/project", {"name": f"project-{next(_names)}"})
    return bool(made.status == status)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
