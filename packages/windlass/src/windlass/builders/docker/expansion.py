"""Limits what the variables of a Dockerfile expand to.

The engine expands them in its own memory, where no limit of a build counts: a few ENV that double each
other fill it. It takes time by the square of a length, and goes on after the build is cancelled. So the size
is counted here first, and never too low: each variable counts with its longest value anywhere in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from windlass.builders.dockerfile import Dockerfile
from windlass.builders.instructions import DockerfileError, Instruction, arguments, instruction, pairs

MOST_EXPANDED: Final = 512 * 1024
"""Most characters that the instructions of a Dockerfile may have together with their variables."""
MOST_REPEATED: Final = 16 * 1024 * 1024
"""Most characters that the values of all variables may have, times the instructions: a step repeats them."""

_NOT_EXPANDED: Final = frozenset({"CMD", "ENTRYPOINT", "HEALTHCHECK", "MAINTAINER", "RUN", "SHELL"})
_NAMED: Final = re.compile(r"\$\{?(\w+|[@*#?$!-])")
_REPLACES: Final = re.compile(r"\$\{\w+/")
_NOT_PLAIN: Final = re.compile(r"[$'\"\\`]")


class FromImages(Struct, frozen=True):
    """What the images give that a Dockerfile begins with."""

    lengths: Mapping[str, int] = {}
    """Of the longest value of each variable."""
    triggers: tuple[str, ...] = ()
    """Their ONBUILD instructions."""


def inherited(images: Iterable[Mapping[str, Any]]) -> FromImages:
    lengths: dict[str, int] = {}
    triggers: list[str] = []
    for image in images:
        config = image.get("Config") or {}
        triggers += map(str, config.get("OnBuild") or ())
        for variable in config.get("Env") or ():
            name, _, value = str(variable).partition("=")
            lengths[name] = max(lengths.get(name, 0), len(value))
    return FromImages(lengths, tuple(triggers))


def check_expansion(read: Dockerfile, given: Mapping[str, str], base: FromImages) -> None:
    """Raises a DockerfileError if the variables of a Dockerfile expand to too much. `given` are values from
    outside of it, and `base` is what its images give."""
    count = _SizeCount(read, given, base)
    for each in _all_instructions(read, base):
        count.add(each)


def _all_instructions(read: Dockerfile, base: FromImages) -> Iterator[Instruction]:
    """Yields what is executed, in its order or more often: what waits for another stage as ONBUILD counts
    once for each stage."""
    for argument in read.arguments:
        default = "" if argument.default is None else f"={argument.default}"
        yield instruction(argument.line, f"ARG {argument.name}{default}", read.escape)
    for start in read.starts:
        for trigger in base.triggers:
            yield instruction(start.line, trigger, "\\")
        yield start
    for stage in read.stages:
        for each in stage.instructions:
            if each.name == "ONBUILD":
                yield from [instruction(each.line, each.text, read.escape)] * len(read.stages)
            else:
                yield each


class _SizeCount:
    def __init__(self, read: Dockerfile, given: Mapping[str, str], base: FromImages) -> None:
        self._escape = read.escape
        self._lengths = dict(base.lengths)
        self._given = given
        self._values = sum(self._lengths.values())
        self._expanded = self._repeated = 0

    def add(self, each: Instruction) -> None:
        self._expanded += sum(map(self._size, _expanded_texts(each)))
        self._repeated += self._values
        if self._expanded > MOST_EXPANDED or self._repeated > MOST_REPEATED:
            raise DockerfileError(
                each.line,
                "use shorter values, or fewer variables: those of this file and its base images expand to "
                f"more than {MOST_EXPANDED // 1024} KiB, or steps repeat more than "
                f"{MOST_REPEATED // 1024 // 1024} MiB of them",
            )
        self._learn(each)

    def _learn(self, each: Instruction) -> None:
        if each.name == "ENV":
            for name, value in pairs(each, self._escape):
                if _NOT_PLAIN.search(name):
                    raise DockerfileError(each.line, "write names in ENV without quotes and variables")
                self._set(name, self._size(value))
        elif each.name == "ARG":
            for argument in arguments(each, self._escape):
                given = len(self._given.get(argument.name, ""))
                self._set(argument.name, max(self._size(argument.default or ""), given))

    def _set(self, name: str, length: int) -> None:
        before = self._lengths.get(name, 0)
        self._lengths[name] = max(before, length)
        self._values += self._lengths[name] - before

    def _size(self, text: str) -> int:
        size = len(text) + sum(self._lengths.get(name, 0) for name in _NAMED.findall(text))
        return size * size if _REPLACES.search(text) else size


def _expanded_texts(each: Instruction) -> Iterator[str]:
    for _, value in each.flags:
        yield value
    if each.name not in _NOT_EXPANDED:
        yield each.text
        for heredoc in each.heredocs:
            yield heredoc.content
