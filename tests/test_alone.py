"""The suite of each package passes where only that package is installed, with what it depends on."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.alone import LOCK, dependencies, locked
from tests.source import ROOT
from tests.suites import PACKAGES


def test_the_environment_of_a_package_contains_only_its_own_dependencies():
    assert {"aiohttp", "msgspec", "pytest"} <= dependencies("detect")
    assert not {"click", "uvicorn", "playwright"} & dependencies("detect")
    assert "click" in dependencies("cli")


def test_each_version_of_an_environment_comes_from_the_lock_with_its_hashes():
    lock = locked({"click"})
    assert lock.startswith("click==")
    assert lock.count("--hash=sha256:") == 2
    assert lock in LOCK.read_text()


@pytest.mark.nightly  # tests/code_rules/test_suites.py: suites import nothing above their package
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("package", PACKAGES)
def test_a_packages_suite_passes_with_only_that_package_installed(package):
    command = [sys.executable, "-m", "tests.alone", package, "-n", "2"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["WINDLASS_TESTS"] = "quick"
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, done.stdout
