"""Rewrites a Dockerfile so that its build can reach only what a container of the same service could reach.

The engine fetches remote sources from its machine's network, shares cache mounts and cached steps among all
builds, and has the images of all services. A Dockerfile is therefore parsed and checked here, and written
again in a canonical form: one line per instruction, without comments and directives. The engine sees only
checked instructions, even if its parser would interpret the original differently. The builder checks the
images themselves; see `Rewritten.images`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import dropwhile
from typing import Any, Final

import msgspec
from msgspec import Struct

from windlass.base.lazy import lazy_pattern
from windlass.builders import dockerfile, instructions
from windlass.builders.builder import BuildError
from windlass.builders.dockerfile import Dockerfile, Stage
from windlass.builders.instructions import UNCERTAIN, DockerfileError, Heredoc, Instruction
from windlass.builders.substitution import BadWord, substitute
from windlass.docker.builds.engine_version import UPDATE, step_with_volumes
from windlass.docker.builds.expansion import FromImages, check_expansion
from windlass.docker.builds.step_labels import emptied_labels, sets_labels
from windlass.engines.image_names import NOT_ITS_OWN, is_ours, with_registry

SCOPE_ARGUMENT: Final = "WINDLASS_BUILD_SCOPE"
"""Name of an ARG in every stage. Its value becomes part of the cache keys of BuildKit and the classic
builder."""

_IMAGE_PATTERN: Final = lazy_pattern(r"[A-Za-z0-9](?!.*://)(?!.*\.\.)(?!.*/\./)[A-Za-z0-9._/:@-]*")
"""Names of images. With a part `..` or `.`, a name would lead to other parts of the engine's API."""
_REMOTE_SOURCE_PATTERN: Final = lazy_pattern(
    r"[A-Za-z][A-Za-z0-9+.-]*://|[^/\s][^/\s@]*+@[^/\s][^/\s:]*+:|github\.com/", re.IGNORECASE
)
_ALLOWED_FLAGS: Final = {
    "ADD": {"chown", "chmod", "checksum", "exclude", "keep-git-dir", "link", "unpack"},
    "COPY": {"chown", "chmod", "exclude", "from", "link", "parents"},
    "FROM": {"platform"},
    "RUN": {"mount", "network", "security"},
}
_WITHOUT_FLAGS: Final = (
    *("ARG", "CMD", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "LABEL", "MAINTAINER", "RUN", "SHELL"),
    *("STOPSIGNAL", "USER", "WORKDIR"),
)
_SAME_FLAGS: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(_WITHOUT_FLAGS, frozenset[str]()),
    "COPY": frozenset({"chown", "from"}),
    "HEALTHCHECK": frozenset({"interval", "timeout", "start-period", "retries"}),
}
"""Instructions and flags that both builders treat equally. VOLUME is not included: the classic builder drops
files that later steps write into a volume."""
_SPECIAL_ARGUMENTS: Final = ("SOURCE_DATE_EPOCH",)
"""Build arguments that change BuildKit's behaviour, besides the platform arguments."""
_PLAIN_TEXT_PATTERN: Final = lazy_pattern(r"[^\s'\"\\`]*")
_PLAIN_SOURCE_PATTERN: Final = lazy_pattern(r"[^$'\"\\`]*")
_WILD_CARD_PATTERN: Final = lazy_pattern(r"[*?\[]")
_ROOT_USERS: Final = ("root", "0")
_ALLOWED_NETWORKS: Final = ("default", "none")
_NOT_AS_TRIGGER: Final = ("ADD", "LABEL", "RUN")
"""Instructions not allowed in a base image's ONBUILD: they would run before the cache scope is set, or
without being checked here."""
_ALLOWED_MOUNTS: Final = ("bind", "cache", "tmpfs")
_CACHE_OPTIONS: Final = (
    *("type", "id", "target", "dst", "destination", "from", "sharing"),
    *("ro", "readonly", "rw", "readwrite", "mode", "uid", "gid"),
)
"""Allowed options of cache mounts. `source` is not allowed: before Docker 25, an engine follows a symbolic
link that replaces the source folder during the build, to any folder of its machine (CVE-2024-23651)."""
_NOT_SHARED: Final = ("locked", "private")
"""Sharing modes of a cache mount in which only one step at a time can change the files."""
_MOUNT_HINTS: Final = {
    "secret": " (builds get no secrets: use a build argument, or fetch it when the service runs)"
}
_HEREDOC_PATTERN: Final = lazy_pattern(r"[A-Za-z0-9_.-]+")
# Heredoc lines that an engine with another heredoc parser could execute as instructions.
_LIKE_AN_INSTRUCTION_PATTERN: Final = lazy_pattern(
    r"\s*(?:ONBUILD\s+)*(?:ADD\s.*(?:://|[@$\\])|(?:ADD|COPY|RUN|FROM)\s+--|FROM\s.*(?:windlass|\$))",
    re.IGNORECASE,
)
_SELECTS_A_FRONTEND: Final = "BUILDKIT_"
_SAME_PROCESSORS: Final = {"x86_64": "amd64", "x86-64": "amd64", "aarch64": "arm64"}
_BASE_VARIANTS: Final = {"amd64": "v1", "arm64": "v8"}
"""The default variant of each architecture."""


class Around(Struct, frozen=True, kw_only=True):
    """The context of a build, for checking its Dockerfile."""

    service: str
    """Id of the service. Builds of one service share cache mounts."""
    scope: str
    """Secret value of the service. Only builds with the same value share cached steps."""
    arguments: Mapping[str, str]
    platform: Mapping[str, str]
    """Platform build arguments (TARGETARCH and so on), as the engine will set them."""
    digests: Mapping[str, str] = {}
    """Checked images: maps the name in the Dockerfile to the reference that replaces it."""
    heredocs: bool
    """Whether the engine supports heredocs."""
    refuses_mounts: bool = False
    """Whether steps with mounts could reach the engine's machine: see `engine_version`."""
    refuses_volumes: bool = False
    """Whether steps have the volumes of images, and could reach the engine's machine with them."""
    has_volumes: bool = False
    """Whether base images have volumes."""
    hides_labels: bool = False
    """Whether steps would have the labels of their image. Proxies and other programs of the operator obey
    labels of containers."""
    labels: Mapping[str, tuple[str, ...]] = {}
    """Names of the labels of checked images, by the name of the image in the Dockerfile."""
    stage: str | None = None
    """Name of the target stage; None for the last stage."""
    inherited: FromImages = FromImages()
    """Settings inherited from the checked base images."""


class Rewritten(Struct, frozen=True):
    text: bytes
    images: tuple[str, ...]
    """Names of the external images that the Dockerfile uses (not its own stages)."""
    arguments: Mapping[str, str]
    """Build arguments, without arguments that configure the engine."""
    leaves_out_caches: bool
    """Whether steps run without their cache mounts, because of the engine's runc."""
    is_plain: bool
    """Whether both builders create the same image from the Dockerfile, provided that its base images are
    plain, too (`is_plain_image`)."""


class BuildRefused(BuildError):
    """Raised if a Dockerfile uses a feature that is not allowed. The message contains the line number."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"Dockerfile line {line}: {_printable(reason)}")


def rewritten(text: str, build_context: Around) -> Rewritten:
    try:
        read = dockerfile.read(text)
        check_expansion(read, {**build_context.platform, **build_context.arguments}, build_context.inherited)
        writing = _DockerfileWriter(read, build_context)
        lines = list(writing.lines())
    except DockerfileError as error:
        raise BuildError(f"Dockerfile {_printable(str(error))}") from error
    content = "".join(f"{line}\n" for line in lines).encode(errors="surrogateescape")
    arguments = {
        name: value
        for name, value in build_context.arguments.items()
        if name != SCOPE_ARGUMENT and not name.upper().startswith(_SELECTS_A_FRONTEND)
    }
    images = tuple(dict.fromkeys(writing.images))
    return Rewritten(content, images, arguments, writing.leaves_out_caches, writing.is_plain())


def is_plain_image(image: Mapping[str, Any]) -> bool:
    """Returns whether both builders treat a base image equally. They differ for volumes (the classic builder
    drops files that steps write into them) and for images with a user (the classic builder creates WORKDIR
    folders as root)."""
    config = image.get("Config") or {}
    is_root = (config.get("User") or "root") in _ROOT_USERS
    return is_root and not config.get("Volumes") and not config.get("OnBuild")


def check_image(ref: str, image: Mapping[str, Any], service: str, label: str, platform: str) -> None:
    """Raises BuildError for an image that was built for another service, is referenced by its id, sets the
    scope of the cache, or is for another platform than the engine's: BuildKit would pull a different,
    unchecked image from the registry."""
    named = ref.lower().removeprefix("sha256:")
    if str(image.get("Id", "")).removeprefix("sha256:").startswith(named):
        raise BuildError(f"Name the image {ref} by its name and tag: an image cannot be named by its id")
    config = image.get("Config") or {}
    if (config.get("Labels") or {}).get(label, service) != service:
        raise BuildError(f"Use another image than {ref}: it was built for another service")
    if any(str(variable).partition("=")[0] == SCOPE_ARGUMENT for variable in config.get("Env") or ()):
        raise BuildError(f"Use another image than {ref}: it sets {SCOPE_ARGUMENT}, which Windlass sets")
    made_for = "/".join(str(image.get(part) or "") for part in ("Os", "Architecture", "Variant")).rstrip("/")
    if not _is_platform(made_for, platform):
        raise BuildError(
            f"Use an image for {platform} instead of {ref}, which is for "
            f"{made_for or 'an unknown platform'}: this Docker engine builds for {platform}"
        )
    _check_triggers(ref, config.get("OnBuild") or ())


def by_digest(ref: str, image: Mapping[str, Any]) -> str:
    """Returns an immutable reference (by digest) of a checked image. Returns the name unchanged for an image
    without a registry digest, for which BuildKit uses the engine's local image."""
    digests = [str(each) for each in image.get("RepoDigests") or ()]
    name = _repository_of_image(ref)
    return next((each for each in digests if _repository_of_image(each) == name), ref)


def _repository_of_image(ref: str) -> str:
    """Returns an image name with its registry, without tag and digest."""
    path, slash, last = with_registry(ref.partition("@")[0]).rpartition("/")
    return f"{path}{slash}{last.partition(':')[0]}"


def _is_platform(platform: str, engine_platform: str) -> bool:
    """Returns whether a platform is the engine's platform, such as `linux/amd64`. Accepts all variants of
    32-bit ARM, because engines do not report their variant."""
    os, _, rest = platform.lower().partition("/")
    processor, _, variant = rest.partition("/")
    processor = _SAME_PROCESSORS.get(processor, processor)
    return f"{os}/{processor}" == engine_platform and (
        variant in ("", _BASE_VARIANTS.get(processor)) or processor == "arm"
    )


def _check_triggers(ref: str, triggers: Sequence[str]) -> None:
    """Raises BuildError for ONBUILD instructions of a base image that could reach too much. They cannot be
    rewritten, because they are part of the image."""
    for trigger in triggers:
        try:
            read = dockerfile.read(f"FROM scratch\n{trigger}\n").stages[0].instructions
        except DockerfileError:
            read = ()
        if (
            len(read) != 1
            or read[0].name in _NOT_AS_TRIGGER
            or (read[0].flags and read[0].name != "HEALTHCHECK")
            or read[0].heredocs
            or SCOPE_ARGUMENT in trigger
        ):
            raise BuildError(
                f"Use another image than {ref}, and write its step into the Dockerfile: ONBUILD "
                f"{_shorten(trigger)} is not run here"
            )


class _DockerfileWriter:
    def __init__(self, dockerfile: Dockerfile, build_context: Around) -> None:
        self._read = dockerfile
        self._around = build_context
        self._outer = dockerfile.outer(build_context.arguments, build_context.platform)
        self.images: list[str] = []
        self.leaves_out_caches = False

    def lines(self) -> Iterator[str]:
        has_volumes = self._around.has_volumes
        if self._around.refuses_volumes and (line := step_with_volumes(self._read, of_bases=has_volumes)):
            raise BuildRefused(line, f"run this step before VOLUME, and on an image without one, or {UPDATE}")
        if self._read.escape != "\\":
            yield f"# escape={self._read.escape}"
        for argument in self._read.arguments:
            _check_name(argument.line, argument.name)
            default = "" if argument.default is None else f"={argument.default}"
            yield self._checked_line(argument.line, f"ARG {argument.name}{default}")
        for stage, start in zip(self._read.stages, self._read.starts, strict=True):
            yield self._write_from(stage, start)
            yield f"ARG {SCOPE_ARGUMENT}={self._around.scope}"
            yield from self._emptied_labels(stage)
            yield from self._stage_lines(stage)

    def is_plain(self) -> bool:
        """Returns whether both builders create the same image from the target stage. Unlike BuildKit, the
        classic builder also executes unneeded stages before the target."""
        target = self._read.stage(self._around.stage)
        if target is None:
            return False
        stages = self._read.stages[: target.index + 1]
        if not _makes_folders_as_root(each for stage in stages for each in stage.instructions):
            return False
        needed = {target.index}
        for stage in reversed(stages):
            if stage.index not in needed or not self._is_plain_stage(stage):
                return False
            needed |= self._needed_stages(stage)
        return True

    def _is_plain_stage(self, stage: Stage) -> bool:
        return all(map(self._is_plain, (self._read.starts[stage.index], *stage.instructions)))

    def _is_plain(self, instruction: Instruction) -> bool:
        same = _SAME_FLAGS.get(instruction.name)
        if same is None or instruction.heredocs or not {name for name, _ in instruction.flags} <= same:
            return False
        if instruction.name == "COPY":
            return _is_plain_copy(instruction)
        return instruction.name != "ARG" or not any(
            argument.name in self._around.platform or argument.name in _SPECIAL_ARGUMENTS
            for argument in instructions.arguments(instruction, self._read.escape)
        )

    def _needed_stages(self, stage: Stage) -> set[int]:
        """Returns the indexes of the stages on which a stage depends."""
        origins = [value for each in stage.instructions for name, value in each.flags if name == "from"]
        base = self._read.read(stage.line, stage.base, self._outer)
        named = (self._read.earlier(origin, stage) for origin in (base, *origins))
        numbers = {int(origin) for origin in origins if origin.isascii() and origin.isdecimal()}
        return {each.index for each in named if each is not None} | numbers

    def _write_from(self, stage: Stage, start: Instruction) -> str:
        """Writes FROM with its variables replaced, because the engine may have other values, and without
        --platform, because images are checked for the engine's platform."""
        self._check_flags(start)
        base = self._read.read(stage.line, stage.base, self._outer)
        if base.lower() != "scratch" and self._read.earlier(base, stage) is None:
            for _, platform in start.flags:
                self._check_platform(stage.line, platform)
            base = self._checked_image(stage.line, base)
        named = f" AS {stage.name}" if stage.name else ""
        return self._checked_line(stage.line, f"FROM {base}{named}")

    def _emptied_labels(self, stage: Stage) -> Iterator[str]:
        base = self._read.read(stage.line, stage.base, self._outer)
        if self._around.hides_labels and self._read.earlier(base, stage) is None:
            yield from emptied_labels(stage.line, base, self._around.labels.get(base, ()))

    def _check_platform(self, line: int, written: str) -> None:
        platform, own = self._read.read(line, written, self._outer), self._around.platform["TARGETPLATFORM"]
        if not _is_platform(platform, own):
            raise BuildRefused(
                line,
                f"write FROM without --platform={_shorten(written)}: this Docker engine builds for {own}, "
                "and takes images for that platform only",
            )

    def _stage_lines(self, stage: Stage) -> Iterator[str]:
        variables: dict[str, str] = {}
        for instruction in stage.instructions:
            if self._around.hides_labels and sets_labels(instruction):
                continue
            line = self._checked_line(instruction.line, self._instruction(stage, instruction, variables))
            _check_heredocs(instruction, line)
            yield line
            for heredoc in instruction.heredocs:
                yield from self._heredoc(instruction.line, heredoc)
            self._record_variables(instruction, variables)

    def _record_variables(self, instruction: Instruction, variables: dict[str, str]) -> None:
        """Records ENV and ARG values, so that error messages can show the URL in an ADD."""
        if instruction.name == "ENV":
            for name, value in instructions.pairs(instruction, self._read.escape):
                variables[name] = self._replace_variables(value, variables)
        elif instruction.name == "ARG":
            for argument in instructions.arguments(instruction, self._read.escape):
                default = self._replace_variables(argument.default or "", variables) or self._outer.get(
                    argument.name, ""
                )
                variables.setdefault(argument.name, self._around.arguments.get(argument.name, default))

    def _instruction(self, stage: Stage, instruction: Instruction, variables: Mapping[str, str]) -> str:
        self._check_flags(instruction)
        match instruction.name:
            case "ADD":
                return (
                    f"ADD {_joined_flags(instruction.flags)}{self._prefixed_sources(instruction, variables)}"
                )
            case "COPY":
                flags = [
                    (
                        name,
                        self._checked_copy_origin(stage, instruction.line, value)
                        if name == "from"
                        else value,
                    )
                    for name, value in instruction.flags
                ]
                return f"COPY {_joined_flags(flags)}{instruction.text}"
            case "ARG" | "ENV":
                _check_names(instruction, self._read.escape)
            case "RUN":
                written = [self._run_flag(stage, instruction.line, *flag) for flag in instruction.flags]
                flags = [flag for flag in written if flag[1]]
                return f"RUN {_joined_flags(flags)}{instruction.text}"
            case "ONBUILD":
                inner = instructions.instruction(instruction.line, instruction.text, self._read.escape)
                if inner.name == "RUN":
                    raise BuildRefused(
                        instruction.line,
                        "write the RUN step into the stage that needs it: ONBUILD RUN is not run here",
                    )
                return f"ONBUILD {self._instruction(stage, inner, variables)}"
        return f"{instruction.name} {_joined_flags(instruction.flags)}{instruction.text}".rstrip()

    # ADD

    def _prefixed_sources(self, instruction: Instruction, variables: Mapping[str, str]) -> str:
        """Prefixes each ADD source with `./`, so that it is a file of the repository whatever its variables
        contain."""
        if instruction.json is not None:
            *sources, target = instruction.json
            for source in sources:
                self._check_source(instruction, source, variables)
            return msgspec.json.encode([*(f"./{source}" for source in sources), target]).decode()
        *sources, target = instruction.text.split()
        for source in sources:
            self._check_source(instruction, source, variables)
        return " ".join([*(_local_source(source, instruction) for source in sources), target])

    def _check_source(self, instruction: Instruction, source: str, variables: Mapping[str, str]) -> None:
        meant = self._replace_variables(source, variables)
        if _REMOTE_SOURCE_PATTERN.match(meant):
            raise BuildRefused(
                instruction.line,
                f"download {_shorten(_without_login(meant))} in a RUN step, or commit it to the repository: "
                "ADD takes files of the repository only",
            )

    def _replace_variables(self, text: str, variables: Mapping[str, str]) -> str:
        """Replaces variables in an error message. Returns the text unchanged if that fails."""
        try:
            return substitute(text, variables, self._read.escape)
        except BadWord:
            return text

    # Images

    def _checked_origin(self, stage: Stage, line: int, ref: str) -> str:
        """Checks the stage or image of a `from` option, and returns its reference."""
        if "$" in ref:
            raise BuildRefused(line, f"from={_shorten(ref)}: name a stage or an image without variables")
        is_own = self._read.earlier(ref, stage) is not None or ref.lower() == "scratch"
        return ref if is_own else self._checked_image(line, ref)

    def _checked_copy_origin(self, stage: Stage, line: int, ref: str) -> str:
        """Returns the checked `--from` of a COPY, which may also be a stage number. (In RUN --mount, BuildKit
        interprets a number as an image name.)"""
        is_number = ref.isascii() and ref.isdecimal() and int(ref[:6]) < stage.index
        return ref if is_number else self._checked_origin(stage, line, ref)

    def _checked_image(self, line: int, ref: str) -> str:
        if not _IMAGE_PATTERN.fullmatch(ref):
            raise BuildRefused(line, f"{_shorten(ref) or 'nothing'} is not the name of an image")
        if is_ours(ref):
            raise BuildRefused(line, f"{_shorten(ref)}: {NOT_ITS_OWN}")
        self.images.append(ref)
        return self._around.digests.get(ref, ref)

    # RUN

    def _run_flag(self, stage: Stage, line: int, name: str, value: str) -> tuple[str, str]:
        if name == "mount":
            return name, self._checked_mount(stage, line, value)
        if name == "network" and value.lower() in _ALLOWED_NETWORKS:
            return name, value.lower()
        if name == "security" and value.lower() == "sandbox":
            return name, value.lower()
        raise BuildRefused(line, f"leave out RUN --{name}={_shorten(value)}, which is not allowed here")

    def _checked_mount(self, stage: Stage, line: int, value: str) -> str:
        """Returns the checked options of a mount; empty for one that is left out."""
        options = [part.partition("=") for part in value.split(",")]
        flags = {name.lower(): text for name, _, text in options}
        if len(flags) != len(options):
            raise BuildRefused(line, f"RUN --mount={_shorten(value)}: give each option only once")
        kind = flags.get("type", "bind").lower()
        if kind not in _ALLOWED_MOUNTS:
            raise BuildRefused(
                line,
                f"leave out RUN --mount=type={_shorten(kind)}, which is not supported here"
                f"{_MOUNT_HINTS.get(kind, '')}",
            )
        if self._around.refuses_mounts and kind != "tmpfs":
            if kind == "bind" or "from" in flags:
                raise BuildRefused(
                    line, f"COPY what RUN --mount={_shorten(value)} mounts, or {UPDATE}: it is not safe there"
                )
            self.leaves_out_caches = True
            return ""
        written = [
            (name, equals, self._checked_origin(stage, line, text) if name.lower() == "from" else text)
            for name, equals, text in options
        ]
        if kind == "cache":
            if other := next((name for name in flags if name not in _CACHE_OPTIONS), None):
                raise BuildRefused(
                    line, f"leave out {_shorten(other)} of the cache mount, which is not supported here"
                )
            sharing = flags.get("sharing", "").lower()
            written = [each for each in written if each[0].lower() not in ("id", "sharing")]
            written.append(("sharing", "=", sharing if sharing in _NOT_SHARED else "locked"))
            written.append(("id", "=", f"{self._around.service}/{_cache_id(line, flags)}"))
        return ",".join(map("".join, written))

    # Common to all instructions

    def _check_flags(self, instruction: Instruction) -> None:
        allowed = _ALLOWED_FLAGS.get(instruction.name)
        if allowed is None:
            return
        if instruction.text.startswith("--"):
            raise BuildRefused(
                instruction.line,
                f"{instruction.name} {_shorten(instruction.text.split()[0])}: write the flag as --name=value",
            )
        for name, value in instruction.flags:
            if name not in allowed:
                raise BuildRefused(
                    instruction.line, f"leave out --{name} of {instruction.name}, which is not supported here"
                )
            self._check_plain(instruction, value)

    def _check_plain(self, instruction: Instruction, value: str) -> None:
        if not _PLAIN_TEXT_PATTERN.fullmatch(value):
            raise BuildRefused(
                instruction.line,
                f"{instruction.name}: write the flag {_shorten(value)} without quotes and backslashes",
            )

    def _checked_line(self, number: int, line: str) -> str:
        if "\n" in line or line.rstrip().endswith(self._read.escape):
            raise BuildRefused(number, f"it must not end with {self._read.escape}")
        return line

    def _heredoc(self, line: int, heredoc: Heredoc) -> Iterator[str]:
        if not self._around.heredocs:
            raise BuildRefused(
                line,
                f"<<{_shorten(heredoc.name)}: add a script to the repository and COPY it, or have the "
                "operator use BuildKit of Docker 23 or later: this Docker engine does not support heredocs",
            )
        if not _HEREDOC_PATTERN.fullmatch(heredoc.name):
            raise BuildRefused(line, f"<<{_shorten(heredoc.name)}: end it with a word of letters and digits")
        content = heredoc.content.split("\n")[:-1]
        if suspect := next((row for row in content if _LIKE_AN_INSTRUCTION_PATTERN.match(row)), None):
            raise BuildRefused(
                line, f"{_shorten(suspect.strip())} cannot stand in a heredoc here: COPY it from a file"
            )
        yield from content
        yield heredoc.name


def _check_names(instruction: Instruction, escape: str) -> None:
    if instruction.name == "ENV":
        names = [name for name, _ in instructions.pairs(instruction, escape)]
    else:
        names = [argument.name for argument in instructions.arguments(instruction, escape)]
    for name in names:
        _check_name(instruction.line, name)


def _check_name(line: int, name: str) -> None:
    """Raises BuildRefused for the variable of the scope: with the scope of another service, steps of this
    Dockerfile could become cached steps of that service."""
    if name == SCOPE_ARGUMENT:
        raise BuildRefused(line, f"choose another name than {SCOPE_ARGUMENT}, which Windlass sets")


def _check_heredocs(instruction: Instruction, line: str) -> None:
    """Raises BuildRefused if the rewritten line begins other heredocs than the original instruction."""
    names = [opening.name for opening in instruction.openings(line)]
    if names != [heredoc.name for heredoc in instruction.heredocs]:
        raise BuildRefused(instruction.line, UNCERTAIN)


def _makes_folders_as_root(steps: Iterable[Instruction]) -> bool:
    """Returns whether no WORKDIR follows a USER. BuildKit creates the folder of a WORKDIR for that user, the
    classic builder for root."""
    later = dropwhile(lambda each: each.name != "USER" or each.text in _ROOT_USERS, steps)
    return all(each.name != "WORKDIR" for each in later)


def _is_plain_copy(copy: Instruction) -> bool:
    """Returns whether both builders accept a COPY: its sources have no variables and do not lead upwards, and
    the target is a folder if there may be several sources. The classic builder refuses other forms."""
    *sources, target = copy.json or copy.text.split()
    is_one = len(sources) == 1 and not _WILD_CARD_PATTERN.search(sources[0])
    return (is_one or target.endswith("/")) and all(
        _PLAIN_SOURCE_PATTERN.fullmatch(source) and ".." not in source.split("/") for source in sources
    )


def _local_source(source: str, instruction: Instruction) -> str:
    is_heredoc = bool(instruction.heredocs) and source.lstrip("0123456789").startswith("<<")
    return source if is_heredoc else f"./{source}"


def _joined_flags(flags: Iterable[tuple[str, str]]) -> str:
    return "".join(f"--{name}={value} " if value else f"--{name} " for name, value in flags)


def _without_login(address: str) -> str:
    return re.sub(r"//[^/@\s]*@", "//", address)


def _cache_id(line: int, flags: Mapping[str, str]) -> str:
    """Returns the id of a cache mount, which is its target by default. An id that leads upwards, or that the
    engine expands, could become the id of another service."""
    target = flags.get("target") or flags.get("dst") or flags.get("destination") or ""
    id = flags.get("id") or target
    if ".." in id.split("/") or "$" in (flags.get("id") or ""):
        raise BuildRefused(line, f"name the cache {_shorten(id)} by an id without variables and without ..")
    return id


def _shorten(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:80]}…"


def _printable(text: str) -> str:
    return text.encode(errors="replace").decode()
