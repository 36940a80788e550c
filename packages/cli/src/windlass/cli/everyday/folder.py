"""`windlass init`, `link` and `unlink`: link a folder to the service that is deployed from it."""

from __future__ import annotations

import json
import re
import shlex
import sys
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from msgspec import Struct

from windlass.base.file_names import file_names, read_beginning
from windlass.builders.plan import database_remark, plan_of, required_remark
from windlass.cli.client import Api, ApiRefused
from windlass.cli.confirmed_links import note_link
from windlass.cli.connection import call_options, connect
from windlass.cli.contexts import normal_url
from windlass.cli.deployments import is_gone, say
from windlass.cli.everyday.call import context_option, environment_option
from windlass.cli.everyday.init_databases import DatabaseMaker
from windlass.cli.everyday.init_variables import EXAMPLE_FILES, VariableMaker
from windlass.cli.git_folder import GitFolder, git_folder
from windlass.cli.linked_folder import (
    LINK_FILE,
    FolderLink,
    current_folder,
    find_linked_folder,
    remove_link,
    write_link,
)
from windlass.cli.push_remote import (
    PUSHED_REPOSITORY,
    branch_to_push,
    is_push_address,
    set_remote,
    takes_pushes,
)
from windlass.detect import Recipe, Tree
from windlass.terminal.command_errors import CommandFailed, InvalidUsage
from windlass.terminal.sections import Command, Option
from windlass.terminal.tables import plain, print_json, wants_json

_UNREADABLE_STATUSES: Final = frozenset({400, 409})
"""Statuses of a server that cannot read a repository, or is not allowed to contact its host."""


def source_of(
    api: Api,
    folder: Path,
    git: GitFolder | None,
    repository: str | None,
    *,
    subfolder: str = "",
    push: bool = False,
) -> dict[str, Any]:
    """Returns the source fields of an application: the git repository if the server can read it. A repository
    without a remote is pushed to the application. Otherwise the folder is uploaded, or the parent folder that
    contains the repository. `subfolder`: the folder in it that holds the application."""
    inner = _root_path_field(whole_folder(folder, git), folder / subfolder)
    uploaded = {"source": "UPLOAD", **inner}
    remotes = [url for url in git.remotes if not is_push_address(url)] if git else []
    url = repository or (remotes[0] if remotes else "")
    if git and whole_folder(folder, git) == git.top and not repository and (push or not url):
        return {"git_repository": {"url": PUSHED_REPOSITORY, "branch": branch_to_push(git), **inner}}
    if not url:
        say("The files are uploaded by `windlass up`: the folder has no remote that a server can reach.")
        return uploaded
    source: dict[str, Any] = {"url": url}
    if git and not repository:
        source |= ({"branch": git.branch} if git.branch else {}) | inner
    if not repository and (reason := _why_unreadable(api, source)):
        say(f"The files are uploaded by `windlass up`: the server cannot read {plain(url)}. {plain(reason)}")
        return uploaded
    return {"git_repository": source}


def whole_folder(folder: Path, git: GitFolder | None) -> Path:
    """Returns the top folder of the git repository, or the folder itself without one: parent folders may
    belong to someone else. A repository that contains the home folder is never uploaded."""
    return git.top if git and not Path.home().is_relative_to(git.top) else folder


def _root_path_field(root: Path, folder: Path) -> dict[str, str]:
    inner = folder.resolve().relative_to(root.resolve()).as_posix()
    return {"root_path": f"/{inner}"} if inner != "." else {}


def _why_unreadable(api: Api, source: Mapping[str, Any]) -> str:
    """Returns why the server cannot read a repository; empty if the server can."""
    organization = api.get("/organization")["id"]
    try:
        api.call(
            "POST", f"/organization/{organization}/detect", msgspec.json.encode({"git_repository": source})
        )
    except ApiRefused as refused:
        if refused.status in _UNREADABLE_STATUSES:
            return refused.message
        raise
    return ""


_OWN_FILE: Final = ".env"
_MANIFEST_FILE: Final = "app.json"
_NAME_PATTERN: Final = re.compile(r"^[ \t]*+(?:export[ \t]++)?([A-Za-z_]\w{0,200}+)[ \t]*+=", re.MULTILINE)
_MAX_FILE_BYTES: Final = 100_000
_MAX_SHOWN_VARIABLES: Final = 8


def hint_at_variables(folder: Path, done: Collection[str] = ()) -> str:
    """Returns how to set the variables that files in the folder declare, without those that are set; empty if
    there are none."""
    if (folder / _OWN_FILE).is_file():
        return f"{_OWN_FILE} is never uploaded. Set its variables with: windlass env import {_OWN_FILE}"
    for name in (*EXAMPLE_FILES, _MANIFEST_FILE):
        if variables := [variable for variable in _variable_names_in(folder, name) if variable not in done]:
            shown = ", ".join(variables[:_MAX_SHOWN_VARIABLES]) + (
                ", …" if len(variables) > _MAX_SHOWN_VARIABLES else ""
            )
            example = shlex.quote(f"{variables[0]}=…")
            return f"{name} names variables: {plain(shown)}. Set each with: windlass env set {plain(example)}"
    return ""


def _variable_names_in(folder: Path, name: str) -> list[str]:
    try:
        text = read_beginning(folder, name, _MAX_FILE_BYTES).decode("utf-8", "replace")
    except OSError:  # the file is missing, or it is a link, which could point anywhere
        return []
    return list(
        dict.fromkeys(_manifest_variables(text) if name == _MANIFEST_FILE else _NAME_PATTERN.findall(text))
    )


def _manifest_variables(text: str) -> Iterator[str]:
    """Yields the required variables of an app.json that have no default value."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return
    variables = document.get("env") if isinstance(document, dict) else None
    for name, about in (variables if isinstance(variables, dict) else {}).items():
        is_settled = isinstance(about, str) or (isinstance(about, dict) and bool(about.get("value")))
        is_optional = isinstance(about, dict) and about.get("required") is False
        if not is_settled and not is_optional:
            yield name


_DEFAULT_PORT: Final = 8080
_MAX_SHOWN_PROCESSES: Final = 5
"""Maximum number of other processes that are shown with their commands."""
_MAX_SHOWN_FOLDERS: Final = 5
_NO_DATABASE_CHOICE: Final = "none"
_AUTO_DATABASE: Final = "auto"
_ENVIRONMENT_MODES: Final = {"production": "PRODUCTION", "staging": "STAGING"}


class InitAnswers(Struct, frozen=True):
    """The answers to the questions of `windlass init`."""

    name: str
    place: str
    """The path of the environment."""
    port: str
    """A number, `none`, or `auto`, which lets the server choose the port."""
    follows_program: bool = False
    """Returns whether the port was detected, so that the port on which the program listens may replace it."""


@click.command(
    "init",
    cls=Command,
    params=[
        Option(["name", "--name"], metavar="NAME", help="Name of the application.  [the name of the folder]"),
        environment_option(),
        Option(
            ["port", "--port"],
            metavar="PORT|none|auto",
            help="Port on which it listens for HTTP; auto leaves it to the server.  [what is detected]",
        ),
        Option(["repository", "--repository"], metavar="URL", help="Git repository.  [the remote]"),
        Option(
            ["push", "--push"],
            is_flag=True,
            help="Deploy with git push, also if the repository has another remote.",
        ),
        Option(
            ["database", "--database/--no-database"],
            default=None,
            help="Create the databases from whose variables the code takes the access.  [--database]",
        ),
        Option(["yes", "-y", "--yes"], is_flag=True, help="Ask nothing, and take what is detected."),
        context_option(),
        *call_options(),
    ],
)
def init(
    yes: bool, push: bool, database: bool | None, repository: str | None, as_json: bool | None, **options: Any
) -> None:
    """Make this folder an application: detect it, create it, and link the folder with it.

    Asks for its name, its project and environment, and its port, unless they are given as options or there is
    no terminal. What is missing is created, also the databases that its code needs: their variables are set,
    its own secrets to random texts, and others as in .env.example. `windlass up` deploys it.

    A git repository without a remote, or any with --push, gets the remote `windlass`: then
    `git push windlass main` deploys it.
    """
    folder = current_folder()
    recipe, below = _plan_in(folder)
    git = git_folder(folder)
    if push and (git is None or repository):
        raise InvalidUsage("leave out --push, or --repository; --push needs a folder in git (`git init`)")
    _refuse_without_application(folder, recipe, git)
    _show_recipe(recipe)
    if recipe.dockerfile:
        say("A Dockerfile is there: a server with Docker builds it, and one without follows it where it can.")
    asks = not yes and sys.stdin.isatty() and sys.stdout.isatty()
    answers = _init_answers(folder, whole_folder(folder, git), recipe, options, asks=asks)
    api = connect(options, linked=_linked_url(folder))
    maker = ApplicationMaker(api, say)
    source = partial(source_of, api, folder, git, repository, subfolder=below, push=push)
    application = maker.application(answers, source)
    if git:
        application = maker.with_source(application, source) if push else maker.whole(application)
    command = "windlass up"
    if git and takes_pushes(application):
        command = set_remote(git, application, normal_url(api.url))
    link = FolderLink(
        url=normal_url(api.url),
        project=answers.place.partition("/")[0],
        environment=answers.place.partition("/")[2],
        application=application["name"],
    )
    write_link(folder, link)
    note_link(folder, link)
    _show_other_processes(recipe, link, application)
    done: Collection[str] = ()
    if "source" in application:  # it is new
        agree: Callable[[str], bool] = _confirm if asks else lambda _question: True
        if database is not False:
            is_sure = bool(database)
            DatabaseMaker(api, application, say).provide(
                recipe.databases, lambda question: is_sure or agree(question)
            )
        done = VariableMaker(api, application, say).provide(recipe, folder / below, agree)
    if left := [name for name in recipe.required_variables if name not in done]:
        say(plain(required_remark(left)))
    if hint := hint_at_variables(folder / below, {*done, *recipe.required_variables}):
        say(hint)
    if wants_json(as_json):
        print_json({**msgspec.to_builtins(link), "id": application["id"]})
    else:
        click.echo(f"This folder is {plain(link.path)} now ({LINK_FILE}). Deploy it with: {command}")


@click.command(
    "link",
    cls=Command,
    params=[
        click.Argument(["name"], metavar="PATH"),
        context_option(),
        *call_options(),
    ],
)
def link(name: str, as_json: bool | None, **options: Any) -> None:
    """Link this folder with an application that exists: shop/production/web, or a shorter path."""
    api = connect(options)
    matches = api.get("/resource", family="application", path=name)["results"]
    if len(matches) != 1:
        ways = ", ".join(plain(match["path"]) for match in matches) or "none"
        raise InvalidUsage(f"give a longer path: {name!r} could be {ways}")
    project, environment, application = matches[0]["path"].split("/")
    linked = FolderLink(
        url=normal_url(api.url), project=project, environment=environment, application=application
    )
    write_link(current_folder(), linked)
    note_link(current_folder(), linked)
    git, found = git_folder(current_folder()), api.get(f"/application/{matches[0]['id']}")
    if git and takes_pushes(found):
        say(f"Deploy it with: {set_remote(git, found, normal_url(api.url))}")
    if wants_json(as_json):
        print_json({**msgspec.to_builtins(linked), "id": matches[0]["id"]})
    else:
        click.echo(f"This folder is {plain(linked.path)} now ({LINK_FILE})")


@click.command("unlink", cls=Command)
def unlink() -> None:
    """Remove the link of this folder. The service stays as it is."""
    linked = find_linked_folder(current_folder())
    if linked is None:
        raise CommandFailed("go to a linked folder: this one is not linked")
    remove_link(linked.folder)
    say(f"Removed {linked.folder / LINK_FILE}. The service {plain(linked.link.path)} stays as it is.")


class ApplicationMaker:
    """Creates an application with its project and environment, unless they exist."""

    def __init__(self, api: Api, report_line: Callable[[str], None]) -> None:
        self._api = api
        self._note = report_line

    def application(self, answers: InitAnswers, source: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        existing = self._find("application", f"{answers.place}/{answers.name}")
        if existing is not None:
            self._note(f"{plain(existing['path'])} exists already, and stays as it is.")
            return existing
        environment = self._find_or_create_environment(answers.place)
        body = {"name": answers.name, **source(), **_port_fields(answers)}
        return self._create(f"/environment/{environment}/application", body, "application")

    def whole(self, application: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns all fields of an application, of which a search has found only the name."""
        is_whole = "push_url" in application or "source" in application
        return application if is_whole else dict(self._api.get(f"/application/{application['id']}"))

    def with_source(
        self, application: Mapping[str, Any], source: Callable[[], Mapping[str, Any]]
    ) -> Mapping[str, Any]:
        """Lets an application take pushes, unless it does."""
        application = self.whole(application)
        if takes_pushes(application):
            return application
        body = {"source": "GIT", "root_path": None, **source()}
        path = f"/application/{application['id']}"
        changed = self._api.call("PATCH", path, msgspec.json.encode(body))
        self._note(f"{plain(changed.json['name'])} is built from what is pushed to it now.")
        return dict(changed.json)

    def _find_or_create_environment(self, environment_name: str) -> str:
        existing = self._find("environment", environment_name)
        if existing is not None:
            return str(existing["id"])
        project, _, name = environment_name.partition("/")
        body = {"name": name} | (
            {"mode": _ENVIRONMENT_MODES[name.lower()]} if name.lower() in _ENVIRONMENT_MODES else {}
        )
        path = f"/project/{self._find_or_create_project(project)}/environment"
        return str(self._create_or_find(path, body, "environment", environment_name)["id"])

    def _find_or_create_project(self, name: str) -> str:
        existing = self._find("project", name)
        if existing is not None:
            return str(existing["id"])
        organization = self._api.get("/organization")["id"]
        path = f"/organization/{organization}/project"
        return str(self._create_or_find(path, {"name": name}, "project", name)["id"])

    def _create_or_find(
        self, path: str, body: Mapping[str, Any], family: str, place: str
    ) -> Mapping[str, Any]:
        """Creates a thing, or returns the one that another command has created meanwhile."""
        try:
            return self._create(path, body, family)
        except ApiRefused as refused:
            existing = self._find(family, place) if refused.status == HTTPStatus.CONFLICT else None
            if existing is None:
                raise
            return existing

    def _find(self, family: str, path: str) -> Mapping[str, Any] | None:
        try:
            matches = self._api.get("/resource", family=family, path=path)["results"]
        except ApiRefused as refused:
            if is_gone(refused):
                return None
            raise
        return dict(matches[0])

    def _create(self, path: str, body: Mapping[str, Any], noun: str) -> Mapping[str, Any]:
        created = self._api.call("POST", path, msgspec.json.encode(body)).json
        self._note(f"Created the {noun} {plain(created['name'])}.")
        return dict(created)


# The questions


def _init_answers(
    folder: Path, root: Path, recipe: Recipe, options: Mapping[str, Any], *, asks: bool
) -> InitAnswers:
    """Asks the questions of `windlass init`. `root`: the folder whose name is the default project name."""
    linked = find_linked_folder(folder)
    before = linked.link if linked and linked.folder == folder else None
    ask: Callable[[str, str], str] = _prompt if asks else lambda _question, default: default
    usual = _service_name_of(folder)
    name = options["name"] or ask("Name of the application", before.application if before else usual)
    place = options["environment"] or ask(
        "Project and environment", before.place if before else f"{_service_name_of(root)}/production"
    )
    if place.count("/") != 1 or not all(place.split("/")):
        raise InvalidUsage(f"give a project and an environment, such as shop/production, and not {place!r}")
    detected = _port_of(recipe)
    port = _check_port(options["port"] or ask("Port on which it listens for HTTP, or none", detected))
    # Of a Dockerfile that shows no port, the server would choose none.
    is_detected = not options["port"] and port == detected and bool(recipe.port or not recipe.dockerfile)
    return InitAnswers(name=name, place=place, port=port, follows_program=is_detected)


def _prompt(question: str, default: str) -> str:
    return str(click.prompt(question, default=default, err=True)).strip()


def _confirm(question: str) -> bool:
    return click.confirm(question, default=True, err=True)


def _check_port(port: str) -> str:
    word = port.lower()
    if word in (_NO_DATABASE_CHOICE, _AUTO_DATABASE) or (word.isdecimal() and 0 < int(word) < 65_536):
        return word
    raise InvalidUsage(f"give a port from 1 to 65535, or none, or auto, and not {port!r}")


def _port_fields(answers: InitAnswers) -> dict[str, Any]:
    """Returns the fields for the application's port."""
    if answers.port == _AUTO_DATABASE:
        return {}
    if answers.port == _NO_DATABASE_CHOICE:
        return {"ports": []}
    ports = [{"internal_port": int(answers.port), "publicly_accessible": True}]
    return {"ports": ports} | ({"automatic_port": True} if answers.follows_program else {})


def _port_of(recipe: Recipe) -> str:
    """Returns the port to propose: of the web process or static site, or `none` if there are only workers."""
    if recipe.static_folder or (recipe.start and (recipe.port or _has_web(recipe))):
        return str(recipe.port or _DEFAULT_PORT)
    return _NO_DATABASE_CHOICE if recipe.processes and not _has_web(recipe) else _AUTO_DATABASE


def _has_web(recipe: Recipe) -> bool:
    return not recipe.processes or any(process.name == "web" for process in recipe.processes)


def _service_name_of(folder: Path) -> str:
    """Returns the folder's name in the form of a service name, which is also part of an address."""
    letters = unicodedata.normalize("NFKD", folder.name.lower())
    plain_letters = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return re.sub(r"[^a-z0-9]+", "-", plain_letters).strip("-")[:63].strip("-") or "app"


# Facts of the folder


def _plan_in(folder: Path) -> tuple[Recipe, str]:
    """Returns the plan of a folder, or of the folder below it that holds the only application, with the path
    of that folder."""
    tree = Tree(file_names(folder), partial(read_beginning, folder))
    recipe = plan_of(tree).recipe
    if not recipe.only_folder:
        return recipe, ""
    below = recipe.only_folder.strip("/")
    say(f"The only application is in {plain(below)}: it is deployed from there.")
    return plan_of(tree.below(below)).recipe, below


def _refuse_without_application(folder: Path, recipe: Recipe, git: GitFolder | None) -> None:
    """Raises InvalidUsage if the folder is no application but contains folders with applications."""
    if recipe.is_runnable or recipe.processes or not recipe.candidates or recipe.dockerfile:
        return
    folders = ", ".join(
        candidate.root_path.strip("/") for candidate in recipe.candidates[:_MAX_SHOWN_FOLDERS]
    )
    alone = "" if git else ". Run `git init` here first, if it needs files of the others"
    raise InvalidUsage(
        f"run `windlass init` in the folder of one application, such as {plain(folders)}{alone}"
    )


def _show_recipe(recipe: Recipe) -> None:
    words = [recipe.framework or recipe.language, recipe.language_version, recipe.package_manager]
    shown = ", ".join(plain(word) for word in words if word)
    start = recipe.start or (f"the files in {recipe.static_folder}" if recipe.static_folder else "")
    if shown or start:
        say(f"Detected {shown or 'an application'}{f': {plain(start)}' if start else ''}")
    for problem in (*recipe.problems, *recipe.remarks):
        if not _is_done(problem, recipe):
            say(plain(problem))


def _is_done(problem: str, recipe: Recipe) -> bool:
    """Returns whether this command does what the plan proposes, or says it at its end."""
    if recipe.required_variables and problem == required_remark(recipe.required_variables):
        return True
    if any(
        problem.startswith(f"Set the variable {name} to the public host") for name in recipe.host_variables
    ):
        return True
    return problem in map(database_remark, recipe.databases) or any(
        f"`windlass secrets set {shlex.quote(name)}=" in problem for name in recipe.own_secrets
    )


def _show_other_processes(recipe: Recipe, link: FolderLink, application: Mapping[str, Any]) -> None:
    """Prints the commands that deploy the repository's other processes. Does nothing for an existing
    application, of which only the name is known."""
    if "source" not in application:
        return
    others = recipe.processes[1:] if recipe.start else recipe.processes  # start runs the first
    for name in (process.name for process in others[:_MAX_SHOWN_PROCESSES]):
        words = ["windlass", "application", "create", "--environment", link.place, "--name", name]
        words += ["--process", name, *_source_options(application)]
        say(f"The process {plain(name)} runs in an application of its own. Create and deploy it with:")
        say(f"  {plain(shlex.join(words))}")
        say(f"  windlass up {plain(shlex.quote(name))}")


def _source_options(application: Mapping[str, Any]) -> Iterator[str]:
    source = application.get("git_repository")
    if not source:
        yield from ("--source", str(application["source"]))
        return
    for field in ("url", "branch", "root_path"):
        if source.get(field, "/") != "/":
            yield from (f"--git-repository.{field.replace('_', '-')}", str(source[field]))


def _linked_url(folder: Path) -> str:
    linked = find_linked_folder(folder)
    return linked.link.url if linked else ""
