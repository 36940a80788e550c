"""The docker builder makes an image of a folder without a Dockerfile: that of its recipe."""

from __future__ import annotations

import io
import tarfile

import pytest

from tests.docker.builds.benches import Bench
from tests.engines.dockers import BOX, docker_host
from windlass.builders.builder import BuildError, BuildSettings, Order
from windlass.builders.dockerfile import read
from windlass.detect.recipe import SITE_FOLDER
from windlass.docker.builds.image_metadata import NOTES_LABEL, ImageNotes, notes_of
from windlass.docker.builds.recipes import choose_dockerfile
from windlass.docker.client import Docker
from windlass.engines.workload import Artifact, StaticSite

FLASK = {"requirements.txt": "flask\n", "app.py": "from flask import Flask\napp = Flask(__name__)\n"}


@pytest.fixture
def chosen(tmp_path):
    """Returns the Dockerfile that is chosen for these files and settings."""

    def choose(files, root=".", variables=frozenset(), **settings):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        order = Order(
            service="s1",
            org="acme",
            name="shop",
            deployment="d1",
            key="k1",
            commit="c" * 40,
            source=tmp_path,
            root=root,
            variables=variables,
            settings=BuildSettings(**settings),
        )
        return choose_dockerfile(order, caches=True)

    return choose


def test_a_folder_without_a_dockerfile_gets_that_of_its_recipe(chosen):
    made = chosen(FLASK)
    assert made.files.dockerfile != "Dockerfile"
    assert [stage.base for stage in read(made.files.text.decode()).stages] == [
        "python:3.13-bookworm",
        "python:3.13-slim-bookworm",
    ]


def test_the_build_log_contains_the_generated_dockerfile_and_the_reason_of_each_value(chosen):
    lines = chosen(FLASK).lines
    assert "Detected language: Python (requirements.txt is there)." in lines
    assert "  FROM python:3.13-slim-bookworm" in lines


DJANGO = {
    "requirements.txt": "django\n",
    "manage.py": "os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'shop.settings')\n",
    "shop/settings.py": "ALLOWED_HOSTS = ['shop.example']\n",
    "shop/wsgi.py": "",
}


def test_the_build_log_warns_about_allowed_hosts_of_django(chosen):
    assert [line for line in chosen(DJANGO).lines if "ALLOWED_HOSTS of the settings" in line]


@pytest.mark.parametrize("variables", [frozenset[str](), frozenset({"HOSTS"})])
def test_the_build_log_asks_for_variables_that_are_not_set(chosen, variables):
    files = DJANGO | {"shop/settings.py": "ALLOWED_HOSTS = os.environ['HOSTS'].split()\n"}
    lines = chosen(files, variables=variables).lines
    asked = [line for line in lines if line.startswith("Set the variable HOSTS")]
    assert len(asked) == (0 if variables else 1)


def test_the_build_log_asks_for_no_start_command_if_a_setting_has_one(chosen):
    lines = chosen({"Cargo.toml": '[package]\nname="shop"\n'}, has_command=True).lines
    assert not [line for line in lines if "start_command" in line]


OWN = {**FLASK, "Dockerfile": "FROM own:1\n"}
CHOICES = [
    ({}, "own:1"),
    ({"builder": "DOCKERFILE"}, "own:1"),
    ({"builder": "RECIPE"}, "python:3.13-bookworm"),
    ({"build_command": "make"}, "python:3.13-bookworm"),
    ({"system_packages": ("ffmpeg",)}, "python:3.13-bookworm"),
    ({"has_command": True}, "own:1"),
]


@pytest.mark.parametrize(("settings", "base"), CHOICES)
def test_a_dockerfile_is_built_unless_the_settings_ask_for_the_recipe(chosen, settings, base):
    assert read(chosen(OWN, **settings).files.text.decode()).stages[0].base == base


def test_application_settings_override_the_recipe_in_the_dockerfile(chosen):
    made = chosen(
        FLASK,
        install_command="pip install x",
        build_command="./build me",
        language_version="3.11",
        system_packages=("ffmpeg",),
    )
    text = made.files.text.decode()
    for part in ("FROM python:3.11-bookworm", "pip install x", "RUN ./build me", "        ffmpeg \\"):
        assert part in text


def test_a_folder_without_a_start_command_is_built_if_a_setting_has_one(chosen):
    files = {"Cargo.toml": '[package]\nname="shop"\n', "src/lib.rs": ""}
    with pytest.raises(BuildError, match=r"^Set start_command"):
        chosen(files)
    last = read(chosen(files, has_command=True).files.text.decode()).stages[-1]
    assert "CMD" not in [instruction.name for instruction in last.instructions]


def test_the_folders_of_storage_belong_to_the_user_that_the_application_runs_as(chosen):
    last = read(chosen(FLASK, mounts=("/data", "/a b")).files.text.decode()).stages[-1]
    steps = [instruction.text for instruction in last.instructions if instruction.name == "RUN"]
    assert steps[-1] == "install --directory --owner=10001 --group=10001 -- /data '/a b'"


def test_an_invalid_system_package_is_refused_with_its_field(chosen):
    with pytest.raises(BuildError, match=r"^system_packages: name Debian packages: '--yes' is none\.$"):
        chosen(FLASK, system_packages=("--yes",))


WORKSPACE = {
    "package.json": '{"name": "all", "workspaces": ["apps/*", "libs/*"]}',
    "package-lock.json": "{}",
    "libs/words/package.json": '{"name": "words", "scripts": {"build": "tsc"}}',
    "apps/web/package.json": '{"name": "web", "dependencies": {"words": "*", "express": "4"}, '
    '"scripts": {"start": "node server.js", "build": "tsc"}}',
    "apps/web/server.js": "",
}


def test_a_workspace_package_is_built_after_its_dependencies(chosen):
    made = chosen(WORKSPACE, root="apps/web")
    build, last = read(made.files.text.decode()).stages
    steps = [instruction.text for instruction in build.instructions if instruction.name == "RUN"]
    assert steps == [
        "npm ci",
        "cd apps/web && /bin/sh -c 'cd ../../libs/words && npm run build' && npm run build",
    ]
    folders = [instruction.text for instruction in last.instructions if instruction.name == "WORKDIR"]
    assert folders == ["/app/apps/web"]
    assert last.instructions[-1].json == ("node", "server.js")
    assert not made.files.leaves_out("libs/words/package.json")
    assert "Detected install: npm ci (It is that of the workspace)." in made.lines


LIBRARY_BESIDE = [
    ("apps/web/Cargo.toml", '[package]\nname="web"\n[dependencies]\nlib={path="../../lib"}\n', "src/main.rs"),
    ("apps/web/Cargo.toml", '[package]\nname="web"\nversion.workspace = true\n', "src/main.rs"),
    ("apps/web/go.mod", "module web\nreplace example.com/lib => ../../lib\n", "main.go"),
    ("apps/web/requirements.txt", "-e ../../lib\nflask\n", "app.py"),
    ("apps/web/Web.csproj", '<ProjectReference Include="..\\..\\lib\\lib.csproj" />', "Program.cs"),
]


@pytest.mark.parametrize(("manifest", "text", "code"), LIBRARY_BESIDE)
def test_an_application_that_refers_outside_of_its_root_path_is_built_with_the_repository(
    chosen, manifest, text, code
):
    made = chosen(
        {manifest: text, f"apps/web/{code}": "package main", "lib/x": ""}, root="apps/web", has_command=True
    )
    build, last = read(made.files.text.decode()).stages
    steps = [(instruction.name, instruction.text) for instruction in build.instructions]
    copied = steps.index(("COPY", ". ./"))
    assert steps[copied + 1] == ("WORKDIR", "/app/apps/web")
    assert "COPY" not in [name for name, _ in steps[copied + 1 :]]
    assert ("WORKDIR", "/app/apps/web") in [(step.name, step.text) for step in last.instructions]
    assert not made.files.leaves_out("lib/x")
    assert (made.files.folder / "lib/x").exists()


def test_an_application_without_outside_references_is_built_with_its_folder_only(chosen):
    made = chosen({"web/requirements.txt": "flask\n", "web/app.py": FLASK["app.py"]}, root="web")
    assert made.files.folder.name == "web"
    assert "/app/web" not in made.files.text.decode()


def test_the_image_label_stores_the_processes_and_the_release_command(chosen):
    procfile = "web: gunicorn app:app --bind :$PORT\nworker: python work.py\nrelease: ./migrate now\n"
    made = chosen({**FLASK, "Procfile": procfile})
    artifact = notes_of({NOTES_LABEL: made.notes.written()}).added_to(Artifact(kind="image", ref="x"))
    assert artifact.processes == {
        "web": ("sh", "-c", "exec gunicorn app:app --bind :$PORT"),
        "worker": ("python", "work.py"),
    }
    assert artifact.release == ("./migrate", "now")


def test_a_procfile_without_web_requires_a_choice_of_the_process(chosen):
    files = {**FLASK, "Procfile": "api: gunicorn app:app\nworker: python work.py\n"}
    with pytest.raises(BuildError, match=r"^Set process to one of api, worker: "):
        chosen(files)
    made = chosen(files, has_command=True)
    assert made.notes.processes == {"api": ("gunicorn", "app:app"), "worker": ("python", "work.py")}
    assert "CMD" not in made.files.text.decode()
    # Negative control: of one process there is no choice.
    only = chosen({**FLASK, "Procfile": "api: gunicorn app:app\n"})
    assert 'CMD ["gunicorn", "app:app"]' in only.files.text.decode()


def test_processes_of_a_procfile_can_be_chosen_beside_a_dockerfile(chosen):
    procfile = f"web: serve\nworker: work --fast\nrelease: migrate\nlong: {'x' * 2001}\n"
    notes = chosen({"Dockerfile": "FROM busybox\n", "Procfile": procfile}).notes
    assert notes.processes == {"web": ("serve",), "worker": ("work", "--fast")}
    assert notes.release == ()
    assert chosen({"Dockerfile": "FROM busybox\n", "Procfile": ""}).notes == ImageNotes()


def test_an_image_without_a_readable_notes_label_has_no_processes():
    assert notes_of({}) == notes_of({NOTES_LABEL: "x"}) == ImageNotes()


def test_files_that_the_repository_does_not_need_are_not_sent(chosen):
    files = {**FLASK, ".git/config": "", "a/node_modules/x.js": "", ".dockerignore": "*.log\n", "x.log": ""}
    made = chosen(files)
    assert made.files.leaves_out(".git")
    assert made.files.leaves_out("a/node_modules")
    assert made.files.leaves_out("x.log")
    assert not made.files.leaves_out("app.py")


@pytest.fixture
async def bench(tmp_path):
    made = Bench(docker_host(), tmp_path)
    yield made
    await made.close()


async def test_the_image_of_a_static_site_contains_only_its_files(bench):
    bench.file("public/index.html", "hello")
    built = await bench.build()
    assert (built.static, built.workdir) == (StaticSite(folder="."), SITE_FOLDER)
    assert await bench.builder.find(bench.service, "k1") == built
    of_the_engine = {"dev", "etc", "proc", "sys", ".dockerenv"}  # mount points, in each container
    files = [
        name for name in await files_of(bench.host, built.ref) if name.split("/")[0] not in of_the_engine
    ]
    assert files == ["site", "site/index.html"]


async def files_of(host: str, ref: str) -> list[str]:
    docker = Docker(host)
    try:
        made = (await docker.json("POST", "/containers/create", body={"Image": ref, "Cmd": ["none"]}))["Id"]
        packed = await docker.raw("GET", f"/containers/{made}/export")
        await docker.raw("DELETE", f"/containers/{made}")
    finally:
        await docker.close()
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        return tar.getnames()


async def test_a_dockerfile_of_the_repository_cannot_name_its_processes(bench):
    forged = ImageNotes({"web": ("evil",)}, ("evil",)).written().replace('"', '\\"')
    built = await bench.build(f'FROM {BOX}\nLABEL {NOTES_LABEL}="{forged}"\n')
    assert (built.processes, built.release) == ({}, ())
