"""The programs of a Kubernetes cluster: which are missing here, and how to get them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

BUILT: Final = Path("/usr/local/share/windlass-tests/kubernetes")
"""Where .ci/kubernetes puts what it builds."""
CLUSTER: Final = BUILT / "cluster"
COREDNS: Final = BUILT / "coredns"
HELM: Final = BUILT / "helm"
PLUGINS: Final = Path("/usr/lib/cni")

REQUIRED: Final = "WINDLASS_TEST_REQUIRE_KUBERNETES"
_PACKAGES: Final = {
    "containerd": "containerd",
    "conntrack": "conntrack",
    "docker-registry": "docker-registry",
    "ip": "iproute2",
    "iptables": "iptables",
    "runc": "runc",
}
"""Debian's packages by the program of a node that they install."""


def require_control_plane() -> None:
    """Skips the test, or fails it where Kubernetes is required, if a control plane cannot be started here."""
    _require(*_not_built(CLUSTER))


def require_helm() -> None:
    """The same for helm."""
    _require(*_not_built(HELM))


def require_node() -> None:
    """The same for a cluster with a node."""
    _require(*_not_built(CLUSTER, COREDNS), *_missing_for_a_node())


def _require(*missing: str) -> None:
    if not missing:
        return
    reason = f"no Kubernetes cluster: {'; '.join(missing)}"
    if os.environ.get(REQUIRED):
        pytest.fail(f"{REQUIRED} is set, and there is {reason}")
    pytest.skip(reason)


def _not_built(*programs: Path) -> Iterator[str]:
    if missing := [program.name for program in programs if not program.exists()]:
        yield f"{', '.join(missing)} of its programs is not built: bash .ci/kubernetes (needs Go)"


def _missing_for_a_node() -> Iterator[str]:
    packages = [package for name, package in _PACKAGES.items() if not shutil.which(name)]
    if not (PLUGINS / "bridge").exists():
        packages.append("containernetworking-plugins")
    if not Path("/usr/share/doc/busybox-static").exists():
        packages.append("busybox-static")
    if packages:
        yield f"programs of a node are not installed: apt-get install {' '.join(packages)}"
    if os.geteuid() != 0:
        yield "a node needs root"
