"""What is run, and what is seen of it: the words between the reconciler, the builders and the engines."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

from msgspec import Struct, field


class Artifact(Struct, frozen=True, kw_only=True):
    """What a builder made of a commit: enough to start it as often as needed without building again."""

    kind: Literal["native", "image"]
    ref: str
    """A folder with the working copy, or the id of an image."""
    commit: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    """Below the folder, or inside the image."""
    ports: tuple[int, ...] = ()
    """Ports that it says it listens on."""


class ProbeKind(StrEnum):
    TCP = "tcp"
    HTTP = "http"
    EXEC = "exec"


class Probe(Struct, frozen=True, kw_only=True):
    """How to tell that an instance is well."""

    kind: ProbeKind
    port: int = 0
    path: str = "/"
    command: tuple[str, ...] = ()
    initial_delay: float = 0.0
    period: float = 1.0
    timeout: float = 5.0
    successes: int = 1
    failures: int = 9


class PortWanted(Struct, frozen=True, kw_only=True):
    name: str
    internal: int
    protocol: Literal["HTTP", "GRPC", "TCP", "UDP"] = "HTTP"
    public: bool = False
    external: int | None = None
    path: str = "/"


class Wanted(Struct, frozen=True, kw_only=True):
    """One generation of one service, as it should run."""

    service: str
    family: str
    name: str
    environment: str
    generation: int
    """The number of the deployment: a later one replaces an earlier one."""
    deployment: str
    artifact: Artifact
    command: tuple[str, ...] = ()
    """Instead of the artifact's own."""
    variables: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    cpu: int = 500
    memory: int = 512
    ports: tuple[PortWanted, ...] = ()
    grace: float = 10.0
    """Seconds between the request to stop and the end."""


class Phase(StrEnum):
    RUNNING = "running"
    EXITED = "exited"


class Instance(Struct, frozen=True, kw_only=True):
    """One running copy, as the engine sees it."""

    id: str
    service: str
    generation: int
    index: int
    phase: Phase
    address: str = "127.0.0.1"
    ports: Mapping[int, int] = field(default_factory=dict)
    """The port inside to the port that reaches it at `address`."""
    exit_code: int | None = None
    reason: str = ""
    restarts: int = 0
    started_at: int = 0
