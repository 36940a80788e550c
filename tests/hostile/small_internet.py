"""A machine in a network of its own with a small internet beside it, where an engine runs hostile programs.

Run as a program: `python -m tests.hostile.small_internet FOLDER MODE [USER…]`, with a mode of MODES. It
prints what each attempt of an instance came to, as JSON. `USER…` begins a command that runs the engine as
another user. The machine on which the tests run is reached by none of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, until, wanted
from tests.process.hostile import neighbours
from windlass.base.isolation import calls, netlink, network
from windlass.base.isolation.instance_connections import open_connection
from windlass.base.isolation.isolation import Isolation, NetworkRules
from windlass.base.isolation.namespace_holder import CHECK_INTERVAL
from windlass.base.isolation.network import NamespaceHolder
from windlass.base.isolation.step_launcher import StepLauncher
from windlass.process.builds.cells import BuildStep, Cells
from windlass.process.networks import Networks

PUBLIC, PRIVATE, OPENED, METADATA = "203.0.113.9", "10.99.0.1", "10.98.0.1", "169.254.169.254"
PUBLIC_6 = "2001:db8:9::1"
MACHINE, LATER = "192.0.2.1", "192.0.2.77"
"""Addresses of the machine: the second one it gets once networks are there."""
CHOSEN = 7009
"""The port from which an instance sends by UDP."""
INSIDE = "SMALL_INTERNET"
"""The variable that is set once this process is on that machine."""
PORT, GATEWAY, MIRROR = 7001, 7002, 7003
"""`MIRROR` tells callers their address, as the gateway and the API see it."""
MOST, MANY = 20, 30
"""Connections that an environment may have, and those that are tried."""
MANY_PORTS: Final = 560
CROWD: Final = 9
"""Environments of one organization, which together open more connections than all may have."""
VICTIM, ATTACKER = (f"{digit * 8}-aaaa-4aaa-8aaa-000000000001" for digit in "12")
HOME, ELSEWHERE = (f"{digit * 8}-bbbb-4bbb-8bbb-000000000002" for digit in "12")

SERVES = """
import os, socket, threading
def serve(family, address):
    server = socket.create_server((address, int(os.environ["PORT"])), family=family)
    while True:
        caller, _ = server.accept()
        caller.sendall(os.environ["WHO"].encode())
        caller.close()
threading.Thread(target=serve, args=(socket.AF_INET, "0.0.0.0")).start()
print("serves", flush=True)
"""

TRIES = """
import json, os, socket, time
from concurrent.futures import ThreadPoolExecutor
held = []
def reach(kind, address, port, own=0):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM) as tried:
            tried.settimeout(2)
            tried.bind(("", own))
            tried.connect((address, port))
            if kind == "udp":
                tried.send(b"hello")
            return tried.recv(100).decode()
    except OSError as error:
        return f"closed: {error}"
def open_many(address, port, number):
    tried = [socket.socket() for _ in range(number)]
    held.extend(tried)
    for each in tried:
        each.settimeout(0.1)
        each.connect_ex((address, port))
    return f"{sum(is_connected(each) for each in tried)} connected"
def send_many(address, port, number):
    answers = 0
    for _ in range(number):
        each = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        held.append(each)
        each.settimeout(2 if answers == len(held) - 1 else 0.01)
        try:
            each.connect((address, port))
            each.send(b"hello")
            each.recv(100)
            answers += 1
        except OSError:
            pass
    return f"{answers} answered"
def is_connected(each):
    try:
        return bool(each.getpeername())
    except OSError:
        return False
def bind(port):
    try:
        socket.create_server(("0.0.0.0", port))
        return "bound"
    except OSError as error:
        return f"closed: {error}"
attempts = json.loads(os.environ["ATTEMPTS"])
ways = {"bind": bind, "many": open_many, "send": send_many}
if "victim" in attempts:
    attempts["name"] = ("tcp", "victim", 7001)
with ThreadPoolExecutor(len(attempts)) as pool:  # those that are closed say so after two seconds
    reached = {name: pool.submit(reach, *tried) for name, tried in attempts.items() if tried[0] not in ways}
found = {name: one.result() for name, one in reached.items()}
found |= {name: ways[kind](*what) for name, (kind, *what) in attempts.items() if kind in ways}
print("found " + json.dumps(found), flush=True)
time.sleep(1000)
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def begin_machine() -> None:
    """Puts this process into a network of its own, whose only neighbour is the small internet."""
    ready, done = os.pipe(), os.pipe()
    internet = os.fork()
    if not internet:
        calls.prctl(calls.PR_SET_PDEATHSIG, signal.SIGKILL)
        calls.unshare(calls.CLONE_NEWNET)
        os.write(ready[1], b"!")
        os.read(done[0], 1)
        serve_internet()
    calls.unshare(calls.CLONE_NEWNET)
    os.read(ready[0], 1)
    ip("link", "set", "lo", "up")
    ip("link", "add", "eth0", "type", "veth", "peer", "name", "wire", "netns", str(internet))
    ip("address", "add", f"{MACHINE}/24", "dev", "eth0")
    ip("-6", "address", "add", "2001:db8:9::2/64", "dev", "eth0", "nodad")
    ip("link", "set", "eth0", "up")
    ip("route", "add", "default", "via", "192.0.2.254")
    os.write(done[1], b"!")


def serve_internet() -> NoReturn:
    ip("link", "set", "lo", "up")
    for address in ("192.0.2.254/24", *(f"{each}/32" for each in (PUBLIC, PRIVATE, OPENED, METADATA))):
        ip("address", "add", address, "dev", "wire")
    ip("-6", "address", "add", f"{PUBLIC_6}/64", "dev", "wire", "nodad")
    ip("link", "set", "wire", "up")
    listen("internet", [PUBLIC, PRIVATE])
    while True:
        signal.pause()


def listen(name: str, addresses: Sequence[str], port: int = PORT) -> None:
    """Answers with a name over TCP at all addresses of this network, and over UDP at some. Without a name, it
    answers with the address of the caller."""
    tcp = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)

    def answer_connections() -> None:
        while True:
            caller, _ = tcp.accept()
            with suppress(OSError), caller:
                caller.sendall((name or caller.getpeername()[0].removeprefix("::ffff:")).encode())

    def answer_packets(address: str) -> None:
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind((address, port))  # so that the answer comes from there
        while True:
            _, address = udp.recvfrom(100)
            with suppress(OSError):
                udp.sendto(name.encode(), address)

    threading.Thread(target=answer_connections, daemon=True).start()
    for address in addresses:
        threading.Thread(target=answer_packets, args=(address,), daemon=True).start()


async def attack(folder: Path, *, networks: bool) -> dict[str, Any]:
    rules = (
        NetworkRules(open=("10.98.0.0/16",), ports=(GATEWAY, MIRROR), connections=MOST) if networks else None
    )
    rig = ProcessRig(folder, isolation=Isolation("auto", folder / "engine", rules=rules))
    listen("machine", [MACHINE])
    listen("gateway", [], GATEWAY)
    listen("", [], MIRROR)
    async with Station(rig) as station:
        engine = station.engine
        victim = wanted(
            rig.made(SERVES), ports=[7001], service=VICTIM, environment=HOME, name="victim",
            known_as="victim", direct=True,
            alone=True, variables={"WHO": "victim"},
        )  # fmt: skip
        address = await engine.neighbour_address(HOME, VICTIM, "victim", 7001)
        made = await station.apply(victim)
        await station.hears("serves")
        (folder / "later").touch()
        await until(has_later_address)
        attempts = {
            "public": ("tcp", PUBLIC, PORT),
            "public by udp": ("udp", PUBLIC, PORT),
            "public by udp from a port of its choice": ("udp", PUBLIC, PORT, CHOSEN),
            "public by ipv6": ("tcp", PUBLIC_6, PORT),
            "private": ("tcp", PRIVATE, PORT),
            "private by udp": ("udp", PRIVATE, PORT),
            "opened": ("tcp", OPENED, PORT),
            "metadata": ("tcp", METADATA, PORT),
            "loopback of the machine": ("tcp", "127.0.0.1", PORT),
            "address of the machine": ("tcp", MACHINE, PORT),
            "later address of the machine": ("tcp", LATER, PORT),
            "address of the machine by udp": ("udp", MACHINE, PORT),
            "address of the machine by ipv6": ("tcp", "2001:db8:9::2", PORT),
            "gateway of the machine": ("tcp", MACHINE, GATEWAY),
            "own address": ("tcp", MACHINE, MIRROR),
            "machine behind its hub": ("tcp", "198.18.0.1", PORT),
            "machine behind its trunk": ("tcp", "198.19.0.0", PORT),
            # Without networks, the gateway would hold the lasting address.
            "victim": ("tcp", address.host, address.port if networks else made.ports[7001]),
            "port of the machine": ("bind", PORT),
            "many connections": ("many", PUBLIC, PORT, MANY),
        }
        found: dict[str, Any] = {}
        for name, environment in (("neighbour", HOME), ("stranger", ELSEWHERE)):
            service = ATTACKER if name == "stranger" else ATTACKER.replace("2222", "3333")
            variables = {"ATTEMPTS": json.dumps(attempts)}
            await station.apply(
                wanted(
                    rig.made(TRIES), service=service, environment=environment, name=name,
                    variables=variables, org=name,
                )
            )  # fmt: skip
            await until(partial(said, station, len(found) + 1))
            found[name] = json.loads([line for line in station.said if line.startswith("found ")][-1][6:])
        reader, writer = await open_connection(made.network, made.address, made.ports[7001])
        found["victim"] = (await reader.read()).decode()
        writer.close()
        found["address"], found["as root"] = address.host, not os.geteuid()
        found["ports by udp"] = bound_by_udp()
        await engine.sweep(await engine.services())
    return found


TRIES_AGAIN = (
    TRIES.partition("attempts = ")[0]
    + """
while True:
    networks = ("10.98.0.1", "10.99.0.1")
    print(*(each for each in networks if reach("tcp", each, 7001) == "internet"), flush=True)
    time.sleep(0.1)
"""
)


async def change(folder: Path, *, renews: bool) -> dict[str, Any]:
    """Starts the engine again with another network open. Returns what a running instance reaches before and
    after."""
    service = wanted(ProcessRig(folder).made(TRIES_AGAIN))
    found: dict[str, Any] = {}
    for opened in (OPENED, PRIVATE):
        rules = NetworkRules(open=(f"{opened}/32",))
        rig = ProcessRig(folder, isolation=Isolation("auto", folder / "engine", rules=rules))
        async with Station(rig) as station:
            await station.apply(service)
            if not renews:
                Networks.renew_rules = nothing_is_renewed  # type: ignore[assignment, method-assign]
            await until(partial(reaches, station, opened if renews else OPENED))
            found[opened] = (await station.one(service.service)).restarts
            if opened == PRIVATE:
                await asyncio.sleep(0 if renews else 2 * CHECK_INTERVAL)
                found["last"] = station.said[-1]
                await station.engine.sweep(await station.engine.services())
    return found


async def nothing_is_renewed(networks: Networks) -> None:
    pass


async def reaches(station: Station, address: str) -> bool:
    return station.said[-1:] == [address]


async def crowd(folder: Path, *, organizations: int) -> dict[str, Any]:
    """Many environments of so many organizations open as many connections as they can; then another
    organization tries one. All may have as many as eight environments."""
    network.ENVIRONMENTS_FACTOR = 8  # type: ignore[misc]
    network.ORG_CONNECTIONS_DIVISOR = 4  # type: ignore[misc]
    rules = NetworkRules(connections=MOST)
    rig = ProcessRig(folder, isolation=Isolation("auto", folder / "engine", rules=rules))
    tries = {"private": ("many", PRIVATE, PORT, MANY), "many": ("many", PUBLIC, PORT, MANY)}
    found: dict[str, Any] = {}
    async with Station(rig) as station:
        for number in range(CROWD + 1):
            is_other = number == CROWD
            attempts = {"public": ("tcp", PUBLIC, PORT)} if is_other else tries
            if is_other:
                await until(partial(said, station, CROWD))
            await station.apply(
                wanted(
                    rig.made(TRIES), service=f"{number}{ATTACKER[1:]}", environment=f"{number}{HOME[1:]}",
                    variables={"ATTEMPTS": json.dumps(attempts)},
                    org="other" if is_other else f"crowd{number % organizations}",
                )
            )  # fmt: skip
        await until(partial(said, station, CROWD + 1))
        answers = [json.loads(line[6:]) for line in station.said if line.startswith("found ")]
        found["crowd"] = sum(int(each["many"].split()[0]) for each in answers[:-1])
        found["other"] = answers[-1]["public"]
        await station.engine.sweep(await station.engine.services())
    return found


async def crowd_of_one(folder: Path, *, leaves_some: bool) -> dict[str, Any]:
    """A service and a build step of one environment open as many connections as they can; then those of
    another environment of the same organization try one."""
    if not leaves_some:
        limits = network.ConnectionLimits(MOST, MOST, 2 * MOST, 16 * MOST)
        network.ConnectionLimits.of = lambda _: limits  # type: ignore[assignment, method-assign]
    isolation = Isolation("auto", folder / "engine", rules=NetworkRules(connections=MOST))
    rig = ProcessRig(folder, isolation=isolation)
    tries = {"many": ("many", PUBLIC, PORT, MANY)}, {"public": ("tcp", PUBLIC, PORT)}
    found: dict[str, Any] = {}
    async with Station(rig) as station, AsyncExitStack() as running:
        steps = StepLauncher(station.engine.network_of_steps)  # type: ignore[attr-defined]
        for number, (who, attempts) in enumerate(zip(("hostile", "other"), tries, strict=True)):
            environment, variables = f"{number}{HOME[1:]}", {"ATTEMPTS": json.dumps(attempts)}
            service = wanted(
                rig.made(TRIES), service=f"{number}{ATTACKER[1:]}", environment=environment, org="acme",
                variables=variables,
            )  # fmt: skip
            await station.apply(service)
            await until(partial(said, station, number + 1))
            found[f"{who} service"] = last_said(station, "found ")
            home = folder / who
            home.mkdir()
            cells = Cells(isolation, who, home, home, launcher=steps, org="acme", environment=environment)
            command = [sys.base_prefix + "/bin/python3", "-c", TRIES]
            step = BuildStep(command, home, {"PATH": "/usr/bin:/bin", **variables}, {})
            process, _ = await running.enter_async_context(cells.running(step))
            found[f"{who} step"] = json.loads((await process.stdout.readline())[6:])
        await station.engine.sweep(await station.engine.services())
    return found


async def send(folder: Path) -> dict[str, Any]:
    """One environment sends from as many UDP ports as it can; then another one tries it from one."""
    rig = ProcessRig(folder, isolation=Isolation("auto", folder / "engine", rules=NetworkRules()))
    tries = {"sent": ("send", PUBLIC, PORT, MANY_PORTS)}, {"public": ("udp", PUBLIC, PORT)}
    found: dict[str, Any] = {}
    async with Station(rig) as station:
        for number, attempts in enumerate(tries):
            await station.apply(
                wanted(
                    rig.made(TRIES), service=f"{number}{ATTACKER[1:]}", environment=f"{number}{HOME[1:]}",
                    variables={"ATTEMPTS": json.dumps(attempts)},
                )
            )  # fmt: skip
            await until(partial(said, station, number + 1))
        for line in station.said:
            found |= json.loads(line[6:]) if line.startswith("found ") else {}
        await station.engine.sweep(await station.engine.services())
    return found


async def send_in_build(folder: Path, *, other: str) -> dict[str, Any]:
    """A build step of HOME sends from as many UDP ports as it can; then one of the environment `other` tries
    it from one."""
    isolation = Isolation("auto", folder / "engine", rules=NetworkRules())
    tries: tuple[dict[str, Any], ...]
    tries = {"sent": ("send", PUBLIC, PORT, MANY_PORTS)}, {"public": ("udp", PUBLIC, PORT)}
    found: dict[str, Any] = {}
    async with Station(ProcessRig(folder, isolation=isolation)) as station, AsyncExitStack() as running:
        steps = StepLauncher(station.engine.network_of_steps)  # type: ignore[attr-defined]
        for environment, attempts in zip((HOME, other), tries, strict=True):
            home = folder / "-".join(attempts)
            home.mkdir()
            cells = Cells(
                isolation, home.name, home, home, launcher=steps, org="acme", environment=environment
            )
            variables = {"PATH": "/usr/bin:/bin", "ATTEMPTS": json.dumps(attempts)}
            step = BuildStep([sys.base_prefix + "/bin/python3", "-c", TRIES], home, variables, {})
            process, _ = await running.enter_async_context(cells.running(step))
            found |= json.loads((await process.stdout.readline()).removeprefix(b"found "))
    return found


async def fill(folder: Path) -> dict[str, Any]:
    """A service and a build step send to ever new neighbours. As root, the service goes on without the rules
    of its network."""
    isolation = Isolation("auto", folder / "engine", rules=NetworkRules())
    rig = ProcessRig(folder, isolation=isolation)
    program = Path(neighbours.__file__).read_text()
    async with Station(rig) as station:
        address = await station.engine.neighbour_address(HOME, VICTIM, "victim", PORT)
        victim = wanted(
            rig.made(SERVES), ports=[PORT], service=VICTIM, environment=HOME, name="victim", direct=True,
            alone=True, variables={"WHO": "victim"},
        )  # fmt: skip
        await station.apply(victim)
        await station.hears("serves")
        reaches = json.dumps([address.host, PUBLIC])
        made = await station.apply(
            wanted(rig.made(program), service=ATTACKER, environment=HOME, variables={"REACHES": reaches})
        )
        await until(partial(said, station, 2))
        found: dict[str, Any] = last_said(station, "first ")
        found["service"] = last_said(station, "found ")
        found["step"] = await fill_in_step(station, isolation, folder, program)
        if not os.geteuid():
            found["states"] = neighbours_on_the_way(NamespaceHolder.read(made.network), folder)
            with network.inside(NamespaceHolder.read(made.network).open()):
                netlink.remove_table("windlass")
            rounds = sum(line.startswith("found ") for line in station.said)
            await until(partial(said, station, rounds + 2))
            found["without rules"] = last_said(station, "found ")
        await station.engine.sweep(await station.engine.services())
    return found


def last_said(station: Station, begin: str) -> Any:
    return json.loads([line for line in station.said if line.startswith(begin)][-1][len(begin) :])


async def fill_in_step(station: Station, isolation: Isolation, folder: Path, program: str) -> Any:
    home = folder / "step"
    home.mkdir()
    steps = StepLauncher(station.engine.network_of_steps)  # type: ignore[attr-defined]
    cells = Cells(isolation, "service", home, home, launcher=steps)
    command = [sys.base_prefix + "/bin/python3", "-c", program]
    step = BuildStep(command, home, {"PATH": "/usr/bin:/bin", "ONCE": ""}, {})
    async with cells.running(step) as (process, _):
        output = (await process.stdout.read()).decode()
    return json.loads(output.partition("found ")[2])


def neighbours_on_the_way(instance: NamespaceHolder, folder: Path) -> dict[str, list[tuple[str, int]]]:
    """Returns the neighbours of the networks from an instance to the machine."""
    holders = {"instance": instance}
    for file in (folder / "engine" / "networks").iterdir():
        if file.name.endswith(network.HUB_SUFFIX) or file.name == "trunk":
            note = json.loads(file.read_text())
            holders[file.name] = NamespaceHolder(note["pid"], note["start"])
    found = {}
    for name, holder in holders.items():
        with network.inside(holder.open()):
            found[name] = neighbours.neighbours()
    found["machine"] = [each for each in neighbours.neighbours() if each[0].startswith("198.19.")]
    return found


def add_later_address(folder: Path) -> None:
    """Gives the machine one more address once the engine asks for it, as another process that may."""
    if os.fork():
        return
    calls.prctl(calls.PR_SET_PDEATHSIG, signal.SIGKILL)
    while not (folder / "later").exists():
        time.sleep(0.05)
    ip("address", "add", f"{LATER}/32", "dev", "eth0")
    os._exit(0)


async def has_later_address() -> bool:
    with socket.socket() as tried, suppress(OSError):
        tried.bind((LATER, 0))
        return True
    return False


def bound_by_udp() -> list[int]:
    """Returns the UDP ports that programs of the machine hold."""
    lines = Path("/proc/net/udp").read_text().splitlines()[1:]
    return [int(line.split()[1].partition(":")[2], 16) for line in lines]


async def said(station: Station, count: int) -> bool:
    return sum(line.startswith("found ") for line in station.said) >= count


MODES: Final = {
    "networks": partial(attack, networks=True),
    "shared": partial(attack, networks=False),
    "change": partial(change, renews=True),
    "change without renewal": partial(change, renews=False),
    "crowd": partial(crowd, organizations=1),
    "crowd of one": partial(crowd_of_one, leaves_some=True),
    "crowd of one without limits for steps": partial(crowd_of_one, leaves_some=False),
    "send": partial(send),
    "send in a build": partial(send_in_build, other=ELSEWHERE),
    "send in a build of the same environment": partial(send_in_build, other=HOME),
    "fill": partial(fill),
    "crowd of many organizations": partial(crowd, organizations=CROWD),
}


if __name__ == "__main__":
    _, place, mode, *as_user = sys.argv
    if os.environ.get(INSIDE) is None:
        begin_machine()
        add_later_address(Path(place))
        os.environ[INSIDE] = "1"
        if as_user:
            again = [sys.executable, "-m", "tests.hostile.small_internet", place, mode]
            # Not instead of this process: the kernel lets only root end its children.
            os._exit(subprocess.run([*as_user, *again], check=False).returncode)
    print("RESULT " + json.dumps(asyncio.run(MODES[mode](Path(place)))))
    os._exit(0)
