"""The plan: what is shown before a build, with and without a Dockerfile."""

from __future__ import annotations

import pytest

from tests.detect.rows import ROWS
from tests.detect.trees import FLASK, package, tree_of
from tests.tables import rows
from windlass.builders.builder import BuildSettings
from windlass.builders.plan import DockerfileChoice, plan_of
from windlass.detect import detect

EXPRESS = {"package.json": package("express", start="node server.js"), "server.js": ""}
ROUTER = {"package.json": package("@react-router/serve", start="react-router-serve ./build/server/index.js")}
NATIVE = DockerfileChoice(executes=False)


def planned(files, dockerfile="", choice=DockerfileChoice(), **settings):  # noqa: B008 (frozen)
    more = {"Dockerfile": dockerfile} if dockerfile else {}
    return plan_of(tree_of({**files, **more}), BuildSettings(**settings), choice).recipe


@rows("row", ROWS, ids=lambda row: row.name)
def test_without_a_dockerfile_the_plan_is_the_recipe(row):
    files = {name: text for name, text in row.files.items() if name != "Dockerfile"}
    plan, recipe = planned(files), detect(tree_of(files))
    assert (plan.start, plan.build, plan.port, plan.static_folder) == (
        recipe.start,
        recipe.build,
        recipe.port,
        recipe.static_folder,
    )


@pytest.mark.parametrize(
    ("files", "text", "port", "reason"),
    [
        (
            ROUTER,
            'CMD ["npm", "run", "start"]',
            3000,
            "Dockerfile exposes no port. React Router listens there unless PORT names another.",
        ),
        (ROUTER, 'EXPOSE 4000\nCMD ["npm", "run", "start"]', 4000, "Dockerfile exposes it."),
        (
            {"a": ""},
            "ENV PORT=5000\nCMD ./serve",
            5000,
            "Dockerfile exposes no port, and sets PORT to this one.",
        ),
        (
            {"a": ""},
            "HEALTHCHECK CMD curl -f http://localhost:8765/health\nCMD ./serve",
            8765,
            "Dockerfile exposes no port, and its HEALTHCHECK asks this one.",
        ),
        (
            {"a": ""},
            "CMD serve --port 7000",
            7000,
            "Dockerfile exposes no port, and its command names this one.",
        ),
        (
            {"requirements.txt": "flask\n", "app.py": FLASK},
            "CMD gunicorn app:app",
            8000,
            "Dockerfile exposes no port. The start command listens there unless PORT names another.",
        ),
    ],
)
def test_a_dockerfile_without_expose_keeps_the_port_of_the_framework(files, text, port, reason):
    plan = planned(files, f"FROM base\nWORKDIR /app\nCOPY . .\n{text}\n")
    assert (plan.port, plan.reasons["port"]) == (port, reason)
    assert not plan.remarks


@pytest.mark.parametrize("command", ["node worker.js", "npm run worker", "node tidy.js"])
def test_a_dockerfile_that_starts_something_else_gets_no_port(command):
    plan = planned(ROUTER, f"FROM base\nCMD {command}\n")
    assert plan.port == 0


def test_a_dockerfile_decides_what_is_started_and_the_recipe_does_not():
    plan = planned({**EXPRESS, "Procfile": "release: node migrate.js\n"}, "FROM base\nCMD node other.js\n")
    assert (plan.start, plan.install, plan.build, plan.release) == ("node other.js", "", "", "")
    assert plan.reasons["start"] == "It is the command of Dockerfile."
    # Negative control: the recipe is followed where a setting says so.
    assert planned(EXPRESS, "FROM base\nCMD node other.js\n", builder="RECIPE").start == "npm run start"


def test_an_engine_without_containers_installs_the_packages_itself():
    files = {"package.json": package("express", start="node server.js", build="tsc")}
    plan = planned(files, "FROM base\nRUN make\nCMD node server.js\n", NATIVE)
    assert (plan.install, plan.build, plan.start) == ("npm install", "npm run build", "node server.js")
    # Negative control: a command that builds by itself is followed by no second build.
    assert planned(files, "FROM base\nCMD npm run build && node server.js\n", NATIVE).build == ""


def test_a_command_that_serves_nothing_is_announced_beforehand():
    files = {"main.py": "print('hello')\n"}
    assert planned(files).remarks == [
        "It gets no public address, because no file shows that it serves HTTP. If it does, set ports, "
        "or read PORT in start."
    ]
    assert "add EXPOSE" in planned(files, "FROM base\nCMD python main.py\n").remarks[0]
    # Negative controls: what serves HTTP, what asks for a port, and a worker.
    assert not planned(EXPRESS | {"server.js": ""}, "FROM base\nCMD node server.js -p $PORT\n").remarks
    assert not planned({"requirements.txt": "flask\n", "app.py": FLASK}).remarks
    assert not planned({"Procfile": "worker: celery -A shop worker\n"}).remarks


def test_a_dockerfile_that_cannot_be_read_is_a_problem_of_the_plan():
    assert planned(EXPRESS, "FROM base\nCMD\n").problems
    assert planned(EXPRESS, "COPY . .\n").problems == [
        "Fix Dockerfile, line 1: only ARG may come before the first FROM, and this is COPY."
    ]
