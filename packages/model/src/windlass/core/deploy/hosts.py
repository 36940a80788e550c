"""Host names of public ports: the preferred name, and alternatives if that name is taken. Pure."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator

from windlass.engines.workload import WorkloadPort

MAX_LABEL_LENGTH = 63
_NOT_IN_LABELS_PATTERN = re.compile(r"[^a-z0-9]+")
GATEWAY_PORTS = {80, 443}
"""Public HTTP ports with one of these numbers are served by the gateway."""
BY_NAME = frozenset({"HTTP", "GRPC"})
"""Protocols that the gateway forwards."""


def label(*words: str, longest: int = MAX_LABEL_LENGTH) -> str:
    """Returns a host name label: `shop-api-production` for `Shop API` and `Production`. Different words may
    result in the same label, so labels have to be reserved."""
    plain = unicodedata.normalize("NFKD", "-".join(words)).encode("ascii", "ignore").decode().lower()
    return _NOT_IN_LABELS_PATTERN.sub("-", plain).strip("-")[:longest].strip("-") or "service"


def candidates(wish: str, id: str) -> Iterator[str]:
    """Yields the preferred label, then an endless series of labels with the service's id."""
    yield wish
    for number in itertools.count(-1):
        tail = {-1: id[:8], 0: id}.get(number, f"{id}-{number}")
        yield f"{label(wish, longest=MAX_LABEL_LENGTH - len(tail) - 1)}-{tail}"


def is_candidate(name: str, wish: str, id: str) -> bool:
    """Returns whether a label is one of the candidates for a preferred label. Used for rows that do not store
    the preferred label."""
    return name in itertools.islice(candidates(wish, id), 3) or name.endswith(f"-{id}")


def key_of(port: WorkloadPort) -> str:
    """Returns the key of a port's host name: empty for the default port, which uses the service's own
    name."""
    return "" if port.default else port.name


def by_name(port: WorkloadPort) -> bool:
    """Returns whether the gateway forwards to the port."""
    return port.public and port.protocol in BY_NAME


def listens(port: WorkloadPort) -> int | None:
    """Returns the port to open on the machine, in addition to or instead of the gateway; None if there is
    none."""
    if not port.public or port.protocol == "UDP":
        return None
    if by_name(port):
        return None if port.external in GATEWAY_PORTS else port.external
    return port.external or port.internal
