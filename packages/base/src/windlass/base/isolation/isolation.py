"""Isolates the services of one installation: finds the isolation features that this machine supports, and
creates the cells of services."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Final, Literal, cast
from zlib import crc32

from msgspec import Struct

from windlass.base.addresses import CLOSED_NETWORKS
from windlass.base.isolation import user_limits
from windlass.base.isolation.cell import Cell
from windlass.base.isolation.landlock import SCOPES_SINCE
from windlass.base.isolation.launcher_client import PACKAGE_FOLDERS, program
from windlass.base.isolation.network import NO_FORWARDING, CellNetwork, ConnectionLimits, resolvers
from windlass.base.isolation.pasta import TUN_DEVICE
from windlass.base.isolation.private import SHARED_FOLDERS, closed_settings, private_paths, private_programs
from windlass.base.isolation.probe import Findings
from windlass.base.isolation.settings_copy import settings_copies
from windlass.base.isolation.users import USER_NAME, Users, range_of

Mode = Literal["required", "auto", "off"]
DEFAULT_USER_IDS: Final = "1900000000-1999999999"
MAX_PROCESSES: Final = 4096
"""The maximum number of processes of a cell. Threads count as processes, and some programs have hundreds."""
_NOBODY: Final = 65_534
_INSTALL_PASTA: Final = "install pasta (package passt), then restart Windlass"
_OPEN_TUN: Final = f"let its user write {TUN_DEVICE} (chmod 666, as udev sets it), then restart Windlass"
_SYSTEM_FOLDERS: Final = ("/usr/", "/bin/", "/sbin/", "/lib", "/etc/")
_TIMEOUT: Final = 30
_KEYS_WITHOUT_RULES: Final = ("outer", "group", "socket_server")
"""The fields of a network that do not change during its lifetime."""
_PROBE_LOCK: Final = Lock()
"""Locked while a thread probes the machine; other threads wait for the result."""

_NETWORKS_ARE_OFF: Final = "isolation_networks is off"
_ADVICE_BY_REASON: Final = {
    _NETWORKS_ARE_OFF: "set isolation_networks to yes, then restart Windlass",
    NO_FORWARDING: "`sysctl -w net.ipv4.ip_forward=1` on the machine, then restart Windlass",
}
_ADVICE_ORDER_HINT: Final = "first follow the advice about the user or the user namespace"
_MEANING_OF_STEPS: Final = {
    "identity": (
        "a user or a user namespace of its own",
        "run Windlass as root with all capabilities, or allow user namespaces (sysctl "
        "user.max_user_namespaces, on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0; "
        "in a container, a seccomp profile that "
        "allows unshare and mount)",
    ),
    "mounts": (
        "a view of the file system of its own",
        "use Linux 5.12 or later (in a container, a profile that allows mount)",
    ),
    "processes": (
        "a view of processes of its own",
        "allow a new /proc to be mounted (in a container, an unmasked /proc)",
    ),
    "landlock": (
        "Landlock rules for its files",
        "use Linux 5.13 or later, with landlock in the kernel's list lsm=",
    ),
    "socket_filter": (
        "a filter for sockets",
        "use a kernel with seccomp filters (CONFIG_SECCOMP_FILTER), on x86-64, ARM64 or RISC-V",
    ),
    "network": (
        "a network of its own",
        "use a kernel with network namespaces, veth and nf_tables, which this user may use",
    ),
}


class NetworkRules(Struct, frozen=True):
    """The networks and ports that services may reach besides public addresses and their environment."""

    open: tuple[str, ...] = ()
    """Networks that services may reach although they are in `CLOSED_NETWORKS`."""
    ports: tuple[int, ...] = ()
    """TCP ports of this machine that services may reach: the ports of the gateway and the API."""
    connections: int = 8192
    """The maximum number of open connections of an environment to public networks; see `ConnectionLimits`."""


class MissingPart(Struct, frozen=True):
    """An isolation feature that services do not have on this machine."""

    part: str
    what: str
    why: str
    means: str
    """The consequence: what a service can or cannot do without this feature."""
    advice: str


def findings(first_uid: int, last_uid: int) -> Findings:
    """Returns the isolation features that the kernel supports. `first_uid` and `last_uid` limit the service
    users.

    Probes the kernel once, since the result does not change while this process runs.
    """
    with _PROBE_LOCK:
        return _probe_features(first_uid, last_uid)


@cache
def _probe_features(first_uid: int, last_uid: int) -> Findings:
    command = program("probe", first_uid, str(last_uid))
    done = subprocess.run(command, env={}, cwd="/", capture_output=True, timeout=_TIMEOUT, check=True)
    findings: Findings = json.loads(done.stdout)
    return findings


class Isolation:
    def __init__(
        self,
        mode: Mode,
        folder: Path,
        users: str = DEFAULT_USER_IDS,
        readable: Sequence[str] = (),
        rules: NetworkRules | None = None,
        private: Sequence[str] = (),
    ) -> None:
        """Receives the settings of isolation. Raises a ValueError if `users` is not a valid range.

        `folder`: the data directory. `readable`: folders that services may read in addition to the system's.
        `rules`: None if all services share the machine's network. `private`: files hidden from services.
        """
        self.mode: Mode = mode
        self._folder = folder.resolve()
        self.folders = (folder.absolute(), self._folder)
        """The data directory, by its absolute path and by its path without links."""
        self._numbers = range_of(users)
        self._users = Users(self._folder, self._numbers)
        self._readable = tuple(readable)
        self._rules = rules
        self._private = tuple(private)

    def missing(self) -> list[MissingPart]:
        if self.mode == "off":
            return []
        findings = self._findings()
        why = self._missing_parts()
        return [
            MissingPart(
                part,
                what,
                why[part],
                _missing_feature_consequence(part, findings),
                _feature_advice(part, why[part], findings),
            )
            for part, (what, _) in _MEANING_OF_STEPS.items()
            if part in why
        ]

    def holds(self) -> list[str]:
        """Returns descriptions of the isolation features that each service has on this machine."""
        if self.mode == "off":
            return []
        findings = self._findings()
        identity = {
            "user": "a user of its own",
            "namespace": "a user namespace of its own",
        }
        named = [identity[findings["identity"]]] if findings["identity"] in identity else []
        return named + [
            _MEANING_OF_STEPS[part][0]
            for part in _MEANING_OF_STEPS
            if part != "identity" and part not in self._missing_parts()
        ]

    def _missing_parts(self) -> Mapping[str, str]:
        """Returns the isolation features that services lack on this machine, each with the reason."""
        why = self._findings()["why"]
        if self._rules is None and "network" not in why:
            return {**why, "network": _NETWORKS_ARE_OFF}
        return why

    def _findings(self) -> Findings:
        return findings(self._numbers[0], self._numbers[-1])

    def has_networks(self) -> bool:
        """Returns whether each instance has its own network."""
        return self._rules is not None and self.mode != "off" and self._findings()["network"]

    def makes_networks_as_user(self) -> bool:
        """Returns whether networks belong to a user namespace, as they do without root."""
        return self.has_networks() and self._findings()["identity"] == "namespace"

    def why_no_egress(self) -> str:
        """Returns why instances in their own networks cannot reach public addresses; empty if they can."""
        return self._findings().get("egress", "") if self.has_networks() else ""

    def egress_advice(self) -> str:
        """Returns advice for the operator to give networks access to public addresses."""
        return _OPEN_TUN if TUN_DEVICE in self.why_no_egress() else _INSTALL_PASTA

    def why_shared_network(self) -> str:
        """Returns why instances or build steps share the machine's network; empty if they do not."""
        if self.has_networks():
            why = self.why_no_egress()
            return f"build steps share it, because {why}: {self.egress_advice()}" if why else ""
        return "isolation is off" if self.mode == "off" else self._missing_parts()["network"]

    def why_one_organization(self) -> str:
        """Returns why this machine may serve only one organization; empty if it may serve several."""
        if why := self.why_shared_network():
            return f"they share a network: {why}"
        if self.gives_users():
            return ""
        return "all run as the user of Windlass and share its limits in the kernel: run Windlass as root"

    def trunk(self, socket_server: str) -> CellNetwork:
        """Returns the network that connects all environments to the machine.

        `socket_server`: see `CellNetwork`.
        """
        rules = self._rules or NetworkRules()
        limits = ConnectionLimits.of(rules.connections)
        trunk = CellNetwork(
            kind="trunk",
            resolvers=resolvers(),
            open=list(rules.open),
            closed=list(CLOSED_NETWORKS),
            ports=[port for port in rules.ports if port],
            most=limits.everyone,
            most_of_group=limits.organization,
        )
        if socket_server:
            trunk["socket_server"] = socket_server
        return trunk

    def hub(self, trunk: str, org: str, *, joins: bool) -> CellNetwork:
        """Returns the network of an environment.

        `joins`: whether its members reach each other. This is true for instances, and false for build steps.
        """
        rules = self._rules or NetworkRules()
        limits = ConnectionLimits.of(rules.connections)
        return CellNetwork(
            kind="hub",
            outer=trunk,
            joins=joins,
            resolvers=resolvers(),
            open=list(rules.open),
            closed=list(CLOSED_NETWORKS),
            most=limits.environment if joins else limits.steps,
            group=crc32(org.encode()),
        )

    def with_rules(self, network: CellNetwork) -> CellNetwork:
        """Returns an existing trunk or hub network with the rules that a new network would get now."""
        is_trunk = network["kind"] == "trunk"
        fresh = self.trunk("") if is_trunk else self.hub("", "", joins=network.get("joins", True))
        kept = {name: value for name, value in network.items() if name in _KEYS_WITHOUT_RULES}
        return cast("CellNetwork", {**fresh, **kept})

    def gives_users(self) -> bool:
        """Returns whether each service has its own user."""
        return self.mode != "off" and self._findings()["identity"] == "user"

    def readable_private_files(self) -> list[str]:
        """Returns files and folders, such as below `/usr`, that services can read and other users cannot.

        Such files exist because services run as the user of Windlass. Takes seconds.
        """
        if self.mode == "off" or self.gives_users() or not os.geteuid():
            return []
        return private_programs((*private_paths(self._private), *map(str, self.folders)))

    def owner(self, name: str) -> int | None:
        """Returns the user id that owns a service's files; None for the user of Windlass."""
        if not self.gives_users():
            return None
        return self._users.of(name)

    def cell(
        self,
        name: str,
        *,
        readable: Iterable[Path | str],
        writable: Iterable[Path],
        temporary: Path,
        most_memory: int = 0,
        largest_file: int = 0,
        shared_memory: int = 0,
        network: CellNetwork | None = None,
        mark: int = 0,
    ) -> Cell | None:
        """Returns the cell of a service; None if isolation is off. `mark`: see `Cell`."""
        if self.mode == "off":
            return None
        findings, owner = self._findings(), self.owner(name)
        ours = os.geteuid()
        cell = Cell(
            identity=findings["identity"],
            uid=ours if owner is None else owner,
            inner=ours or _NOBODY,
            name="" if owner is None else USER_NAME.format(owner),
            mounts=findings["mounts"],
            processes=findings["processes"],
            landlock=findings["landlock"],
            readable=[*dict.fromkeys((*_own_programs(), *self._readable, *map(str, readable)))],
            writable=[str(path) for path in writable],
            temporary=str(temporary),
            hidden=[str(self._folder)],
            most_processes=_max_processes(findings),
            most_memory=most_memory,
            largest_file=largest_file,
        )
        if owner is None:
            cell["private"] = private_paths(self._private)
            cell["readable"] += SHARED_FOLDERS
        if findings["mounts"]:
            cell["settings"] = settings_copies(str(self._folder / "etc"))
        elif owner is None:
            cell["private"] += closed_settings()
        if shared_memory:
            cell["shared_memory"] = shared_memory
        if mark and not findings["processes"]:
            cell["mark"] = mark
        cell["families"] = findings["socket_filter"]
        if network is not None:
            cell["network"] = network
        return cell


def _max_processes(findings: Findings) -> int:
    return min(MAX_PROCESSES, user_limits.share_of_processes()) if findings["identity"] != "none" else 0


def _feature_advice(feature: str, reason: str, findings: Findings) -> str:
    """Returns advice for the operator to enable a missing isolation feature."""
    if reason in _ADVICE_BY_REASON:
        return _ADVICE_BY_REASON[reason]
    needs_identity = feature in ("mounts", "processes", "network")
    return (
        _ADVICE_ORDER_HINT
        if needs_identity and findings["identity"] == "none"
        else _MEANING_OF_STEPS[feature][1]
    )


def _missing_feature_consequence(feature: str, findings: Findings) -> str:
    """Returns the consequence of a missing isolation feature on a machine with these findings."""
    rules, user = findings["landlock"], "the user of Windlass" if os.geteuid() else "root"
    match feature:
        case "identity":
            signals = "" if rules >= SCOPES_SINCE else ", and can end Windlass and other services"
            return f"it runs as {user}{signals}"
        case "mounts" if rules:
            return (
                "Landlock alone hides files of others from it, System V memory of others is open to it, and "
                "it cannot use /tmp and /dev/shm"
            )
        case "processes":
            return "it sees all processes of this machine, with their command lines"
        case "network":
            return (
                "it shares the ports of this machine with all others: a service that takes the port of "
                "another gets its requests, so only one organization may deploy here, unless share_machine "
                "is set"
            )
        case "socket_filter":
            return (
                "it reaches other services and the machine through sockets that network namespaces do not "
                "separate, such as AF_VSOCK"
            )
        case "landlock" if findings["mounts"]:
            return "only its view of the file system hides files of others from it"
        case _:
            return f"it can read and change all that {user} can, including the key and other services"


@cache
def _own_programs() -> tuple[str, ...]:
    """Returns the folders of this Python and of Windlass, which the launchers of databases need."""
    return tuple(
        dict.fromkeys((sys.base_prefix, os.path.realpath(sys.base_prefix), sys.prefix, *PACKAGE_FOLDERS))
    )


def programs(path: str, own_paths: Iterable[Path]) -> Iterable[str]:
    """Yields the folders that programs in an operator's PATH need, except the system's folders.

    These are the folders of the programs and of their installations. Skips folders below `own_paths`, because
    build steps could have created links there.
    """
    own_paths = tuple(own_paths)
    for folder in dict.fromkeys(path.split(os.pathsep)):
        if not folder.startswith("/") or any(Path(folder).is_relative_to(own) for own in own_paths):
            continue
        # A PATH that is inherited, for example from root, may contain folders that this user may not enter.
        if not folder.startswith(_SYSTEM_FOLDERS) and os.access(folder, os.X_OK):
            yield folder
            installed = Path(folder).parent
            if folder.endswith("/shims") and not _is_home(installed):
                yield str(installed)
            if folder.endswith("/bin") and (installed / "lib").is_dir() and not _is_home(installed):
                yield str(installed)
            for program in (*Path(folder).glob("python*"), Path(folder, "node")):
                if program.is_symlink():
                    yield from _target_folders(program)


def _target_folders(program: Path) -> Iterable[str]:
    """Yields the installation folder of a link's target."""
    real = program.resolve()
    if (
        not str(real).startswith(_SYSTEM_FOLDERS)
        and real.parent.name == "bin"
        and not _is_home(real.parent.parent)
    ):
        yield str(real.parent.parent)


def _is_home(folder: Path) -> bool:
    """Returns whether a folder is a home folder, which contains more than programs."""
    return folder.name == ".local" or folder in (Path("/"), Path("/root")) or folder.parent == Path("/home")
