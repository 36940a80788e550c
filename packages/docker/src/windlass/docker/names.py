"""Names and labels of Windlass's objects on the engine."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Final

from windlass.engines.workload import Volume, Workload

INSTALLATION_LABEL: Final = "windlass.installation"
SERVICE_LABEL: Final = "windlass.service"
ENVIRONMENT_LABEL: Final = "windlass.environment"
GENERATION_LABEL: Final = "windlass.generation"
INDEX_LABEL: Final = "windlass.index"
DEPLOYMENT_LABEL: Final = "windlass.deployment"
ALIAS_LABEL: Final = "windlass.alias"
"""Label with the plain host name of the service in its network."""
POD_LABEL: Final = "windlass.pod"
ORGANIZATION_LABEL: Final = "windlass.organization"
"""Label with the organization's id. The numbers of an organization's networks and host ports are limited."""
PORTS_LABEL: Final = "windlass.ports"
"""Label with a container's host ports. The engine's lists omit the ports of stopped containers."""
RESTARTED_LABEL: Final = "windlass.restarted"
"""Label of containers that Windlass starts again when they end."""

GROUP_LABEL_PREFIX: Final = "windlass.label."
"""Begins the labels of groups, so that no program of the operator that obeys labels, such as a proxy, takes
them for its own."""

ALL_LABELS: Final = (
    INSTALLATION_LABEL,
    SERVICE_LABEL,
    ENVIRONMENT_LABEL,
    GENERATION_LABEL,
    INDEX_LABEL,
    DEPLOYMENT_LABEL,
    ALIAS_LABEL,
    POD_LABEL,
    ORGANIZATION_LABEL,
    PORTS_LABEL,
    RESTARTED_LABEL,
)
"""All labels of an instance. Other containers get them with empty values, because they would otherwise
inherit them from their image."""

_UNIQUE_PREFIX_PATTERN: Final = re.compile(r"z[0-9a-f]{8}-")
_MAX_LABEL_LENGTH: Final = 63
"""Maximum length of a host name label (RFC 1035)."""


def name_prefix(installation: str) -> str:
    """Returns the name prefix of an installation, because several installations may share an engine."""
    return "wdl-" + hashlib.sha256(installation.encode()).hexdigest()[:8]


def container(installation: str, service: str, generation: int, index: int) -> str:
    """Returns the name of a container. Names are unique on an engine, so an instance cannot exist twice."""
    return f"{name_prefix(installation)}-{service}-{generation}-{index}"


def network(installation: str, environment: str) -> str:
    return f"{name_prefix(installation)}-env-{environment[:8]}"


def volume(installation: str, service: str, wanted: Volume) -> str:
    plain = re.sub(r"[^A-Za-z0-9_.-]", "-", wanted.name)
    if plain != wanted.name:  # different names must not result in the same volume
        plain += "-" + hashlib.sha256(wanted.name.encode()).hexdigest()[:8]
    return f"{name_prefix(installation)}-{service}-{plain}"


def volume_files(installation: str, service: str) -> str:
    """Returns the name of the container with which `volume_files` prepares the volumes of a service."""
    return f"{name_prefix(installation)}-{service}-volumes"


def start_lock(installation: str, key: str) -> str:
    """Returns the name of the volume that stands for a lock of `start_locks`."""
    return f"{name_prefix(installation)}-starts-{key}"


def host_name(name: str, longest: int = _MAX_LABEL_LENGTH) -> str:
    """Converts a user's name to a host name: `Café Shop` becomes `cafe-shop`."""
    ascii_only = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", ascii_only).strip("-")[:longest].strip("-") or "service"


def unique_name(service: str, name: str) -> str:
    """Returns a host name that is unique in the network, even if service names are similar."""
    prefix = f"z{service[:8]}-"
    return prefix + host_name(name, _MAX_LABEL_LENGTH - len(prefix))


def aliases(workload: Workload) -> Sequence[str]:
    """Returns the host names of a service in its network. Skips a plain name that could be the unique name of
    another service."""
    plain = (
        []
        if not workload.known_as or _UNIQUE_PREFIX_PATTERN.match(workload.known_as)
        else [workload.known_as]
    )
    return (unique_name(workload.service, workload.name), *plain)


def pod(workload: Workload, index: int) -> str:
    tail = f"-{workload.generation}-{index}"
    return host_name(workload.name, _MAX_LABEL_LENGTH - len(tail)) + tail


def labels(installation: str, workload: Workload, index: int) -> dict[str, str]:
    return {
        INSTALLATION_LABEL: installation,
        SERVICE_LABEL: workload.service,
        ENVIRONMENT_LABEL: workload.environment,
        GENERATION_LABEL: str(workload.generation),
        INDEX_LABEL: str(index),
        DEPLOYMENT_LABEL: workload.deployment,
        ALIAS_LABEL: host_name(workload.name),
        POD_LABEL: pod(workload, index),
        ORGANIZATION_LABEL: workload.org,
    }


def instances(**labels: str) -> dict[str, list[str]]:
    """Returns filters that match instances, but not containers that users create manually from built images:
    these inherit the image's labels, which lack the pod label."""
    query = filters(**labels)
    return {**query, "label": [*query["label"], POD_LABEL]}


def filters(**labels: str) -> dict[str, list[str]]:
    """Returns filters for objects with all these labels. The name `service` means `windlass.service`."""
    return {"label": [f"windlass.{name}={value}" for name, value in labels.items()]}


def is_instance(installation: str, name: str, labels: Mapping[str, Any]) -> bool:
    """Returns whether a container's name matches its labels. Build steps can have forged labels, because a
    Dockerfile may set any labels, but the engine chooses their names."""
    try:
        return name == container(installation, *identity(labels))
    except (KeyError, ValueError):
        return False


def identity(labels: Mapping[str, Any]) -> tuple[str, int, int]:
    return str(labels[SERVICE_LABEL]), int(labels[GENERATION_LABEL]), int(labels[INDEX_LABEL])
