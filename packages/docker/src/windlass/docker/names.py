"""Names of our objects in the engine, and the labels that find them."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Final

from windlass.engines.workload import Volume, Workload

INSTALLATION: Final = "windlass.installation"
SERVICE: Final = "windlass.service"
ENVIRONMENT: Final = "windlass.environment"
GENERATION: Final = "windlass.generation"
INDEX: Final = "windlass.index"
DEPLOYMENT: Final = "windlass.deployment"
ALIAS: Final = "windlass.alias"
"""The plain name under which the service is found in its network."""
POD: Final = "windlass.pod"
ORGANIZATION: Final = "windlass.organization"
"""Each organization has a bounded number of networks, and of ports of the machine."""
PORTS: Final = "windlass.ports"
"""The ports of the machine that a container has: lists of the engine do not show those of stopped ones."""

ALL_LABELS: Final = (
    INSTALLATION,
    SERVICE,
    ENVIRONMENT,
    GENERATION,
    INDEX,
    DEPLOYMENT,
    ALIAS,
    POD,
    ORGANIZATION,
    PORTS,
)
"""The labels of an instance. Other containers get them empty, or they would inherit those of their image."""

_UNIQUE: Final = re.compile(r"z[0-9a-f]{8}-")
_LONGEST: Final = 63
"""Maximum length of a label of a host name: RFC 1035."""


def name_prefix(installation: str) -> str:
    """Returns the beginning of all names of an installation: several may use one engine."""
    return "wdl-" + hashlib.sha256(installation.encode()).hexdigest()[:8]


def container(installation: str, service: str, generation: int, index: int) -> str:
    """Returns the name of a container. The engine allows a name once, so an instance is never there twice."""
    return f"{name_prefix(installation)}-{service}-{generation}-{index}"


def network(installation: str, environment: str) -> str:
    return f"{name_prefix(installation)}-env-{environment[:8]}"


def volume(installation: str, service: str, wanted: Volume) -> str:
    plain = re.sub(r"[^A-Za-z0-9_.-]", "-", wanted.name)
    if plain != wanted.name:  # two names may not become one
        plain += "-" + hashlib.sha256(wanted.name.encode()).hexdigest()[:8]
    return f"{name_prefix(installation)}-{service}-{plain}"


def host_name(name: str, longest: int = _LONGEST) -> str:
    """Returns the host name for a name that users gave: `cafe-shop` for `Café Shop`."""
    ascii_only = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", ascii_only).strip("-")[:longest].strip("-") or "service"


def unique_name(service: str, name: str) -> str:
    """Returns a name that no other service of the network has, however similar their names are."""
    prefix = f"z{service[:8]}-"
    return prefix + host_name(name, _LONGEST - len(prefix))


def aliases(wanted: Workload) -> Sequence[str]:
    """Returns the names of instances in their network, but none that could be the unique name of another
    service."""
    plain = [] if not wanted.known_as or _UNIQUE.match(wanted.known_as) else [wanted.known_as]
    return (unique_name(wanted.service, wanted.name), *plain)


def pod(wanted: Workload, index: int) -> str:
    tail = f"-{wanted.generation}-{index}"
    return host_name(wanted.name, _LONGEST - len(tail)) + tail


def labels(installation: str, wanted: Workload, index: int) -> dict[str, str]:
    return {
        INSTALLATION: installation,
        SERVICE: wanted.service,
        ENVIRONMENT: wanted.environment,
        GENERATION: str(wanted.generation),
        INDEX: str(index),
        DEPLOYMENT: wanted.deployment,
        ALIAS: host_name(wanted.name),
        POD: pod(wanted, index),
        ORGANIZATION: wanted.org,
    }


def instances(**labels: str) -> dict[str, list[str]]:
    """Returns filters that match instances, but not containers that users made of our images by hand:
    containers inherit the labels of their image."""
    query = filters(**labels)
    return {**query, "label": [*query["label"], POD]}


def filters(**labels: str) -> dict[str, list[str]]:
    """Returns filters for objects with all these labels; `service` stands for `windlass.service`."""
    return {"label": [f"windlass.{name}={value}" for name, value in labels.items()]}


def is_instance(installation: str, name: str, labels: Mapping[str, Any]) -> bool:
    """Returns whether a container has the name that follows from its labels. A Dockerfile may set any
    labels, and containers of its steps get them, but the engine chooses their names."""
    try:
        return name == container(installation, *identity(labels))
    except (KeyError, ValueError):
        return False


def identity(labels: Mapping[str, Any]) -> tuple[str, int, int]:
    return str(labels[SERVICE]), int(labels[GENERATION]), int(labels[INDEX])
