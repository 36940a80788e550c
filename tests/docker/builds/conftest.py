"""Builds whose refusals tell no path of this machine."""

from __future__ import annotations

import pytest

from tests.refusals import heard_refusals
from windlass.builders.builder import BuildError


@pytest.fixture(autouse=True)
def refusals(tmp_path, monkeypatch):
    with heard_refusals(tmp_path, monkeypatch, BuildError) as told:
        yield told
