"""Creates the networks of services. Each instance has its own, connected to the network of its environment:

    instance --- hub of its environment --- trunk of the installation --- the machine

A *hub* connects the instances of an environment. A *trunk* connects all hubs of an installation to the
machine. Hubs and trunks are network namespaces that a sleeping process holds open, so a network ends with its
process. Windlass connects to instances through sockets that it opens inside their networks. Instances reach
the instances of their environment and public addresses, but neither other environments nor this machine.

Uses the standard library only, because the launcher imports it.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, Literal, NamedTuple, NotRequired, TypedDict

from windlass.base.isolation import calls, netlink, user_limits
from windlass.base.isolation.netlink import ACCEPT, DROP, Netlink, arrives_by, leaves_by, verdict

LOOPBACK: Final = "127.0.0.1"
GATEWAY: Final = "198.18.0.1"  # the address of each hub inside its environment
MAX_SERVICES: Final = 32_767  # the maximum number of services with an address in one environment
_INSTANCE_NUMBERS: Final = range(2, 32_768)
_MAX_LINKS: Final = 16_384
_MAX_TRUNKS: Final = 128
HUB_SUFFIX: Final = ".hub"
"""The suffix of the files of hub holders. These files are beside the file of the trunk's holder."""
UPLINK: Final = "up"  # the name of the outward interface of a hub or trunk
_MACHINE_INTERFACE: Final = "windlass{0}"  # of the machine, to a trunk; its number is the first free one
_MACHINE_INTERFACE_PATTERN: Final = re.compile(r"windlass[0-9]+")
_TCP, _UDP, _DNS = 6, 17, 53
_GET_ADDRESS: Final = 0x8915  # the ioctl request for an interface's address
NO_FORWARDING: Final = "the kernel forwards no packets (net.ipv4.ip_forward)"
_FORWARDING: Final = "/proc/sys/net/ipv4/ip_forward"
_UDP_PORTS: Final = range(61_000, 65_536)
"""A port range above the ports that Linux assigns to programs and that operators usually give to services."""
_UDP_PORTS_OF_HUB, _UDP_PORTS_OF_STEPS = 512, 256
"""The maximum numbers of UDP source ports with pasta: of an environment, and of its build steps."""
ORG_CONNECTIONS_DIVISOR: Final = 8  # the maximum of one organization: all connections divided by this number
ENVIRONMENTS_FACTOR: Final = 16  # the maximum of all connections, as a multiple of one environment's maximum
_CONNTRACK_LIMIT: Final = "/proc/sys/net/netfilter/nf_conntrack_max"
_SHARES_OF_UDP_PORTS: Final = 4
_ALL, _SENT = "all", "sent"
"""The names of the sets that count each organization's connections: all connections, and UDP connections."""
_IPTABLES: Final = ("/usr/sbin/iptables", "/sbin/iptables", "/usr/local/sbin/iptables")


class CellNetwork(TypedDict):
    """The network of a cell, as sent to the launcher and stored in the instance's record."""

    kind: Literal["instance", "hub", "trunk", "exit"]
    """The role. An `exit` is no network, but a process with pasta, which connects a trunk to the machine."""
    outer: NotRequired[str]  # the holder of an instance's hub, or of a hub's trunk, as `str(NamespaceHolder)`
    socket_server: NotRequired[str]
    """The path of the holder's socket server (socket_server.py), for the trunk of an ordinary user. All
    networks then belong to a user namespace that the trunk creates."""
    program: NotRequired[str]  # the path of pasta, for an exit
    service: NotRequired[str]  # the service's address, if the instance itself has this address
    joins: NotRequired[bool]  # whether the instances of a hub may reach each other
    hosts: NotRequired[str]  # the hosts file that an instance sees, with the names of other services
    resolvers: NotRequired[list[str]]  # DNS servers, which are reachable whatever their address
    open: NotRequired[list[str]]  # networks that are reachable although they are inside `closed` networks
    closed: NotRequired[list[str]]  # networks that are not reachable
    most: NotRequired[int]
    """The maximum number of open connections to public networks. The machine tracks each connection in a
    table of limited size."""
    group: NotRequired[int]  # a number that identifies the organization of a hub
    most_of_group: NotRequired[int]
    """The maximum number of open connections to public networks of one organization, for a trunk."""
    ports: NotRequired[list[int]]
    """The machine's TCP ports that are reachable: the ports of the gateway and the API."""


class NamespaceHolder(NamedTuple):
    """A process that holds a network namespace open. Its pid and start time identify it."""

    pid: int
    start: int
    socket_server: str = ""
    """The path of this network's socket server, if Windlass may not enter the network itself."""

    @classmethod
    def read(cls, text: str) -> NamespaceHolder:
        process, _, socket_server = text.partition("@")
        pid, _, start = process.partition(".")
        return cls(int(pid), int(start), socket_server)

    def __str__(self) -> str:
        return f"{self.pid}.{self.start}" + (f"@{self.socket_server}" if self.socket_server else "")

    def open(self, name: Literal["net", "user"] = "net") -> int:
        """Returns a descriptor of the holder's network or user namespace.

        Raises ProcessLookupError if the holder has ended.
        """
        try:
            network = os.open(f"/proc/{self.pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise ProcessLookupError(f"the process {self.pid} has ended") from None
        if start_of(self.pid) != self.start:
            os.close(network)
            raise ProcessLookupError(f"the process id {self.pid} belongs to another process now")
        return network


def start_of(pid: int) -> int:
    """Returns the start time of a process, in ticks since boot; 0 if the process does not exist."""
    try:
        # Unbuffered, because each new connection to an instance calls this.
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123
            return int(file.read(2048).rpartition(b")")[2].split(None, 20)[19])
    except (OSError, IndexError):
        return 0


def resolvers() -> list[str]:
    """Returns the machine's DNS servers that are reachable from another network.

    If the machine uses a local resolver, returns its upstream servers, if systemd lists them.
    """
    for path in ("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"):
        with suppress(OSError), open(path) as file:  # noqa: PTH123
            words = [line.split() for line in file]
            servers = [line[1] for line in words if line[:1] == ["nameserver"] and len(line) > 1]
            if found := [server for server in servers if ":" not in server and not server.startswith("127.")]:
                return found
    return []


def _address_of_trunk(number: int, last_address: int) -> str:
    """Returns an address in a trunk's range: 0 is the machine, 1 is the trunk. Organizations use the
    addresses from 128, so that the gateway and the API can distinguish them."""
    return _add_offset("198.19.0.0", number << 8 | last_address)


class ConnectionLimits(NamedTuple):
    """The maximum numbers of open connections to public networks."""

    environment: int
    steps: int
    """The additional limit of an environment's build steps. A quarter of the organization's limit is left."""
    organization: int
    everyone: int

    @classmethod
    def of(cls, environment: int) -> ConnectionLimits:
        """Returns the limits for a given limit of one environment.

        Lowers the limits so that all connections use at most half of the machine's connection table, and an
        environment at most half of its organization's limit.
        """
        everyone = ENVIRONMENTS_FACTOR * environment
        with suppress(OSError, ValueError), open(_CONNTRACK_LIMIT) as table:  # noqa: PTH123 (missing until first used)
            everyone = min(everyone, int(table.read()) // 2)
        organization = everyone // ORG_CONNECTIONS_DIVISOR
        environment = min(environment, organization // 2)
        return cls(environment, environment // 2, organization, everyone)


def interface_of_trunk() -> str:
    """Returns the machine's interface to the trunk that this process is in."""
    return _MACHINE_INTERFACE.format(_number_of_trunk())


def _number_of_trunk() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        answer = fcntl.ioctl(asked, _GET_ADDRESS, UPLINK.encode().ljust(40, b"\0"))
    number = int.from_bytes(answer[20:24], "big") - int.from_bytes(socket.inet_aton("198.19.0.0"), "big")
    return number >> 8


def try_all(*, as_root: bool) -> str:
    """Tries in a child process whether networks can be created. Returns why not; empty if they can."""
    child = os.fork()
    if not child:
        with suppress(BaseException):
            if not as_root:
                _own_user_namespace()
            _try_pair()
            if not as_root:
                _forward_packets()
            os._exit(0)
        os._exit(1)
    if os.waitpid(child, 0)[1]:
        return "the kernel gives no network namespaces, veth pairs or NAT, or /proc/sys is read-only"
    if not as_root:
        return ""
    with open(_FORWARDING) as file:  # noqa: PTH123
        if file.read().strip() == "1" or os.access(_FORWARDING, os.W_OK):
            return ""
    return NO_FORWARDING


def _try_pair() -> None:
    calls.unshare(calls.CLONE_NEWNET)
    before = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    calls.unshare(calls.CLONE_NEWNET)
    _close_ipv6()
    with Netlink() as here:
        here.make_pair("a", "b", before)
    forward: list[netlink.Rule] = [
        (*arrives_by("a"), *netlink.is_known(), *verdict(ACCEPT)),
        (*netlink.goes_to("10.0.0.0/8"), *netlink.refuse()),
    ]
    counted: list[netlink.Rule] = [
        (*netlink.exceeds_in_group(_ALL, 1), *verdict(DROP)),
        (*netlink.exceeds(1), *verdict(DROP)),
    ]
    masked_by_group = (*leaves_by("a"), *netlink.source_by_group(GATEWAY))
    masked = [_masked_at_random_port("a"), masked_by_group, _masquerade("a")]
    chains = {
        "forward": forward,
        "counted": counted,
        "output": [netlink.goes_by(GATEWAY)],
        "postrouting": masked,
    }
    netlink.write_table("a", chains, groups=[_ALL])


def service_address(number: int) -> str:
    """Returns the address of a service in its environment. `number`: from 1 to `MAX_SERVICES`."""
    return _add_offset("198.18.128.0", number)


def _add_offset(first: str, number: int) -> str:
    return socket.inet_ntoa((int.from_bytes(socket.inet_aton(first), "big") + number).to_bytes(4, "big"))


@contextmanager
def inside(network: int) -> Iterator[None]:
    """Moves this thread to another network for the duration of the block, which must not await."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        calls.join(network, calls.CLONE_NEWNET)
        try:
            yield
        finally:
            calls.join(own, calls.CLONE_NEWNET)
    finally:
        os.close(own)


# Called in a new process


def enter(network: CellNetwork) -> Netlink | None:
    """Moves this process from the machine's network to a new network, and connects the new network.

    The trunk of an ordinary user cannot return to the machine's network. For such a trunk, returns a netlink
    socket that reports changes of the machine's routes.
    """
    routes = None
    if "socket_server" in network:
        routes = Netlink(groups=netlink.ROUTES_CHANGE)
        _own_user_namespace()
    elif "outer" in network and (outer := NamespaceHolder.read(network["outer"])).socket_server:
        users = outer.open("user")
        calls.join(users, calls.CLONE_NEWUSER)
        os.close(users)
    before = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    calls.unshare(calls.CLONE_NEWNET)
    arrange(network, before)
    os.close(before)
    return routes


def _own_user_namespace() -> None:
    user, group = os.geteuid(), os.getegid()
    user_limits.reserve_processes()
    calls.unshare(calls.CLONE_NEWUSER)
    calls.map_user(user, user, group)
    user_limits.reserve_inotify()


def arrange(network: CellNetwork, parent: int) -> None:
    """Connects the new network of this process. `parent`: the network that the process was in before."""
    with Netlink() as here:
        here.raise_link("lo")
        here.add_neighbour("lo", "0.0.0.0", bytes(6))  # noqa: S104 (one entry of the kernel for all of lo)
    match network["kind"]:
        case "trunk":
            _arrange_trunk(network, parent)
        case "hub":
            _arrange_hub(network)
        case "instance":
            _arrange_instance(network)


def _arrange_trunk(network: CellNetwork, machine: int) -> None:
    if _is_routed(network):
        _connect_machine(network, machine)
    _close_ipv6()
    _forward_packets()
    _write_trunk_table(network)


def _is_routed(trunk: CellNetwork) -> bool:
    """Returns whether a veth pair, and not pasta, connects a trunk to the machine."""
    return "socket_server" not in trunk


def _write_trunk_table(network: CellNetwork) -> None:
    masked = [_masquerade(UPLINK)]
    if _is_routed(network):
        first = _address_of_trunk(_number_of_trunk(), 128)
        masked.insert(0, (*leaves_by(UPLINK), *netlink.source_by_group(first)))
    else:
        masked.insert(0, _masked_at_random_port(UPLINK))
    forward: list[netlink.Rule] = [
        (*arrives_by(UPLINK), *netlink.is_known(), *verdict(ACCEPT)),
        (*arrives_by(UPLINK), *verdict(DROP)),
        (*leaves_by(UPLINK, inverted=True), *verdict(DROP)),
        *_closed_rules(network),
        verdict(ACCEPT),
    ]
    by_group = [_limit_of_group(_ALL, network.get("most_of_group", 0))]
    if not _is_routed(network):
        most = len(_UDP_PORTS) // _SHARES_OF_UDP_PORTS
        by_group.append((*netlink.has_protocol(_UDP), *_limit_of_group(_SENT, most)))
    netlink.write_table(
        "windlass",
        {"forward": forward, "counted": [*by_group, *_limit_rules(network)], "postrouting": masked},
        closed=["forward"],
        groups=[_ALL, _SENT],
    )


def _closed_rules(network: CellNetwork) -> list[netlink.Rule]:
    """Returns the rules for outgoing packets, which refuse packets to closed networks."""
    passed = [*_dns_conditions(network), *(netlink.goes_to(to) for to in network.get("open", []))]
    closed = [netlink.goes_to(to) for to in network.get("closed", [])]
    return [
        *((*leaves_by(UPLINK), *rule, *verdict(ACCEPT)) for rule in passed),
        *((*leaves_by(UPLINK), *rule, *netlink.refuse()) for rule in closed),
    ]


def _connect_machine(network: CellNetwork, machine: int) -> None:
    own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    with inside(machine):
        with Netlink() as there:
            # Starts at 0, so that the rules of an ended trunk with the same number are replaced.
            pair = lambda number: there.make_pair(_MACHINE_INTERFACE.format(number), UPLINK, own)  # noqa: E731
            number = _claim(range(_MAX_TRUNKS), pair, first=0)
            name = _MACHINE_INTERFACE.format(number)
            ours, theirs = (_address_of_trunk(number, last) for last in (0, 1))
            there.add_address(name, ours, 31)
            there.raise_link(name)
            there.add_neighbour(name, theirs, netlink.INNER)
            there.route(_address_of_trunk(number, 128), 25, name, via=theirs)
        _forward_packets()
        _write_machine_table(number, network)
        _iptables(name, "-I")
    with Netlink() as here:
        here.add_address(UPLINK, theirs, 31)
        here.raise_link(UPLINK)
        here.add_neighbour(UPLINK, ours, netlink.OUTER)
        here.route("0.0.0.0", 0, UPLINK, via=ours)  # noqa: S104 (a route)


def guard_own_addresses(network: CellNetwork, addresses: Iterable[str]) -> None:
    """Closes the machine's addresses to a trunk with pasta. For root, `_write_machine_table` does this."""
    allowed = [(*rule, *verdict(ACCEPT)) for rule in _open_on_machine(network)]
    closed = [(*netlink.goes_to(address), *netlink.refuse()) for address in addresses]
    netlink.write_table("machine", {"forward": [*allowed, *closed]})


def _open_on_machine(network: CellNetwork) -> list[netlink.Rule]:
    """Returns the conditions of packets that may reach the machine itself."""
    return [
        *(netlink.goes_to_port(_TCP, port) for port in network.get("ports", [])),
        *_dns_conditions(network),
        *(netlink.goes_to(to) for to in network.get("open", [])),
    ]


def _dns_conditions(network: CellNetwork) -> list[netlink.Rule]:
    """Returns the conditions of packets to DNS servers."""
    return [
        (*netlink.goes_to(server), *netlink.goes_to_port(protocol, _DNS))
        for server in network.get("resolvers", [])
        for protocol in (_UDP, _TCP)
    ]


def _write_machine_table(number: int, network: CellNetwork) -> None:
    """Lets packets from a trunk pass to other machines, and to the open ports of this machine."""
    name, source = _MACHINE_INTERFACE.format(number), f"{_address_of_trunk(number, 0)}/24"
    netlink.write_table(
        name,
        {
            "input": [
                *((*arrives_by(name), *rule, *verdict(ACCEPT)) for rule in _open_on_machine(network)),
                (*arrives_by(name), *netlink.refuse()),
            ],
            "forward": [
                (*leaves_by(name), *netlink.is_known(), *verdict(ACCEPT)),
                (*leaves_by(name), *verdict(DROP)),
            ],
            "postrouting": [(*netlink.comes_from(source), *netlink.masquerade())],
        },
    )


def rewrite_trunk_rules(network: CellNetwork, machine: int | None) -> None:
    """Rewrites the rules of the trunk that this process is in.

    `machine`: the machine's network; None for the trunk of an ordinary user.
    """
    _write_trunk_table(network)
    if machine is not None:
        number = _number_of_trunk()
        with inside(machine):
            _write_machine_table(number, network)


def rewrite_hub_rules(network: CellNetwork, holder: NamespaceHolder) -> None:
    """Rewrites the rules of a hub. Called in its trunk. Does nothing if the hub has ended."""
    with suppress(ProcessLookupError):
        hub = holder.open()
        try:
            with inside(hub):
                _write_hub_table(network)
        finally:
            os.close(hub)


def close_trunk(name: str) -> None:
    """Removes the machine's rules for an ended trunk. Called in the machine's network."""
    netlink.remove_table(name)
    _iptables(name, "-D")


def left_trunks() -> list[str]:
    """Returns the interface names of killed trunks of any installation whose rules are still present.

    Returns an empty list if this user may not list packet filter tables.
    """
    try:
        found = [name for name in netlink.tables() if _MACHINE_INTERFACE_PATTERN.fullmatch(name)]
    except OSError:
        return []
    present = {name for _, name in socket.if_nameindex()}
    return [name for name in found if name not in present]


def close_left_trunks() -> None:
    for name in left_trunks():
        with suppress(OSError):
            close_trunk(name)


def _iptables(name: str, change: Literal["-I", "-D"]) -> None:
    """Adds or removes iptables rules that let packets of a trunk pass, because Docker and firewalls drop
    forwarded packets. Does nothing without iptables."""
    program = next((path for path in _IPTABLES if os.path.exists(path)), None)  # noqa: PTH110
    answers = ("-o", name, "-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED", "-j", "ACCEPT")
    if program is None:
        return
    present = _run(program, "-w", "-S", "FORWARD").splitlines()
    for rule in (("-i", name, "-j", "ACCEPT"), answers):
        is_there = " ".join(("-A", "FORWARD", *rule)) in present
        if is_there == (change == "-D"):
            _run(program, "-w", change, "FORWARD", *rule)


def _run(*command: str) -> str:
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env={}, check=False
    ).stdout


def _arrange_hub(network: CellNetwork) -> None:
    own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    with inside(NamespaceHolder.read(network["outer"]).open()), Netlink() as there:
        group = network.get("group", 0)
        number = _claim(range(_MAX_LINKS), lambda number: there.make_pair(f"h{number}", UPLINK, own, group))
        name, (outer, inner) = f"h{number}", (_add_offset("198.19.128.0", 2 * number + end) for end in (0, 1))
        there.add_address(name, outer, 31)
        there.raise_link(name)
        there.add_neighbour(name, inner, netlink.INNER)
    _close_ipv6()
    with Netlink() as here:
        here.add_address("lo", GATEWAY, 32)
        here.own(service_address(0), 17)
        here.add_address(UPLINK, inner, 31)
        here.raise_link(UPLINK)
        here.add_neighbour(UPLINK, outer, netlink.OUTER)
        here.route("0.0.0.0", 0, UPLINK, via=outer)  # noqa: S104 (a route)
    _write("/proc/sys/net/ipv4/conf/all/send_redirects", "0")
    _forward_packets()
    _write_hub_table(network)


def _write_hub_table(network: CellNetwork) -> None:
    forward: list[netlink.Rule] = []
    if not network.get("joins", True):
        between = (*arrives_by(UPLINK, inverted=True), *leaves_by(UPLINK, inverted=True))
        forward.append((*between, *verdict(DROP)))
    # The trunk refuses these packets as well. Refusing them here keeps them out of its connection counts.
    forward += _closed_rules(network)
    counted = _limit_rules(network)
    if NamespaceHolder.read(network["outer"]).socket_server:
        most = netlink.exceeds(_UDP_PORTS_OF_HUB if network.get("joins", True) else _UDP_PORTS_OF_STEPS)
        counted.append((*leaves_by(UPLINK), *netlink.has_protocol(_UDP), *most, *verdict(DROP)))
    chains = {"forward": forward, "counted": counted, "postrouting": [_masquerade(UPLINK)]}
    netlink.write_table("windlass", chains)


def _limit_rules(network: CellNetwork) -> list[netlink.Rule]:
    most = network.get("most")
    return [(*leaves_by(UPLINK), *netlink.exceeds(most), *verdict(DROP))] if most else []


def _limit_of_group(groups: str, limit: int) -> netlink.Rule:
    return (*leaves_by(UPLINK), *netlink.exceeds_in_group(groups, limit), *verdict(DROP))


def _masquerade(name: str) -> netlink.Rule:
    return (*leaves_by(name), *netlink.masquerade())


def _masked_at_random_port(name: str) -> netlink.Rule:
    """Masquerades with random UDP source ports. pasta binds these ports on the machine, so instances may not
    choose them."""
    return (*leaves_by(name), *netlink.has_protocol(_UDP), *netlink.masquerade(_UDP_PORTS))


def _arrange_instance(network: CellNetwork) -> None:
    own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    with inside(NamespaceHolder.read(network["outer"]).open()), Netlink() as there:
        number = _claim(_INSTANCE_NUMBERS, lambda number: there.make_pair(f"i{number}", "eth0", own))
        name, address = f"i{number}", _add_offset("198.18.0.0", number)
        there.raise_link(name)
        there.add_neighbour(name, address, netlink.INNER)
        there.route(address, 32, name)
        if network.get("service"):
            there.add_neighbour(name, network["service"], netlink.INNER)
            # In the local table, where it precedes the hub's own addresses. It ends with the interface.
            there.route(network["service"], 32, name, table=netlink.LOCAL_TABLE)
    _write("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", "1")
    _write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")  # all ports belong to the instance
    with Netlink() as here:
        here.add_address("eth0", address, 32)
        if network.get("service"):
            here.add_address("eth0", network["service"], 32)
        here.raise_link("eth0")
        here.add_neighbour("eth0", GATEWAY, netlink.OUTER)
        here.route(GATEWAY, 32, "eth0")
        here.route("0.0.0.0", 0, "eth0", via=GATEWAY)  # noqa: S104 (a route)
        here.route("224.0.0.0", 4, "lo")  # keeps multicast from other instances
    _write_instance_table()


def _write_instance_table() -> None:
    """Drops outgoing packets unless the hub is their next hop.

    Otherwise a program could bypass routers (SO_DONTROUTE) and fill the kernel's table of neighbours, which
    all networks of the machine share.
    """
    output: list[netlink.Rule] = [
        (*leaves_by("lo"), *verdict(ACCEPT)),
        (*netlink.goes_by(GATEWAY), *verdict(ACCEPT)),
    ]
    netlink.write_table("windlass", {"output": output}, closed=["output"], is_first=True)


def _claim(numbers: range, create: Callable[[int], object], *, first: int | None = None) -> int:
    """Returns a free number. Claims it by calling `create`, which the kernel refuses for a number in use."""
    first = int.from_bytes(os.urandom(4), "big") if first is None else first
    for step in range(len(numbers)):
        number = numbers[(first + step) % len(numbers)]
        with suppress(FileExistsError):
            create(number)
            return number
    raise OSError("no network is left")


def _close_ipv6() -> None:
    _write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1")


def _forward_packets() -> None:
    """Enables packet forwarding in this network."""
    with open(_FORWARDING) as file:  # noqa: PTH123
        if file.read().strip() == "1":
            return
    _write(_FORWARDING, "1")


def _write(path: str, text: str) -> None:
    with suppress(FileNotFoundError), open(path, "w") as file:  # noqa: PTH123 (missing without IPv6)
        file.write(text)
