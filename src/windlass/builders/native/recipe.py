"""What a Dockerfile asks for, in order, as deeds: pure, nothing is looked at and nothing is done.

Only the stages that the wanted one rests on are followed, as Docker does.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from windlass.builders.dockerfile import (
    PREDEFINED,
    Dockerfile,
    DockerfileError,
    Instruction,
    Stage,
    arguments,
    pairs,
)

SHELL: Final = ("/bin/sh", "-c")
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PLATFORM: Final = {
    f"{of}{what}": value
    for of in ("TARGET", "BUILD")
    for what, value in {"PLATFORM": "linux/amd64", "OS": "linux", "ARCH": "amd64", "VARIANT": ""}.items()
}
MOST_PORTS: Final = 100
LARGEST: Final = 8 * 1024 * 1024


class Words(Struct, frozen=True):
    """A command in the exec form."""

    argv: tuple[str, ...]


class Shell(Struct, frozen=True):
    """A command for a shell."""

    text: str
    shell: tuple[str, ...] = SHELL


Command = Words | Shell


class Copying(Struct, frozen=True, kw_only=True):
    line: int
    shown: str
    sources: tuple[str, ...]
    texts: tuple[tuple[str, str], ...] = ()
    """Files whose content stands in the Dockerfile: name and content."""
    to: str
    """An absolute path in the image; with a slash at its end it is a folder."""
    stage: int | None = None
    """Copied from an earlier stage, and not from the repository."""
    mode: int | None = None
    excluded: tuple[str, ...] = ()
    parents: bool = False


class Running(Struct, frozen=True, kw_only=True):
    """A RUN; it is not run, but it may say what to install."""

    line: int
    shown: str
    text: str
    workdir: str


class Passed(Struct, frozen=True, kw_only=True):
    """An instruction that changes nothing here."""

    line: int
    shown: str
    why: str


Deed = Copying | Running | Passed


class Config(Struct, kw_only=True):
    """What a stage has come to say of how it runs."""

    environment: dict[str, str] = field(default_factory=lambda: {"PATH": PATH})
    arguments: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"
    ports: list[int] = field(default_factory=list)
    shell: tuple[str, ...] = SHELL
    entrypoint: Command | None = None
    cmd: Command | None = None
    image: str = ""
    """The image that it all begins with."""

    def copy(self) -> Config:
        return Config(
            environment=dict(self.environment),
            arguments=dict(self.arguments),
            workdir=self.workdir,
            ports=list(self.ports),
            shell=self.shell,
            entrypoint=self.entrypoint,
            cmd=self.cmd,
            image=self.image,
        )

    @property
    def known(self) -> dict[str, str]:
        """What a variable means here: ENV comes before ARG."""
        return self.arguments | self.environment

    @property
    def command(self) -> Command | None:
        match self.entrypoint, self.cmd:
            case (None, cmd):
                return cmd
            case (Shell() as entrypoint, _):
                return entrypoint  # what CMD adds would be arguments of the shell, which nobody reads
            case (Words(argv), Words(more)):
                return Words((*argv, *more))
            case (Words(argv), Shell(text, shell)):
                return Words((*argv, *shell, text))
            case (entrypoint, _):
                return entrypoint


class Cooked(Struct, frozen=True, kw_only=True):
    """One stage: what it rests on, what it does, how it runs."""

    index: int
    base: int | None
    deeds: tuple[Deed, ...]
    config: Config


class Recipe(Struct, frozen=True):
    stages: tuple[Cooked, ...]
    """Those needed, in order; the wanted one is the last."""

    @property
    def wanted(self) -> Cooked:
        return self.stages[-1]


def recipe(dockerfile: Dockerfile, wanted: Stage, given: Mapping[str, str]) -> Recipe:
    outer = dockerfile.outer(given) | {name: value for name, value in PLATFORM.items() if name not in given}
    outer |= {name: given[name] for name in PLATFORM if name in given}
    cooked: dict[int, Cooked | DockerfileError] = {}
    for stage in dockerfile.stages[: wanted.index + 1]:
        try:
            cooked[stage.index] = _Cook(dockerfile, stage, outer, given, cooked).all()
        except DockerfileError as error:
            cooked[stage.index] = error  # which only matters if the stage does
    return Recipe(tuple(_needed(cooked, wanted.index)))


def _done(cooked: Mapping[int, Cooked | DockerfileError], index: int) -> Cooked:
    stage = cooked[index]
    if isinstance(stage, DockerfileError):
        raise stage
    return stage


def _needed(cooked: Mapping[int, Cooked | DockerfileError], wanted: int) -> list[Cooked]:
    needed: dict[int, Cooked] = {}
    ahead = [wanted]
    while ahead:
        index = ahead.pop()
        if index in needed:
            continue
        needed[index] = stage = _done(cooked, index)
        ahead += [stage.base] if stage.base is not None else []
        ahead += [deed.stage for deed in stage.deeds if isinstance(deed, Copying) and deed.stage is not None]
    return [needed[index] for index in sorted(needed)]


class _Cook:
    """Goes through the instructions of one stage."""

    def __init__(
        self,
        dockerfile: Dockerfile,
        stage: Stage,
        outer: Mapping[str, str],
        given: Mapping[str, str],
        cooked: Mapping[int, Cooked | DockerfileError],
    ) -> None:
        self.dockerfile = dockerfile
        self.stage = stage
        self.outer = outer
        self.given = given
        self.cooked = cooked
        self.deeds: list[Deed] = []
        self.cmd_is_own = False
        self.size = 0

    def all(self) -> Cooked:
        base = self.dockerfile.read(self.stage.line, self.stage.base, self.outer)
        if not base:
            raise DockerfileError(self.stage.line, "FROM names an image that comes out empty")
        earlier = self.dockerfile.earlier(base, self.stage)
        self.config = _done(self.cooked, earlier.index).config.copy() if earlier else Config(image=base)
        for each in self.stage.instructions:
            self._one(each)
        return Cooked(
            index=self.stage.index,
            base=earlier.index if earlier else None,
            deeds=tuple(self.deeds),
            config=self.config,
        )

    def _one(self, each: Instruction) -> None:
        match each.name:
            case "ENV":
                known = self.config.known  # all of one line mean what held before it
                for name, value in pairs(each, self.dockerfile.escape):
                    self._env(each, self._read(each, name), self._read(each, value, known))
            case "ARG":
                self._arg(each)
            case "WORKDIR":
                self.config.workdir = self._path(self._read(each, each.text))
            case "EXPOSE":
                self._expose(each)
            case "SHELL":
                self.config.shell = each.json or SHELL
            case "CMD":
                self.config.cmd = self._command(each)
                self.cmd_is_own = True
            case "ENTRYPOINT":
                self.config.entrypoint = self._command(each)
                if not self.cmd_is_own:
                    self.config.cmd = None
            case "COPY" | "ADD":
                self._copy(each)
            case "RUN":
                self._run(each)
            case "LABEL" | "MAINTAINER":
                pass  # says nothing about how it runs
            case _:
                self._pass(each, _WHY[each.name])

    def _env(self, each: Instruction, name: str, value: str) -> None:
        if not name or "=" in name:
            raise DockerfileError(each.line, "ENV sets a variable whose name comes out empty, or holds =")
        self.config.environment[name] = value

    def _arg(self, each: Instruction) -> None:
        for argument in arguments(each, self.dockerfile.escape):
            if argument.name in self.given:
                self.config.arguments[argument.name] = self.given[argument.name]
            elif argument.default is not None:
                self.config.arguments[argument.name] = self._read(each, argument.default)
            elif argument.name in self.outer:
                self.config.arguments[argument.name] = self.outer[argument.name]

    def _expose(self, each: Instruction) -> None:
        for word in self._read(each, each.text).split():
            port, _, protocol = word.partition("/")
            first, _, last = port.partition("-")
            low, high = self._port(each, first), self._port(each, last or first)
            if not low <= high < low + MOST_PORTS:
                raise DockerfileError(each.line, f"EXPOSE {word[:40]} is not a range of ports")
            if protocol.lower() in ("", "tcp"):
                self.config.ports += [
                    found for found in range(low, high + 1) if found not in self.config.ports
                ]

    def _port(self, each: Instruction, text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) < 6 and 0 < int(text) < 65_536):
            raise DockerfileError(each.line, f"EXPOSE {text[:40] or 'nothing'} is not a port")
        return int(text)

    def _command(self, each: Instruction) -> Command | None:
        if each.json is not None:
            return Words(each.json) if each.json else None
        return Shell(each.text, self.config.shell)

    def _run(self, each: Instruction) -> None:
        text = "\n".join((each.text, *(heredoc.content for heredoc in each.heredocs)))
        self.deeds.append(
            Running(
                line=each.line,
                shown=each.shown,
                text=" ".join(each.json) if each.json else text,
                workdir=self.config.workdir,
            )
        )

    def _copy(self, each: Instruction) -> None:
        said = each.json if each.json is not None else tuple(each.text.split())
        *sources, to = (self._read(each, word) for word in said)
        texts = self._texts(each)
        plain = [source for source in sources if not source.startswith("<<")]
        remote = [source for source in plain if _REMOTE.match(source)]
        if each.name == "ADD" and remote:
            self._pass(each, "nothing is fetched from other machines")
            plain = [source for source in plain if source not in remote]
        stage = self._from(each)
        if stage == EXTERNAL:
            self._pass(each, "the files of another image are not there without a container engine")
            return
        if not plain and not texts:
            return
        self.deeds.append(
            Copying(
                line=each.line,
                shown=each.shown,
                sources=tuple(plain),
                texts=texts,
                to=self._to(to),
                stage=stage,
                mode=self._mode(each),
                excluded=tuple(value for name, value in each.flags if name == "exclude"),
                parents=each.flag("parents") not in (None, "false"),
            )
        )

    def _texts(self, each: Instruction) -> tuple[tuple[str, str], ...]:
        return tuple(
            (
                heredoc.name,
                heredoc.content if heredoc.plain else self._read(each, heredoc.content, quotes=False),
            )
            for heredoc in each.heredocs
        )

    def _from(self, each: Instruction) -> int | None:
        if (said := each.flag("from")) is None:
            return None
        name = self.dockerfile.read(each.line, said, {**self.config.known, **self.outer})
        if stage := self.dockerfile.earlier(name, self.stage):
            return stage.index
        if name.isascii() and name.isdecimal():
            if len(name) > 5 or int(name) >= self.stage.index:
                raise DockerfileError(
                    each.line, f"{each.name} is from stage {name[:20]}, which does not come before it"
                )
            return int(name)
        return EXTERNAL

    def _mode(self, each: Instruction) -> int | None:
        said = each.flag("chmod")
        if said and re.fullmatch(r"[0-7]{3,4}", said := self._read(each, said)):
            return int(said, 8) & 0o777
        return None

    def _to(self, to: str) -> str:
        folder = to.endswith(("/", "/.")) or to in (".", "")
        path = self._path(to)
        return path if not folder or path == "/" else f"{path}/"

    def _path(self, path: str) -> str:
        return "/" + posixpath.normpath(posixpath.join(self.config.workdir, path)).lstrip("/")

    def _read(
        self, each: Instruction, text: str, known: Mapping[str, str] | None = None, *, quotes: bool = True
    ) -> str:
        ready = self.config.known if known is None else known
        proxies = {name: self.given[name] for name in PREDEFINED if name in self.given}
        made = self.dockerfile.read(each.line, text, {**proxies, **ready}, quotes=quotes)
        self.size += len(made)
        if self.size > LARGEST:
            raise DockerfileError(each.line, "the values of variables make this stage too large")
        return made

    def _pass(self, each: Instruction, why: str) -> None:
        self.deeds.append(Passed(line=each.line, shown=each.shown, why=why))


EXTERNAL: Final = -1
_REMOTE = re.compile(r"(https?|git|ssh)://|git@", re.IGNORECASE)
_WHY: Final = {
    "USER": "the process runs as the user that Windlass runs its processes as",
    "VOLUME": "storage that lasts is a volume of the service",
    "HEALTHCHECK": "the health of a service is told by its own probes",
    "STOPSIGNAL": "processes are asked to end with SIGTERM",
    "ONBUILD": "it only concerns images made from this one",
}
