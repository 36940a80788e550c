"""Names, labels and annotations of Windlass's objects in a cluster."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import Final

from windlass.engines.workload import Volume, Workload

MANAGER: Final = "windlass"
"""The field manager of all writes."""
INSTALLATION: Final = "windlass.dev/installation"
SERVICE: Final = "windlass.dev/service"
ENVIRONMENT: Final = "windlass.dev/environment"
ORGANIZATION: Final = "windlass.dev/org"
GENERATION: Final = "windlass.dev/generation"
DEPLOYMENT: Final = "windlass.dev/deployment"
INDEX: Final = "windlass.dev/index"
"""Label of a run, which has a fixed index."""
LINES_NAME: Final = "windlass.dev/name"
"""Label with the host name form of the display name, for names of instances."""
REGISTRY: Final = "windlass.dev/registry"
"""Label of a Secret with the login of the registry for built images."""
ALONE: Final = "windlass.dev/alone"
"""Label of a StatefulSet."""
SERVES: Final = "windlass.dev/serves"
"""Label of Pods that get connections of neighbours."""
REMOVED: Final = "windlass.dev/removed"
"""Label of a removed generation, with the number of its removal."""
DISCARDED: Final = "windlass.dev/discarded"
"""Label of the mark that stands for all earlier generations of a deleted service."""
INDEXES: Final = "windlass.dev/indexes"
"""Annotation of a Deployment: the index of each of its Pods, by uid. It is in one object, so that two servers
never assign the same index."""
DIGEST: Final = "windlass.dev/digest"
"""Annotation with the digest of the last write, so that an unchanged object is not written again."""
TITLE: Final = "windlass.dev/title"
GRACE: Final = "windlass.dev/grace"
MEMORY: Final = "windlass.dev/memory"
PORTS: Final = "windlass.dev/ports"
WATCHED: Final = "windlass.dev/watched"
"""Annotation of Pods whose readiness probe is repeated after the start."""
RESULT_FINALIZER: Final = "windlass.dev/result"
"""Finalizer that keeps a run and its outcome in the cluster until they are no longer needed."""
RUN: Final = "windlass.dev/run"
"""Label of the objects that give rights to one run."""
EXPIRES: Final = "windlass.dev/expires"
"""Annotation of such an object: the second since 1970 in which its token ends by itself."""
CONTAINER: Final = "app"
OUTPUT_CONTAINER: Final = "output"

_MAX_LABEL_LENGTH: Final = 63
_SERVICE_NAME_LENGTH: Final = 20


def _digest(text: str, length: int = 8) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def installation_label(installation: str) -> str:
    return _digest(installation, 16)


def namespace(installation: str, environment: str) -> str:
    """Returns the namespace of an environment. Installations that share a cluster have namespaces of their
    own, also if one of them was restored from a backup of the other."""
    return f"wl-{_digest(installation)}-{host_name(environment, 48)}"


def account_namespace(installation: str) -> str:
    """Returns the namespace of the account that may change the whole cluster. That of no environment has
    this name."""
    return f"wl-{_digest(installation)}-accounts"


def run_label(run: str) -> str:
    return _digest(run, 16)


def run_account(run: str) -> str:
    """Returns the name of the objects that give rights to one run."""
    return f"windlass-run-{run_label(run)}"


def host_name(name: str, longest: int = _MAX_LABEL_LENGTH) -> str:
    """Converts a name of users to a host name: `Café Shop` becomes `cafe-shop`."""
    ascii_only = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", ascii_only).strip("-")[:longest].strip("-") or "service"


def _prefix(service: str, name: str) -> str:
    title = host_name(name, _SERVICE_NAME_LENGTH)
    if not title[0].isalpha():  # Services of the cluster begin with a letter
        title = f"s-{title}"
    return f"{title}-{_digest(service)}"


def controller(workload: Workload) -> str:
    """Returns the name of the Deployment or StatefulSet of a generation."""
    return generation_object(workload.service, workload.name, workload.generation)


def generation_object(service: str, name: str, generation: int) -> str:
    return f"{_prefix(service, name)}-{generation}"


def run(workload: Workload, index: int) -> str:
    return f"{controller(workload)}-run-{index}"


def variables_secret(workload: Workload, digest: str) -> str:
    return f"{controller(workload)}-{digest[:10]}"


def budget(service: str) -> str:
    return f"budget-{service}"


def pull_secret(service: str) -> str:
    return f"pull-{_digest(service)}"


def claim(service: str, wanted: Volume) -> str:
    return f"volume-{_digest(service)}-{host_name(wanted.name, 30)}-{_digest(wanted.name, 6)}"


def neighbour(service: str, name: str) -> str:
    """Returns the name of the Service under which neighbours reach a service."""
    return _prefix(service, name)


def instance_name(title: str, generation: int, index: int) -> str:
    """Returns the name of an instance in lines of output, such as `web-7-0`."""
    tail = f"-{generation}-{index}"
    return host_name(title, _MAX_LABEL_LENGTH - len(tail)) + tail


def labels(installation: str, workload: Workload) -> dict[str, str]:
    return {
        INSTALLATION: installation_label(installation),
        SERVICE: workload.service,
        ENVIRONMENT: workload.environment,
        ORGANIZATION: workload.org,
        GENERATION: str(workload.generation),
        DEPLOYMENT: host_name(workload.deployment),
        LINES_NAME: host_name(workload.name),
    }


def selector(installation: str, service: str = "") -> str:
    """Returns a label selector for all objects of an installation, or for those of one service."""
    chosen = f"{INSTALLATION}={installation_label(installation)}"
    return f"{chosen},{SERVICE}={service}" if service else chosen
