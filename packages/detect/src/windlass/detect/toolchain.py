"""A toolchain: the programs that build and start applications of a language, declared as data for
builders."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

_NUMBERS_PATTERN: Final = re.compile(r"\d+(?:\.\d++)*+")
_DAMAGE_PATTERN_TEXT: Final = (
    "checksum mismatch|corrupt(?:ed)?\\b|not a valid zip file|invalid (?:gzip|zip|LOC) header|zip END header"
    "|error in opening zip file|unexpected end of (?:file|ZLIB)|failed to unpack|EINTEGRITY"
)
"""A regular expression for messages of tools about a damaged cache. The build is retried with an empty
cache."""


class Toolchain(Struct, frozen=True, kw_only=True):
    """The programs of a language. In variables, `{caches}` stands for the organization's cache folder,
    `{app}` for the application's folder during a build, and `{home}` for the build's home folder."""

    title: str
    program: str
    package: str
    """The Debian packages that contain the program, separated by blanks; empty if there are none."""
    others: Mapping[str, str] = field(default_factory=dict)
    """Further programs that commands may begin with, each with its Debian package."""
    wheel: str = ""
    """The PyPI package that contains the program. Its installation does not need root."""
    wheel_programs: str = "bin"
    """The program folder in the installed wheel."""
    is_needed_to_run: bool = False
    """Returns whether one of these programs starts the application."""
    version: tuple[str, ...] = ()
    """The command that prints the version; empty if versions older than the requested one are accepted."""
    version_files: tuple[str, ...] = ()
    """Files of the application that determine the version of the programs."""
    former_major: int | None = None
    """The leading number of old version strings that is ignored: Java 1.8 is Java 8."""
    takes_nearest: bool = False
    """Returns whether the oldest installed version that is new enough is used, and not that of the PATH."""
    newer: str = ""
    """The command that installs another version, with `{version}`."""
    homes: tuple[str, ...] = ()
    """Patterns for folders on this machine that contain other versions. Each folder has its programs in
    `bin`."""
    home_variable: str = ""
    """The variable that is set to the folder of the chosen version in `homes`."""
    operator_files: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that are set to files below the operator's home folder, if the files exist."""
    passed: tuple[str, ...] = ()
    """Prefixes of the operator's environment variables that build steps inherit: registries and
    credentials."""
    caches: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that are set to cache folders, with the name of each cache."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Additional environment variables of steps."""
    home_files: Mapping[str, str] = field(default_factory=dict)
    """Files that are created in the home folder of a build, with their contents: settings that the programs
    read only from files."""
    running: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the running application."""
    kept: tuple[str, ...] = ()
    """Folders in the application that are cached between builds of the service."""
    results: tuple[str, ...] = ()
    """Patterns of files in the cached folders that the application needs at runtime. A pattern that ends with
    `/` is a folder."""
    damage: str = _DAMAGE_PATTERN_TEXT
    """A regular expression for output lines of a failed step that show a damaged cache."""

    @property
    def programs(self) -> dict[str, str]:
        """All programs, each with its Debian package."""
        return {**self.others, self.program: self.package}

    def installation(self, version_range: str) -> str:
        """Returns the command that installs the toolchain: in the requested version if Debian has a package
        with this version in its name."""
        numbers = ".".join(map(str, self.numbers_in(version_range)))
        if numbers and self.newer.startswith("apt-get "):
            return self.newer.format(version=numbers)
        return f"apt-get install {self.package}"

    def numbers_in(self, text: str) -> tuple[int, ...]:
        """Returns the first version in a text: `go version go1.26.8` is (1, 26, 8)."""
        match = _NUMBERS_PATTERN.search(text)
        numbers = tuple(int(part[:9]) for part in match[0].split(".")) if match else ()
        return numbers[1:] if len(numbers) > 1 and numbers[0] == self.former_major else numbers

    def is_old(self, version: str, version_range: str) -> bool:
        """Returns whether a version is older than the requested minimum. False if a version is unknown or
        `version_range` contains an upper limit."""
        least, present = self.numbers_in(version_range), self.numbers_in(version)
        return bool(least and present) and "<" not in version_range and present < least[: len(present)]
