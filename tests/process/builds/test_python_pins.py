"""The Pythons that have wheels of pinned packages, where a repository names no Python."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

from tests.detect.trees import FLASK, tree_of
from tests.tables import rows
from windlass.detect import detect
from windlass.detect.dockerfile import dockerfile
from windlass.detect.python_pins import minors_of
from windlass.detect.wheel_table import NEWEST_MINOR, WHEELS
from windlass.process.builds.python_versions import wanted_in


def version_of(files) -> str:
    return detect(tree_of({"app.py": FLASK, **files})).language_version


@rows(
    ("pins", "version"),
    [
        ("numpy==1.24\n", ">=3.8,<=3.11"),
        ("numpy==1.24.0\n", ">=3.8,<=3.11"),
        ("pandas==1.5.3\nPillow==9.0\n", ">=3.8,<=3.10"),
        ("pandas==2.1.4\nPillow==9.0.1\n", ">=3.9,<=3.10"),
        ("psycopg2_binary == 2.9.3\n", ">=3.8,<=3.10"),
        ("pydantic-core==2.14.6\n", ">=3.8,<=3.12"),
        ("lxml[html5]==4.9.2\n", ">=3.8,<=3.11"),
        ("greenlet==2.0.1 # old\n", ">=3.8,<=3.11"),
        ("aiohttp==3.8.1 ; python_version >= '3.7'\n", ">=3.8,<=3.10"),
        ("scipy==1.4.1\n", "3.8"),
        ("numpy==1.24.4; python_version < '3.9'\nnumpy==1.26.4; python_version >= '3.9'\n", ">=3.9,<=3.12"),
        # No pin, no limit, or no Python that has them all
        ("numpy>=1.24\npandas\n", ""),
        ("flask==1.0\nrequests==2.8\n", ""),
        ("cryptography==3.4\n", ""),
        ("lxml==4.9.2 ; sys_platform == 'win32'\n", ""),
        ("numpy==1.16.0\npandas==2.2.0\n", ""),
    ],
)
def test_pinned_packages_choose_a_python_that_has_wheels_of_them(pins, version):
    assert version_of({"requirements.txt": pins}) == version


LOCK = '[[package]]\nname = "flask"\nversion = "3.0"\n\n[[package]]\nname = "numpy"\nversion = "1.24.0"\n'
PIPFILE = {
    "_meta": {},
    "default": {"numpy": {"hashes": ["x"], "version": "==1.24.0"}},
    "develop": {"lxml": {"version": "==3.7"}},
}


@pytest.mark.parametrize(
    ("files", "file"),
    [
        ({"requirements.txt": "-r more.txt\n", "more.txt": "numpy==1.24.0\n"}, "more.txt"),
        ({"pyproject.toml": "", "uv.lock": LOCK}, "uv.lock"),
        ({"pyproject.toml": "", "poetry.lock": LOCK, "requirements.txt": "lxml==3.7\n"}, "poetry.lock"),
        ({"Pipfile": "[packages]\n", "Pipfile.lock": json.dumps(PIPFILE)}, "Pipfile.lock"),
        ({"pyproject.toml": '[project]\ndependencies=["numpy==1.24.0"]\n'}, "pyproject.toml"),
    ],
)
def test_both_engines_choose_the_python_version_with_wheels_for_locked_packages(files, file, tmp_path):
    recipe = detect(tree_of({**files, "app.py": FLASK}))
    assert (recipe.language_version, recipe.reasons["language_version"]) == (
        ">=3.8,<=3.11",
        f"numpy 1.24.0 in {file} has wheels for no newer Python.",
    )
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    wanted = wanted_in(tmp_path, {})
    assert (wanted.version, wanted.named_by) == (recipe.language_version, f"numpy 1.24.0 in {file}")
    assert (wanted.holds("3.11.4"), wanted.holds("3.12.1"), wanted.is_strict) == (True, False, False)


def test_the_image_of_pinned_packages_has_the_newest_python_with_wheels():
    files = {"requirements.txt": "numpy==1.24.0\n", "main.py": "print(1)\n"}
    assert "FROM python:3.11-slim-bookworm" in dockerfile(detect(tree_of(files)), tree_of(files))
    files = {"requirements.txt": "numpy>=1.24.0\n", "main.py": "print(1)\n"}
    assert "FROM python:3.13-slim-bookworm" in dockerfile(detect(tree_of(files)), tree_of(files))


@pytest.mark.parametrize(
    ("named", "version"),
    [
        ({".python-version": "3.12\n"}, "3.12"),
        ({"runtime.txt": "python-3.9.7\n"}, "3.9.7"),
        ({"pyproject.toml": '[project]\nrequires-python=">=3.7"\n'}, ">=3.7"),
    ],
)
def test_a_python_that_the_repository_names_wins_over_its_pins(named, version, tmp_path):
    files = {"requirements.txt": "numpy==1.24.0\n", **named}
    assert version_of(files) == version
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    pyproject = {"project": {"requires-python": ">=3.7"}} if "pyproject.toml" in named else {}
    assert wanted_in(tmp_path, pyproject).version == version


def test_a_lock_that_cannot_be_read_names_no_python():
    for text in ("{", "[]", '{"default": {"numpy": "1.24"}}', '{"default": {"numpy": {"version": 1}}}'):
        assert version_of({"Pipfile": "[packages]\n", "Pipfile.lock": text}) == ""


def test_the_wheel_table_is_sorted_and_used_by_pins():
    row = re.compile(r"(\d+(?:\.\d+)*)=(\d+)-(\d+)")
    for package, text in WHEELS.items():
        rows = [row.fullmatch(word) for word in text.split()]
        assert all(rows), package
        matches = [match for match in rows if match]
        versions = [tuple(map(int, match[1].split("."))) for match in matches]
        assert versions == sorted(set(versions)), package
        assert all(int(match[3]) in range(NEWEST_MINOR + 1) for match in matches), package
    assert minors_of("numpy", "1.24.0") == (8, 11)
    assert minors_of("numpy", "0.1") == minors_of("flask", "1.0") == (0, NEWEST_MINOR)


def generator():
    spec = importlib.util.spec_from_file_location(
        "wheels", Path(__file__).parents[3] / "requirements/wheels.py"
    )
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LINUX = "manylinux_2_17_x86_64.manylinux2014_x86_64"


@rows(
    ("names", "rows"),
    [
        ([f"a-1.0-cp38-cp38-{LINUX}.whl", f"a-1.0-cp310-cp310-{LINUX}.whl"], [((1,), 8, 10)]),
        ([f"a-1.0-cp38-cp38-{LINUX}.whl", "a-1.0-cp312-cp312-win_amd64.whl"], [((1,), 8, 8)]),
        ([f"a-1.0-cp38-cp38-{LINUX}.whl", f"a-1.0-cp313-cp313t-{LINUX}.whl"], [((1,), 8, 8)]),
        ([f"a-1.0-cp37-abi3-{LINUX}.whl"], [((1,), 7, 0)]),
        ([f"a-1.0-cp38-cp38-{LINUX}.whl", "a-1.0-py3-none-any.whl"], []),
        ([f"a-1.0-cp38-cp38-{LINUX}.whl", f"a-1.1.post1-cp38-cp38-{LINUX}.whl"], [((1,), 8, 8)]),
        ([f"a-1.0-cp38-cp38-{LINUX}.whl", "a-1.1.tar.gz"], [((1,), 8, 8), ((1, 1), 0, 0)]),
        ([f"a-1.0rc1-cp38-cp38-{LINUX}.whl", "a-1.0b1.tar.gz"], []),
    ],
)
def test_the_wheel_table_is_generated_from_file_names(names, rows):
    assert generator().rows_of(names) == rows
