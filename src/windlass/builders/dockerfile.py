"""Parses a Dockerfile: its instructions, stages and arguments. Nothing is run.

What is wrong with it is said with the line where it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from windlass.builders.substitution import BadWord, substituted, words

LONGEST: Final = 1024 * 1024
MOST_STAGES: Final = 200

KNOWN: Final = frozenset(
    [
        "ADD",
        "ARG",
        "CMD",
        "COPY",
        "ENTRYPOINT",
        "ENV",
        "EXPOSE",
        "FROM",
        "HEALTHCHECK",
        "LABEL",
        "MAINTAINER",
        "ONBUILD",
        "RUN",
        "SHELL",
        "STOPSIGNAL",
        "USER",
        "VOLUME",
        "WORKDIR",
    ]
)
JSON: Final = frozenset({"ADD", "CMD", "COPY", "ENTRYPOINT", "RUN", "SHELL", "VOLUME"})
EMPTY_ALLOWED: Final = frozenset({"CMD", "ENTRYPOINT"})
FLAGGED: Final = frozenset({"ADD", "COPY", "FROM", "HEALTHCHECK", "RUN"})
WITH_HEREDOCS: Final = frozenset({"ADD", "COPY", "RUN"})

_DIRECTIVE = re.compile(r"#\s*([A-Za-z][A-Za-z0-9]*)\s*=\s*(.+?)\s*\Z")
_DIRECTIVES: Final = ("syntax", "escape", "check")
_HEREDOC = re.compile(r"\d*<<(?P<dash>-?)(?P<quote>['\"]?)(?P<name>[^\s<'\"]+)(?P=quote)")
_STAGE = re.compile(r"[a-z][a-z0-9._-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FLAG = re.compile(r"--([a-z-]+)(?:=(\S*))?(?=\s|\Z)")


class DockerfileError(Exception):
    """A Dockerfile cannot be parsed. The message names the line."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line = line
        self.why = why


class Heredoc(Struct, frozen=True):
    name: str
    content: str


class Instruction(Struct, frozen=True, kw_only=True):
    line: int
    name: str
    """In capital letters."""
    flags: tuple[tuple[str, str], ...] = ()
    text: str
    """The text after the name and the flags, on one line."""
    json: tuple[str, ...] | None = None
    """The words of an instruction that is written as a JSON list."""
    heredocs: tuple[Heredoc, ...] = ()

    def flag(self, name: str) -> str | None:
        return next((value for flag, value in self.flags if flag == name), None)

    @property
    def shown(self) -> str:
        flags = "".join(f" --{name}={value}" if value else f" --{name}" for name, value in self.flags)
        return f"{self.name}{flags} {self.text}".strip()


class Argument(Struct, frozen=True):
    """An ARG, which can be set from outside."""

    name: str
    default: str | None
    """As written, with its quotes and variables."""
    line: int


class Stage(Struct, frozen=True, kw_only=True):
    index: int
    line: int
    base: str
    """The base in FROM, as written: an image, or the name of an earlier stage."""
    name: str = ""
    instructions: tuple[Instruction, ...] = ()
    arguments: tuple[Argument, ...] = ()


class Dockerfile(Struct, frozen=True, kw_only=True):
    stages: tuple[Stage, ...]
    arguments: tuple[Argument, ...] = ()
    """The arguments before the first FROM, which only FROM knows."""
    starts: tuple[Instruction, ...] = ()
    """The FROM of each stage."""
    escape: str = "\\"

    def stage(self, wanted: str | None) -> Stage | None:
        """Returns a stage by name, or by number from 0. Without either, the last."""
        if not wanted:
            return self.stages[-1]
        named = [stage for stage in self.stages if stage.name == wanted.lower()]
        if not named and wanted.isascii() and wanted.isdecimal() and len(wanted) < 6:
            named = [stage for stage in self.stages if stage.index == int(wanted)]
        return named[-1] if named else None

    def earlier(self, wanted: str, than: Stage) -> Stage | None:
        """Returns a stage before this one by name. If several have the name, the latest counts."""
        before = [stage for stage in self.stages[: than.index] if stage.name == wanted.lower()]
        return before[-1] if before else None

    def outer(self, given: Mapping[str, str], platform: Mapping[str, str] | None = None) -> dict[str, str]:
        """Returns the values that FROM knows. `platform` are those that the builder sets by itself."""
        known: dict[str, str] = dict(platform or {})
        size = 0
        for argument in self.arguments:
            if argument.name in given:
                known[argument.name] = given[argument.name]
            elif argument.default is not None:
                known[argument.name] = self.read(argument.line, argument.default, known)
                size += len(known[argument.name])
            if size > LONGEST:
                raise DockerfileError(argument.line, "the values of all ARG together become too long")
        return known

    def read(self, line: int, text: str, known: Mapping[str, str]) -> str:
        """Returns a word with its variables replaced."""
        try:
            return substituted(text, known, self.escape)
        except BadWord as error:
            raise DockerfileError(line, f"{_short(text)} {error}") from error


def read(text: str) -> Dockerfile:
    if len(text) > LONGEST:
        raise DockerfileError(1, f"the file is longer than {LONGEST // 1024} KiB")
    if "\0" in text:
        raise DockerfileError(text[: text.index("\0")].count("\n") + 1, "there is a NUL character in it")
    escape, found = _instructions(text.removeprefix("\ufeff"))
    if not found:
        raise DockerfileError(1, "there is no instruction in it; it must begin with FROM")
    first = next((place for place, each in enumerate(found) if each.name == "FROM"), len(found))
    if stray := next((each for each in found[:first] if each.name != "ARG"), None):
        raise DockerfileError(
            stray.line, f"only ARG may come before the first FROM, and this is {stray.name}"
        )
    if first == len(found):
        raise DockerfileError(found[-1].line, "there is no FROM")
    if sum(each.name == "FROM" for each in found) > MOST_STAGES:
        raise DockerfileError(found[-1].line, f"there are more than {MOST_STAGES} stages")
    return Dockerfile(
        stages=tuple(_stages(found[first:], escape)),
        starts=tuple(each for each in found if each.name == "FROM"),
        arguments=_declared(found[:first], escape),
        escape=escape,
    )


def declared(text: str) -> frozenset[str]:
    """Returns the names of all arguments in any stage."""
    found = read(text)
    inside = (argument for stage in found.stages for argument in stage.arguments)
    return frozenset(argument.name for argument in (*found.arguments, *inside))


def pairs(instruction: Instruction, escape: str) -> list[tuple[str, str]]:
    """Parses ENV and LABEL: `NAME=value NAME=value`, or the old `NAME value`."""
    found = words(instruction.text, escape)
    if not found or "=" not in found[0]:
        name, *rest = instruction.text.split(maxsplit=1)
        if not rest:
            raise DockerfileError(instruction.line, f"{instruction.name} {_short(name)} has no value")
        return [(name, rest[0])]
    made = []
    for word in found:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise DockerfileError(
                instruction.line,
                f"{instruction.name} takes NAME=value, and {_short(word)} is not of that form",
            )
        made.append((name, value))
    return made


def arguments(instruction: Instruction, escape: str) -> list[Argument]:
    """Parses ARG, which may declare several."""
    made = []
    for word in words(instruction.text, escape):
        name, equals, default = word.partition("=")
        if not _VARIABLE.fullmatch(name):
            raise DockerfileError(instruction.line, f"{_short(word)} is not a name for an ARG")
        made.append(Argument(name, default if equals else None, instruction.line))
    return made


def _declared(found: Iterable[Instruction], escape: str) -> tuple[Argument, ...]:
    return tuple(arg for each in found if each.name == "ARG" for arg in arguments(each, escape))


def _stages(found: list[Instruction], escape: str) -> Iterator[Stage]:
    starts = [place for place, each in enumerate(found) if each.name == "FROM"]
    for index, (start, end) in enumerate(zip(starts, [*starts[1:], len(found)], strict=True)):
        yield _stage(index, found[start], tuple(found[start + 1 : end]), escape)


def _stage(index: int, start: Instruction, inside: tuple[Instruction, ...], escape: str) -> Stage:
    said = start.text.split()
    if len(said) not in (1, 3) or (len(said) == 3 and said[1].lower() != "as"):
        raise DockerfileError(start.line, "FROM takes an image, or an image AS a name")
    name = said[2].lower() if len(said) == 3 else ""
    if name and not _STAGE.fullmatch(name):
        raise DockerfileError(start.line, f"{_short(said[2])} is not a name for a stage")
    return Stage(
        index=index,
        line=start.line,
        base=said[0],
        name=name,
        instructions=inside,
        arguments=_declared(inside, escape),
    )


def _instructions(text: str) -> tuple[str, list[Instruction]]:
    lines = re.split(r"\r\n|\n", text)
    escape = _escape(lines)
    # An escape at the end of a line, unless it is escaped itself.
    goes_on = re.compile(rf"(?:(?<!{re.escape(escape)}){re.escape(escape)})[ \t]*\Z")
    found: list[Instruction] = []
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
            # Comments and empty lines within an instruction are passed over.
            while place < len(lines) and (not lines[place].strip() or lines[place].lstrip().startswith("#")):
                place += 1
            if place == len(lines):
                break
            line = lines[place]
            place += 1
        whole = "".join([*parts, line]).strip()
        if whole:
            made = instruction(start + 1, whole, escape)
            heredocs, place = _heredocs(made, lines, place, escape)
            found.append(msgspec.structs.replace(made, heredocs=heredocs))
    return escape, found


def _escape(lines: list[str]) -> str:
    """Returns the escape sign of the directives at the top. The first other line ends them."""
    escape, seen = "\\", set()
    for place, line in enumerate(lines):
        directive = _DIRECTIVE.match(line.strip())
        if not directive or (name := directive[1].lower()) not in _DIRECTIVES:
            break
        if name in seen:
            raise DockerfileError(place + 1, f"the directive {name} may only come once")
        seen.add(name)
        if name == "escape":
            escape = directive[2]
            if escape not in ("\\", "`"):
                raise DockerfileError(place + 1, f"escape must be \\ or `, and is {_short(escape)}")
    return escape


def instruction(line: int, whole: str, escape: str) -> Instruction:
    said, *rest = whole.split(maxsplit=1)
    name = said.upper()
    if name not in KNOWN:
        raise DockerfileError(line, f"{_short(said)} is not an instruction")
    flags, text = _flags(name, rest[0] if rest else "")
    if not text:
        raise DockerfileError(line, f"{name} says nothing")
    listed = _json(line, name, text) if name in JSON else None
    made = Instruction(line=line, name=name, flags=flags, text=text, json=listed)
    _check(made, escape)
    return made


def _check(made: Instruction, escape: str) -> None:
    """Finds errors that do not depend on the value of a variable."""
    if made.name == "SHELL" and not made.json:
        raise DockerfileError(made.line, 'SHELL takes a JSON list, such as ["/bin/bash", "-c"]')
    if made.name in ("ENV", "LABEL"):
        pairs(made, escape)
    elif made.name == "ARG":
        arguments(made, escape)
    elif made.name in ("ADD", "COPY") and len(made.json or made.text.split()) < 2:
        raise DockerfileError(made.line, f"{made.name} takes at least one source, and where it goes")
    elif made.name == "ONBUILD":
        inner = instruction(made.line, made.text, escape)
        if inner.name in ("ONBUILD", "FROM", "MAINTAINER"):
            raise DockerfileError(made.line, f"ONBUILD cannot hold {inner.name}")


def _flags(name: str, text: str) -> tuple[tuple[tuple[str, str], ...], str]:
    found: list[tuple[str, str]] = []
    while name in FLAGGED and (flag := _FLAG.match(text)):
        found.append((flag[1], flag[2] or ""))
        text = text[flag.end() :].lstrip()
    return tuple(found), text


def _json(line: int, name: str, text: str) -> tuple[str, ...] | None:
    """Returns None for text that is no JSON: then Docker takes it for the other form, brackets included."""
    if not text.startswith("["):
        return None
    try:
        listed = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    except RecursionError as error:
        raise DockerfileError(line, f"the JSON of {name} is too deep") from error
    if not all(isinstance(word, str) for word in listed):
        raise DockerfileError(line, f"the JSON list of {name} may only hold texts in double quotes")
    if any("\0" in word for word in listed):
        raise DockerfileError(line, f"the JSON list of {name} holds a NUL character")
    if not listed and name not in EMPTY_ALLOWED:
        raise DockerfileError(line, f"the JSON list of {name} is empty")
    return tuple(listed)


def _heredocs(
    instruction: Instruction, lines: list[str], place: int, escape: str
) -> tuple[tuple[Heredoc, ...], int]:
    found: list[Heredoc] = []
    if instruction.name in WITH_HEREDOCS and instruction.json is None:
        for word in words(instruction.text, escape):
            if opening := _HEREDOC.fullmatch(word):
                heredoc, place = _heredoc(opening, instruction.line, lines, place)
                found.append(heredoc)
    return tuple(found), place


def _heredoc(opening: re.Match[str], line: int, lines: list[str], place: int) -> tuple[Heredoc, int]:
    held: list[str] = []
    while place < len(lines):
        said = lines[place].lstrip("\t") if opening["dash"] else lines[place]
        place += 1
        if said == opening["name"]:
            content = "".join(f"{each}\n" for each in held)
            return Heredoc(opening["name"], content), place
        held.append(said)
    raise DockerfileError(line, f"the text that begins with <<{opening['name']} has no end")


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}…"
