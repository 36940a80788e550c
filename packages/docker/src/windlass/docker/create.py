"""The definition of a container for the engine, with the minimum of privileges for an instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import PurePosixPath
from typing import Any, Final

from windlass.base.oom_score import INSTANCES_SCORE
from windlass.docker import names as words
from windlass.docker.client.image_limits import MAX_COMMAND_BYTES, MAX_VARIABLES_BYTES, why_unfit, written
from windlass.docker.descriptions import MachineSummary
from windlass.docker.host_ports import as_label
from windlass.engines.engine import EngineError, EngineLimits
from windlass.engines.workload import MAX_EXPOSED_PORTS, OUTPUT_FILE, OUTPUT_VARIABLE, Workload

MEGABYTE: Final = 1024 * 1024

# Capabilities that official images need, which start as root and then switch to another user.
CAPABILITIES: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID")

INIT_PROGRAMS: Final = frozenset(
    {"init", "tini", "dumb-init", "docker-init", "catatonit", "s6-svscan", "systemd"}
)

MIN_CPU_MILLI, MIN_MEMORY_MB = 10, 6
"""Docker's minimum limits: CPU in thousandths of a core, and memory in megabytes."""

MAX_PROCESSES: Final = 2048
"""Maximum number of processes and threads: more than an ordinary service needs, and few enough to protect the
machine."""

ETC_COPY: Final[Mapping[str, str]] = {"Type": "volume", "Target": "/etc"}
"""A volume without a name, which the engine fills from the image, and removes with the container."""

SERVER_HOST: Final = "host.docker.internal"
"""The usual host name of the engine's machine in its containers."""

_TEMPORARY_FOLDERS: Final = ("/tmp", "/run", "/var/tmp")  # noqa: S108 (inside of the container)

# Limits of the engine's own log files. Windlass has already read the output when they are rotated.
LOG_CONFIG: Final = {"Type": "json-file", "Config": {"max-size": "16m", "max-file": "3"}}


def container(
    workload: Workload,
    index: int,
    *,
    installation: str,
    network: str,
    aliases: Sequence[str],
    publish: str,
    host_ports: Sequence[int],
    image: Mapping[str, Any],
    runs_once: bool = False,
) -> dict[str, Any]:
    """Returns the body of a request that creates a container. `publish`: the address at which ports are
    published. `host_ports`: a host port for each of `published_ports`. `image`: the metadata of the image."""
    refuse_unfit(workload, image)
    ports = published_ports(workload, runs_once=runs_once)
    labels = words.labels(installation, workload, index)
    body: dict[str, Any] = {
        "Image": workload.artifact.ref,
        "Hostname": words.pod(workload, index),
        "Env": [f"{name}={value}" for name, value in variables(workload).items()],
        "Labels": {
            **_empty_labels(image),
            **{words.GROUP_LABEL_PREFIX + key: value for key, value in workload.labels.items()},
            **labels,
            words.PORTS_LABEL: as_label(host_ports),
            words.RESTARTED_LABEL: "" if runs_once else "yes",
        },
        "ExposedPorts": {port: {} for port in ports},
        # The engine also applies it when the machine shuts down.
        "StopTimeout": ceil(workload.grace),
        # The service's probes decide about its health. An image's health check could run every millisecond,
        # and its resource use would not be limited by the container's limits.
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": {
            "NetworkMode": network,
            "PortBindings": {
                port: [{"HostIp": publish, "HostPort": str(number)}]
                for port, number in zip(ports, host_ports, strict=True)
            },
            # Process 1 of a container must reap orphaned processes, and gets no signals without explicit
            # handlers. Most programs are not written for that, so an init is added.
            "Init": not has_own_init(workload, image),
            "RestartPolicy": {"Name": "no"},  # see `restarts`
            "LogConfig": LOG_CONFIG,
            "Mounts": [
                *(
                    {**mount, "VolumeOptions": {"NoCopy": True}}  # see `volume_files`
                    for mount in volume_mounts(workload, installation)
                ),
                *([dict(ETC_COPY)] if needs_etc_copy(workload, image) else []),
            ],
            "NanoCpus": workload.cpu * 1_000_000,
            "Memory": workload.memory * MEGABYTE,
            "MemorySwap": workload.memory * MEGABYTE,  # memory and swap together: no swap
            "PidsLimit": MAX_PROCESSES,
            "OomScoreAdj": INSTANCES_SCORE,
            "CapDrop": ["ALL"],
            "CapAdd": list(CAPABILITIES),
            "SecurityOpt": ["no-new-privileges:true"],
        },
        "NetworkingConfig": {"EndpointsConfig": {network: {"Aliases": list(aliases)}}},
    }
    if workload.calls_server:
        body["HostConfig"]["ExtraHosts"] = [f"{SERVER_HOST}:host-gateway"]
    if workload.read_only:
        body["HostConfig"] |= {"ReadonlyRootfs": True, "Tmpfs": dict.fromkeys(_TEMPORARY_FOLDERS, "")}
    if workload.entrypoint:
        body["Entrypoint"] = list(workload.entrypoint)
    if command := workload.command or workload.artifact.command:
        body["Cmd"] = list(command)
    if workload.artifact.workdir:
        body["WorkingDir"] = workload.artifact.workdir
    return body


def needs_etc_copy(workload: Workload, image: Mapping[str, Any]) -> bool:
    """Returns whether the program gets a copy of `/etc`. If the image names a user, the engine reads
    `/etc/passwd` and `/etc/group` below the root file system at the start of each command, as root and whole.
    A program that could replace them would use up its memory and threads."""
    has_user = bool((image.get("Config") or {}).get("User"))
    is_covered = any(volume.mount.rstrip("/") == ETC_COPY["Target"] for volume in workload.volumes)
    return has_user and not workload.read_only and not is_covered


def _empty_labels(image: Mapping[str, Any]) -> Mapping[str, str]:
    """Returns empty values for the image's labels, which the container would otherwise inherit: proxies and
    other tools of the operator obey container labels, and the engine includes labels in its events."""
    return dict.fromkeys((image.get("Config") or {}).get("Labels") or {}, "")


def refuse_unfit(workload: Workload, image: Mapping[str, Any]) -> None:
    """Raises EngineError for a container whose metadata would make the engine's answers too long."""
    if why := why_unfit(image):
        raise EngineError(why)
    if (
        written(workload.entrypoint) + written(workload.command or workload.artifact.command)
        > MAX_COMMAND_BYTES
    ):
        raise EngineError("Put the command into a file of the image: it is longer than 32 KB")
    if written(f"{name}={value}" for name, value in variables(workload).items()) > MAX_VARIABLES_BYTES:
        raise EngineError("Shorten the variables: they are longer than 512 KB together")


def limits_of(machine: MachineSummary) -> EngineLimits:
    """Returns the limits of the engine. Memory has no limit, because the engine accepts more than the machine
    has."""
    return EngineLimits(
        cpu=machine.NCPU * 1000 or None,
        gpu=0,
        least_cpu=MIN_CPU_MILLI,
        least_memory=MIN_MEMORY_MB,
    )


def has_own_init(workload: Workload, image: Mapping[str, Any]) -> bool:
    """Returns whether the container's program is itself an init, which must be process 1."""
    config = image.get("Config") or {}
    labels = [
        *(workload.entrypoint or config.get("Entrypoint") or ()),
        *workload.command,
        *(config.get("Cmd") or ()),
    ]
    return bool(labels) and PurePosixPath(labels[0]).name in INIT_PROGRAMS


def variables(workload: Workload) -> Mapping[str, str]:
    variables = {**workload.artifact.environment, **workload.variables}
    if workload.writes_output:
        variables[OUTPUT_VARIABLE] = OUTPUT_FILE
    port = next((port.internal for port in workload.ports if port.protocol != "UDP"), None)
    port = port or next(iter(workload.artifact.ports), None)
    return {"PORT": str(port), **variables} if port else variables


def published_ports(workload: Workload, *, runs_once: bool = False) -> list[str]:
    """Returns the ports to publish, in the engine's notation: `80/tcp`. Ports of one-off programs are not
    published: nothing connects to them, and the engine would start two proxy processes for each port."""
    if runs_once:
        return []
    asked = [f"{port.internal}/{'udp' if port.protocol == 'UDP' else 'tcp'}" for port in workload.ports]
    return list(
        dict.fromkeys([*asked, *(f"{port}/tcp" for port in workload.artifact.ports[:MAX_EXPOSED_PORTS])])
    )


def volume_mounts(workload: Workload, installation: str) -> list[dict[str, Any]]:
    """Returns the definitions of the mounts of a service's volumes."""
    return [
        {
            "Type": "volume",
            "Source": words.volume(installation, workload.service, volume),
            "Target": volume.mount,
        }
        for volume in workload.volumes
    ]


def unstarted_container(image: str, labels: Mapping[str, str], **more: object) -> dict[str, Any]:
    """Returns the body of a request that creates a container which is never started."""
    own = {**dict.fromkeys(words.ALL_LABELS, ""), **labels}
    return {"Image": image, "Cmd": ["none"], "Labels": own, "NetworkDisabled": True, **more}
