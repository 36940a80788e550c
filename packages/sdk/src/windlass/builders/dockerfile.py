"""Parses a Dockerfile into stages, instructions and arguments. Nothing is executed.

`instructions` parses single instructions. Errors contain the line number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from windlass.builders.instructions import (
    Argument,
    DockerfileError,
    Heredoc,
    Instruction,
    Opening,
    arguments,
    instruction,
    short,
)
from windlass.builders.substitution import BadWord, substitute

MAX_LENGTH: Final = 1024 * 1024
MAX_STAGES: Final = 200
MAX_INSTRUCTIONS: Final = 1000
"""Maximum number of instructions. An image has at most 127 layers, and each instruction costs the engine
memory."""

# Control characters that parsers interpret differently, as blanks or line ends.
_CONTROL_PATTERN = re.compile(r"(?!\r\n)[\x00-\x08\x0b-\x1f\x7f]")
_DIRECTIVE_PATTERN = re.compile(r"#\s*+([A-Za-z][A-Za-z0-9]*+)\s*+=\s*+(.+)")
_PARSER_DIRECTIVES: Final = ("syntax", "escape", "check")
_STAGE_PATTERN = re.compile(r"[a-z][a-z0-9._-]*")


class Stage(Struct, frozen=True, kw_only=True):
    index: int
    line: int
    base: str
    """The base in FROM, as written: an image or an earlier stage."""
    name: str = ""
    instructions: tuple[Instruction, ...] = ()
    arguments: tuple[Argument, ...] = ()


class Dockerfile(Struct, frozen=True, kw_only=True):
    stages: tuple[Stage, ...]
    arguments: tuple[Argument, ...] = ()
    """ARGs before the first FROM, which are only available in FROM."""
    starts: tuple[Instruction, ...] = ()
    """FROM instruction of each stage."""
    escape: str = "\\"

    def stage(self, stage_name: str | None) -> Stage | None:
        """Returns a stage by name, or by number from 0. Returns the last stage if `stage_name` is empty."""
        if not stage_name:
            return self.stages[-1]
        named = [stage for stage in self.stages if stage.name == stage_name.lower()]
        if not named and stage_name.isascii() and stage_name.isdecimal() and len(stage_name) < 6:
            named = [stage for stage in self.stages if stage.index == int(stage_name)]
        return named[-1] if named else None

    def earlier(self, stage_name: str, than: Stage) -> Stage | None:
        """Returns a stage by name that precedes `than`. If several stages have the name, the last one is
        returned."""
        before = [stage for stage in self.stages[: than.index] if stage.name == stage_name.lower()]
        return before[-1] if before else None

    def outer(
        self, arguments: Mapping[str, str], platform: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Returns the variables that are available in FROM. `platform`: variables that the builder sets
        itself."""
        variables: dict[str, str] = dict(platform or {})
        size = 0
        for argument in self.arguments:
            if argument.name in arguments:
                variables[argument.name] = arguments[argument.name]
            elif argument.default is not None:
                variables[argument.name] = self.read(argument.line, argument.default, variables)
                size += len(variables[argument.name])
            if size > MAX_LENGTH:
                raise DockerfileError(argument.line, "the values of all ARG together become too long")
        return variables

    def read(self, line: int, text: str, variables: Mapping[str, str]) -> str:
        """Returns a word with its variables replaced."""
        try:
            return substitute(text, variables, self.escape)
        except BadWord as error:
            raise DockerfileError(line, f"{short(text)} {error}") from error


def read(text: str) -> Dockerfile:
    if len(text) > MAX_LENGTH:
        raise DockerfileError(1, f"the file is longer than {MAX_LENGTH // 1024} KiB")
    if control := _CONTROL_PATTERN.search(text):
        raise DockerfileError(
            text.count("\n", 0, control.start()) + 1,
            f"remove the control character {control[0]!a} (lines end with \\n or \\r\\n)",
        )
    escape, instructions = _instructions(text.removeprefix("\ufeff"))
    if not instructions:
        raise DockerfileError(1, "there is no instruction in it; it must begin with FROM")
    if len(instructions) > MAX_INSTRUCTIONS:
        raise DockerfileError(
            instructions[MAX_INSTRUCTIONS].line,
            f"join instructions, or put steps into a script: there are {len(instructions)}, and at most "
            f"{MAX_INSTRUCTIONS} are allowed",
        )
    names = [instruction.name for instruction in instructions]
    first = names.index("FROM") if "FROM" in names else len(names)
    if stray := next((before for before in instructions[:first] if before.name != "ARG"), None):
        raise DockerfileError(
            stray.line, f"only ARG may come before the first FROM, and this is {stray.name}"
        )
    if first == len(instructions):
        raise DockerfileError(instructions[-1].line, "there is no FROM")
    if names.count("FROM") > MAX_STAGES:
        raise DockerfileError(instructions[-1].line, f"there are more than {MAX_STAGES} stages")
    return Dockerfile(
        stages=tuple(_stages(instructions[first:], escape)),
        starts=tuple(instruction for instruction in instructions if instruction.name == "FROM"),
        arguments=_arguments_in(instructions[:first], escape),
        escape=escape,
    )


def declared_arguments(text: str) -> frozenset[str]:
    """Returns the names of all ARGs of a Dockerfile."""
    dockerfile = read(text)
    inside = (argument for stage in dockerfile.stages for argument in stage.arguments)
    return frozenset(argument.name for argument in (*dockerfile.arguments, *inside))


def _arguments_in(instructions: Iterable[Instruction], escape: str) -> tuple[Argument, ...]:
    return tuple(
        arg
        for instruction in instructions
        if instruction.name == "ARG"
        for arg in arguments(instruction, escape)
    )


def _stages(instructions: list[Instruction], escape: str) -> Iterator[Stage]:
    starts = [place for place, instruction in enumerate(instructions) if instruction.name == "FROM"]
    for index, (start, end) in enumerate(zip(starts, [*starts[1:], len(instructions)], strict=True)):
        yield _stage(index, instructions[start], tuple(instructions[start + 1 : end]), escape)


def _stage(index: int, start: Instruction, inside: tuple[Instruction, ...], escape: str) -> Stage:
    parts = start.text.split()
    if len(parts) not in (1, 3) or (len(parts) == 3 and parts[1].lower() != "as"):
        raise DockerfileError(start.line, "FROM takes an image, or an image AS a name")
    name = parts[2].lower() if len(parts) == 3 else ""
    if name and not _STAGE_PATTERN.fullmatch(name):
        raise DockerfileError(start.line, f"{short(parts[2])} is not a name for a stage")
    return Stage(
        index=index,
        line=start.line,
        base=parts[0],
        name=name,
        instructions=inside,
        arguments=_arguments_in(inside, escape),
    )


def _instructions(text: str) -> tuple[str, list[Instruction]]:
    lines = re.split(r"\r\n|\n", text)
    escape = _escape(lines)
    # A line continuation: an unescaped escape character at the end.
    goes_on = re.compile(rf"(?:(?<!{re.escape(escape)}){re.escape(escape)})[ \t]*\Z")
    instructions: list[Instruction] = []
    place = 0
    while place < len(lines):
        start, line = place, lines[place].lstrip()
        place += 1
        if not line or line.startswith("#"):
            continue
        parts = []
        while cut := goes_on.search(line):
            parts.append(line[: cut.start()])
            line = ""
            # Comments and empty lines within an instruction are skipped.
            while place < len(lines) and (not lines[place].strip() or lines[place].lstrip().startswith("#")):
                place += 1
            if place == len(lines):
                break
            line = lines[place]
            place += 1
        whole = "".join([*parts, line]).strip()
        if whole:
            parsed = instruction(start + 1, whole, escape)
            heredocs, place = _heredocs(parsed, lines, place)
            instructions.append(msgspec.structs.replace(parsed, heredocs=heredocs))
    return escape, instructions


def _escape(lines: list[str]) -> str:
    """Returns the escape character that a directive at the top of the file sets. The first other line ends
    the directives."""
    escape, seen = "\\", set()
    for place, line in enumerate(lines):
        directive = _DIRECTIVE_PATTERN.fullmatch(line.strip())
        if not directive or (name := directive[1].lower()) not in _PARSER_DIRECTIVES:
            break
        if name in seen:
            raise DockerfileError(place + 1, f"the directive {name} may only come once")
        seen.add(name)
        if name == "escape":
            escape = directive[2]
            if escape not in ("\\", "`"):
                raise DockerfileError(place + 1, f"escape must be \\ or `, and is {short(escape)}")
    return escape


def _heredocs(instruction: Instruction, lines: list[str], position: int) -> tuple[tuple[Heredoc, ...], int]:
    heredocs: list[Heredoc] = []
    for opening in instruction.openings():
        heredoc, position = _heredoc(opening, instruction.line, lines, position)
        heredocs.append(heredoc)
    return tuple(heredocs), position


def _heredoc(opening: Opening, line: int, lines: list[str], position: int) -> tuple[Heredoc, int]:
    collected: list[str] = []
    while position < len(lines):
        line_text = lines[position].lstrip("\t") if opening.strips_tabs else lines[position]
        position += 1
        if line_text == opening.name:
            content = "".join(f"{text}\n" for text in collected)
            return Heredoc(opening.name, content), position
        collected.append(line_text)
    raise DockerfileError(line, f"the text that begins with <<{opening.name} has no end")
