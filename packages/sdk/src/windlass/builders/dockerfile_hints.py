"""Reads hints from a Dockerfile for a build without containers. Does not execute instructions.

The deployed folder corresponds to the target of `COPY .` or, without such an instruction, to the first
WORKDIR. RUN and other COPY instructions have no effect: requirements.txt, pyproject.toml and package.json
list the packages to install, and files remain at their place in the repository.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct, field

from windlass.builders.dockerfile import Dockerfile, Stage
from windlass.builders.instructions import DockerfileError, Instruction, arguments, pairs

DEFAULT_SHELL: Final = ("/bin/sh", "-c")
MAX_PORTS: Final = 100
MAX_EXPANDED_LENGTH: Final = 8 * 1024 * 1024
"""Maximum characters that all variables of one Dockerfile may expand to."""

_PORTS_PATTERN: Final = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?(?:/(\w+))?", re.ASCII)
_SKIP_REASONS: Final = {
    "ADD": "the files of the repository are used where they are",
    "COPY": "the files of the repository are used where they are",
    "HEALTHCHECK": "the probes of the service decide whether it is healthy",
    "ONBUILD": "it concerns only images made from this one",
    "RUN": "a container engine would run it",
    "STOPSIGNAL": "processes are stopped with SIGTERM",
    "USER": "the process runs as the user that Windlass chooses for the service",
    "VOLUME": "storage that lasts is a volume of the service",
}


class ExecForm(Struct, frozen=True):
    """A command in the exec form."""

    argv: tuple[str, ...]


class Shell(Struct, frozen=True):
    """A command for a shell."""

    text: str
    shell: tuple[str, ...] = DEFAULT_SHELL


Command = ExecForm | Shell


def text_of(command: Command) -> str:
    return command.text if isinstance(command, Shell) else " ".join(command.argv)


class SkippedStep(Struct, frozen=True):
    """A Dockerfile instruction that is not executed."""

    line: int
    shown: str
    why: str
    makes_files: bool
    """Whether the instruction may create a file that the start command needs."""


class Hints(Struct, kw_only=True):
    image: str
    """The base image."""
    environment: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    top: str = "/"
    """The path in the image that corresponds to the deployed folder."""
    workdir: str = "/"
    ports: list[int] = field(default_factory=list)
    shell: tuple[str, ...] = DEFAULT_SHELL
    entrypoint: Command | None = None
    cmd: Command | None = None
    skipped: tuple[SkippedStep, ...] = ()

    @property
    def variables(self) -> dict[str, str]:
        """The variables for expansion. ENV has priority over ARG."""
        return self.arguments | self.environment

    @property
    def command(self) -> Command | None:
        match self.entrypoint, self.cmd:
            case (None, cmd):
                return cmd
            case (ExecForm(argv), ExecForm(more)):
                return ExecForm((*argv, *more))
            case (ExecForm(argv), Shell(text, shell)):
                return ExecForm((*argv, *shell, text))
            case (entrypoint, _):
                return entrypoint  # a shell ignores the words of CMD that follow its own command


def read_hints(dockerfile: Dockerfile, wanted: Stage, arguments: Mapping[str, str]) -> Hints:
    """Reads the hints of a stage, including the earlier stages on which it is based. `arguments` are build
    arguments."""
    hints = _HintReader(dockerfile, arguments).hints(wanted)
    stages = dockerfile.stages[: wanted.index + 1]
    hints.skipped = tuple(
        _skipped_step(instruction)
        for stage in stages
        for instruction in stage.instructions
        if instruction.name in _SKIP_REASONS
    )
    return hints


class _HintReader:
    def __init__(self, dockerfile: Dockerfile, arguments: Mapping[str, str]) -> None:
        self._dockerfile = dockerfile
        self._outer = dockerfile.outer(arguments)
        self._given = arguments
        self._size = 0

    def hints(self, stage: Stage) -> Hints:
        base = self._dockerfile.read(stage.line, stage.base, self._outer)
        if not base:
            raise DockerfileError(stage.line, "FROM names an image that comes out empty")
        earlier = self._dockerfile.earlier(base, stage)
        hints = self.hints(earlier) if earlier else Hints(image=base)
        if any(instruction.name == "ENTRYPOINT" for instruction in stage.instructions):
            hints.cmd = None  # the CMD of an earlier stage belongs to another ENTRYPOINT
        for instruction in stage.instructions:
            self._apply(hints, instruction)
        return hints

    def _apply(self, hints: Hints, instruction: Instruction) -> None:
        match instruction.name:
            case "ENV":
                variables = hints.variables  # an ENV instruction expands variables before it sets them
                for name, value in pairs(instruction, self._dockerfile.escape):
                    self._set(
                        hints,
                        instruction,
                        self._read(instruction, name, variables),
                        self._read(instruction, value, variables),
                    )
            case "ARG":
                self._declare(hints, instruction)
            case "WORKDIR":
                hints.workdir = _path(
                    hints.workdir, self._read(instruction, instruction.text, hints.variables)
                )
                hints.top = hints.workdir if hints.top == "/" else hints.top
            case "EXPOSE":
                words = self._read(instruction, instruction.text, hints.variables).split()
                hints.ports += dict.fromkeys(port for word in words for port in _ports(instruction, word))
            case "ADD" | "COPY" if (to := _target_of_whole_copy(instruction)) is not None:
                hints.top = _path(hints.workdir, self._read(instruction, to, hints.variables))
            case "SHELL":
                hints.shell = instruction.json or DEFAULT_SHELL
            case "CMD":
                hints.cmd = _command(instruction, hints.shell)
            case "ENTRYPOINT":
                hints.entrypoint = _command(instruction, hints.shell)

    def _set(self, hints: Hints, instruction: Instruction, name: str, value: str) -> None:
        if not name or "=" in name:
            raise DockerfileError(
                instruction.line, "ENV sets a variable whose name comes out empty, or holds ="
            )
        hints.environment[name] = value

    def _declare(self, hints: Hints, instruction: Instruction) -> None:
        for argument in arguments(instruction, self._dockerfile.escape):
            if argument.name in self._given:
                hints.arguments[argument.name] = self._given[argument.name]
            elif argument.default is not None:
                hints.arguments[argument.name] = self._read(instruction, argument.default, hints.variables)
            elif argument.name in self._outer:
                hints.arguments[argument.name] = self._outer[argument.name]

    def _read(self, instruction: Instruction, text: str, variables: Mapping[str, str]) -> str:
        value = self._dockerfile.read(instruction.line, text, variables)
        self._size += len(value)
        if self._size > MAX_EXPANDED_LENGTH:
            raise DockerfileError(instruction.line, "the values of variables make this stage too large")
        return value


def is_below(path: str, root: str) -> bool:
    """Returns whether the path equals `root` or lies in it."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def _command(instruction: Instruction, shell: tuple[str, ...]) -> Command | None:
    if instruction.json is not None:
        return ExecForm(instruction.json) if instruction.json else None
    return Shell(instruction.text, shell)


def _target_of_whole_copy(instruction: Instruction) -> str | None:
    """Returns the target folder of an instruction that copies the whole deployed folder, or None."""
    match instruction.json or instruction.text.split():
        case ["." | "./", to] if instruction.flag("from") is None:
            return to
    return None


def _path(workdir: str, path: str) -> str:
    return "/" + posixpath.normpath(posixpath.join(workdir, path)).lstrip("/")


def _ports(instruction: Instruction, word: str) -> Iterator[int]:
    ports = _PORTS_PATTERN.fullmatch(word)
    low, high = (int(ports[1]), int(ports[2] or ports[1])) if ports else (0, 0)
    if not 0 < low <= high < min(low + MAX_PORTS, 65_536):
        raise DockerfileError(instruction.line, f"EXPOSE {word[:40]} is not a port, nor a range of ports")
    if ports and (ports[3] or "tcp").lower() == "tcp":
        yield from range(low, high + 1)


def _skipped_step(instruction: Instruction) -> SkippedStep:
    other = instruction.flag("from")
    why = (
        _SKIP_REASONS[instruction.name]
        if other is None
        else f"the files of {other} come from a container engine"
    )
    copies = instruction.name in ("ADD", "COPY") and _target_of_whole_copy(instruction) is None
    return SkippedStep(
        instruction.line, instruction.shown, why, makes_files=copies or instruction.name == "RUN"
    )
