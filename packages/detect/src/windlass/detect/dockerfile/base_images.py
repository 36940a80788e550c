"""Base images by language. Selects an existing tag that matches the version that a repository requests.

All tags with a Debian release use the same release, so a program that is built in one image runs in the
other.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from windlass.detect.version_ranges import without_name

DEBIAN: Final = "bookworm"
SLIM: Final = f"debian:{DEBIAN}-slim"

_CLAUSE_PATTERN: Final = re.compile(
    r"(?<![\w.])(\^|~=|~>|~|>=|<=|!=|==|=|>|<|)[ \t]*+v?(\d{1,4}(?:\.\d{1,6}){0,3})"
)
_HYPHEN_PATTERN: Final = re.compile(r"(\d[\d.]*+) +- +(\d[\d.]*+)")
_EXACT_PATTERN: Final = re.compile(r"[=v]{0,3}+(\d{1,4}(?:\.\d{1,6}){0,3})(?:\.[x*])?", re.ASCII)
_DISTRIBUTION_PATTERN: Final = re.compile(r"(?:[a-z]++-)?+([=v]{0,3}+\d[\d.]*+)[-+]\S*+")
"""Matches versions with the name of a distribution, such as `temurin-21.0.2+13` or `1.17.3-otp-27`."""


class BaseImages(Struct, frozen=True, kw_only=True):
    """The images of a language; `{version}` stands for the version."""

    build: str
    """The image of the build stage, with compilers."""
    run: str
    """The image of the last stage, with the language runtime only."""
    default: str = ""
    versions: tuple[str, ...] = ()
    """Available versions, oldest first. A version range selects one of them."""
    takes_patches: bool = False
    """Returns whether the language requires exactly the patch version that the repository declares."""
    at_least: bool = False
    """Returns whether a newer version of the language builds every project that declares an older version."""

    def version_for(self, wish: str) -> str:
        """Returns the version in the image tag for a version or range that a repository declares."""
        wish = _DISTRIBUTION_PATTERN.sub(r"\1", wish.strip().lower())
        wish = _HYPHEN_PATTERN.sub(r">=\1 <=\2", without_name(wish))
        if self.takes_patches and (exact := _EXACT_PATTERN.fullmatch(wish)) and exact[1].count(".") == 2:
            return exact[1]
        clauses = [[*_CLAUSE_PATTERN.finditer(part)] for part in re.split(r"\|\|?", wish)]
        ranges = [[(match[1], _version_numbers(match[2])) for match in part] for part in clauses if part]
        if not ranges:
            return self.default
        if self.at_least:
            named = max(numbers for clause in ranges for _, numbers in clause)
            return self.default if named <= _version_numbers(self.default) else self._version_text(named)
        for version in (self.default, *reversed(self.versions)):
            if any(all(self._satisfies(version, *clause) for clause in part) for part in ranges):
                return version
        return self._version_text(
            next((numbers for how, numbers in ranges[0] if how not in ("<", "<=", "!=")), ())
        ) or (self.default)

    def tags(self, version: str) -> tuple[str, str]:
        """Returns the images of the build stage and of the last stage. Tags of versions that are older than
        the Debian release do not contain its name."""
        build, last = (image.format(version=version) for image in (self.build, self.run))
        if self.versions and _version_numbers(version) < _version_numbers(self.versions[0]):
            return build.replace(f"-{DEBIAN}", ""), last.replace(f"-{DEBIAN}", "")
        return build, last

    @property
    def _version_precision(self) -> int:
        return self.default.count(".") + 1

    def _version_text(self, version_numbers: tuple[int, ...]) -> str:
        return ".".join(map(str, version_numbers[: self._version_precision]))

    def _satisfies(self, version: str, operator: str, version_numbers: tuple[int, ...]) -> bool:
        ours, theirs = _version_numbers(version), version_numbers[: self._version_precision]
        match operator:
            case ">=":
                return ours >= theirs
            case "<=":
                return ours[: len(theirs)] <= theirs
            case ">":
                return ours > theirs if len(version_numbers) <= self._version_precision else ours >= theirs
            case "<":
                return (
                    ours < theirs if not any(version_numbers[self._version_precision :]) else ours <= theirs
                )
            case "!=":
                return len(version_numbers) > self._version_precision or ours[: len(theirs)] != theirs
            case "^" | "~=" | "~>":
                fixed = 1 if operator == "^" else max(1, min(len(version_numbers), 3) - 1)
                return ours[:fixed] == theirs[:fixed] and ours >= theirs
        return ours[: len(theirs)] == theirs


def _version_numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split("."))) if version else ()


BASE_IMAGES: Final = {
    "Python": BaseImages(
        build=f"python:{{version}}-{DEBIAN}",
        run=f"python:{{version}}-slim-{DEBIAN}",
        default="3.13",
        versions=("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14"),
    ),
    "Node": BaseImages(
        build=f"node:{{version}}-{DEBIAN}",
        run=f"node:{{version}}-{DEBIAN}-slim",
        default="24",
        versions=("16", "18", "20", "22", "24", "26"),
    ),
    "Go": BaseImages(build=f"golang:{{version}}-{DEBIAN}", run=SLIM, default="1.26", at_least=True),
    "Rust": BaseImages(build=f"rust:{{version}}-{DEBIAN}", run=SLIM, default="1", at_least=True),
    "Java": BaseImages(
        build="eclipse-temurin:{version}-jdk",
        run="eclipse-temurin:{version}-jre",
        default="21",
        versions=("8", "11", "17", "21", "25"),
    ),
    "Ruby": BaseImages(
        build=f"ruby:{{version}}-{DEBIAN}",
        run=f"ruby:{{version}}-slim-{DEBIAN}",
        default="3.4",
        versions=("3.1", "3.2", "3.3", "3.4", "4.0"),
        takes_patches=True,
    ),
    "PHP": BaseImages(
        build=f"php:{{version}}-cli-{DEBIAN}",
        run=f"php:{{version}}-cli-{DEBIAN}",
        default="8.4",
        versions=("8.1", "8.2", "8.3", "8.4", "8.5"),
    ),
    "Deno": BaseImages(
        build="denoland/deno:debian-{version}",
        run="denoland/deno:debian-{version}",
        default="2.1.4",
        takes_patches=True,
    ),
    ".NET": BaseImages(
        build="mcr.microsoft.com/dotnet/sdk:{version}",
        run="mcr.microsoft.com/dotnet/aspnet:{version}",
        default="8.0",
        versions=("6.0", "7.0", "8.0", "9.0", "10.0"),
    ),
    "Elixir": BaseImages(
        build="elixir:{version}",
        run="elixir:{version}-slim",
        default="1.18",
        versions=("1.15", "1.16", "1.17", "1.18", "1.19"),
    ),
    "Perl": BaseImages(
        build=f"perl:{{version}}-{DEBIAN}",
        run=f"perl:{{version}}-slim-{DEBIAN}",
        default="5.40",
        versions=("5.36", "5.38", "5.40"),
    ),
    "HTML": BaseImages(build=SLIM, run=SLIM),
    "Shell": BaseImages(build=SLIM, run=SLIM),
    "": BaseImages(build=SLIM, run=SLIM),
}
"""Images keyed by language. The empty key is for folders without a recognized language."""
