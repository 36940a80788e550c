"""Parses one instruction of a Dockerfile: its flags, words and heredocs (`RUN cat <<EOF > /x`). Finds errors
that do not depend on other lines.

`dockerfile` splits a file into instructions and stages. BuildKit has its own parser: if it found a different
number of heredocs in a line, it would execute heredoc content as unchecked instructions. A line with `<<` may
therefore only contain words that all parsers interpret equally.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
from msgspec import Struct

from windlass.base.lazy import lazy_pattern
from windlass.builders.substitution import words

_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_EXPANDED_VARIABLE: Final = rf"\$\{{{_NAME}(?::?[-+][A-Za-z0-9_./:,=@-]*)?\}}|\$(?!\{{)"
_PIECE_PATTERN: Final = lazy_pattern(
    rf"""[^\s'"\\$]+|\\.|{_EXPANDED_VARIABLE}|'[^']*'|"(?:[^"\\$]|\\.|{_EXPANDED_VARIABLE})*\"""",
    re.DOTALL,
)
"""Matches a part of a word. The pattern has no possessive group around alternatives, because Python up to
3.11.4 has a bug there (gh-106052)."""
_OPENING_PATTERN: Final = lazy_pattern(
    r"[0-9]*<<(?P<dash>-?)(?P<quote>['\"]?)(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]*)(?P=quote)"
)
_NO_OPENING_PATTERN: Final = lazy_pattern(r"[0-9]*(?:<<-?\Z|<<<|<[^<$\\'\"]|[^0-9<$\\]|\$\()")
"""Matches the beginning of words that are never heredocs. In any other word with `<<`, an escape or a
variable before it could expand to nothing."""
_HERE_STRING_PATTERN: Final = lazy_pattern("<{3,}")
_JOINED_PATTERN: Final = lazy_pattern(r"""<[<\\$}'"]""")
"""Pairs of characters that could form a heredoc after escapes, variables and quotes are removed."""

UNCERTAIN: Final = (
    "put this step into a script of the repository, or write it with simple words: the quotes, escapes or "
    "variables of a line with << are not read alike by all builders"
)


class Opening(Struct, frozen=True):
    name: str
    strips_tabs: bool


def openings(line: str) -> list[Opening]:
    """Returns the heredocs that begin in a line. Raises ValueError if parsers could disagree."""
    others = _HERE_STRING_PATTERN.sub("|", line)
    if others.count("<") < 2 or not _JOINED_PATTERN.search(others):
        return []
    found = []
    for word in _words(line):
        if opening := _OPENING_PATTERN.fullmatch(word):
            found.append(Opening(opening["name"], bool(opening["dash"])))
        elif word.count("<") > 1 and not _NO_OPENING_PATTERN.match(word):
            raise ValueError(UNCERTAIN)
    return found


def _words(line: str) -> list[str]:
    found, at, is_inside = [""], 0, False
    while at < len(line):
        if line[at] in " \t":
            at, is_inside = at + 1, False
            continue
        if not (piece := _PIECE_PATTERN.match(line, at)):
            raise ValueError(UNCERTAIN)
        if not is_inside:
            found.append("")
        found[-1] += piece[0]
        at, is_inside = piece.end(), True
    return found[1:]


INSTRUCTIONS: Final = frozenset(
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
MAY_BE_EMPTY: Final = frozenset({"CMD", "ENTRYPOINT"})
FLAGGED: Final = frozenset({"ADD", "COPY", "FROM", "HEALTHCHECK", "RUN"})
WITH_HEREDOCS: Final = frozenset({"ADD", "COPY", "ONBUILD", "RUN"})

_VARIABLE_PATTERN = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_LIKE_JSON_PATTERN = lazy_pattern(r"\[\s*[\"\]]")
"""Matches the beginning of a list, which BuildKit parses as JSON whatever follows."""
_FLAG_PATTERN = lazy_pattern(r"\s*+--([a-z-]+)(?:=(\S*))?(?=\s|\Z)")


class DockerfileError(Exception):
    """Raised if a Dockerfile cannot be parsed. The message contains the line number."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.why = reason


class Heredoc(Struct, frozen=True):
    name: str
    content: str


class Instruction(Struct, frozen=True, kw_only=True):
    line: int
    name: str
    """Name of the instruction in upper case."""
    flags: tuple[tuple[str, str], ...] = ()
    text: str
    """Text after the name and the flags, joined into one line."""
    json: tuple[str, ...] | None = None
    """Words of an instruction in JSON form; None for other forms."""
    heredocs: tuple[Heredoc, ...] = ()

    def flag(self, name: str) -> str | None:
        return next((value for flag, value in self.flags if flag == name), None)

    def openings(self, written: str = "") -> list[Opening]:
        """Returns the heredocs that begin in the instruction, or in the rewritten line `written`. Raises
        DockerfileError if parsers could disagree."""
        try:
            found = openings(written or self.shown) if self.name in WITH_HEREDOCS else []
        except ValueError as error:
            raise DockerfileError(self.line, str(error)) from error
        if found and _LIKE_JSON_PATTERN.match(self.text):
            raise DockerfileError(self.line, UNCERTAIN)
        if found and self.name == "ONBUILD":
            raise DockerfileError(
                self.line,
                f"<<{short(found[0].name)}: COPY a file of the repository, because ONBUILD takes no heredoc",
            )
        return found

    @property
    def shown(self) -> str:
        flags = "".join(f" --{name}={value}" if value else f" --{name}" for name, value in self.flags)
        return f"{self.name}{flags} {self.text}".strip()


class Argument(Struct, frozen=True):
    """A build argument (ARG)."""

    name: str
    default: str | None
    """The default value as written, with quotes and variables; None if there is none."""
    line: int


def instruction(line: int, full_line: str, escape: str) -> Instruction:
    word, *rest = full_line.split(maxsplit=1)
    name = word.upper()
    if name not in INSTRUCTIONS:
        raise DockerfileError(line, f"{short(word)} is not an instruction")
    flags, text = _flags(name, rest[0] if rest else "")
    if not text:
        raise DockerfileError(line, f"{name} says nothing")
    listed = _json(line, name, text) if name in JSON else None
    parsed = Instruction(line=line, name=name, flags=flags, text=text, json=listed)
    _check(parsed, escape)
    return parsed


def _check(parsed: Instruction, escape: str) -> None:
    """Raises DockerfileError for errors that do not depend on the value of a variable."""
    if parsed.name == "SHELL" and not parsed.json:
        raise DockerfileError(parsed.line, 'SHELL takes a JSON list, such as ["/bin/bash", "-c"]')
    if parsed.name in ("ENV", "LABEL"):
        pairs(parsed, escape)
    elif parsed.name == "ARG":
        arguments(parsed, escape)
    elif parsed.name in ("ADD", "COPY") and len(parsed.json or parsed.text.split()) < 2:
        raise DockerfileError(parsed.line, f"{parsed.name} takes at least one source, and where it goes")
    elif parsed.name == "ONBUILD":
        inner = parsed.text.split(maxsplit=1)[0].upper()  # before it is parsed: it may hold a long chain
        if inner in ("ONBUILD", "FROM", "MAINTAINER"):
            raise DockerfileError(parsed.line, f"ONBUILD cannot hold {inner}")
        instruction(parsed.line, parsed.text, escape)


def _flags(name: str, text: str) -> tuple[tuple[tuple[str, str], ...], str]:
    flags: list[tuple[str, str]] = []
    end = 0
    while name in FLAGGED and (flag := _FLAG_PATTERN.match(text, end)):
        flags.append((flag[1], flag[2] or ""))
        end = flag.end()
    return tuple(flags), text[end:].lstrip()


def _json(line: int, name: str, text: str) -> tuple[str, ...] | None:
    """Parses the JSON form of an instruction. Returns None for text that is not JSON, which Docker interprets
    as the shell form, including its brackets."""
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
    if not listed and name not in MAY_BE_EMPTY:
        raise DockerfileError(line, f"the JSON list of {name} is empty")
    return tuple(listed)


def pairs(instruction: Instruction, escape: str) -> list[tuple[str, str]]:
    """Parses ENV and LABEL: `NAME=value NAME=value`, or the legacy form `NAME value`."""
    assignments = words(instruction.text, escape)
    if not assignments or "=" not in assignments[0]:
        name, *rest = instruction.text.split(maxsplit=1)
        if not rest:
            raise DockerfileError(instruction.line, f"{instruction.name} {short(name)} has no value")
        return [(name, rest[0])]
    pairs = []
    for word in assignments:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise DockerfileError(
                instruction.line,
                f"{instruction.name} takes NAME=value, and {short(word)} is not of that form",
            )
        pairs.append((name, value))
    return pairs


def arguments(instruction: Instruction, escape: str) -> list[Argument]:
    """Parses ARG, which may declare several arguments."""
    declared = []
    for word in words(instruction.text, escape):
        name, equals, default = word.partition("=")
        if not _VARIABLE_PATTERN.fullmatch(name):
            raise DockerfileError(instruction.line, f"{short(word)} is not a name for an ARG")
        declared.append(Argument(name, default if equals else None, instruction.line))
    return declared


def short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}…"
