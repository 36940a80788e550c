"""Pipfile and its lock as requirements."""

from __future__ import annotations

import json

import pytest

from tests.process.builds.native_sites import write
from windlass.builders.builder import BuildError
from windlass.process.builds.pipfile import pipfile_lines

LOCKED = {
    "flask": {
        "version": "==3.0.0",
        "hashes": ["sha256:aa", "sha256:bb"],
        "markers": "os_name == 'posix'",
    },
    "uvicorn": {"version": "==0.30", "extras": ["standard"], "hashes": ["sha256:cc"]},
}
FROM_GIT = {"shop": {"git": "https://example.com/shop.git", "ref": "abc"}}


def lock_of(packages, sources=()):
    return json.dumps({"_meta": {"sources": sources}, "default": packages, "develop": {"pytest": {}}})


def test_a_lock_gives_exact_versions_with_their_hashes(tmp_path):
    write(tmp_path, {"Pipfile.lock": lock_of(LOCKED), "Pipfile": '[packages]\nflask = "*"\n'})
    assert pipfile_lines(tmp_path) == [
        "flask==3.0.0 ; os_name == 'posix' --hash=sha256:aa --hash=sha256:bb",
        "uvicorn[standard]==0.30 --hash=sha256:cc",
    ]


def test_one_unhashed_package_in_a_lock_omits_all_hashes(tmp_path):
    write(tmp_path, {"Pipfile.lock": lock_of({**LOCKED, **FROM_GIT})})
    assert pipfile_lines(tmp_path) == [
        "flask==3.0.0 ; os_name == 'posix'",
        "uvicorn[standard]==0.30",
        "shop @ git+https://example.com/shop.git@abc",
    ]


def test_a_pipfile_without_a_lock_installs_only_its_packages(tmp_path):
    packages = '[packages]\nflask = "*"\nrich = ">=13"\nown = {path = "./own"}\n[dev-packages]\nx = "*"\n'
    write(tmp_path, {"Pipfile": packages})
    assert pipfile_lines(tmp_path) == ["flask", "rich>=13", "./own"]


def test_further_package_indexes_of_a_lock_are_passed_to_pip(tmp_path):
    sources = [{"url": "https://pypi.org/simple"}, {"url": "https://registry.example.com/simple"}]
    write(tmp_path, {"Pipfile.lock": lock_of({}, sources)})
    assert pipfile_lines(tmp_path) == ["--extra-index-url https://registry.example.com/simple"]
    write(tmp_path, {"Pipfile.lock": lock_of({}, sources[1:])})
    assert pipfile_lines(tmp_path) == ["--index-url https://registry.example.com/simple"]


def test_values_of_a_lock_cannot_inject_lines_or_options(tmp_path):
    write(tmp_path, {"Pipfile.lock": lock_of({"a\n--pre": {"version": "==1\n-r /etc/passwd"}})})
    assert pipfile_lines(tmp_path) == ["a--pre==1-r/etc/passwd"]


@pytest.mark.parametrize("text", ["{", "[1", "[" * 100_000])
def test_a_malformed_lock_is_named(tmp_path, text):
    write(tmp_path, {"Pipfile.lock": text})
    with pytest.raises(BuildError, match=r"^Fix Pipfile\.lock, which cannot be read"):
        pipfile_lines(tmp_path)
