"""The definition of a container for the engine: everything an instance may have, and nothing more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import PurePosixPath
from typing import Any, Final

from windlass.base.oom_score import INSTANCES
from windlass.docker import names as words
from windlass.docker.client.image_limits import LONGEST_COMMAND, LONGEST_VARIABLES, why_unfit, written
from windlass.docker.descriptions import MachineSummary
from windlass.docker.host_ports import as_label
from windlass.engines.engine import EngineError, EngineLimits
from windlass.engines.workload import MOST_EXPOSED, OUTPUT_FILE, OUTPUT_VARIABLE, Workload

MEGABYTE: Final = 1024 * 1024

# Capabilities for the official images, which begin as root and then change their user. CHOWN, FOWNER and
CAPABILITIES: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID")

INITS: Final = frozenset({"init", "tini", "dumb-init", "docker-init", "catatonit", "s6-svscan", "systemd"})

LEAST_CPU, LEAST_MEMORY = 10, 6
"""The least that Docker accepts: thousandths of a core, and megabytes."""

PROCESSES: Final = 2048
"""And threads: more than any honest service has, and too few to choke the machine."""

SERVER_HOST: Final = "host.docker.internal"
"""The usual name of the machine of an engine in its containers."""

# What the engine keeps for those who ask later; we have read it by then.
LOGS: Final = {"Type": "json-file", "Config": {"max-size": "16m", "max-file": "3"}}


def container(
    wanted: Workload,
    index: int,
    *,
    installation: str,
    network: str,
    aliases: Sequence[str],
    publish: str,
    host_ports: Sequence[int],
    image: Mapping[str, Any],
    once: bool = False,
) -> dict[str, Any]:
    """`publish` is the address at which its ports are reached, with the number of `host_ports` for each of
    `published_ports`. `image` is the metadata of its image."""
    refuse_unfit(wanted, image)
    ports = published_ports(wanted, once=once)
    labels = words.labels(installation, wanted, index)
    body: dict[str, Any] = {
        "Image": wanted.artifact.ref,
        "Hostname": words.pod(wanted, index),
        "Env": [f"{name}={value}" for name, value in variables(wanted).items()],
        "Labels": {**_no_labels(image), **labels, words.PORTS: as_label(host_ports)},
        "ExposedPorts": {port: {} for port in ports},
        # The engine asks with it, too, when the machine goes down.
        "StopTimeout": ceil(wanted.grace),
        # Probes of the service decide whether it is healthy. The engine starts the check of an image as
        # often as each millisecond, and what it needs for that counts for no container.
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": {
            "NetworkMode": network,
            "PortBindings": {
                port: [{"HostIp": publish, "HostPort": str(number)}]
                for port, number in zip(ports, host_ports, strict=True)
            },
            # The first process of a container gets no signal that it has not asked for, and has the dead of
            # all others to bury. Programs know nothing of that.
            "Init": not has_own_init(wanted, image),
            "RestartPolicy": {"Name": "no" if once else "unless-stopped"},
            "LogConfig": LOGS,
            "Mounts": [
                _mount(volume.mount, words.volume(installation, wanted.service, volume))
                for volume in wanted.volumes
            ],
            "NanoCpus": wanted.cpu * 1_000_000,
            "Memory": wanted.memory * MEGABYTE,
            "MemorySwap": wanted.memory * MEGABYTE,  # of both together: no swap
            "PidsLimit": PROCESSES,
            "OomScoreAdj": INSTANCES,
            "CapDrop": ["ALL"],
            "CapAdd": list(CAPABILITIES),
            "SecurityOpt": ["no-new-privileges:true"],
        },
        "NetworkingConfig": {"EndpointsConfig": {network: {"Aliases": list(aliases)}}},
    }
    if wanted.calls_server:
        body["HostConfig"]["ExtraHosts"] = [f"{SERVER_HOST}:host-gateway"]
    if wanted.entrypoint:
        body["Entrypoint"] = list(wanted.entrypoint)
    if command := wanted.command or wanted.artifact.command:
        body["Cmd"] = list(command)
    if wanted.artifact.workdir:
        body["WorkingDir"] = wanted.artifact.workdir
    return body


def _no_labels(image: Mapping[str, Any]) -> Mapping[str, str]:
    """Returns empty values for the labels of an image, which a container inherits otherwise: proxies and
    other tools of the operator obey labels of containers, and the engine writes them into its events."""
    return dict.fromkeys((image.get("Config") or {}).get("Labels") or {}, "")


def refuse_unfit(wanted: Workload, image: Mapping[str, Any]) -> None:
    """Refuses a container that would make the answers of the engine about containers too long to be read."""
    if why := why_unfit(image):
        raise EngineError(why)
    if written(wanted.entrypoint) + written(wanted.command or wanted.artifact.command) > LONGEST_COMMAND:
        raise EngineError("Put the command into a file of the image: it is longer than 32 KB")
    if written(f"{name}={value}" for name, value in variables(wanted).items()) > LONGEST_VARIABLES:
        raise EngineError("Shorten the variables: they are longer than 512 KB together")


def limits_of(machine: MachineSummary) -> EngineLimits:
    """Returns what the engine gives to a container. It accepts more memory than the machine has."""
    return EngineLimits(
        cpu=machine.NCPU * 1000 or None,
        gpu=0,
        least_cpu=LEAST_CPU,
        least_memory=LEAST_MEMORY,
    )


def has_own_init(wanted: Workload, image: Mapping[str, Any]) -> bool:
    """Returns whether the program is an init, which must be the first process of its container."""
    config = image.get("Config") or {}
    labels = [
        *(wanted.entrypoint or config.get("Entrypoint") or ()),
        *wanted.command,
        *(config.get("Cmd") or ()),
    ]
    return bool(labels) and PurePosixPath(labels[0]).name in INITS


def variables(wanted: Workload) -> Mapping[str, str]:
    variables = {**wanted.artifact.environment, **wanted.variables}
    if wanted.writes_output:
        variables[OUTPUT_VARIABLE] = OUTPUT_FILE
    port = next((port.internal for port in wanted.ports if port.protocol != "UDP"), None)
    port = port or next(iter(wanted.artifact.ports), None)
    return {"PORT": str(port), **variables} if port else variables


def published_ports(wanted: Workload, *, once: bool = False) -> list[str]:
    """Returns the ports to publish, as the engine writes them: `80/tcp`. Those of programs that run once are
    not published: nothing connects to them, and the engine starts two programs for each."""
    if once:
        return []
    asked = [f"{port.internal}/{'udp' if port.protocol == 'UDP' else 'tcp'}" for port in wanted.ports]
    return list(dict.fromkeys([*asked, *(f"{port}/tcp" for port in wanted.artifact.ports[:MOST_EXPOSED])]))


def _mount(target: str, name: str) -> dict[str, Any]:
    return {"Type": "volume", "Source": name, "Target": target}
