"""Names under which public ports are found, and how they are written. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from windlass.core.runtime import PortWanted

LONGEST = 63
_NOT_IN_LABELS = re.compile(r"[^a-z0-9]+")
USUAL = {80, 443}
"""Who wants HTTP on these means the gateway."""


def label(*words: str, longest: int = LONGEST) -> str:
    """`Shop API`, `Production` → `shop-api-production`: a label of a host name."""
    plain = unicodedata.normalize("NFKD", "-".join(words)).encode("ascii", "ignore").decode().lower()
    return _NOT_IN_LABELS.sub("-", plain).strip("-")[:longest].strip("-") or "service"


def names(service: str, environment: str, id: str) -> Iterator[str]:
    """Names for a service, the nicest first; the last is nobody else's."""
    yield label(service, environment)
    short = id[:8]
    yield f"{label(service, environment, longest=LONGEST - len(short) - 1)}-{short}"
    yield f"{label(service, longest=LONGEST - len(id) - 1)}-{id}"


def host(port: PortWanted, name: str, domain: str) -> str:
    """The default port has the service's own name; others put theirs before it."""
    whole = name if port.default else label(port.name, name)
    return f"{whole}.{domain}".lower()


def by_name(port: PortWanted) -> bool:
    """Whether it is reached through the gateway."""
    return port.public and port.protocol in {"HTTP", "GRPC"}


def listens(port: PortWanted) -> int | None:
    """The port of the machine that it asks for, beside the gateway or instead of it."""
    if not port.public or port.protocol == "UDP":
        return None
    if by_name(port):
        return None if port.external in USUAL else port.external
    return port.external or port.internal
