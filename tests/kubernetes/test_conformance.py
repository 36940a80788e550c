"""The Kubernetes engine keeps the promises of every engine."""

from __future__ import annotations

import pytest

from tests.engines.conformance import Conformance
from tests.kubernetes.rig import KubernetesRig

pytestmark = pytest.mark.nightly


class TestConformance(Conformance):
    """CI tries those that are essential."""

    @pytest.fixture
    def rig(self, cluster, tmp_path):
        made = KubernetesRig(cluster, tmp_path)
        yield made
        made.erase()
