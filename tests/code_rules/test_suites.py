"""The suite of a package imports that package and those below it, also through helpers."""

from __future__ import annotations

import pytest

from tests.source import ROOT
from tests.suites import PACKAGES, strangers


@pytest.mark.parametrize("package", PACKAGES)
def test_a_suite_imports_nothing_above_its_package(package):
    files = sorted((ROOT / "tests" / package).rglob("*.py"))
    assert any(file.name.startswith("test_") for file in files), "each package has a suite"
    assert [found for file in files for found in strangers(package, file)] == []


def test_an_import_through_a_helper_is_found():
    """A test of the product, if it were in the suite of a package."""
    found = list(strangers("base", ROOT / "tests/engines/test_whole.py"))
    assert any("tests/world.py imports windlass.config of windlass" in line for line in found)
