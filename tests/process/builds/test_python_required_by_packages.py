"""The Python version that packages require is read from what pip and uv say when they refuse."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Any, ClassVar

import pytest

from windlass.builders.remedies import failure
from windlass.process.builds import python_versions
from windlass.process.builds.python_versions import (
    PythonRequirement,
    find_python,
    required_by_packages,
    wanted_in,
)

OWN = sys.version_info[1]

# As pip 23 to 25 write it.
PIP = """\
ERROR: Ignored the following versions that require a different python version: 5.3 Requires-Python >=3.14; \
6.0 Requires-Python >=3.12; 6.0.1 Requires-Python >=3.12; 6.1 Requires-Python >=3.12
ERROR: Could not find a version that satisfies the requirement {0} (from versions: 1.1.3, 5.2.1)
ERROR: No matching distribution found for {0}""".splitlines()
OLD = (
    "ERROR: Ignored the following versions that require a different python version: 1.21.3 Requires-Python "
    ">=3.7,<3.11",
    "ERROR: No matching distribution found for numpy==1.21.3",
)
PROJECT = ["ERROR: Package 'shop' requires a different Python: 3.11.7 not in '>=3.12'"]
ANY = PythonRequirement()


def said(requirement: str) -> list[str]:
    return [line.format(requirement) for line in PIP]


@pytest.mark.parametrize(
    ("lines", "required"),
    [
        (said("Django==6.0"), ("3.13", "the package Django")),
        (said("Django>=6"), ("3.13", "the package Django")),
        (OLD, ("3.10", "the package numpy")),
        (PROJECT, ("3.13", "shop")),
    ],
)
def test_the_version_that_packages_require_is_read_from_the_refusal(lines, required):
    assert required_by_packages(lines, ANY) == required


def test_a_version_that_the_repository_names_is_not_replaced():
    assert required_by_packages(said("Django==6.0"), PythonRequirement("3.11", ".python-version")) is None
    assert required_by_packages(said("Django==6.0"), PythonRequirement("<3.12", "pyproject.toml")) is None
    assert required_by_packages(said("Django==6.0"), PythonRequirement(">=3.10", "pyproject.toml"))


def test_a_package_that_does_not_exist_requires_no_other_python():
    assert required_by_packages(said("Django==7.5"), ANY) is None
    assert required_by_packages(["ERROR: No matching distribution found for nothing-here"], ANY) is None


def test_the_message_names_the_python_version_and_not_the_package():
    text = failure("pip install", 1, said("Django==6.0"))
    assert text.startswith("Set language_version to 3.12 or newer, or write it to a file .python-version:")
    # Negative control: a version that no Python has is a matter of the package.
    assert "language_version" not in failure("pip install", 1, said("Django==7.5"))


@pytest.mark.parametrize(
    ("name", "text", "version"),
    [
        ("uv.lock", 'version = 1\nrequires-python = ">=3.12"\n', ">=3.12"),
        ("Pipfile.lock", '{"_meta": {"requires": {"python_version": "3.12"}}}', "3.12"),
    ],
)
def test_a_lock_names_the_version_for_which_it_was_made(name, text, version, tmp_path):
    (tmp_path / name).write_text(text)
    assert wanted_in(tmp_path, {}) == PythonRequirement(version, name)


class OtherPythons:
    """The programs of a machine that has one more Python than the server's."""

    surroundings: ClassVar[dict[str, str]] = {}
    home = "/"

    def __init__(self, version: str) -> None:
        self._version = version

    def find(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name == f"python{self._version}" else None

    async def ask_once(self, words, program) -> str:
        return f"{self._version}.5"


@pytest.mark.parametrize(
    ("wanted", "is_newer"),
    [
        (ANY, True),
        (PythonRequirement(">=3.8", "pyproject.toml"), True),
        (PythonRequirement(f"<=3.{OWN}", "pyproject.toml"), False),
        (PythonRequirement(f"3.{OWN}", ".python-version"), False),
    ],
)
async def test_the_newest_python_of_the_machine_is_used_that_the_repository_allows(
    wanted, is_newer, monkeypatch
):
    monkeypatch.setattr(python_versions, "DEFAULT_MINOR", OWN + 1)
    tools: Any = OtherPythons(f"3.{OWN + 1}")
    nothing_is_fetched: Any = None
    found = await find_python(tools, nothing_is_fetched, ExitStack(), wanted)
    assert found.version.startswith(f"3.{OWN + 1 if is_newer else OWN}.")
    # Negative control: one that is too new for most packages is not used.
    monkeypatch.setattr(python_versions, "DEFAULT_MINOR", OWN)
    found = await find_python(tools, nothing_is_fetched, ExitStack(), wanted)
    assert found.version.startswith(f"3.{OWN}.")
