"""Versions that programs print are compared with those that a repository asks for."""

from __future__ import annotations

from tests.tables import rows
from windlass.detect import Toolchain, language_named


def toolchain_of(name: str) -> Toolchain:
    language = language_named(name)
    assert language
    assert language.toolchain
    return language.toolchain


@rows(
    ("language", "present", "wanted", "is_old"),
    [
        ("Java", "javac 1.8.0_292", "8", False),
        ("Java", "javac 1.8.0_292", "1.8", False),
        ("Java", "javac 17.0.9", "1.8", False),
        ("Java", "javac 1.8.0_292", "17", True),
        ("Java", "javac 11.0.2", "17", True),
        ("Go", "go version go1.26.8 linux/amd64", "1.8", False),
        ("Go", "go version go1.7.6 linux/amd64", "1.8", True),
        ("Rust", "cargo 0.9.1", "1", True),
        ("Go", "go version go1.20.1 linux/amd64", "<1.22", False),
    ],
)
def test_a_version_is_old_if_it_is_below_the_wanted_one(language, present, wanted, is_old):
    assert toolchain_of(language).is_old(present, wanted) == is_old


def test_the_command_that_installs_java_8_names_it_by_one_number():
    assert toolchain_of("Java").installation("1.8") == "apt-get install openjdk-8-jdk"
