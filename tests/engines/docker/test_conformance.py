"""The Docker engine keeps the promises of every engine."""

from __future__ import annotations

import pytest

from tests.engines.conformance import Conformance
from tests.engines.dockers import DockerRig


class TestConformance(Conformance):
    """The promises of every engine."""

    @pytest.fixture
    def rig(self, host, tmp_path):
        return DockerRig(host, tmp_path)
