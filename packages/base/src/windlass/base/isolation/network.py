"""Networks of services: each instance has one of its own, and reaches what its environment shares.

    instance --- hub of its environment --- trunk of the installation --- the machine

A *hub* joins the instances of one environment, and a *trunk* the hubs of one installation with the machine.
Each is a network namespace that a sleeping process holds open, so it ends with that process.
Windlass connects to instances through sockets that it opens inside their networks. Instances reach other
instances of their environment and public addresses, but neither other environments nor this machine.

Uses the standard library alone, because the launcher imports it.
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
GATE: Final = "198.18.0.1"
"""The address of each hub, as its instances see it."""
SERVICES: Final = 32_767
"""The number of services that can have an address in their environment."""
_INSTANCES: Final = range(2, 32_768)
_LINKS: Final = 16_384
_TRUNKS: Final = 128
HUB: Final = ".hub"
"""The end of the name of the file of a hub's holder, beside that of its trunk."""
UP: Final = "up"
"""The interface of a hub or trunk that leads outwards."""
_MACHINE: Final = "windlass{0}"
"""The interface of this machine that leads to a trunk, with the first free number."""
_OF_MACHINE: Final = re.compile(r"windlass[0-9]+")
_TCP, _UDP, _DNS = 6, 17, 53
_GET_ADDRESS: Final = 0x8915
"""The ioctl request for the address of an interface."""
NO_FORWARDING: Final = "the kernel forwards no packets (net.ipv4.ip_forward)"
_FORWARDING: Final = "/proc/sys/net/ipv4/ip_forward"
_UDP_PORTS: Final = range(61_000, 65_536)
"""UDP source ports, above the ephemeral ports of Linux and the ports that operators choose."""
_UDP_PORTS_OF_HUB, _UDP_PORTS_OF_STEPS = 512, 256
"""Maximum number of UDP source ports of one environment, and of its build steps, with pasta."""
SHARES: Final = 8
"""One organization may have at most this fraction (one part in so many) of all connections."""
ENVIRONMENTS: Final = 16
"""The total limit of connections, as a multiple of the limit of an environment."""
_TABLE: Final = "/proc/sys/net/netfilter/nf_conntrack_max"
_SHARES_OF_UDP_PORTS: Final = 4
_ALL, _SENT = "all", "sent"
"""Names of the sets that count connections of each organization: all connections, and those by UDP."""
_IPTABLES: Final = ("/usr/sbin/iptables", "/sbin/iptables", "/usr/local/sbin/iptables")


class CellNetwork(TypedDict):
    """The network of a cell. Data for the launcher and for the record of an instance."""

    kind: Literal["instance", "hub", "trunk", "exit"]
    """`exit` is not a network: its process runs pasta, which connects a trunk to the machine."""
    outer: NotRequired[str]
    """The holder of the hub of an instance, or of the trunk of a hub, as `str(NamespaceHolder)`."""
    socket_server: NotRequired[str]
    """For the trunk of an ordinary user: the path at which its holder serves sockets (socket_server.py). All
    networks then belong to a user namespace that the trunk makes."""
    program: NotRequired[str]
    """The path of pasta, for an exit."""
    service: NotRequired[str]
    """The address of the service, if its instance answers there itself."""
    joins: NotRequired[bool]
    """False for a hub whose instances must not reach each other."""
    hosts: NotRequired[str]
    """The hosts file that an instance sees, with the names of others."""
    resolvers: NotRequired[list[str]]
    """DNS servers, which are reached at any address."""
    open: NotRequired[list[str]]
    """Networks that may be reached although they are inside `closed` ones."""
    closed: NotRequired[list[str]]
    """Networks that may not be reached."""
    most: NotRequired[int]
    """Maximum number of open connections to public networks. The machine tracks all of them, in a table of
    limited size."""
    group: NotRequired[int]
    """For a hub: the number of its organization."""
    most_of_group: NotRequired[int]
    """For a trunk: connections to public networks that one organization may have open at once."""
    ports: NotRequired[list[int]]
    """TCP ports of this machine that may be reached: those of the gateway and the API."""


class NamespaceHolder(NamedTuple):
    """A process that holds a network namespace open. Its start time distinguishes it from a later process
    with the same id."""

    pid: int
    start: int
    socket_server: str = ""
    """The path of the socket server for this network, if the server may not enter the network itself."""

    @classmethod
    def read(cls, text: str) -> NamespaceHolder:
        process, _, socket_server = text.partition("@")
        pid, _, start = process.partition(".")
        return cls(int(pid), int(start), socket_server)

    def __str__(self) -> str:
        return f"{self.pid}.{self.start}" + (f"@{self.socket_server}" if self.socket_server else "")

    def open(self, name: Literal["net", "user"] = "net") -> int:
        """Returns a descriptor of the network, or of the user namespace that the holder is in. Raises
        ProcessLookupError if the process has ended."""
        try:
            network = os.open(f"/proc/{self.pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise ProcessLookupError(f"the process {self.pid} has ended") from None
        if start_of(self.pid) != self.start:
            os.close(network)
            raise ProcessLookupError(f"the process id {self.pid} belongs to another process now")
        return network


def start_of(pid: int) -> int:
    """Returns the start time of a process, in ticks since boot; 0 if there is no such process."""
    try:
        # Without a buffer: each new connection to an instance asks this.
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123
            return int(file.read(2048).rpartition(b")")[2].split(None, 20)[19])
    except (OSError, IndexError):
        return 0


def resolvers() -> list[str]:
    """Returns the DNS servers of this machine that can be reached from another network. If the machine uses a
    local resolver, these are its upstream servers, where systemd lists them."""
    for path in ("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"):
        with suppress(OSError), open(path) as file:  # noqa: PTH123
            words = [line.split() for line in file]
            servers = [line[1] for line in words if line[:1] == ["nameserver"] and len(line) > 1]
            if found := [server for server in servers if ":" not in server and not server.startswith("127.")]:
                return found
    return []


def _address_of_trunk(number: int, last: int) -> str:
    """Returns an address of the range of a trunk: the machine has 0, the trunk 1, and organizations share
    those from 128 on, so that the gateway and the API can distinguish them."""
    return _offset("198.19.0.0", number << 8 | last)


class ConnectionLimits(NamedTuple):
    """Connections to public networks that may be open at once."""

    environment: int
    steps: int
    """The limit of its build steps, in addition; a quarter of the organization's limit stays for others."""
    organization: int
    everyone: int

    @classmethod
    def of(cls, environment: int) -> ConnectionLimits:
        """Returns the limits for this many connections of one environment, lowered so that all together use
        half of the machine's table of connections at most, and one half of its organization's."""
        everyone = ENVIRONMENTS * environment
        with suppress(OSError, ValueError), open(_TABLE) as table:  # noqa: PTH123 (absent until it is used)
            everyone = min(everyone, int(table.read()) // 2)
        organization = everyone // SHARES
        environment = min(environment, organization // 2)
        return cls(environment, environment // 2, organization, everyone)


def interface_of_trunk() -> str:
    """Returns the interface of the machine that leads to the trunk in which this process is."""
    return _MACHINE.format(_number_of_trunk())


def _number_of_trunk() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        answer = fcntl.ioctl(asked, _GET_ADDRESS, UP.encode().ljust(40, b"\0"))
    number = int.from_bytes(answer[20:24], "big") - int.from_bytes(socket.inet_aton("198.19.0.0"), "big")
    return number >> 8


def try_all(*, as_root: bool) -> str:
    """Tries in a child process whether networks can be made. Returns why not, or an empty text."""
    child = os.fork()
    if not child:
        with suppress(BaseException):
            if not as_root:
                _own_user_namespace()
            _try_pair()
            if not as_root:
                _forward()
            os._exit(0)
        os._exit(1)
    if os.waitpid(child, 0)[1]:
        return "the kernel gives no network namespaces, no veth pairs, or no nf_tables with NAT"
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
    masked = [_masked_at_random_port("a"), (*leaves_by("a"), *netlink.source_by_group(GATE)), _masked_at("a")]
    chains = {
        "forward": forward,
        "counted": counted,
        "output": [netlink.goes_by(GATE)],
        "postrouting": masked,
    }
    netlink.write_table("a", chains, groups=[_ALL])


def service_address(number: int) -> str:
    """Returns the address of a service in its environment, by its number from 1 to SERVICES."""
    return _offset("198.18.128.0", number)


def _offset(first: str, number: int) -> str:
    return socket.inet_ntoa((int.from_bytes(socket.inet_aton(first), "big") + number).to_bytes(4, "big"))


@contextmanager
def inside(network: int) -> Iterator[None]:
    """Moves this thread to another network, such as to open sockets there. The block must not await."""
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
    """Moves this process from the network of the machine to a new one, and connects that.

    For the trunk of an ordinary user, which cannot return to the machine's network, returns a connection to
    the kernel about routes of the machine."""
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
    """Connects the new network of this process. `parent`: the network that it was in before."""
    with Netlink() as here:
        here.raise_link("lo")
        here.add_neighbour("lo", "0.0.0.0", bytes(6))  # noqa: S104 (the kernel has one entry for all of lo)
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
    _forward()
    _write_trunk_table(network)


def _is_routed(trunk: CellNetwork) -> bool:
    """Returns whether a trunk has an interface of the machine. Otherwise pasta makes one."""
    return "socket_server" not in trunk


def _write_trunk_table(network: CellNetwork) -> None:
    masked = [_masked_at(UP)]
    if _is_routed(network):
        first = _address_of_trunk(_number_of_trunk(), 128)
        masked.insert(0, (*leaves_by(UP), *netlink.source_by_group(first)))
    else:
        masked.insert(0, _masked_at_random_port(UP))
    forward: list[netlink.Rule] = [
        (*arrives_by(UP), *netlink.is_known(), *verdict(ACCEPT)),
        (*arrives_by(UP), *verdict(DROP)),
        (*leaves_by(UP, inverted=True), *verdict(DROP)),
        *_closed(network),
        verdict(ACCEPT),
    ]
    by_group = [_limit_of_group(_ALL, network.get("most_of_group", 0))]
    if not _is_routed(network):
        most = len(_UDP_PORTS) // _SHARES_OF_UDP_PORTS
        by_group.append((*netlink.has_protocol(_UDP), *_limit_of_group(_SENT, most)))
    netlink.write_table(
        "windlass",
        {"forward": forward, "counted": [*by_group, *_limit(network)], "postrouting": masked},
        closed=["forward"],
        groups=[_ALL, _SENT],
    )


def _closed(network: CellNetwork) -> list[netlink.Rule]:
    """Returns the rules for packets that leave outwards: refuses those to closed networks."""
    passed = [*_queries(network), *(netlink.goes_to(to) for to in network.get("open", []))]
    closed = [netlink.goes_to(to) for to in network.get("closed", [])]
    return [
        *((*leaves_by(UP), *rule, *verdict(ACCEPT)) for rule in passed),
        *((*leaves_by(UP), *rule, *netlink.refuse()) for rule in closed),
    ]


def _connect_machine(network: CellNetwork, machine: int) -> None:
    own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    with inside(machine):
        with Netlink() as there:
            # From the first one on, so that what a trunk of the same number has left is replaced.
            pair = lambda number: there.make_pair(_MACHINE.format(number), UP, own)  # noqa: E731
            number = _claim(range(_TRUNKS), pair, first=0)
            name = _MACHINE.format(number)
            ours, theirs = (_address_of_trunk(number, last) for last in (0, 1))
            there.add_address(name, ours, 31)
            there.raise_link(name)
            there.add_neighbour(name, theirs, netlink.INNER)
            there.route(_address_of_trunk(number, 128), 25, name, via=theirs)
        _forward()
        _write_machine_table(number, network)
        _iptables(name, "-I")
    with Netlink() as here:
        here.add_address(UP, theirs, 31)
        here.raise_link(UP)
        here.add_neighbour(UP, ours, netlink.OUTER)
        here.route("0.0.0.0", 0, UP, via=ours)  # noqa: S104 (a route)


def guard_own_addresses(network: CellNetwork, addresses: Iterable[str]) -> None:
    """Closes the addresses of the machine to a trunk that pasta connects, as `_write_machine_table` does
    as root."""
    allowed = [(*rule, *verdict(ACCEPT)) for rule in _open_on_machine(network)]
    closed = [(*netlink.goes_to(address), *netlink.refuse()) for address in addresses]
    netlink.write_table("machine", {"forward": [*allowed, *closed]})


def _open_on_machine(network: CellNetwork) -> list[netlink.Rule]:
    """Returns the conditions of packets that may reach the machine itself."""
    return [
        *(netlink.goes_to_port(_TCP, port) for port in network.get("ports", [])),
        *_queries(network),
        *(netlink.goes_to(to) for to in network.get("open", [])),
    ]


def _queries(network: CellNetwork) -> list[netlink.Rule]:
    """Returns the conditions of packets to DNS servers."""
    return [
        (*netlink.goes_to(server), *netlink.goes_to_port(protocol, _DNS))
        for server in network.get("resolvers", [])
        for protocol in (_UDP, _TCP)
    ]


def _write_machine_table(number: int, network: CellNetwork) -> None:
    """Writes the rules by which packets from a trunk may reach other machines, and some ports of this one."""
    name, source = _MACHINE.format(number), f"{_address_of_trunk(number, 0)}/24"
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


def renew_trunk(network: CellNetwork, machine: int | None) -> None:
    """Writes the rules of the trunk in which this process is again. `machine`: the network of the machine;
    None for the trunk of an ordinary user."""
    _write_trunk_table(network)
    if machine is not None:
        number = _number_of_trunk()
        with inside(machine):
            _write_machine_table(number, network)


def renew_hub(network: CellNetwork, holder: NamespaceHolder) -> None:
    """Writes the rules of a hub again. Called in its trunk. Does nothing for a hub that has ended."""
    with suppress(ProcessLookupError):
        hub = holder.open()
        try:
            with inside(hub):
                _write_hub_table(network)
        finally:
            os.close(hub)


def close_trunk(name: str) -> None:
    """Removes the rules for a trunk that has ended. Called in the network of the machine."""
    netlink.remove_table(name)
    _iptables(name, "-D")


def left_trunks() -> list[str]:
    """Returns the interfaces of trunks that were killed, of any installation, for which this machine still
    has a table; none if this user may not list tables."""
    try:
        found = [name for name in netlink.tables() if _OF_MACHINE.fullmatch(name)]
    except OSError:
        return []
    present = {name for _, name in socket.if_nameindex()}
    return [name for name in found if name not in present]


def close_left_trunks() -> None:
    for name in left_trunks():
        with suppress(OSError):
            close_trunk(name)


def _iptables(name: str, change: Literal["-I", "-D"]) -> None:
    """Adds or removes rules that let packets of a trunk pass, since Docker and firewalls drop forwarded
    packets. Does nothing where there is no iptables."""
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
        number = _claim(range(_LINKS), lambda number: there.make_pair(f"h{number}", UP, own, group))
        name, (outer, inner) = f"h{number}", (_offset("198.19.128.0", 2 * number + end) for end in (0, 1))
        there.add_address(name, outer, 31)
        there.raise_link(name)
        there.add_neighbour(name, inner, netlink.INNER)
    _close_ipv6()
    with Netlink() as here:
        here.add_address("lo", GATE, 32)
        here.own(service_address(0), 17)
        here.add_address(UP, inner, 31)
        here.raise_link(UP)
        here.add_neighbour(UP, outer, netlink.OUTER)
        here.route("0.0.0.0", 0, UP, via=outer)  # noqa: S104 (a route)
    _write("/proc/sys/net/ipv4/conf/all/send_redirects", "0")
    _forward()
    _write_hub_table(network)


def _write_hub_table(network: CellNetwork) -> None:
    forward: list[netlink.Rule] = []
    if not network.get("joins", True):
        between = (*arrives_by(UP, inverted=True), *leaves_by(UP, inverted=True))
        forward.append((*between, *verdict(DROP)))
    # Here as well as in the trunk: what is refused must not count there.
    forward += _closed(network)
    counted = _limit(network)
    if NamespaceHolder.read(network["outer"]).socket_server:
        most = netlink.exceeds(_UDP_PORTS_OF_HUB if network.get("joins", True) else _UDP_PORTS_OF_STEPS)
        counted.append((*leaves_by(UP), *netlink.has_protocol(_UDP), *most, *verdict(DROP)))
    chains = {"forward": forward, "counted": counted, "postrouting": [_masked_at(UP)]}
    netlink.write_table("windlass", chains)


def _limit(network: CellNetwork) -> list[netlink.Rule]:
    most = network.get("most")
    return [(*leaves_by(UP), *netlink.exceeds(most), *verdict(DROP))] if most else []


def _limit_of_group(groups: str, most: int) -> netlink.Rule:
    return (*leaves_by(UP), *netlink.exceeds_in_group(groups, most), *verdict(DROP))


def _masked_at(name: str) -> netlink.Rule:
    return (*leaves_by(name), *netlink.masquerade())


def _masked_at_random_port(name: str) -> netlink.Rule:
    """Randomizes the source ports of UDP. pasta binds them on the machine, so no instance may choose one."""
    return (*leaves_by(name), *netlink.has_protocol(_UDP), *netlink.masquerade(_UDP_PORTS))


def _arrange_instance(network: CellNetwork) -> None:
    own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    with inside(NamespaceHolder.read(network["outer"]).open()), Netlink() as there:
        number = _claim(_INSTANCES, lambda number: there.make_pair(f"i{number}", "eth0", own))
        name, address = f"i{number}", _offset("198.18.0.0", number)
        there.raise_link(name)
        there.add_neighbour(name, address, netlink.INNER)
        there.route(address, 32, name)
        if network.get("service"):
            there.add_neighbour(name, network["service"], netlink.INNER)
            # Before the addresses that the hub has as its own. It goes with the interface.
            there.route(network["service"], 32, name, table=netlink.LOCAL_TABLE)
    _write("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", "1")
    _write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")  # the ports are its own
    with Netlink() as here:
        here.add_address("eth0", address, 32)
        if network.get("service"):
            here.add_address("eth0", network["service"], 32)
        here.raise_link("eth0")
        here.add_neighbour("eth0", GATE, netlink.OUTER)
        here.route(GATE, 32, "eth0")
        here.route("0.0.0.0", 0, "eth0", via=GATE)  # noqa: S104 (a route)
        here.route("224.0.0.0", 4, "lo")  # multicast reaches no other instance
    _write_instance_table()


def _write_instance_table() -> None:
    """Lets packets leave only through the hub. A program may ask the kernel to send past all routers
    (SO_DONTROUTE), and would fill the table of neighbours, which all networks of the machine share."""
    output: list[netlink.Rule] = [
        (*leaves_by("lo"), *verdict(ACCEPT)),
        (*netlink.goes_by(GATE), *verdict(ACCEPT)),
    ]
    netlink.write_table("windlass", {"output": output}, closed=["output"], is_first=True)


def _claim(numbers: range, make: Callable[[int], object], *, first: int | None = None) -> int:
    """Returns a free number, by making something with that number: the kernel refuses a second one."""
    first = int.from_bytes(os.urandom(4), "big") if first is None else first
    for step in range(len(numbers)):
        number = numbers[(first + step) % len(numbers)]
        with suppress(FileExistsError):
            make(number)
            return number
    raise OSError("no network is left")


def _close_ipv6() -> None:
    _write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1")


def _forward() -> None:
    """Switches on forwarding in this network."""
    with open(_FORWARDING) as file:  # noqa: PTH123
        if file.read().strip() == "1":
            return
    _write(_FORWARDING, "1")


def _write(path: str, text: str) -> None:
    with suppress(FileNotFoundError), open(path, "w") as file:  # noqa: PTH123 (a kernel without IPv6)
        file.write(text)
