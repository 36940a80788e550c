"""Dockerfiles of recipes: their form, their base images, and values that stay inside their instruction."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.detect.rows import ROWS
from tests.detect.trees import FLASK, package, tree_of
from tests.tables import rows
from windlass.builders.dockerfile import Dockerfile, read
from windlass.builders.instructions import Instruction
from windlass.builders.node_managers import manager_of
from windlass.detect import detect
from windlass.detect.dockerfile import DockerfileOptions, argv, dockerfile
from windlass.detect.dockerfile.base_images import BASE_IMAGES
from windlass.detect.dockerfile.writer import _PLANNERS
from windlass.detect.languages import languages
from windlass.detect.recipe import SITE_FOLDER, ProcessType, Recipe
from windlass.docker.builds.guard import Around, rewritten

RUNNABLE = [row for row in ROWS if detect(tree_of(row.files)).is_runnable]


def text_of(files, **options) -> str:
    tree = tree_of(files)
    return dockerfile(detect(tree), tree, DockerfileOptions(**options))


def names_of(parsed: Dockerfile) -> list[list[str]]:
    return [[instruction.name for instruction in stage.instructions] for stage in parsed.stages]


FLASK_FILES = {"requirements.txt": "flask\n-r more/base.txt\n", "more/base.txt": "redis\n", "app.py": FLASK}


def test_the_dockerfile_of_a_python_application():
    assert text_of(FLASK_FILES) == (
        "# Written by Windlass from the recipe of this folder.\n\n"
        "FROM python:3.13-bookworm AS build\n"
        "ENV VIRTUAL_ENV=/venv \\\n    PATH=/venv/bin:$PATH\n"
        "RUN python -m venv /venv\n"
        "WORKDIR /app\n"
        "COPY requirements.txt ./\n"
        "COPY more/base.txt ./more/\n"
        "RUN --mount=type=cache,id=pip,target=/root/.cache/pip \\\n    pip install -r requirements.txt\n"
        "RUN --mount=type=cache,id=pip,target=/root/.cache/pip \\\n"
        "    /usr/local/bin/python -m pip --python /venv/bin/python install gunicorn\n"
        "COPY . ./\n\n"
        "FROM python:3.13-slim-bookworm\n"
        'LABEL org.opencontainers.image.base.name="python:3.13-slim-bookworm"\n'
        "RUN groupadd --gid 10001 runner \\\n"
        "    && useradd --uid 10001 --gid 10001 --no-log-init --create-home runner \\\n"
        "    && install --directory --owner=10001 --group=10001 /app\n"
        "WORKDIR /app\n"
        "COPY --from=build /venv /venv\n"
        "COPY --from=build --chown=10001:10001 /app /app\n"
        "ENV VIRTUAL_ENV=/venv \\\n    PATH=/venv/bin:$PATH \\\n    PYTHONUNBUFFERED=1\n"
        "USER 10001:10001\n"
        "EXPOSE 8000\n"
        "HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \\\n"
        '    CMD ["python", "-c", "import os, socket, sys; socket.create_connection((\\"127.0.0.1\\", '
        'int(os.environ.get(\\"PORT\\", sys.argv[1]))), 4)", "8000"]\n'
        'CMD ["sh", "-c", "exec gunicorn app:app --bind 0.0.0.0:${PORT:-8000} --workers '
        '${WEB_CONCURRENCY:-2}"]\n'
    )


@rows("row", RUNNABLE, ids=lambda row: row.name)
def test_each_recipe_gives_a_dockerfile_of_good_form(row):
    tree = tree_of(row.files)
    recipe = detect(tree)
    parsed = read(dockerfile(recipe, tree))
    last = parsed.stages[-1]
    assert all(":" in stage.base and ":latest" not in stage.base for stage in parsed.stages[:-1])
    if recipe.static_folder and not recipe.start:
        assert (last.base, [instruction.name for instruction in last.instructions]) == ("scratch", ["COPY"])
        assert last.instructions[0].text.endswith(f" {SITE_FOLDER}")
        return
    users = [instruction.text for instruction in last.instructions if instruction.name == "USER"]
    assert users == ["10001:10001"]
    assert last.instructions[-1].name == "CMD"
    assert last.instructions[-1].json


@rows("row", RUNNABLE, ids=lambda row: row.name)
def test_the_guard_accepts_each_generated_dockerfile_and_prefixes_cache_ids_with_the_service(row):
    tree = tree_of(row.files)
    recipe = detect(tree)
    around = Around(service="acme", scope="s", arguments={}, platform={}, heredocs=False)
    for caches in (True, False):
        text = dockerfile(recipe, tree, DockerfileOptions(caches=caches))
        written = rewritten(text, around)
        mounts = re.findall(r"--mount=(\S+)", written.text.decode())
        assert written.is_plain is not bool(mounts)  # so without caches, both builders make the same of it
        assert bool(mounts) <= caches
        assert all(re.search(r",id=acme/", mount) for mount in mounts)


def test_each_language_has_base_images_and_stages():
    names = {language.name for language in languages()} | {""}
    assert set(BASE_IMAGES) == names, "base_images.py has one entry for each language"
    assert set(_PLANNERS) == names, "writer.py has one planner for each language"


@pytest.mark.parametrize(
    ("lock", "content"),
    [
        ("pnpm-lock.yaml", "lockfileVersion: 5.4\n"),
        ("pnpm-lock.yaml", "lockfileVersion: '6.0'\n"),
        ("pnpm-lock.yaml", "lockfileVersion: '9.0'\n"),
        ("yarn.lock", "__metadata:\n  version: 6\n"),
        ("yarn.lock", "__metadata:\n  version: 8\n"),
    ],
)
def test_both_engines_install_the_same_version_of_a_package_manager(tmp_path, lock, content):
    (tmp_path / lock).write_text(content)
    manager = manager_of(tmp_path, "")
    written = text_of({"package.json": package("express", start="node ."), lock: content})
    assert f"npm install --global --force {manager.package}@{manager.version}\n" in written


@pytest.mark.parametrize(("node", "has_yarn"), [("", True), ("24", True), ("26", False)])
@pytest.mark.parametrize("files", [{}, {".yarnrc.yml": "yarnPath: .yarn/releases/yarn-4.9.0.cjs\n"}])
def test_yarn_1_is_installed_where_the_image_of_node_lacks_it(files, node, has_yarn):
    tree = files | {"package.json": package("express", start="node ."), "yarn.lock": "# yarn lockfile v1\n"}
    written = text_of(tree | ({".nvmrc": node} if node else {}))
    assert f"FROM node:{node or 24}-" in written
    assert ("npm install --global --force yarn@1\n" in written) is not has_yarn


VERSIONS = [
    ("Python", "", "3.13"),
    ("Python", "3.11.4", "3.11"),
    ("Python", ">=3.10", "3.13"),
    ("Python", ">=3.9,<3.12", "3.11"),
    ("Python", "^3.11", "3.13"),
    ("Python", "~3.11", "3.11"),
    ("Python", "~=3.12.1", "3.12"),
    ("Python", "3.12.*", "3.12"),
    ("Python", ">=3.8,<4,!=3.9.7", "3.13"),
    ("Python", ">=3.12,!=3.13.*", "3.14"),
    ("Python", "2.7", "2.7"),
    ("Python", "3.15", "3.15"),
    ("Node", "20", "20"),
    ("Node", ">=25", "26"),
    ("Node", "v18.17.0", "18"),
    ("Node", ">=18.0.0 <21", "20"),
    ("Node", "^16 || ^20.1", "20"),
    ("Node", "18 - 20", "20"),
    ("Node", "20.x", "20"),
    ("Node", "lts/iron", "20"),
    ("Node", "hydrogen", "18"),
    ("Node", "lts/*", "24"),
    ("Node", "current", "24"),
    ("Go", "1.21", "1.26"),
    ("Go", "1.30.1", "1.30"),
    ("Java", "17", "17"),
    ("Ruby", "3.3.4", "3.3.4"),
    ("Ruby", "~> 3.2.0", "3.2"),
    ("Ruby", "~> 3.2", "3.4"),
    ("PHP", "^7.4|^8.0", "8.4"),
    ("PHP", "~8.1.0", "8.1"),
    (".NET", "8.0", "8.0"),
    ("Elixir", "1.17.3-otp-27", "1.17"),
    ("Perl", ">=5.20.1", "5.40"),
    ("Perl", "5.36.3", "5.36"),
    ("Perl", ">=5.42", "5.42"),
]


@rows(("language", "wish", "version"), VERSIONS)
def test_the_version_of_a_base_image_follows_the_repository(language, wish, version):
    assert BASE_IMAGES[language].version_for(wish) == version


def test_a_version_older_than_the_release_of_debian_has_a_tag_without_it():
    assert BASE_IMAGES["Python"].tags("2.7") == ("python:2.7", "python:2.7-slim")


COMMANDS = [
    ("python main.py", ("python", "main.py")),
    ("uvicorn a:b --port $PORT", ("sh", "-c", "exec uvicorn a:b --port $PORT")),
    ("A=1 node x.js", ("sh", "-c", "exec env A=1 node x.js")),
    ("cd api && node x.js", ("sh", "-c", "cd api && exec node x.js")),
    ("./migrate && gunicorn 'a b'", ("sh", "-c", "./migrate && exec gunicorn 'a b'")),
    ("java -jar $(ls t/*.jar | head -n 1)", ("sh", "-c", "exec java -jar $(ls t/*.jar | head -n 1)")),
    ("exec node x.js", ("sh", "-c", "exec node x.js")),
    ("a; b", ("sh", "-c", "a; b")),
    ("a && b | c", ("sh", "-c", "a && b | c")),
    ("a 'x && y' z", ("sh", "-c", "a 'x && y' z")),
    ("while true; do a && b; done", ("sh", "-c", "while true; do a && b; done")),
    ("if a; then b && exit", ("sh", "-c", "if a; then b && exit")),
]


@rows(("command", "words"), COMMANDS)
def test_a_simple_start_command_runs_without_a_shell(command, words):
    if command == "a 'x && y' z":
        words = ("sh", "-c", command)
    assert argv(command) == words


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1).filter(
    str.strip
)
ATTACKS = st.sampled_from(
    [
        "x\nUSER root",
        "x \\",
        "<<EOF\nRUN y\nEOF",
        '["x"]',
        "--mount=type=ssh x",
        "# escape=`",
        "$PATH",
        "x\r\ny",
    ]
)
VALUES = st.one_of(TEXT, ATTACKS)


@given(start=VALUES, install=VALUES, build=VALUES, folder=VALUES, health=VALUES, static=st.booleans())
def test_untrusted_values_cannot_leave_their_dockerfile_instruction(
    start, install, build, folder, health, static
):
    recipe = Recipe(install=install, build=build, health_path=health, port=8000, language="Shell")
    if static:
        recipe.static_folder = folder
    else:
        recipe.start, recipe.processes = start, [ProcessType("web", start)]
    plain = Recipe(install="x", build="x", health_path="x", port=8000, language="Shell")
    plain.static_folder, plain.start = ("x", "") if static else ("", "x")
    parsed, expected = (read(dockerfile(each, tree_of({}))) for each in (recipe, plain))
    assert names_of(parsed) == names_of(expected)
    assert [stage.base for stage in parsed.stages] == [stage.base for stage in expected.stages]
    commands = [commands_of(instruction) for instruction in parsed.stages[0].instructions]
    assert install in commands
    assert build in commands
    if not static:
        words = parsed.stages[-1].instructions[-1].json
        assert words == argv(start)


def commands_of(instruction: Instruction) -> str:
    """Returns the command of RUN, in either form."""
    return instruction.json[2] if instruction.json else instruction.text


def test_the_health_check_passes_the_path_as_a_single_argument():
    files = {"package.json": package("express", start="node a.js"), "a.js": "", "app.json": '{"x": 1}'}
    tree = tree_of(files)
    recipe = detect(tree)
    recipe.port, recipe.health_path = 3000, '/up"); evil("'
    check = next(line for line in dockerfile(recipe, tree).splitlines() if line.startswith("    CMD "))
    assert json.loads(check.removeprefix("    CMD "))[-2:] == ["3000", '/up"); evil("']


@pytest.mark.parametrize("name", ["--yes", "https://x.example/a.deb", "a b", "x;y", "A", ""])
def test_only_names_of_debian_packages_are_installed(name):
    recipe = Recipe(language="Shell", start="./x", system_packages=[name])
    with pytest.raises(ValueError, match="name Debian packages"):
        dockerfile(recipe, tree_of({}))


def test_system_packages_are_installed_in_both_stages_without_their_lists():
    recipe = Recipe(language="Go", build="go build", start="./x", system_packages=["ffmpeg"])
    text = dockerfile(recipe, tree_of({}))
    assert text.count("        ffmpeg \\\n    && rm -rf /var/lib/apt/lists/*") == 2


EARLY = [
    ({"requirements.txt": "flask\n", "app.py": FLASK}, "COPY requirements.txt ./"),
    (
        {"pyproject.toml": "[project]\nname='x'\n", "uv.lock": "", "main.py": ""},
        "COPY pyproject.toml uv.lock ./",
    ),
    (
        {"package.json": package("express", start="node a"), "package-lock.json": "{}"},
        "COPY package.json package-lock.json ./",
    ),
    (
        {"go.mod": "module x\nrequire y v1.0.0\n", "go.sum": "", "main.go": "package main\n"},
        "COPY go.mod go.sum ./",
    ),
    ({"Gemfile": "gem 'sinatra'\n", "config.ru": ""}, "COPY Gemfile ./"),
]


@pytest.mark.parametrize(("files", "copied"), EARLY)
def test_dependencies_are_installed_before_the_code_is_copied(files, copied):
    text = text_of(files)
    assert text.index(copied) < text.index("COPY . ./")


LATE = [
    {"requirements.txt": "-e .\nflask\n", "app.py": FLASK},
    {"requirements.txt": "./lib\nflask\n", "app.py": FLASK},
    {"requirements.txt": "-r $X.txt\nflask\n", "app.py": FLASK},
    {"package.json": json.dumps({"dependencies": {"x": "file:./x"}, "scripts": {"start": "node a"}})},
    {"package.json": package("x", start="node a", workspaces=["packages/*"])},
    {"package.json": json.dumps({"dependencies": {"x": "1"}, "scripts": {"start": "a", "postinstall": "b"}})},
    {"go.mod": "module x\nrequire y v1.0.0\nreplace y => ./y\n", "main.go": "package main\n"},
]


@pytest.mark.parametrize("files", LATE)
def test_dependencies_that_need_the_code_are_installed_after_it_is_copied(files):
    parsed = read(text_of(files))
    copies = [instruction.text for instruction in parsed.stages[0].instructions if instruction.name == "COPY"]
    assert copies == [". ./"]


def test_variables_are_declared_before_the_step_that_needs_them_and_unsafe_ones_are_left_out():
    files = {"package.json": package("vite", build="vite build"), "package-lock.json": "{}"}
    text = text_of(files, variables=("VITE_API", "NPM_CONFIG_REGISTRY", "PATH", "NODE_ENV", "a-b", "x y"))
    assert re.findall(r"^ARG (.*)$", text, re.MULTILINE) == ["NPM_CONFIG_REGISTRY", "VITE_API"]
    assert text.index("ARG NPM_CONFIG_REGISTRY") < text.index("npm ci") < text.index("ARG VITE_API")


def test_development_packages_are_installed_only_if_the_start_command_needs_them():
    tools: dict[str, Any] = {"devDependencies": {"tsx": "4", "eslint": "9"}}
    assert "--omit=dev" not in text_of({"package.json": package("hono", start="tsx server.ts", **tools)})
    assert "--omit=dev" in text_of({"package.json": package("hono", start="node server.js", **tools)})


def test_the_image_starts_node_directly_unless_the_start_script_has_hooks():
    text = text_of({"package.json": package("express", start="node a.js"), "a.js": ""})
    assert text.endswith('CMD ["node", "a.js"]\n')
    script = json.dumps(
        {"dependencies": {"express": "1"}, "scripts": {"start": "node a.js", "prestart": "b"}}
    )
    assert text_of({"package.json": script, "a.js": ""}).endswith('CMD ["npm", "run", "start"]\n')


def test_a_static_site_without_a_build_is_only_copied():
    assert text_of({"public/index.html": "x"}).endswith(f"FROM scratch\nCOPY public {SITE_FOLDER}\n")


def test_a_procfile_may_name_only_the_binary_of_a_go_module():
    files = {
        "go.mod": "module shop\n",
        "main.go": "package main\nfunc main() {}\n",
        "Procfile": "web: shop\n",
    }
    last = read(text_of(files)).stages[-1]
    assert "PATH=/app/bin:$PATH" in [step.text for step in last.instructions if step.name == "ENV"]
    assert last.instructions[-1].json == ("shop",)
