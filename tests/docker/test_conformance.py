"""The Docker engine keeps the promises of every engine."""

from __future__ import annotations

import pytest

from tests.engines.conformance import Conformance
from tests.engines.dockers import DockerRig

pytestmark = pytest.mark.nightly


class TestConformance(Conformance):
    """The promises of every engine. CI tries those that are essential: others are kept by code that engines
    share, or are tried in the other modules of this folder too."""

    @pytest.fixture
    def rig(self, host, tmp_path):
        return DockerRig(host, tmp_path)
