"""Converts workloads to objects of the cluster, with the minimum of privileges for an instance. Pure."""

from __future__ import annotations

import base64
import hashlib
import json
import posixpath
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec
from msgspec import Struct

from windlass.engines.registries import RegistryLogin, digest_of
from windlass.engines.workload import (
    MAX_EXPOSED_PORTS,
    OUTPUT_FILE,
    OUTPUT_VARIABLE,
    HealthProbe,
    ProbeKind,
    Volume,
    Workload,
)
from windlass.kubernetes import names

Manifest = dict[str, Any]

# Capabilities that official images need, which start as root and then switch to another user. The Pod
# Security level `baseline` allows them.
CAPABILITIES: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID")
INIT_PROGRAMS: Final = frozenset(
    {"init", "tini", "dumb-init", "docker-init", "catatonit", "s6-svscan", "systemd"}
)
NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""Label of a namespace with its name, which the API server sets and keeps."""
DEFAULT_VOLUME_GIB: Final = 1
CPU_SHARE: Final = 10
"""The CPU request is the limit divided by this number. The memory request equals the limit."""
_FOREVER: Final = 1_000_000
"""Failure threshold that no start reaches: Windlass decides how long a start may take."""
_TEMPORARY_FOLDERS: Final = ("/tmp", "/run", "/var/tmp")  # noqa: S108 (inside of the container)
_SERVER_ACCOUNT: Final = False
_OUTPUT_FOLDER: Final = posixpath.dirname(OUTPUT_FILE)
_OUTPUT_LIMIT: Final = 1_048_577
"""One byte more than an output file may have, to notice that it is too long."""

# Tells the kind of the output file on one line, and its content in base64 after that, when the program ends.
_HAND_OVER: Final = f"""
tell() {{
  f={OUTPUT_FILE}
  if [ -L "$f" ]; then echo link
  elif [ -d "$f" ]; then echo folder
  elif [ -f "$f" ]; then
    if [ "$(head -c {_OUTPUT_LIMIT} "$f" | wc -c)" -ge {_OUTPUT_LIMIT} ]; then echo long
    else echo file; base64 "$f"; echo end; fi
  elif [ -e "$f" ]; then echo other
  else echo none; fi
  exit 0
}}
trap tell TERM
while :; do sleep 1000 & wait $!; done
"""


_SPREAD_OVER: Final = ("kubernetes.io/hostname", "topology.kubernetes.io/zone")


class ClusterOptions(Struct, kw_only=True):
    """The choices for all objects of an installation in a cluster."""

    installation: str
    helper_image: str
    storage_class: str = ""
    allowed_sources: tuple[str, ...] = ()
    """Namespaces and networks outside of an environment whose connections its services accept: those of the
    gateway, of Ingress controllers and of monitoring. They may change while the engine is open."""


def variables(workload: Workload) -> Mapping[str, str]:
    found = {**workload.artifact.environment, **workload.variables}
    if workload.writes_output:
        found[OUTPUT_VARIABLE] = OUTPUT_FILE
    port = next((port.internal for port in workload.ports if port.protocol != "UDP"), None)
    port = port or next(iter(workload.artifact.ports), None)
    return {"PORT": str(port), **found} if port else found


def published_ports(workload: Workload) -> list[tuple[int, str]]:
    """Returns the ports on which a program may answer, with their protocols."""
    asked = [(port.internal, "UDP" if port.protocol == "UDP" else "TCP") for port in workload.ports]
    exposed = [(port, "TCP") for port in workload.artifact.ports[:MAX_EXPOSED_PORTS]]
    return list(dict.fromkeys([*asked, *exposed]))


def namespace(options: ClusterOptions, environment: str, org: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": names.namespace(options.installation, environment),
            "labels": {
                names.INSTALLATION: names.installation_label(options.installation),
                names.ENVIRONMENT: environment,
                names.ORGANIZATION: org,
                "pod-security.kubernetes.io/enforce": "baseline",
                "pod-security.kubernetes.io/warn": "restricted",
            },
        },
    }


def network_policy(options: ClusterOptions, environment: str) -> Manifest:
    """Returns the policy that lets services of an environment reach each other, and keeps all others out
    except those whom the owner of the cluster allows. Namespaces are named: a label of theirs could be
    changed."""
    peers: list[Manifest] = [{"podSelector": {}}]
    networks = [source for source in options.allowed_sources if "/" in source]
    namespaces = [source for source in options.allowed_sources if "/" not in source]
    if namespaces:
        chosen = {"key": NAMESPACE_NAME, "operator": "In", "values": namespaces}
        peers.append({"namespaceSelector": {"matchExpressions": [chosen]}})
    peers += [{"ipBlock": {"cidr": network}} for network in networks]
    spec = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": peers}]}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": "windlass-environment",
            "namespace": names.namespace(options.installation, environment),
            "labels": {names.INSTALLATION: names.installation_label(options.installation)},
            "annotations": {names.DIGEST: digest(spec)},
        },
        "spec": spec,
    }


def secret(options: ClusterOptions, workload: Workload) -> Manifest:
    """Returns the object with the variables and files of a generation. Its name has a digest of its content,
    so it never changes."""
    data = {
        **{f"v{number}": value.encode() for number, value in enumerate(variables(workload).values())},
        **{f"f{number}": content for number, content in enumerate(workload.files.values())},
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "immutable": True,
        "metadata": {
            "name": secret_name(workload),
            "namespace": names.namespace(options.installation, workload.environment),
            "labels": names.labels(options.installation, workload),
        },
        "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
    }


def secret_name(workload: Workload) -> str:
    content = [[*variables(workload).items()], [[path, [*text]] for path, text in workload.files.items()]]
    key = f"{workload.deployment} {json.dumps(content)}"
    return names.variables_secret(workload, hashlib.sha256(key.encode()).hexdigest())


def pull_data(registry: str, login: RegistryLogin) -> Mapping[str, str]:
    """Returns the content of a Secret with the login of a registry."""
    auth = base64.b64encode(f"{login.username}:{login.password}".encode()).decode()
    document = {"auths": {registry: {"auth": auth}}}
    return {".dockerconfigjson": base64.b64encode(msgspec.json.encode(document)).decode()}


def pull_secret(
    options: ClusterOptions, workload: Workload, data: Mapping[str, str], registry_label: str
) -> Manifest:
    """`registry_label`: identifies the registry for built images; empty for other registries."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/dockerconfigjson",
        "metadata": {
            "name": names.pull_secret(workload.service),
            "namespace": names.namespace(options.installation, workload.environment),
            "labels": {
                names.INSTALLATION: names.installation_label(options.installation),
                names.SERVICE: workload.service,
                **({names.REGISTRY: registry_label} if registry_label else {}),
            },
            "annotations": {names.DIGEST: digest(data)},
        },
        "data": data,
    }


def claim(options: ClusterOptions, workload: Workload, volume: Volume) -> Manifest:
    mode = "ReadWriteOncePod" if workload.alone else "ReadWriteOnce"
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": names.claim(workload.service, volume),
            "namespace": names.namespace(options.installation, workload.environment),
            "labels": {
                names.INSTALLATION: names.installation_label(options.installation),
                names.SERVICE: workload.service,
                names.ENVIRONMENT: workload.environment,
                names.LINES_NAME: names.host_name(workload.name),
            },
        },
        "spec": {
            "accessModes": [mode],
            "resources": {"requests": {"storage": f"{volume.size or DEFAULT_VOLUME_GIB}Gi"}},
            **({"storageClassName": options.storage_class} if options.storage_class else {}),
        },
    }


def neighbours(options: ClusterOptions, workload: Workload) -> list[Manifest]:
    """Returns the Services under which neighbours reach a service: by its own name, and by its alias."""
    ports = published_ports(workload)
    if not ports:
        return []
    own = names.neighbour(workload.service, workload.name)
    aliases = [own, *([workload.known_as] if workload.known_as and workload.known_as != own else [])]
    return [_neighbour(options, workload, alias, ports) for alias in aliases]


def _neighbour(
    options: ClusterOptions, workload: Workload, name: str, ports: Sequence[tuple[int, str]]
) -> Manifest:
    selected = {names.SERVICE: workload.service, names.SERVES: "yes"}
    spec = {
        "selector": selected,
        "ports": [
            {
                "name": f"{protocol.lower()}-{number}",
                "port": number,
                "targetPort": number,
                "protocol": protocol,
            }
            for number, protocol in ports
        ],
    }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": names.namespace(options.installation, workload.environment),
            "labels": {
                names.INSTALLATION: names.installation_label(options.installation),
                names.SERVICE: workload.service,
            },
            "annotations": {names.DIGEST: digest(spec)},
        },
        "spec": spec,
    }


def controller(options: ClusterOptions, workload: Workload, replicas: int) -> Manifest:
    """Returns the Deployment of a generation; the StatefulSet of one that runs alone, which starts no second
    copy while a node is cut off."""
    template = _pod(options, workload, serves=True)
    own = {
        names.INSTALLATION: names.installation_label(options.installation),
        names.SERVICE: workload.service,
        names.GENERATION: str(workload.generation),
    }
    spread = {} if workload.alone else {"topologySpreadConstraints": _spread(own)}
    spec: Manifest = {
        "replicas": replicas,
        "revisionHistoryLimit": 0,
        "selector": {"matchLabels": own},
        "template": {**template, "spec": {**template["spec"], **spread}},
    }
    if workload.alone:
        spec |= {"serviceName": "", "podManagementPolicy": "Parallel"}
    else:
        # A generation does not change; if its number was given out again, the earlier one ends first.
        spec |= {"strategy": {"type": "Recreate"}, "progressDeadlineSeconds": 600}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet" if workload.alone else "Deployment",
        "metadata": {
            "name": names.controller(workload),
            "namespace": names.namespace(options.installation, workload.environment),
            "labels": {
                **_group_labels(workload),
                **names.labels(options.installation, workload),
                **({names.ALONE: "yes"} if workload.alone else {}),
            },
            # Without where its Pods run: a release that runs is not restarted for that.
            "annotations": {names.DIGEST: digest(template), names.TITLE: workload.name},
        },
        "spec": spec,
    }


def _spread(own: Mapping[str, str]) -> list[Manifest]:
    """Returns what spreads the Pods of a release over nodes and zones, if there is room."""
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": own},
        }
        for key in _SPREAD_OVER
    ]


def disruption_budget(options: ClusterOptions, workload: Workload) -> Manifest:
    """Returns what lets the drain of nodes end the instances of a service one after the other."""
    spec = {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",  # an instance that does not work holds up no drain
        "selector": {"matchLabels": {names.SERVICE: workload.service, names.SERVES: "yes"}},
    }
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": names.budget(workload.service),
            "namespace": names.namespace(options.installation, workload.environment),
            "labels": {
                names.INSTALLATION: names.installation_label(options.installation),
                names.SERVICE: workload.service,
            },
            "annotations": {names.DIGEST: digest(spec)},
        },
        "spec": spec,
    }


def tombstone(
    options: ClusterOptions, *, namespace: str, name: str, labels: Mapping[str, str], number: int
) -> Manifest:
    """Returns the Deployment of a removed generation that never ran, so that a late call finds its name
    taken."""
    own = {key: labels[key] for key in (names.INSTALLATION, names.SERVICE, names.GENERATION)}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {**labels, names.REMOVED: str(number)},
        },
        "spec": {
            "replicas": 0,
            "revisionHistoryLimit": 0,
            "selector": {"matchLabels": own},
            "template": {
                "metadata": {"labels": own},
                "spec": {"containers": [{"name": names.CONTAINER, "image": options.helper_image}]},
            },
        },
    }


def run(options: ClusterOptions, workload: Workload, index: int) -> Manifest:
    """Returns the Pod of a run. A Job could start its program twice, and nothing would keep its outcome."""
    template = _pod(options, workload, serves=False)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": names.run(workload, index),
            "namespace": names.namespace(options.installation, workload.environment),
            "labels": {**template["metadata"]["labels"], names.INDEX: str(index)},
            "annotations": template["metadata"]["annotations"],
            "finalizers": [names.RESULT_FINALIZER],
        },
        "spec": {**template["spec"], "restartPolicy": "Never"},
    }


def digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


def _group_labels(workload: Workload) -> dict[str, str]:
    """Returns the labels of the service's groups, except those that a cluster would refuse or that are
    ours."""
    return {
        key: value
        for key, value in workload.labels.items()
        if not key.startswith("windlass.dev/")
        and _is_label(key.rpartition("/")[2])
        and (not value or _is_label(value))
    }


def _is_label(text: str) -> bool:
    inner = text.replace("-", "a").replace("_", "a").replace(".", "a")
    return (
        0 < len(text) <= 63
        and inner.isascii()
        and inner.isalnum()
        and text[0].isalnum()
        and text[-1].isalnum()
    )


def _pod(options: ClusterOptions, workload: Workload, *, serves: bool) -> Manifest:
    labels = {**_group_labels(workload), **names.labels(options.installation, workload)}
    mounts, volumes = _mounts(workload)
    return {
        "metadata": {
            "labels": {**labels, **({names.SERVES: "yes"} if serves else {})},
            "annotations": {
                names.GRACE: f"{workload.grace:g}",
                names.MEMORY: str(workload.memory),
                names.WATCHED: "yes" if workload.watched else "",
                names.PORTS: ",".join(str(port) for port, _ in published_ports(workload)),
            },
        },
        "spec": {
            "containers": [_container(workload, mounts, serves=serves)],
            **({"initContainers": [_output_container(options)]} if workload.writes_output else {}),
            "volumes": volumes,
            "terminationGracePeriodSeconds": max(1, ceil(workload.grace)),
            "automountServiceAccountToken": _SERVER_ACCOUNT,
            "enableServiceLinks": False,
            "imagePullSecrets": [{"name": names.pull_secret(workload.service)}],
            # The first process of a Pod reaps orphans and is nothing special to signals, so programs get
            # those that they expect. A program that is an init itself has to be the first.
            "shareProcessNamespace": not _has_own_init(workload),
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        },
    }


def _container(workload: Workload, mounts: Sequence[Manifest], *, serves: bool) -> Manifest:
    memory = f"{workload.memory}Mi"
    secret = secret_name(workload)
    made: Manifest = {
        "name": names.CONTAINER,
        "image": workload.artifact.ref,
        # A tag may have moved since a node pulled it.
        "imagePullPolicy": "IfNotPresent" if digest_of(workload.artifact.ref) else "Always",
        "env": [
            {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": f"v{number}"}}}
            for number, name in enumerate(variables(workload))
        ],
        "resources": {
            "limits": {"cpu": f"{workload.cpu}m", "memory": memory},
            "requests": {"cpu": f"{max(1, workload.cpu // CPU_SHARE)}m", "memory": memory},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": list(CAPABILITIES)},
            "readOnlyRootFilesystem": workload.read_only,
        },
        "volumeMounts": list(mounts),
        "terminationMessagePolicy": "File",
    }
    if workload.entrypoint:
        made["command"] = [_literal(word) for word in workload.entrypoint]
    if command := workload.command or workload.artifact.command:
        made["args"] = [_literal(word) for word in command]
    if workload.artifact.workdir:
        made["workingDir"] = workload.artifact.workdir
    if serves:
        made["ports"] = [
            {"containerPort": number, "protocol": protocol} for number, protocol in published_ports(workload)
        ]
        made |= _probes(workload)
    return made


def _literal(word: str) -> str:
    """Escapes the references to variables that Kubernetes would replace."""
    return word.replace("$", "$$")


def _probes(workload: Workload) -> Manifest:
    """Returns the probes of a container. Derived probes only delay the start; declared ones are repeated."""
    made: Manifest = {}
    if workload.ready:
        first = workload.ready[0]
        made["startupProbe"] = {
            **_probe(first, period=1.0),
            "failureThreshold": _FOREVER,
            "successThreshold": 1,
        }
        made["startupProbe"].pop("initialDelaySeconds", None)
        if workload.watched:
            made["readinessProbe"] = _probe(first)
    if workload.alive:
        made["livenessProbe"] = {**_probe(workload.alive[0]), "successThreshold": 1}
    return made


def _probe(probe: HealthProbe, *, period: float = 0.0) -> Manifest:
    made: Manifest = {
        "initialDelaySeconds": ceil(probe.initial_delay),
        "periodSeconds": max(1, ceil(period or probe.period)),
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


def _mounts(workload: Workload) -> tuple[list[Manifest], list[Manifest]]:
    """Returns the mounts of a container, and the volumes of its Pod."""
    mounts: list[Manifest] = []
    volumes: list[Manifest] = []
    for number, volume in enumerate(workload.volumes):
        mounts.append({"name": f"volume-{number}", "mountPath": volume.mount})
        source = {"claimName": names.claim(workload.service, volume)}
        volumes.append({"name": f"volume-{number}", "persistentVolumeClaim": source})
    if workload.files:
        items = [{"key": f"f{number}", "path": f"f{number}"} for number, _ in enumerate(workload.files)]
        files: Manifest = {"secretName": secret_name(workload), "items": items, "defaultMode": 0o444}
        volumes.append({"name": "files", "secret": files})
        home = workload.artifact.workdir or "/"
        for number, path in enumerate(workload.files):
            inside = posixpath.normpath(posixpath.join(home, path))
            mounts.append({"name": "files", "mountPath": inside, "subPath": f"f{number}", "readOnly": True})
    if workload.writes_output:
        volumes.append({"name": "output", "emptyDir": {"sizeLimit": "64Mi"}})
        mounts.append({"name": "output", "mountPath": _OUTPUT_FOLDER})
    if workload.read_only:
        taken = {mount["mountPath"].rstrip("/") for mount in mounts}
        for number, folder in enumerate(_TEMPORARY_FOLDERS):
            if folder not in taken:
                volumes.append({"name": f"temporary-{number}", "emptyDir": {}})
                mounts.append({"name": f"temporary-{number}", "mountPath": folder})
    return mounts, volumes


def _output_container(options: ClusterOptions) -> Manifest:
    """Returns the container beside a run that hands over its output file. As a sidecar it gets its signal
    after the program has ended."""
    return {
        "name": names.OUTPUT_CONTAINER,
        "image": options.helper_image,
        "imagePullPolicy": "IfNotPresent",
        "restartPolicy": "Always",
        "command": ["sh", "-c", _literal(_HAND_OVER)],
        "resources": {
            "limits": {"cpu": "200m", "memory": "32Mi"},
            "requests": {"cpu": "1m", "memory": "8Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": ["DAC_OVERRIDE"]},
        },
        "volumeMounts": [{"name": "output", "mountPath": _OUTPUT_FOLDER, "readOnly": True}],
    }


def _has_own_init(workload: Workload) -> bool:
    words = [*workload.entrypoint, *workload.command, *workload.artifact.command]
    return bool(words) and PurePosixPath(words[0]).name in INIT_PROGRAMS
