"""Host names of public ports: what a service asks for, and what it gets instead when that is taken. Pure."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator

from windlass.engines.workload import WorkloadPort

LONGEST = 63
_NOT_IN_LABELS = re.compile(r"[^a-z0-9]+")
USUAL = {80, 443}
"""A port that asks for HTTP on one of these means the gateway."""
BY_NAME = frozenset({"HTTP", "GRPC"})
"""Protocols that are reached through the gateway."""


def label(*words: str, longest: int = LONGEST) -> str:
    """Returns a label of a host name: `shop-api-production` for `Shop API` and `Production`. Different words
    may give the same label, so a label must be reserved."""
    plain = unicodedata.normalize("NFKD", "-".join(words)).encode("ascii", "ignore").decode().lower()
    return _NOT_IN_LABELS.sub("-", plain).strip("-")[:longest].strip("-") or "service"


def candidates(wish: str, id: str) -> Iterator[str]:
    """Yields the requested label, then labels with the id of the service, endlessly."""
    yield wish
    for number in itertools.count(-1):
        tail = {-1: id[:8], 0: id}.get(number, f"{id}-{number}")
        yield f"{label(wish, longest=LONGEST - len(tail) - 1)}-{tail}"


def is_candidate(name: str, wish: str, id: str) -> bool:
    """Returns whether a label was derived from this requested label. For rows that do not record their
    wish."""
    return name in itertools.islice(candidates(wish, id), 3) or name.endswith(f"-{id}")


def key_of(port: WorkloadPort) -> str:
    """Returns the key of a host name: empty for the default port, which has the service's own name."""
    return "" if port.default else port.name


def by_name(port: WorkloadPort) -> bool:
    """Returns whether a port is reached through the gateway."""
    return port.public and port.protocol in BY_NAME


def listens(port: WorkloadPort) -> int | None:
    """Returns the port of the machine that is asked for, beside the gateway or instead of it."""
    if not port.public or port.protocol == "UDP":
        return None
    if by_name(port):
        return None if port.external in USUAL else port.external
    return port.external or port.internal
