"""Types of list entries in answers of a Docker engine, with only the fields that are used.

Lists may be long, and the engine may be controlled by an organization. Other fields are skipped during
decoding, so that they cost neither time nor memory.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, Final, NotRequired, TypedDict

from msgspec import Meta, Struct

from windlass.docker import names
from windlass.engines.workload import Presence

MAX_LIST_LENGTH: Final = 10_000
_NETWORK_ID: Final = re.compile(r"[0-9a-f]{64}")
MAX_MEASURED_VOLUMES: Final = 200_000
"""Maximum number of volumes with sizes. Those without names are listed, too, and images may declare many."""


class NetworkChoice(TypedDict):
    NetworkMode: NotRequired[str]


class JoinedNetworks(TypedDict):
    Networks: NotRequired[dict[str, JoinedNetwork | None] | None]


class JoinedNetwork(TypedDict):
    NetworkID: NotRequired[str]


class ContainerSummary(TypedDict):
    Id: str
    Names: list[str] | None
    Labels: dict[str, str]
    State: str
    HostConfig: NotRequired[NetworkChoice]
    NetworkSettings: NotRequired[JoinedNetworks]


class NetworkSummary(TypedDict):
    Id: str
    Created: str
    Labels: dict[str, str] | None


class VolumeSummary(TypedDict):
    Name: str
    Labels: dict[str, str] | None


class VolumeList(TypedDict):
    Volumes: Annotated[list[VolumeSummary], Meta(max_length=MAX_LIST_LENGTH)] | None


class OwnVolumeList(TypedDict):
    """The volumes of the installation's own engine, which all organizations share."""

    Volumes: Annotated[list[VolumeSummary], Meta(max_length=MAX_MEASURED_VOLUMES)] | None


class VolumeSize(TypedDict):
    Size: int


class MeasuredVolume(VolumeSummary):
    Mountpoint: str
    UsageData: VolumeSize | None


class MeasuredVolumes(TypedDict):
    Volumes: Annotated[list[MeasuredVolume], Meta(max_length=MAX_MEASURED_VOLUMES)] | None


class MachineSummary(Struct):
    """Facts about the engine's machine, from `/info`."""

    ID: str = ""
    NCPU: int = 0
    MemTotal: int = 0


ContainerList = Annotated[list[ContainerSummary], Meta(max_length=MAX_LIST_LENGTH)]
NetworkList = Annotated[list[NetworkSummary], Meta(max_length=MAX_LIST_LENGTH)]


def has_labels(labels: Mapping[str, str] | None, required_labels: Mapping[str, str]) -> bool:
    """Returns whether an object has all these labels. The name `service` means `windlass.service`."""
    return all((labels or {}).get(f"windlass.{name}") == value for name, value in required_labels.items())


def container_name(container: ContainerSummary) -> str:
    """Returns the name of a container. The list may include additional aliases, which contain a further
    slash."""
    return min(container["Names"] or [container["Id"]], key=len).lstrip("/")


def instances_of(installation: str, containers: Iterable[ContainerSummary]) -> list[ContainerSummary]:
    """Returns the containers of a list that are instances of an installation."""
    return [
        each for each in containers if names.is_instance(installation, container_name(each), each["Labels"])
    ]


def generation_of(container: ContainerSummary) -> int:
    return names.identity(container["Labels"])[1]


def presence_of(container: ContainerSummary) -> Presence:
    service, generation, _ = names.identity(container["Labels"])
    is_running = container["State"] == "running" and not is_cut_off(container)
    return Presence(service, generation, is_running)


def is_cut_off(container: Mapping[str, Any]) -> bool:
    """Returns whether a running container has lost the network that it was created with. Nobody can reach
    it then, and it reaches nobody. Accepts an entry of a list, or a description."""
    chosen = (container.get("HostConfig") or {}).get("NetworkMode") or ""
    if not _NETWORK_ID.fullmatch(chosen):
        return False
    joined = (container.get("NetworkSettings") or {}).get("Networks") or {}
    # A container that is being started may have the network, but not its id yet.
    return all(
        name != chosen and network is not None and network.get("NetworkID") not in ("", chosen)
        for name, network in joined.items()
    )


def is_chosen(container: ContainerSummary, generation: int | None, indexes: Collection[int]) -> bool:
    _, its_generation, its_index = names.identity(container["Labels"])
    return generation in (None, its_generation) and its_index in indexes
