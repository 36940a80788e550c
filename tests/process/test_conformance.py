"""The engine of processes keeps the promises of every engine, and says what it does not enforce."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest

from tests.engines.conformance import Conformance
from tests.engines.stations import CAPABILITIES
from windlass.engines.engine import Engine
from windlass.process.environment import with_this_python
from windlass.process.exit_reason import Pauses


class TestConformance(Conformance):
    """See there."""


@pytest.mark.parametrize(
    ("before", "ran", "pause"),
    [(0, 0, 0.5), (0.5, 1, 1), (1, 59, 2), (32, 0, 60), (60, 0, 60), (60, 60, 0.5), (4, 3600, 0.5)],
)
def test_pauses_between_restarts_grow_until_the_program_has_run_well(before, ran, pause):
    assert Pauses().after(before, ran) == pause


# The page about it.


def test_the_manual_names_every_verb_and_every_capability():
    page = (Path(__file__).parents[2] / "docs" / "adding-an-engine.md").read_text()
    verbs = [name for name, _ in inspect.getmembers(Engine, inspect.isfunction) if not name.startswith("_")]
    assert [name for name in (*verbs, *CAPABILITIES) if f"`{name}`" not in page] == []


def test_a_launcher_recorded_by_another_installation_folder_runs_with_the_current_python():
    noted = ("/gone/.venv/bin/python", "-I", "-m", "windlass.launch.postgresql", "x")
    assert with_this_python(noted) == (sys.executable, *noted[1:])
    other = ("/gone/.venv/bin/python", "-I", "-m", "shop")
    assert with_this_python(other) == other
