"""A recipe: the commands to install, build and start an application, with the reason for each value."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta, Struct, field

WEB_PROCESS: Final = "web"
"""The process type that serves requests."""
SITE_FOLDER: Final = "/site"
"""The folder that contains the static site in an image."""
MAX_LENGTH: Final = 2000
"""Maximum length of a value, command or reason in characters."""


class ProcessType(Struct, frozen=True):
    """A process that an application runs: its name, such as `web` or `worker`, and its command."""

    name: str
    command: str


class Candidate(Struct, frozen=True):
    """A folder in a repository that contains an application of its own."""

    root_path: Annotated[str, Meta(description="Value for git_repository.root_path")]
    language: str
    framework: str = ""


class DatabaseVariable(Struct, frozen=True):
    """A variable from which an application takes a part of the access to a database."""

    name: str
    value: Annotated[
        str, Meta(description="The value to set, which refers to a database of the proposed name")
    ]


class NeededDatabase(Struct, frozen=True):
    """A database that an application needs."""

    type: Annotated[str, Meta(description="Kind of server, such as POSTGRESQL")]
    name: Annotated[str, Meta(description="Proposed name")]
    variables: list[DatabaseVariable]


class Recipe(Struct, kw_only=True):
    """How an application is built and started. Empty fields were not detected. The first value chosen for a
    field is kept."""

    language: Annotated[str, Meta(description="Empty if no language was recognized")] = ""
    language_version: Annotated[str, Meta(description="As the repository writes it")] = ""
    framework: str = ""
    package_manager: str = ""
    dockerfile: Annotated[
        str, Meta(description="Path of the Dockerfile that is followed, if there is one")
    ] = ""
    system_packages: Annotated[list[str], Meta(description="Debian packages that dependencies need")] = field(
        default_factory=list
    )
    added_packages: Annotated[
        list[str], Meta(description="Packages that are installed although the repository does not name them")
    ] = field(default_factory=list)
    install: Annotated[str, Meta(description="Command that installs the dependencies")] = ""
    build: Annotated[str, Meta(description="Command that builds the application")] = ""
    release: Annotated[str, Meta(description="Command to run once for a release, before it serves")] = ""
    start: Annotated[str, Meta(description="Command of the web process, or of the only process")] = ""
    processes: Annotated[list[ProcessType], Meta(description="All processes, the web process first")] = field(
        default_factory=list
    )
    port: Annotated[int, Meta(description="Port it listens on unless PORT says another; 0 if none")] = 0
    static_folder: Annotated[str, Meta(description="Folder of files to serve instead of a process")] = ""
    static_fallback: Annotated[
        str,
        Meta(
            description="File of this folder to answer where no file has the path, unless it has a 404.html"
        ),
    ] = ""
    health_path: str = ""
    databases: Annotated[
        list[NeededDatabase], Meta(description="Databases whose access the code takes from variables")
    ] = field(default_factory=list)
    own_secrets: Annotated[
        list[str],
        Meta(description="Variables with secrets of the application itself, for which any text will do"),
    ] = field(default_factory=list)
    host_variables: Annotated[
        list[str],
        Meta(description="Variables with the hosts to which it answers; `*` stands for all of them"),
    ] = field(default_factory=list)
    required_variables: Annotated[
        list[str],
        Meta(description="Other variables that the code reads without a default: it fails without them"),
    ] = field(default_factory=list)
    reasons: Annotated[dict[str, str], Meta(description="For each value that was found, its reason")] = field(
        default_factory=dict
    )
    problems: Annotated[list[str], Meta(description="Files that could not be read, and what is missing")] = (
        field(default_factory=list)
    )
    remarks: Annotated[
        list[str], Meta(description="What follows, such as that there will be no public address")
    ] = field(default_factory=list)
    candidates: Annotated[
        list[Candidate], Meta(description="Folders of the repository that hold applications")
    ] = field(default_factory=list)

    only_folder: Annotated[
        str, Meta(description="Folder of the only application, which this folder is not; empty if unsure")
    ] = ""

    def choose(self, reason: str, **values: Any) -> None:
        """Sets fields that are still empty, and records the reason.

        A value that is too long is reported as a problem instead, because a truncated command would do
        something else.
        """
        for name, value in values.items():
            if not getattr(self, name) and (plain := self._clean_value(name, value)):
                setattr(self, name, plain)
                self.reasons[name] = _one_line(reason)[:MAX_LENGTH]

    def forget(self, *names: str) -> None:
        """Clears fields and their reasons."""
        empty = Recipe()
        for name in names:
            setattr(self, name, getattr(empty, name))
            self.reasons.pop(name, None)

    def _clean_value(self, name: str, value: Any) -> Any:
        match value:
            case str():
                return self._shortened(name, _one_line(value))
            case [ProcessType(), *_]:
                return [
                    ProcessType(name, command)
                    for name, command in (
                        (_one_line(process.name), _one_line(process.command)) for process in value
                    )
                    if self._shortened(f"the process {name}", command)
                ]
            case [NeededDatabase(), *_]:
                return value
            case list() | tuple():
                return [text for text in map(_one_line, value) if self._shortened(name, text)]
        return value

    def _shortened(self, name: str, text: str) -> str:
        if len(text) <= MAX_LENGTH:
            return text
        problem = f"Shorten {name} to {MAX_LENGTH} characters, such as by a script in the repository: it has "
        self.problems.append(f"{problem}{len(text)}.")
        return ""

    @property
    def is_runnable(self) -> bool:
        return bool(self.start or self.static_folder)

    @property
    def is_application(self) -> bool:
        """Returns whether the recipe can be started, including recipes with several processes to choose
        from."""
        return self.is_runnable or bool(self.processes)

    @property
    def values(self) -> list[tuple[str, str, str]]:
        """The name, value as text, and reason of each detected field."""
        return [
            (name, _to_text(getattr(self, name)), self.reasons[name])
            for name in _FIELD_ORDER
            if name in self.reasons
        ]


_FIELD_ORDER: Final = [
    name for name in Recipe.__struct_fields__ if name not in ("reasons", "problems", "remarks", "candidates")
]


def _to_text(value: Any) -> str:
    match value:
        case [ProcessType(), *_]:
            return "; ".join(f"{process.name}: {process.command}" for process in value)
        case [NeededDatabase(), *_]:
            return "; ".join(map(_database_text, value))
        case list():
            return ", ".join(value)
    return str(value)


def _database_text(need: NeededDatabase) -> str:
    return f"{need.type}: {', '.join(variable.name for variable in need.variables)}"


def _one_line(text: str) -> str:
    """Returns the text as one line without control characters, because files are untrusted."""
    return "".join(sign if sign.isprintable() else " " for sign in text).strip()
