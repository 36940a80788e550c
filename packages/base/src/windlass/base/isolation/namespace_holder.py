"""A process that holds a network namespace open. It sleeps until its file is removed or replaced.

The holder therefore ends with its installation, even if the folder is erased. If no server runs, it ends
after the last instance. The holder of an ordinary user's trunk also serves sockets (socket_server.py). A
further process of this kind runs pasta, which connects such a trunk to the machine.

The file also contains the rules of the network. When the server changes the trunk's rules, for example after
a change of settings, the holder of the trunk rewrites the tables of the trunk and of all hubs.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import time
from contextlib import suppress
from itertools import pairwise
from typing import Any, Final, NoReturn, cast

from windlass.base import filelock
from windlass.base.isolation import calls, network
from windlass.base.isolation.netlink import Netlink
from windlass.base.isolation.network import CellNetwork, NamespaceHolder
from windlass.base.isolation.pasta import has_pasta_interface, pasta_command
from windlass.base.isolation.socket_server import SocketServer
from windlass.base.oom_score import set_oom_score

CHECK_INTERVAL: Final = 2.0
SERVERS_LOCK: Final = "servers"
"""The name of the lock file, beside the files of the holders, that each server of the networks locks."""
_INNER_INTERFACES: Final = {"hub": re.compile(r"\s*i\d+:"), "trunk": re.compile(r"\s*h\d+:")}
"""Patterns of the interfaces in /proc/net/dev that lead to the networks behind a hub or a trunk."""
_OOM_SCORE: Final = -900
"""The OOM score of holders: the kernel ends nearly all other processes first when memory runs out."""
_STANDARD_STREAMS: Final = 3
_MAX_FDS: Final = 1024
_TRUNK_CAPABILITIES: Final = 1 << 12 | 1 << 21
"""The capabilities NET_ADMIN and SYS_ADMIN. A trunk needs them to remove its interface and rules from the
machine, to open sockets in networks, and to update the rules that protect the machine."""
_PASTA_START_TIMEOUT: Final = 3.0
_SHORT_CHECK_INTERVAL: Final = 0.005
_RESTART_PAUSES: Final = (0.5, 30.0)
"""The shortest and the longest pause before pasta is restarted, in seconds."""


def hold(file: str, cell_network: CellNetwork, routes: Netlink | None) -> NoReturn:
    """Holds the network namespace of this process open. The parent is the server, in the machine's network.

    `routes`: see `network.enter`.
    """
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for stream in range(_STANDARD_STREAMS):  # otherwise this process would keep the server's log open
        os.dup2(null, stream)
    socket_server, kept = None, []
    if routes is not None:  # done before the server continues and starts pasta
        network.guard_own_addresses(cell_network, routes.own_networks())
        socket_server = SocketServer(cell_network["socket_server"])
        kept += [routes.fileno(), socket_server.fileno()]
    _lower_oom_score()
    is_trunk = cell_network["kind"] == "trunk"
    machine = None
    if is_trunk and routes is None:
        machine = os.open(f"/proc/{os.getppid()}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        kept.append(machine)
    rights = _TRUNK_CAPABILITIES if is_trunk else 0
    calls.bound_capabilities(rights)
    calls.keep_capabilities(rights)
    calls.prctl(calls.PR_SET_NO_NEW_PRIVS, 1)
    if cell_network["kind"] != "exit":
        # Last, because the server then continues and sends requests to the socket server, which can open only
        # namespaces of processes that have no more rights than itself.
        _close_other_files(*kept)
    if cell_network["kind"] == "exit":
        _run_pasta(file, cell_network)
    elif routes is not None and socket_server is not None:
        _serve_sockets(file, cell_network, routes, socket_server)
    else:
        _sleep_while_needed(file, cell_network, machine)
    os._exit(0)


def _lower_oom_score() -> None:
    """Sets the OOM score so that the kernel ends instances first. Without root, uses the server's score."""
    with suppress(OSError), open(f"/proc/{os.getppid()}/oom_score_adj") as score:  # noqa: PTH123
        set_oom_score(int(score.read()))
    set_oom_score(_OOM_SCORE)


def _close_other_files(*kept: int) -> None:
    """Closes all descriptors except standard streams and `kept`. The server waits for their closing."""
    edges = [_STANDARD_STREAMS - 1, *sorted(kept), _MAX_FDS]
    for before, after in pairwise(edges):
        os.closerange(before + 1, after)


def _is_own_file(file: str) -> bool:
    try:
        with open(file) as named:  # noqa: PTH123
            return bool(json.load(named)["pid"] == os.getpid())
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):  # a temporary disk failure must not disconnect instances
        return True


def _is_needed(file: str, network: CellNetwork) -> bool:
    """Returns whether a server or an instance may use this network. Otherwise removes the holder's file."""
    if not _is_own_file(file):
        return False
    with suppress(OSError):
        if not is_used(network["kind"]):
            servers = os.open(f"{os.path.dirname(file)}/{SERVERS_LOCK}", os.O_RDWR | os.O_CLOEXEC)  # noqa: PTH120
            try:
                # A starting server waits for the lock and then finds that the file is missing.
                if filelock.try_lock(servers) and not is_used(network["kind"]):
                    os.unlink(file)  # noqa: PTH108
                    return False
            finally:
                os.close(servers)
    return True


def is_used(kind: str, holder: int | str = "self") -> bool:
    """Returns whether other networks are connected to the hub or trunk that a process holds."""
    with open(f"/proc/{holder}/net/dev") as interfaces:  # noqa: PTH123
        return any(_INNER_INTERFACES[kind].match(line) for line in interfaces)


def _follow_rules(file: str, trunk: CellNetwork, machine: int | None) -> CellNetwork:
    """Rewrites the rules of the trunk and its hubs if the holders' files contain changed rules.

    Returns the current rules of the trunk. `machine`: see `network.rewrite_trunk_rules`.
    """
    wanted = _read_holder_file(file).get("network")
    if wanted is None or wanted == trunk:
        return trunk
    try:
        folder = os.path.dirname(file)  # noqa: PTH120
        for name in os.listdir(folder):  # noqa: PTH208
            note = _read_holder_file(f"{folder}/{name}") if name.endswith(network.HUB_SUFFIX) else {}
            if "network" in note:
                network.rewrite_hub_rules(note["network"], NamespaceHolder(note["pid"], note["start"]))
        network.rewrite_trunk_rules(wanted, machine)
    except OSError:  # the next check tries again
        return trunk
    return cast("CellNetwork", wanted)


def _read_holder_file(file: str) -> dict[str, Any]:
    """Returns the content of a holder's file; empty if it is missing or cannot be read."""
    with suppress(OSError, ValueError), open(file) as named:  # noqa: PTH123
        note: dict[str, Any] = json.load(named)
        return note
    return {}


def _sleep_while_needed(file: str, cell_network: CellNetwork, machine: int | None) -> None:
    """Sleeps while the network is needed. A trunk then removes its interface and rules from `machine`."""
    interface = "" if machine is None else network.interface_of_trunk()
    while _is_needed(file, cell_network):
        if machine is not None:
            cell_network = _follow_rules(file, cell_network, machine)
        time.sleep(CHECK_INTERVAL)
    if machine is not None:
        with network.inside(machine):
            network.close_trunk(interface)


def _serve_sockets(file: str, trunk: CellNetwork, routes: Netlink, socket_server: SocketServer) -> None:
    socket_server.watch(routes.fileno())
    look_at, is_guarded = 0.0, True
    while time.monotonic() < look_at or _is_needed(file, trunk):
        if time.monotonic() >= look_at:
            look_at = time.monotonic() + CHECK_INTERVAL
            before, trunk = trunk, _follow_rules(file, trunk, None)
            is_guarded = is_guarded and trunk == before
        if not is_guarded:
            is_guarded = _close_own_addresses(trunk, routes)
        if socket_server.serve(CHECK_INTERVAL):
            is_guarded = False


def _close_own_addresses(trunk: CellNetwork, routes: Netlink) -> bool:
    """Closes the machine's current addresses to services. Returns whether this succeeded.

    If it fails, for example because the machine has too many open files, it must be tried again.
    """
    try:
        network.guard_own_addresses(trunk, routes.own_networks())
    except OSError:
        return False
    return True


def _run_pasta(file: str, cell_network: CellNetwork) -> None:
    """Runs pasta until the trunk ends, and restarts it when it ends.

    Closes the server's descriptors when pasta has created its interface, because the server waits for that.
    """
    holder = NamespaceHolder.read(cell_network["outer"])
    pasta = _start_pasta(cell_network["program"], holder.pid)
    until = time.monotonic() + _PASTA_START_TIMEOUT
    while not has_pasta_interface(holder.pid) and not _has_ended(pasta) and time.monotonic() < until:
        time.sleep(_SHORT_CHECK_INTERVAL)
    _close_other_files()
    trunk = os.pidfd_open(holder.pid)
    if network.start_of(holder.pid) != holder.start:
        return
    pause, began = _RESTART_PAUSES[0], time.monotonic()
    while not _wait_for_any([trunk], 0):
        with suppress(OSError):  # the machine has no files or processes left: try again later
            pasta = pasta or _start_pasta(cell_network["program"], holder.pid)
            if not _wait_for_pasta(pasta, file, trunk):
                break
            pasta = 0
        pause = (
            _RESTART_PAUSES[0]
            if time.monotonic() - began > _RESTART_PAUSES[1]
            else min(pause * 2, _RESTART_PAUSES[1])
        )
        _wait_for_any([trunk], pause)
        began = time.monotonic()
    if pasta:
        os.kill(pasta, signal.SIGKILL)


def _has_ended(child: int) -> bool:
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _start_pasta(program: str, trunk: int) -> int:
    parent, child = os.getpid(), os.fork()
    if not child:
        calls.run_to_exit(lambda: _become_pasta(program, trunk, parent), lambda _: None, 1)
    return child


def _become_pasta(program: str, trunk: int, parent: int) -> None:
    calls.prctl(calls.PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # pasta refuses to start if SIGPIPE is ignored
    if os.getppid() == parent:
        os.execve(program, pasta_command(program, trunk), {"PATH": "/usr/bin:/bin"})  # noqa: S606


def _wait_for_pasta(pasta: int, file: str, trunk: int) -> bool:
    """Waits until pasta has ended. Returns False if pasta is no longer needed."""
    ended = os.pidfd_open(pasta)
    try:
        while _is_own_file(file):
            if ready := _wait_for_any([trunk, ended], CHECK_INTERVAL):
                if trunk in ready:
                    return False
                os.waitpid(pasta, 0)
                return True
    finally:
        os.close(ended)
    return False


def _wait_for_any(pipe_ends: list[int], seconds: float) -> set[int]:
    """Waits until at least one of these processes has ended. Returns the ended processes' pidfds."""
    waiting = select.poll()
    for each in pipe_ends:
        waiting.register(each, select.POLLIN)
    return {each for each, _ in waiting.poll(seconds * 1000)}
