"""Writes workloads as plain manifests of Kubernetes, which run without Windlass, in any namespace. Pure.

Values of secrets are placeholders, which `Placeholders` makes. They are in Secrets only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Final

from msgspec import Struct

from windlass.core.words.yaml import comment, documents
from windlass.engines.job_plans import RunCommand, RunEvent
from windlass.engines.registries import digest_of
from windlass.engines.workload import HealthProbe, ProbeKind, Volume, Workload

Manifest = dict[str, object]

NAME_LABEL: Final = "app.kubernetes.io/name"
MAX_NAME_LENGTH: Final = 50
"""Longest name of an exported service: names of its parts have a suffix, and 63 characters at most."""
_CONTAINER: Final = "app"
_DEFAULT_VOLUME_GIB: Final = 1
_CPU_SHARE: Final = 10
"""The CPU request is the limit divided by this number."""
# Official images need these, which start as root and then switch to another user.
_CAPABILITIES: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID")
_TEMPORARY_FOLDERS: Final = ("/tmp", "/run", "/var/tmp")  # noqa: S108 (inside of the container)
_LABEL_PATTERN: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


class Placeholders:
    """Texts that stand for values of secrets. None is a part of another one, so that each can be replaced by
    itself."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self.meanings: dict[str, str] = {}
        """What each text stands for."""

    def of(self, id: str, owner: str, key: str) -> str:
        """Returns the placeholder of a secret: always the same one for the same id."""
        if id not in self._texts:
            words = re.sub(r"[^A-Z0-9]+", "_", f"{owner}_{key}".upper()).strip("_")
            text, number = f"__REPLACE_{words}__", 1
            while text in self.meanings:
                number += 1
                text = f"__REPLACE_{words}_{number}__"
            self._texts[id] = text
            self.meanings[text] = f"{key} of {owner}"
        return self._texts[id]

    def used_in(self, text: str) -> list[str]:
        return [placeholder for placeholder in self.meanings if placeholder in text]


class ExportedWorkload(Struct, frozen=True, kw_only=True):
    """A service with the name of its objects."""

    name: str
    workload: Workload
    registry: str = ""
    """The host of the registry that needs a login; empty if it needs none."""


class LeftOut(Struct, frozen=True):
    """A service or setting that is not in the file, and what to do instead."""

    name: str
    reason: str


def file_text(
    title: str, exported: Sequence[ExportedWorkload], left_out: Sequence[LeftOut], placeholders: Placeholders
) -> str:
    """Returns the text of the file: an explanation, then all manifests."""
    logins = {one.registry: _login_secret(one.registry, placeholders) for one in exported if one.registry}
    found = [_network_policy(), *logins.values()]
    for one in exported:
        found += manifests(one)
    text = documents(found)
    return "".join(f"{line}\n" for line in _explanation(title, left_out, placeholders, text)) + text


def _explanation(
    title: str, left_out: Sequence[LeftOut], placeholders: Placeholders, text: str
) -> Iterator[str]:
    yield comment(f"The environment {title}, as manifests of Kubernetes that run without Windlass.")
    yield "#"
    yield "# kubectl create namespace NAME"
    yield "# kubectl apply --namespace NAME --filename FILE"
    if used := placeholders.used_in(text):
        yield "#"
        yield "# Values of secrets are not in this file. Replace each of these texts everywhere, such as with"
        yield '# sed. They are in double quotes: write \\ before each \\ and " of a value.'
        yield "#"
        yield from (comment(f"  {used_one}  {placeholders.meanings[used_one]}") for used_one in used)
    yield "#"
    yield "# Not in this file:"
    yield "#"
    yield from (comment(f"- {one.name}: {one.reason}") for one in left_out)
    yield "# - data of volumes and databases: restore a dump, or copy the files"
    yield "# - running hours, previews, deployments and logs"


def manifests(exported: ExportedWorkload) -> list[Manifest]:
    """Returns the objects of a service."""
    workload = exported.workload
    if workload.job is not None:
        programs = list(_jobs(exported))
        if not programs:
            return []
    else:
        programs = [_controller(exported)]
    return [
        *_values(exported),
        *(_claim(exported, volume) for volume in workload.volumes),
        *_services(exported),
        *_public_policies(exported),
        *programs,
    ]


def _object(api: str, kind: str, name: str, labels: Mapping[str, str], **fields: object) -> Manifest:
    metadata = {"name": name, **({"labels": dict(labels)} if labels else {})}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **fields}


def _labels(exported: ExportedWorkload) -> dict[str, str]:
    own = {
        key: value
        for key, value in exported.workload.labels.items()
        if _LABEL_PATTERN.fullmatch(key.rpartition("/")[2]) and (not value or _LABEL_PATTERN.fullmatch(value))
    }
    return {**own, **_selector(exported)}


def _selector(exported: ExportedWorkload) -> dict[str, str]:
    return {NAME_LABEL: exported.name}


# Variables, files and logins


def _values(exported: ExportedWorkload) -> Iterator[Manifest]:
    """Yields the objects with variables, and one for each file, because an object may have 1 MiB."""
    name, labels, workload = exported.name, _labels(exported), exported.workload
    hidden, shown = _variables(workload, hidden=True), _variables(workload, hidden=False)
    if shown:
        yield _object("v1", "ConfigMap", name, labels, data=shown)
    if hidden:
        yield _object("v1", "Secret", name, labels, stringData=hidden)
    for number, (path, content) in enumerate(workload.files.items(), 1):
        kind, field = ("Secret", "stringData") if path in workload.hidden else ("ConfigMap", "data")
        text = {"content": content.decode()}
        yield _object("v1", kind, f"{name}-file-{number}", labels, **{field: text})


def _variables(workload: Workload, *, hidden: bool) -> dict[str, str]:
    found = {**workload.artifact.environment, **workload.variables}
    port = next((port.internal for port in workload.ports if port.protocol != "UDP"), None)
    port = port or next(iter(workload.artifact.ports), None)
    if port and not hidden:
        found = {"PORT": str(port), **found}
    return {name: value for name, value in found.items() if (name in workload.hidden) is hidden}


def _login_secret(registry: str, placeholders: Placeholders) -> Manifest:
    login = {
        word: placeholders.of(f"{registry} {word}", f"registry {registry}", word)
        for word in ("username", "password")
    }
    document = json.dumps({"auths": {registry: login}})
    return _object(
        "v1",
        "Secret",
        login_name(registry),
        {},
        type="kubernetes.io/dockerconfigjson",
        stringData={".dockerconfigjson": document},
    )


def login_name(registry: str) -> str:
    return "registry-" + re.sub(r"[^a-z0-9]+", "-", registry.lower()).strip("-")[:MAX_NAME_LENGTH]


# The network


def _ports(workload: Workload) -> list[tuple[int, str]]:
    """Returns the ports on which a program may answer, with their protocols."""
    asked = [(port.internal, "UDP" if port.protocol == "UDP" else "TCP") for port in workload.ports]
    exposed = [(port, "TCP") for port in workload.artifact.ports]
    return list(dict.fromkeys([*asked, *exposed]))


def _services(exported: ExportedWorkload) -> Iterator[Manifest]:
    if ports := _ports(exported.workload):
        listed = [
            {"name": f"{protocol.lower()}-{number}", "port": number, "protocol": protocol}
            for number, protocol in ports
        ]
        spec = {"selector": _selector(exported), "ports": listed}
        yield _object("v1", "Service", exported.name, _labels(exported), spec=spec)


def _network_policy() -> Manifest:
    """Returns the policy that lets only Pods of the same namespace connect."""
    everything: Manifest = {"podSelector": {}}
    spec = {**everything, "policyTypes": ["Ingress"], "ingress": [{"from": [everything]}]}
    return _object("networking.k8s.io/v1", "NetworkPolicy", "same-namespace", {}, spec=spec)


def _public_policies(exported: ExportedWorkload) -> Iterator[Manifest]:
    """Yields the policy that lets everything else connect to public ports, such as an Ingress controller."""
    public = [
        {"port": port.internal, "protocol": "UDP" if port.protocol == "UDP" else "TCP"}
        for port in exported.workload.ports
        if port.public
    ]
    if public:
        spec = {
            "podSelector": {"matchLabels": _selector(exported)},
            "policyTypes": ["Ingress"],
            "ingress": [{"ports": public}],
        }
        name = f"{exported.name}-public"
        yield _object("networking.k8s.io/v1", "NetworkPolicy", name, _labels(exported), spec=spec)


# Programs


def _claim(exported: ExportedWorkload, volume: Volume) -> Manifest:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": f"{volume.size or _DEFAULT_VOLUME_GIB}Gi"}},
    }
    return _object("v1", "PersistentVolumeClaim", _claim_name(exported, volume), _labels(exported), spec=spec)


def _claim_name(exported: ExportedWorkload, volume: Volume) -> str:
    return f"{exported.name}-{volume.name.lower()}"


def _controller(exported: ExportedWorkload) -> Manifest:
    """Returns the Deployment of a service; the StatefulSet of one with volumes, which starts no second copy
    while a node is cut off."""
    workload = exported.workload
    spec: Manifest = {
        "replicas": max(1, workload.instances),
        "selector": {"matchLabels": _selector(exported)},
        "template": _pod(exported, _container(exported, serves=True)),
    }
    if workload.volumes:
        spec["serviceName"] = exported.name
        return _object("apps/v1", "StatefulSet", exported.name, _labels(exported), spec=spec)
    if workload.alone:
        spec["strategy"] = {"type": "Recreate"}
    return _object("apps/v1", "Deployment", exported.name, _labels(exported), spec=spec)


def _jobs(exported: ExportedWorkload) -> Iterator[Manifest]:
    """Yields the CronJob of a timetable, or the Job of what runs at a deployment."""
    plan = exported.workload.job
    assert plan is not None
    for event in (RunEvent.CRON, RunEvent.ON_START):
        command = plan.commands.get(event)
        if command is None:
            continue
        template = _pod(exported, _container(exported, serves=False, command=command), restart="Never")
        job: Manifest = {
            "backoffLimit": plan.retries,
            "activeDeadlineSeconds": max(1, ceil(exported.workload.time_limit)),
            "template": template,
        }
        if event is not RunEvent.CRON:
            yield _object("batch/v1", "Job", exported.name, _labels(exported), spec=job)
            continue
        spec = {
            "schedule": plan.scheduled_at,
            "timeZone": plan.timezone,
            "concurrencyPolicy": "Forbid",
            "jobTemplate": {"spec": job},
        }
        yield _object("batch/v1", "CronJob", exported.name, _labels(exported), spec=spec)


def _pod(exported: ExportedWorkload, container: Manifest, *, restart: str = "Always") -> Manifest:
    mounts, volumes = _mounts(exported)
    login = [{"name": login_name(exported.registry)}] if exported.registry else []
    return {
        "metadata": {"labels": _labels(exported)},
        "spec": {
            "containers": [container | ({"volumeMounts": mounts} if mounts else {})],
            **({"volumes": volumes} if volumes else {}),
            **({"imagePullSecrets": login} if login else {}),
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": max(1, ceil(exported.workload.grace)),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        },
    }


def _container(exported: ExportedWorkload, *, serves: bool, command: RunCommand | None = None) -> Manifest:
    workload = exported.workload
    memory = f"{workload.memory}Mi"
    made: Manifest = {
        "name": _CONTAINER,
        "image": workload.artifact.ref,
        "imagePullPolicy": "IfNotPresent" if digest_of(workload.artifact.ref) else "Always",
        "resources": {
            "limits": {"cpu": f"{workload.cpu}m", "memory": memory},
            "requests": {"cpu": f"{max(1, workload.cpu // _CPU_SHARE)}m", "memory": memory},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": list(_CAPABILITIES)},
            "readOnlyRootFilesystem": workload.read_only,
        },
    }
    if sources := [*_sources(exported)]:
        made["envFrom"] = sources
    entrypoint = command.entrypoint if command else workload.entrypoint
    arguments = (command.arguments if command else workload.command) or workload.artifact.command
    if entrypoint:
        made["command"] = [_argument(word, workload) for word in entrypoint]
    if arguments:
        made["args"] = [_argument(word, workload) for word in arguments]
    if workload.artifact.workdir:
        made["workingDir"] = workload.artifact.workdir
    if serves:
        if ports := _ports(workload):
            made["ports"] = [{"containerPort": number, "protocol": protocol} for number, protocol in ports]
        made |= _probes(workload)
    return made


def _sources(exported: ExportedWorkload) -> Iterator[Manifest]:
    for hidden, kind in ((False, "configMapRef"), (True, "secretRef")):
        if _variables(exported.workload, hidden=hidden):
            yield {kind: {"name": exported.name}}


def _argument(word: str, workload: Workload) -> str:
    """Escapes references to variables that Kubernetes would replace, and refers to the variable of each
    secret, so that a placeholder is in Secrets only."""
    text = word.replace("$", "$$")
    for name, value in _variables(workload, hidden=True).items():
        if value and value in text:
            text = text.replace(value, f"$({name})")
    return text


def _probes(workload: Workload) -> Manifest:
    """Returns the probes of a container. Derived ones only delay the start; declared ones are repeated."""
    made: Manifest = {}
    if workload.ready:
        first = _probe(workload.ready[0])
        made["startupProbe"] = {
            **first,
            "periodSeconds": 1,
            "successThreshold": 1,
            "failureThreshold": max(1, ceil(workload.patience)),
        }
        if workload.watched:
            made["readinessProbe"] = first
    if workload.alive:
        made["livenessProbe"] = {**_probe(workload.alive[0]), "successThreshold": 1}
    return made


def _probe(probe: HealthProbe) -> Manifest:
    made: Manifest = {
        # A cluster drops a delay of 0, and each repeated apply would then change the object.
        **({"initialDelaySeconds": ceil(probe.initial_delay)} if probe.initial_delay else {}),
        "periodSeconds": max(1, ceil(probe.period)),
        "timeoutSeconds": max(1, ceil(probe.timeout)),
        "successThreshold": max(1, probe.successes),
        "failureThreshold": max(1, probe.failures),
    }
    match probe.kind:
        case ProbeKind.TCP:
            return {**made, "tcpSocket": {"port": probe.port}}
        case ProbeKind.HTTP:
            path = probe.path if probe.path.startswith("/") else f"/{probe.path}"
            return {**made, "httpGet": {"port": probe.port, "path": path, "scheme": probe.scheme.upper()}}
        case ProbeKind.EXEC:
            return {**made, "exec": {"command": list(probe.command)}}


def _mounts(exported: ExportedWorkload) -> tuple[list[Manifest], list[Manifest]]:
    """Returns the mounts of a container, and the volumes of its Pod."""
    workload = exported.workload
    mounts: list[Manifest] = []
    volumes: list[Manifest] = []
    for volume in workload.volumes:
        name = f"data-{volume.name.lower()}"
        mounts.append({"name": name, "mountPath": volume.mount})
        volumes.append({"name": name, "persistentVolumeClaim": {"claimName": _claim_name(exported, volume)}})
    for number, path in enumerate(workload.files, 1):
        name = f"{exported.name}-file-{number}"
        source = {"secretName": name} if path in workload.hidden else {"name": name}
        word = "secret" if path in workload.hidden else "configMap"
        volumes.append({"name": f"file-{number}", word: {**source, "defaultMode": 0o444}})
        mounts.append({"name": f"file-{number}", "mountPath": path, "subPath": "content", "readOnly": True})
    if workload.read_only:
        taken = {path.rstrip("/") for path in (*workload.files, *(each.mount for each in workload.volumes))}
        for number, folder in enumerate(_TEMPORARY_FOLDERS, 1):
            if folder not in taken:
                volumes.append({"name": f"temporary-{number}", "emptyDir": {}})
                mounts.append({"name": f"temporary-{number}", "mountPath": folder})
    return mounts, volumes
