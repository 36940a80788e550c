"""Limits the expanded size of a Dockerfile's variables, and the number of exposed ports.

The engine expands variables in its own memory, outside all build limits: a few ENV instructions, each
doubling the previous one, exhaust the memory. The expansion takes quadratic time, and continues after the
build is cancelled. This module therefore computes an upper bound of the expanded size in advance. Each
variable is counted with its longest value anywhere in the file. A `$` whose variable is uncertain is counted
with the longest value of all variables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from windlass.base.lazy import lazy_pattern
from windlass.builders.dockerfile import Dockerfile
from windlass.builders.instructions import (
    DockerfileError,
    Instruction,
    arguments,
    instruction,
    pairs,
    short,
)
from windlass.docker.client.image_limits import MAX_PORTS

MAX_EXPANDED_LENGTH: Final = 512 * 1024
"""Maximum total length of all instructions after variable expansion, in characters."""
MAX_REPEATED_LENGTH: Final = 16 * 1024 * 1024
"""Maximum of the total length of variables and other image settings, multiplied by the number of
instructions: each step stores a copy of them."""

_NOT_EXPANDED: Final = frozenset({"CMD", "ENTRYPOINT", "HEALTHCHECK", "MAINTAINER", "RUN", "SHELL"})
_NOT_REPEATED: Final = frozenset({"ADD", "ARG", "COPY", "ENV", "FROM", "RUN"})
"""Instructions that add no image settings except variables."""
_VARIABLE_PATTERN: Final = lazy_pattern(
    r"\$\{?(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*+)(?![^\x00-\x7f])|(?P<uncertain>[A-Za-z_0-9@*#?$!-]|[^\x00-\x7f]))"
)
_BRACE: Final = "${"
_SIGN_AFTER_NAME_PATTERN: Final = lazy_pattern(r"[}:+?#%/-]")
_DEFAULT_VALUE_PATTERN: Final = lazy_pattern(r"(\$\{[A-Za-z_][A-Za-z0-9_]*):?[-+?]")
_PORT_SEPARATORS_PATTERN: Final = lazy_pattern(r"[\s-]")
"""Characters with which a value can list several ports: `80 81`, `80-90`."""
_PORTS_PATTERN: Final = lazy_pattern(r"(?P<first>[0-9]{1,5})-(?P<last>[0-9]{1,5})(?:/[A-Za-z]+)?")
_SPECIAL_CHARACTER_PATTERN: Final = lazy_pattern(r"[$'\"\\`]")


class FromImages(Struct, frozen=True):
    """The settings that a build inherits from its base images."""

    lengths: Mapping[str, int] = {}
    """Length of the longest value of each variable."""
    several: frozenset[str] = frozenset()
    """Variables whose value could list several ports."""
    settings: int = 0
    """Total length of the other settings, in characters."""
    triggers: tuple[str, ...] = ()
    """ONBUILD instructions of the base images."""


def inherited(images: Iterable[Mapping[str, Any]]) -> FromImages:
    lengths: dict[str, int] = {}
    several: set[str] = set()
    settings, triggers = 0, list[str]()
    for image in images:
        config = image.get("Config") or {}
        settings += len(str({name: config[name] for name in config if name != "Env"}))
        triggers += map(str, config.get("OnBuild") or ())
        for variable in config.get("Env") or ():
            name, _, value = str(variable).partition("=")
            lengths[name] = max(lengths.get(name, 0), len(value))
            if _PORT_SEPARATORS_PATTERN.search(value):
                several.add(name)
    return FromImages(lengths, frozenset(several), settings, tuple(triggers))


def check_expansion(dockerfile: Dockerfile, arguments: Mapping[str, str], base: FromImages) -> None:
    """Raises DockerfileError if the variables of a Dockerfile expand beyond the limits. `arguments`: values
    of build arguments. `base`: settings of the base images."""
    count = _SizeCount(dockerfile, arguments, base)
    for each in _all_instructions(dockerfile, base):
        count.add(each)


def _all_instructions(dockerfile: Dockerfile, base: FromImages) -> Iterator[Instruction]:
    """Yields all instructions that may be executed, in order. An ONBUILD trigger is included once per stage,
    because each stage may execute it."""
    for argument in dockerfile.arguments:
        default = "" if argument.default is None else f"={argument.default}"
        yield instruction(argument.line, f"ARG {argument.name}{default}", dockerfile.escape)
    for start in dockerfile.starts:
        for trigger in base.triggers:
            yield instruction(start.line, trigger, "\\")
        yield start
    for stage in dockerfile.stages:
        for each in stage.instructions:
            if each.name == "ONBUILD":
                yield from [instruction(each.line, each.text, dockerfile.escape)] * len(dockerfile.stages)
            yield each


class _SizeCount:
    def __init__(self, dockerfile: Dockerfile, arguments: Mapping[str, str], base: FromImages) -> None:
        self._escape = dockerfile.escape
        self._lengths = dict(base.lengths)
        self._given = arguments
        self._longest = max(self._lengths.values(), default=0)
        self._values = sum(self._lengths.values()) + base.settings
        self._several = set(base.several)
        self._expanded = self._repeated = self._ports = 0

    def add(self, instruction: Instruction) -> None:
        self._expanded += sum(map(self._expanded_size, _expanded_texts(instruction)))
        self._repeated += self._values
        if self._expanded > MAX_EXPANDED_LENGTH or self._repeated > MAX_REPEATED_LENGTH:
            raise DockerfileError(
                instruction.line,
                "use shorter values, or fewer variables: those of this file and its base images expand to "
                f"more than {MAX_EXPANDED_LENGTH // 1024} KiB, or steps repeat more than "
                f"{MAX_REPEATED_LENGTH // 1024 // 1024} MiB of them and of other settings",
            )
        if instruction.name == "EXPOSE":
            self._ports += sum(self._port_count(instruction.line, word) for word in instruction.text.split())
            if self._ports > MAX_PORTS:
                raise DockerfileError(
                    instruction.line, f"expose fewer ports: at most {MAX_PORTS} are allowed"
                )
        self._count_variables(instruction)

    def _count_variables(self, instruction: Instruction) -> None:
        if instruction.name == "ENV":
            for name, value in pairs(instruction, self._escape):
                if _SPECIAL_CHARACTER_PATTERN.search(name):
                    raise DockerfileError(instruction.line, "write names in ENV without quotes and variables")
                self._set(name, self._expanded_size(value), several=self._can_be_several(value))
        elif instruction.name == "ARG":
            for argument in arguments(instruction, self._escape):
                given, default = self._given.get(argument.name, ""), argument.default or ""
                several = bool(_PORT_SEPARATORS_PATTERN.search(given)) or self._can_be_several(default)
                self._set(argument.name, max(self._expanded_size(default), len(given)), several=several)
        elif instruction.name not in _NOT_REPEATED:
            # Relative WORKDIRs are appended to each other, so that each adds to the total.
            self._values += (
                len(instruction.text)
                if instruction.name in _NOT_EXPANDED
                else self._expanded_size(instruction.text)
            )

    def _set(self, name: str, length: int, *, several: bool) -> None:
        before = self._lengths.get(name, 0)
        self._lengths[name] = max(before, length)
        self._longest = max(self._longest, length)
        self._values += self._lengths[name] - before
        if several:
            self._several.add(name)

    def _expanded_size(self, text: str) -> int:
        size = len(text)
        for variable in _VARIABLE_PATTERN.finditer(text):
            size += self._lengths.get(variable["name"], 0) if variable["name"] else self._longest
        return size * size if _has_substitution(text) else size

    def _port_count(self, line: int, word: str) -> int:
        if not self._can_be_several(word):
            return 1
        ports = _PORTS_PATTERN.fullmatch(word)
        if ports is None:
            raise DockerfileError(
                line,
                f"EXPOSE {short(word)}: write the ports as numbers, since this may name any number of them",
            )
        return abs(int(ports["last"]) - int(ports["first"])) + 1

    def _can_be_several(self, text: str) -> bool:
        """Returns whether the expanded text could contain a blank or a hyphen, and so list several ports."""
        if _PORT_SEPARATORS_PATTERN.search(_DEFAULT_VALUE_PATTERN.sub(r"\1", text)) or _has_substitution(
            text
        ):
            return True
        return any(
            not variable["name"] or variable["name"] in self._several
            for variable in _VARIABLE_PATTERN.finditer(text)
        )


def _has_substitution(text: str) -> bool:
    """Returns whether a text may have a variable of the form `${NAME/pattern/replacement}`. Looks at each
    character once: an expression that begins anew at each `${` would keep all threads of the server waiting
    for hours."""
    at = text.find(_BRACE)
    while at >= 0 and (sign := _SIGN_AFTER_NAME_PATTERN.search(text, at + 3)):
        if sign[0] == "/":
            return True
        # What begins before `sign` has the same sign after its name.
        at = text.find(_BRACE, max(at + 1, sign.start() - 2))
    return False


def _expanded_texts(instruction: Instruction) -> Iterator[str]:
    for _, value in instruction.flags:
        yield value
    if instruction.name not in _NOT_EXPANDED:
        yield instruction.text
        for heredoc in instruction.heredocs:
            yield heredoc.content
