"""A hostile program: sends to ever new addresses in ways that pass all routers, so that the kernel looks for
each of them as a neighbour. Prints again and again how many neighbours that has made, as JSON.

The kernel keeps neighbours of all networks of the machine in one table (net.ipv4.neigh.default.gc_thresh3):
in a full one, no network finds a new neighbour. `REACHES`: addresses to which it connects first.
"""

import contextlib
import itertools
import json
import os
import socket
import struct
import time

EACH = 40
"""Addresses of each round and way."""
PERMANENT = 0x80
LAST_PORT = 9
DONTROUTE, BINDTODEVICE, PKTINFO, MULTICAST_IF = 5, 25, 8, 32


def neighbours():
    """Returns the addresses and states of all neighbours in the network of this thread."""
    found, done = [], False
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
        asked = struct.pack("=B11x", socket.AF_INET)
        kernel.send(struct.pack("=IHHII", 16 + len(asked), 30, 0x301, 1, 0) + asked)
        while not done:
            raw, at = kernel.recv(1 << 16), 0
            while at < len(raw) and not done:
                length, kind = struct.unpack_from("=IH", raw, at)
                done = kind == 3
                if not done:
                    (state,) = struct.unpack_from("=H", raw, at + 24)
                    found.append((socket.inet_ntoa(raw[at + 32 : at + 36]), state))
                at += (length + 3) & ~3
    return found


def on_link(sender):
    sender.setsockopt(socket.SOL_SOCKET, BINDTODEVICE, b"eth0\0")
    sender.setsockopt(socket.SOL_SOCKET, DONTROUTE, 1)


def by_option(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        on_link(sender)
        sender.sendto(b"x", (address, LAST_PORT))


def by_flag(address):
    interface = struct.pack("=I8x", socket.if_nametoindex("eth0"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        chosen = (socket.IPPROTO_IP, PKTINFO, interface)
        sender.sendmsg([b"x"], [chosen], socket.MSG_DONTROUTE, (address, LAST_PORT))


def by_ipv6(address):
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sender:
        on_link(sender)
        sender.sendto(b"x", (f"::ffff:{address}", LAST_PORT))


def by_tcp(address):
    with socket.socket() as sender:
        on_link(sender)
        sender.setblocking(False)
        sender.connect_ex((address, LAST_PORT))


def by_multicast(address):
    interface = struct.pack("=8xI", socket.if_nametoindex("eth0"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.IPPROTO_IP, MULTICAST_IF, interface)
        sender.sendto(b"x", (f"239{address[3:]}", LAST_PORT))


def by_router(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", (address, LAST_PORT))


WAYS = {
    "option": by_option,
    "flag": by_flag,
    "ipv6": by_ipv6,
    "tcp": by_tcp,
    "multicast": by_multicast,
    "router": by_router,
}


def made(way, number):
    before = len(neighbours())
    for last in range(EACH):
        with contextlib.suppress(OSError):
            WAYS[way](f"203.{list(WAYS).index(way)}.{number % 256}.{last}")
    return len(neighbours()) - before


def hears_itself():
    """Returns what this program hears of a group that it has joined and sends to."""
    group = "239.255.7.7"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as member:
        member.settimeout(2)
        member.bind((group, 7007))
        joined = socket.inet_aton(group) + socket.inet_aton("0.0.0.0")
        member.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, joined)
        member.sendto(b"heard", (group, 7007))
        return member.recv(100).decode()


def answers():
    for address in json.loads(os.environ.get("REACHES", "[]")):
        with socket.create_connection((address, 7001), 5) as reached:
            yield reached.recv(100).decode()


if __name__ == "__main__":
    first = {"answers": [*answers()], "group": hears_itself(), "neighbours": neighbours()}
    print("first " + json.dumps(first), flush=True)
    for number in itertools.count():
        print("found " + json.dumps({way: made(way, number) for way in WAYS}), flush=True)
        if "ONCE" in os.environ:
            break
        time.sleep(0.5)
