"""Real Kubernetes: a control plane for each module, and one cluster with a node for all test processes.

Both end with their module: their programs use the processor as long as they run, also without a test."""

from __future__ import annotations

import uuid

import pytest

from tests.kubernetes.cluster import shared_cluster
from tests.kubernetes.control_plane import control_plane
from tests.kubernetes.programs import require_control_plane


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    require_control_plane()
    with control_plane(tmp_path_factory.mktemp("control-plane")) as made:
        yield made


@pytest.fixture(scope="module")
def cluster():
    with shared_cluster() as shared:
        yield shared


@pytest.fixture
def namespace(cluster):
    """The name of a namespace of one test."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    cluster.add_namespace(name)
    yield name
    cluster.ask(f"/api/v1/namespaces/{name}", method="DELETE")
