"""Settings of an application from outside of its repository: refused if unfit, and followed by what runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from tests.world import World, make_world
from windlass.base.http_in.own_headers import GATEWAY_HEADERS
from windlass.control.workloads.application_settings import with_settings
from windlass.core.words.variables import UnresolvableVariable
from windlass.engines.workload import Artifact, SiteHeader, StaticSite, Workload
from windlass.families.application import Application

UNFIT: list[tuple[str, Any]] = [
    ("builder", "NIXPACKS"),
    ("install_command", "npm ci\nrm -rf /"),
    ("build_command", "make\x00"),
    ("start_command", " run"),
    ("release_command", "x" * 2001),
    ("process", "web worker"),
    ("static_folder", "../secrets"),
    ("static_folder", "/etc"),
    ("static_folder", "dist/.."),
    ("static_fallback", "a/../../b"),
    ("static_fallback", "dist/"),
    ("language_version", "3.12; rm"),
    ("system_packages", ["libpq-dev=1"]),
    ("system_packages", ["Libpq"]),
    ("system_packages", ["-y"]),
    ("system_packages", ["x"] * 101),
    ("static_headers", [{"path": "assets", "name": "A", "value": "b"}]),
    ("static_headers", [{"path": "/", "name": "A B", "value": "b"}]),
    ("static_headers", [{"path": "/", "name": "A", "value": "b\r\nC: d"}]),
    *(("static_headers", [{"path": "/", "name": name, "value": "1"}]) for name in GATEWAY_HEADERS),
    ("static_headers", [{"path": "/", "name": "content-Length", "value": "1"}]),
]
FIT: list[dict[str, Any]] = [
    {"static_folder": "."},
    {"static_folder": "./.output/public/"},
    {"static_folder": "dist", "static_fallback": "200.html", "static_headers": []},
    {"language_version": ">=3.11,<4", "system_packages": ["libstdc++6", "libpq-dev"]},
    {"start_command": "FOO=1 run --port ${PORT:-80} && true", "release_command": "python manage.py migrate"},
    {"process": "worker", "builder": "RECIPE", "install_command": None},
    {"start_command": "", "entrypoint": "run", "arguments": ["a"]},
]
NOT_TOGETHER: list[tuple[str, dict[str, Any]]] = [
    ("static_folder", {"static_folder": "dist", "start_command": "run"}),
    ("start_command", {"start_command": "run", "process": "worker"}),
    ("start_command", {"start_command": "run", "arguments": ["a"]}),
    ("process", {"process": "worker", "entrypoint": "run"}),
    ("install_command", {"builder": "DOCKERFILE", "install_command": "make"}),
    ("system_packages", {"builder": "DOCKERFILE", "system_packages": ["ffmpeg"]}),
]


@pytest.fixture
async def embedded() -> AsyncIterator[World]:
    """The settings have nothing to do with the database."""
    async with make_world() as made:
        yield made


async def created(world: World, environment: str, **fields: Any) -> Any:
    body = {"name": world.name("app"), "git_repository": {"url": "https://git.example/a/b.git"}, **fields}
    return await world.post(f"/environment/{environment}/application", body)


@pytest.mark.parametrize("base", ["", "/compat"])
async def test_an_invalid_application_setting_is_refused_by_field_name(embedded: World, base: str) -> None:
    environment = f"{base}/environment/{await embedded.environment()}/application"
    for field, value in UNFIT:
        body = {"name": embedded.name("app"), "git_repository": {"url": "https://git.example/a/b.git"}}
        answer = await embedded.post(environment, {**body, field: value})
        assert (answer.status, answer.message.startswith(field)) == (400, True), (field, value, answer)


async def test_valid_application_settings_are_returned_as_sent(embedded: World) -> None:
    environment = await embedded.environment()
    for fields in FIT:
        answer = await created(embedded, environment, **fields)
        assert answer.status == 201, answer
        assert {name: answer[name] for name in fields} == fields


async def test_two_settings_that_both_choose_what_runs_are_refused(embedded: World) -> None:
    environment = await embedded.environment()
    for field, fields in NOT_TOGETHER:
        answer = await created(embedded, environment, **fields)
        assert (answer.status, answer.message.partition(":")[0]) == (400, field), answer


async def test_an_application_without_optional_settings_is_returned_without_them(embedded: World) -> None:
    answer = await created(embedded, await embedded.environment())
    own = {"builder", "static_headers", "system_packages"}
    words = ("_command", "_folder", "_fallback", "language_version", "process")
    texts = {name for name in Application.__struct_fields__ if name.endswith(words)}
    assert len(texts) == 8
    assert not texts & answer.json.keys()
    assert {name: answer[name] for name in own} == {
        "builder": "AUTO",
        "static_headers": [],
        "system_packages": [],
    }


def test_long_setting_values_are_validated_in_linear_time() -> None:
    for field, text in (("static_folder", "a/." * 160 + "/.."), ("static_folder", "." * 500)):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"name": "a", "git_repository": {"url": "file:///a"}, field: text}, Application)


# What runs


def application(**fields: Any) -> Application:
    return msgspec.convert({"name": "a", "git_repository": {"url": "file:///a"}, **fields}, Application)


def workload(kind: Any = "native", **fields: Any) -> Workload:
    fields = {"command": ("web",), "processes": {"web": ("web",), "worker": ("work",)}} | fields
    return Workload(
        service="s", family="application", name="a", environment="e", org="o", generation=1, deployment="d",
        artifact=Artifact(kind=kind, ref="r", **fields),
    )  # fmt: skip


SITE = StaticSite(folder="dist", headers=(SiteHeader("/", "X", "file"),))


@pytest.mark.parametrize(
    ("fields", "command"),
    [
        ({}, ()),
        ({"process": "worker"}, ("work",)),
        ({"start_command": "run $PORT"}, ("/bin/sh", "-c", "exec run $PORT")),
        ({"start_command": "a && b"}, ("/bin/sh", "-c", "a && b")),
        ({"start_command": "exec a"}, ("/bin/sh", "-c", "exec a")),
        ({"start_command": "cd x; a"}, ("/bin/sh", "-c", "cd x; a")),
        ({"start_command": "A=1 b"}, ("/bin/sh", "-c", "A=1 b")),
    ],
)
def test_a_start_command_setting_is_used_by_both_engines(
    fields: dict[str, Any], command: tuple[str, ...]
) -> None:
    native = with_settings(application(**fields), workload())
    image = with_settings(application(**fields), workload("image"))
    assert native.command == command
    assert (*image.entrypoint, *image.command) == command


def test_an_unknown_process_is_refused_with_those_that_exist() -> None:
    with pytest.raises(UnresolvableVariable, match="process: choose one of web, worker: "):
        with_settings(application(process="clock"), workload())
    with pytest.raises(UnresolvableVariable, match="Set process to one of a, b: "):
        with_settings(application(), workload(command=(), processes={"a": ("a",), "b": ("b",)}))
    with pytest.raises(UnresolvableVariable, match="Set start_command: "):
        with_settings(application(), workload(command=(), processes={}))
    assert not with_settings(application(), workload("image", command=(), processes={})).command


def test_the_repositorys_release_command_runs_only_for_the_web_process() -> None:
    expected = {"": ("r",), "web": ("r",), "worker": ()}
    for process, release in expected.items():
        runs = with_settings(application(process=process), workload(release=("r",)))
        assert runs.artifact.release == release
    own = with_settings(application(process="worker", release_command="x"), workload(release=("r",)))
    assert own.artifact.release == ("/bin/sh", "-c", "exec x")


def test_static_site_settings_are_added_to_those_of_the_sites_files() -> None:
    header = {"path": "/*", "name": "X", "value": "set"}
    fields = {"static_folder": "dist", "static_fallback": "index.html", "static_headers": [header]}
    site = with_settings(application(**fields), workload(static=SITE)).artifact.static
    assert site is not None
    assert site.fallback == "index.html"
    assert site.headers == (SiteHeader("/*", "X", "set"), *SITE.headers)


@pytest.mark.parametrize("fields", [{"start_command": "a"}, {"process": "worker"}])
def test_an_application_with_a_start_command_is_not_served_as_a_static_site(fields: dict[str, Any]) -> None:
    assert with_settings(application(**fields), workload(static=SITE)).artifact.static is None
    assert with_settings(application(), workload(static=SITE)).artifact.static == SITE


def test_an_artifact_stored_by_an_earlier_version_can_be_decoded() -> None:
    earlier = b'{"kind":"native","ref":"/a","key":"k","command":["run"],"ports":[80]}'
    artifact = msgspec.json.decode(earlier, type=Artifact)
    assert (artifact.processes, artifact.release, artifact.static) == ({}, (), None)


# Builds


@pytest.mark.parametrize(
    ("change", "is_built"),
    [
        ({"start_command": "other"}, False),
        ({"release_command": "other"}, False),
        ({"process": "web"}, False),
        ({"static_fallback": "index.html"}, False),
        ({"build_command": "make"}, True),
        ({"install_command": "make"}, True),
        ({"language_version": "3.12"}, True),
        ({"system_packages": ["ffmpeg"]}, True),
        ({"builder": "RECIPE"}, True),
        ({"static_folder": "dist"}, True),
    ],
    ids=lambda change: next(iter(change)) if isinstance(change, dict) else "",
)
async def test_only_a_setting_that_changes_the_artifact_causes_a_build(
    embedded: World, change: dict[str, Any], is_built: bool
) -> None:
    embedded.builder.names = {"command": ("run",), "processes": {"web": ("run",)}}
    app = await embedded.application()
    for fields in ({}, change):
        assert (await embedded.patch(f"/application/{app}", fields)).status == 200
        await embedded.post(f"/application/{app}/deploy")
        await embedded.settle()
        assert await embedded.state(f"/application/{app}") == "RUNNING"
    assert len(embedded.builder.built) == 1 + is_built
    assert embedded.builder.built[0].settings.inputs == {}


async def test_build_steps_receive_declared_variables_but_no_secrets(embedded: World) -> None:
    app = await embedded.application()
    variables = f"/application/{app}/environmentVariable"
    await embedded.post(variables, {"key": "VITE_API", "value": "one"})
    await embedded.post(f"/application/{app}/secret", {"key": "TOKEN", "value": "hush"})
    for key in ("", "NEXT_PUBLIC_NAME"):
        if key:
            await embedded.post(variables, {"key": key, "value": "two"})
        await embedded.post(f"/application/{app}/deploy")
        await embedded.post(f"/application/{app}/deploy")
        await embedded.settle()
    arguments = [order.arguments for order in embedded.builder.built]
    assert arguments == [{"VITE_API": "one"}, {"VITE_API": "one", "NEXT_PUBLIC_NAME": "two"}]


async def test_two_applications_of_one_repository_are_built_separately(embedded: World) -> None:
    embedded.builder.names = {"command": ("run",), "processes": {"web": ("run",), "worker": ("work",)}}
    environment = await embedded.environment()
    apps = [await embedded.application(environment, **fields) for fields in ({}, {"process": "worker"})]
    for app in apps:
        await embedded.post(f"/application/{app}/deploy")
        await embedded.settle()
    assert [order.service for order in embedded.builder.built] == apps
