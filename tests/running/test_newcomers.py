"""Failures that newcomers meet: the first sentence of each message says what to do.

The lines are as the programs write them: Python 3.11, Node.js 20, dash and bash, runc, gunicorn, uvicorn.
"""

from __future__ import annotations

import re

import pytest

from tests.running.deployments import PORT, deploy, deployment
from tests.tables import rows
from tests.world import World, make_world
from windlass.builders.remedies import failure
from windlass.docker.builds.progress import BuildProgress
from windlass.docker.client.images import why_not_pulled
from windlass.engines.start_remedies import LOG_HINT, with_remedy
from windlass.engines.workload import OutputLine
from windlass.sources.git.messages import explain

CRASHED = "exited with code 1"
TRACEBACK = "Traceback (most recent call last):\n"
VARIABLE = "Set the variable API_TOKEN, such as with `windlass env set API_TOKEN=…`"
LINE_ENDINGS = "Save the script with the line endings of Unix (LF), and commit it"
EXECUTABLE = "Make ./start.sh executable with `git update-index --chmod=+x ./start.sh`, and commit that"
SCRIPT = "Commit the script ./start.sh with a first line such as `#!/bin/sh` and the line endings of Unix"
INSTALL = "Install gunicorn with the dependencies, or correct the start command"
LOW_PORT = "Make web listen on the port in the variable PORT"
FLASK = "Add flask to the dependencies, or correct the name"
OWN_PORT = "Make web listen on the port in the variable PORT"
ADDRESS = (
    "Create a database, such as main-db, and set the variable DATABASE_URL to its address with "
    "`windlass env set DATABASE_URL={{MAIN_DB_URL}}`"
)
KIND = (
    "Create a {0} database, such as main-db with `windlass database create --name main-db --type {1} …`, and "
    "set the variable that web reads, such as {2}"
)
OLDER = "Set language_version to an older Python, such as"
MEMORY = "Give web more `memory`"
ROOM = "Ask the operator to free disk space"

FAILURES = [
    ("python: a variable is missing", f"{TRACEBACK}KeyError: 'API_TOKEN'", VARIABLE),
    ("django-environ", ("django.core.exceptions.ImproperlyConfigured: Set the API_TOKEN "
"environment variable"), VARIABLE),
    ("decouple", "decouple.UndefinedValueError: API_TOKEN not found. Declare it as envvar", VARIABLE),
    ("environs", 'environs.exceptions.EnvError: Environment variable "API_TOKEN" not set', VARIABLE),
    ("prisma", "error: Environment variable not found: API_TOKEN.", VARIABLE),
    ("node", "Error: process.env.API_TOKEN is undefined", VARIABLE),
    ("node, by hand", "Error: Missing required environment variable: API_TOKEN", VARIABLE),
    ("ruby", 'config/database.rb:3:in `fetch\': key not found: "API_TOKEN" (KeyError)', VARIABLE),
    ("elixir", "** (RuntimeError) environment variable API_TOKEN is missing.", VARIABLE),
    ("go, by hand", "2026/01/31 09:05:00 API_TOKEN must be set", VARIABLE),
    ("bash", "./start.sh: line 3: API_TOKEN: unbound variable", VARIABLE),
    ("dash", "start.sh: 3: API_TOKEN: parameter not set", VARIABLE),
    ("the address of a database", f"{TRACEBACK}KeyError: 'DATABASE_URL'", ADDRESS),
    ("the address of a cache", "Error: Missing required environment variable: REDIS_URL",
     "Create a Redis database, such as main-db with `windlass database create --name main-db --type REDIS …`"
     ", and set the variable REDIS_URL to its address with `windlass env set REDIS_URL={{MAIN_DB_URL}}`"),
    ("sqlite: no table", "sqlite3.OperationalError: no such table: post",
     "Make the tables in start_command before the server"),
    ("postgresql: no table", 'psycopg2.errors.UndefinedTable: relation "shop_post" does not exist',
     "Make the tables with release_command, such as `python manage.py migrate`: the database of web has no "
     "table shop_post"),
    ("mysql: no table", "(1146, \"Table 'shop.post' doesn't exist\")",
     "Make the tables with release_command"),
    ("django: no key",
     "django.core.exceptions.ImproperlyConfigured: The SECRET_KEY setting must not be empty.",
     "Set the variable from which the settings take SECRET_KEY to a long random text"),
    ("django: a host",
     "django.core.exceptions.DisallowedHost: Invalid HTTP_HOST header: 'shop.test'. You may",
     "Add shop.test to ALLOWED_HOSTS of the settings"),
    ("django: a cache",
     "django.core.cache.backends.base.InvalidCacheBackendError: Could not find backend "
     "'django_redis.cache.RedisCache': No module named 'django_redis'",
     "Add django_redis to the dependencies"),
    ("django: a time zone", "ValueError: Incorrect timezone setting: Asia/tokyo",
     "Correct TIME_ZONE of the settings: there is no Asia/tokyo."),
    ("starlette: the former order",
     "    return templates.TemplateResponse('index.html', {'request': request})\n"
     "TypeError: unhashable type: 'dict'", "Pass the request first, as in `TemplateResponse(request, "),
    ("php: no extension", "PHP Fatal error:  Uncaught PDOException: could not find driver in /app/a.php:3",
     "Ask the operator to install the extension of PHP for the database"),
    ("php: no database",
     "PHP Fatal error:  Uncaught PDOException: SQLSTATE[HY000] [2002] Connection refused in",
     "Create a database, such as main-db, and set the variable that web reads"),
    ("python: a removed module", f"{TRACEBACK}ModuleNotFoundError: No module named 'imp'", f"{OLDER} 3.11"),
    ("python: a removed name", "ImportError: cannot import name 'Set' from 'collections' (/c.py)",
     f"{OLDER} 3.9"),
    ("python: a removed attribute", "AttributeError: module 'time' has no attribute 'clock'", f"{OLDER} 3.9"),
    ("python: a name of a package",
     "ImportError: cannot import name 'url' from 'shop.urls' (/site-packages/s.py)",
     "Name an older version of shop in the dependencies: the installed one has no url"),
    ("python: a name of its own", "ImportError: cannot import name 'Shop' from 'shop' (/app/shop.py)",
     "Fix what web reports: `ImportError: cannot import name 'Shop'"),
    ("bash: line endings of Windows", "start.sh: line 2: $'\\r': command not found", LINE_ENDINGS),
    ("env: line endings of Windows", "/usr/bin/env: ‘bash\\r’: No such file or directory", LINE_ENDINGS),
    (("bash: interpreter "
"with CR"), "./start.sh: /bin/sh^M: bad interpreter: No such file or directory", LINE_ENDINGS),
    (
        "gunicorn: a port of the system",
        "[ERROR] connection to ('0.0.0.0', 80) failed: [Errno 13] Permission denied",
        LOW_PORT,
    ),
    ("go: a port of the system", "listen tcp :80: bind: permission denied", LOW_PORT),
    ("node: a port of the system", "Error: listen EACCES: permission denied 0.0.0.0:80", LOW_PORT),
    ("dash: not executable", "sh: 1: ./start.sh: Permission denied", EXECUTABLE),
    ("runc: not executable", 'runc create failed: exec: "./start.sh": permission denied', EXECUTABLE),
    ("dash: no program", "sh: 1: gunicorn: not found", INSTALL),
    ("bash: no program", "bash: line 1: gunicorn: command not found", INSTALL),
    ("busybox: no program", "sh: exec: line 0: gunicorn: not found", INSTALL),
    ("tini: no program", "[FATAL tini (7)] exec gunicorn failed: No such file or directory", INSTALL),
    ("tini: not executable", "[FATAL tini (7)] exec ./start.sh failed: Permission denied", EXECUTABLE),
    ("tini: no interpreter", "[FATAL tini (7)] exec ./start.sh failed: No such file or directory", SCRIPT),
    ("dash: no interpreter", "./start.sh: 1: exec: ./start.sh: not found", SCRIPT),
    ("runc: no program", 'exec: "gunicorn": executable file not found in $PATH', INSTALL),
    (
        "python: no pkg_resources",
        f"{TRACEBACK}ModuleNotFoundError: No module named 'pkg_resources'",
        "Add setuptools<81 to the dependencies: web needs its module pkg_resources",
    ),
    ("python: no module", f"{TRACEBACK}ModuleNotFoundError: No module named 'flask'", FLASK),
    ("node: no module", "Error: Cannot find module 'flask'\nRequire stack:\n- /app/server.js", FLASK),
    ("node: no file", ("Error: Cannot find "
"module '/app/server.js'"), "Commit the file server.js, or correct the start command"),
    (("python: no "
"file"), "python: can't open file '/app/main.py': [Errno 2] No such file", "Commit the file main.py"),
    ("npm: no script", 'npm error Missing script: "start"', "Add the script start to package.json"),
    (("gunicorn: no "
"obje"
"ct"), "Failed to find attribute 'app' in 'shop.main'.", "Name the application object in the start command"),
    (("uvicorn: no "
"obje"
"ct"), ('ERROR: Error loading ASGI app. '
'Attribute "app" not found in module "main".'), "Name the application object"),
    ("node: port taken", "Error: listen EADDRINUSE: address already in use :::3000", OWN_PORT),
    ("python: port taken", "OSError: [Errno 98] Address already in use", OWN_PORT),
    ("node: port of root", "Error: listen EACCES: permission denied 0.0.0.0:80", OWN_PORT),
    (("postgres on "
"local"
"host"), 'connection to server at "localhost" (127.0.0.1), port 5432 failed: Connection refused',
     KIND.format("PostgreSQL", "POSTGRESQL", "DATABASE_URL")),
    ("redis on localhost", "Error: connect ECONNREFUSED 127.0.0.1:6379",
     KIND.format("Redis", "REDIS", "REDIS_URL")),
    ("node: memory", ("FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of "
"memory"), MEMORY),
    ("a full disk", "OSError: [Errno 28] No space left on device", ROOM),
    (("a folder of "
"others"), "PermissionError: [Errno 13] Permission denied: '/data'", "Write to a volume of `storage`"),
    (("python: any "
"exception"), f"{TRACEBACK}ValueError: no such shop", "Fix what web reports: `ValueError: no such shop`"),
    (("python: own "
"exception"), f"{TRACEBACK}shop.errors.NoShopError", "Fix what web reports: `shop.errors.NoShopError`"),
    (("node: any excep"
"tion"), ("TypeError: x is not a function\n    "
"at main (/app/a.js:1:2)\n\nNode.js v20"), "Fix what web reports: `TypeError: x is not a function`"),
    ("go: any panic", ("panic: runtime error: index "
"out of range\n\ngoroutine 1:"), "Fix what web reports: `panic: runtime error"),
    ("pydantic", "pydantic_core._pydantic_core.ValidationError: 2 validation errors for Settings\n"
     "db_url\n  Field required [type=missing]\nSECRET\n  Field required [type=missing]",
     "Create a database, such as main-db, and set the variables with `windlass env set "
     "DB_URL={{MAIN_DB_URL}} SECRET=…`: web needs them to start"),
    ("pydantic: one", "pydantic_core._pydantic_core.ValidationError: 1 validation error for Settings\n"
     "api_key\n  Field required [type=missing]",
     "Set the variable API_KEY, such as with `windlass env set API_KEY=…`: web needs it to start"),
    ("pydantic: no settings", "ValidationError: 1 validation error for Order\nname\n  Field required",
     "Fix what web reports: `ValidationError"),
    ("openai", "openai.OpenAIError: pass api_key, or by setting the OPENAI_API_KEY environment variable",
     "Set the variable OPENAI_API_KEY"),
    ("django: no database", "ImproperlyConfigured: settings.DATABASES is improperly configured.",
     "Create a database, such as main-db, and set the variable that web reads, such as DATABASE_URL"),
    ("mongoose: no address", "MongooseError: The `uri` parameter to `openUri()` must be a string.",
     KIND.format("MongoDB", "MONGODB", "MONGODB_URI")),
    ("python: another package", "ModuleNotFoundError: No module named 'rest_framework'",
     "Add djangorestframework to the dependencies, or correct the name: web has no module rest_framework"),
    ("java", ('Exception in thread "main" '
'java.lang.IllegalStateException: no shop'), "Fix what web reports: `Exception in thread"),
]  # fmt: skip


@rows(("output", "remedy"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES])
def test_a_crash_message_begins_with_the_remedy_for_its_output(output, remedy):
    message = with_remedy(f"{LOG_HINT}web {CRASHED} while it was starting", "web", output.splitlines())
    assert message.startswith(remedy), message
    assert message.endswith(". web exited with code 1 while it was starting")


@pytest.mark.parametrize(
    ("end", "remedy"),
    [
        ("used more than its memory of 512 MB", MEMORY),
        ("was killed: out of memory (it may use 512 MB)", MEMORY),
        ("exited with code 127: the command was not found", "Correct the start command"),
        (
            "exited with code 126: the command cannot be executed",
            "Make the program of the start command executable",
        ),
        ("exited with code 1: port 5000 of this machine is taken", OWN_PORT),
        ("was killed by SIGKILL", "Ask the operator for more memory on the machine"),
        ("was killed by SIGTERM", LOG_HINT),
    ],
)
def test_a_crash_without_output_begins_with_the_remedy_for_its_exit_status(end, remedy):
    assert with_remedy(f"{LOG_HINT}web {end} while it was starting", "web", []).startswith(remedy)


@pytest.mark.parametrize(
    "output",
    [
        "",
        "listening on 8000",
        "GET /KeyError 200",
        "KeyError: 'a'",
        "reading SETTINGS from the environment",
        "3 errors were found in the catalogue",
    ],
)
def test_unrecognized_output_yields_no_remedy(output):
    failure = f"{LOG_HINT}web {CRASHED} while it was starting"
    told = with_remedy(failure, "web", output.splitlines())
    assert told in {
        failure,
        "Fix what web reports: `KeyError: 'a'`. web exited with code 1 while it was starting",
    }


def test_the_output_of_a_missing_program_takes_precedence_over_exit_code_127():
    end = f"{LOG_HINT}web exited with code 127 while it was starting: the command was not found"
    assert with_remedy(end, "web", ["sh: 1: gunicorn: not found"]).startswith(INSTALL)


def test_exceeding_the_memory_limit_takes_precedence_over_earlier_output():
    end = f"{LOG_HINT}web used more than its memory of 512 MB while it was starting"
    assert with_remedy(end, "web", ["KeyError: 'A_NAME'"]).startswith(MEMORY)


def test_a_failure_message_with_a_remedy_is_left_unchanged():
    assert (
        with_remedy("Set ports[0].internal_port to 80", "web", ["KeyError: 'A_NAME'"])
        == "Set ports[0].internal_port to 80"
    )


UNMET = "Correct flask==99 in the dependencies"
BUILDS = [
    ("pip: no version", 1, "ERROR: No matching distribution found for flask==99", UNMET),
    (
        "pip: no file",
        1,
        "ERROR: Could not open requirements file: [Errno 2] No such file or directory: 'more/base.txt'",
        "Commit the file base.txt: the requirements name it",
    ),
    (
        "pip: another Python",
        1,
        "ERROR: Package 'shop' requires a different Python: 3.11.2 not in '>=3.13'",
        "Choose a version of Python that fits >=3.13",
    ),
    (
        "pip: a conflict",
        1,
        "ERROR: Cannot install a==1 and b==2 because these package versions have conflicting dependencies.",
        "Change the versions of dependencies that exclude each other",
    ),
    (
        "pip: a compiler",
        1,
        "error: command 'gcc' failed: No such file or directory",
        "Install build-essential on this machine",
    ),
    ("pip: a library", 1, "Error: pg_config executable not found.", "Install libpq-dev on this machine"),
    (
        "pip: a header",
        1,
        "fatal error: Python.h: No such file or directory",
        "Install python3-dev on this machine",
    ),
    (
        "npm: no package",
        1,
        "npm error code E404\nnpm error 404  'leftpadd@*' is not in this registry.",
        "Correct leftpadd@* in package.json",
    ),
    (
        "npm: no version",
        1,
        "npm error code ETARGET\nnpm error notarget No matching version found for react@99.0.0.",
        "Correct react@99.0.0 in package.json",
    ),
    (
        "npm: a conflict",
        1,
        "npm error code ERESOLVE",
        "Change the versions of packages that exclude each other",
    ),
    (
        "npm: an old lock",
        1,
        (
            "npm error `npm ci` can only install packages when your package.json and package-lock.json "
            "are in sync."
        ),
        "Install the dependencies once on your machine, and commit the lock file",
    ),
    ("npm: no script", 1, 'npm error Missing script: "build"', "Add the script build to package.json"),
    ("dash: no program", 127, "sh: 1: vite: not found", "Add vite to the dependencies"),
    ("killed for its memory", 137, "Compiling", "Ask the operator for more memory for builds"),
    ("node: memory", 134, "FATAL ERROR: JavaScript heap out of memory", "Ask the operator for more memory"),
    ("a full disk", 1, "OSError: [Errno 28] No space left on device", "Ask the operator to free disk space"),
    (
        "no registry",
        1,
        "npm error network request to https://registry failed, reason: getaddrinfo ENOTFOUND registry",
        "Deploy again, or ask the operator to let builds reach their registries",
    ),
    ("any other failure", 2, "src/main.ts(3,1): error TS2304", "Fix what it reports, and deploy again"),
]


@rows(("code", "output", "remedy"), [row[1:] for row in BUILDS], ids=[row[0] for row in BUILDS])
def test_a_failed_build_step_message_begins_with_the_remedy_for_its_output(code, output, remedy):
    message = failure("the step", code, output.splitlines())
    assert message.startswith(remedy), message
    progress = BuildProgress(lambda line: None)
    for line in output.splitlines():
        progress.take({"stream": f"{line}\n"})
    progress.take({"error": f"The command '/bin/sh -c x' returned a non-zero code: {code}"})
    progress.close()
    usual = "Look at the build log, and fix the step that failed" if remedy.startswith("Fix") else remedy
    # A library is installed into the image, and not on the machine.
    usual = re.sub("^Install (.*) on this machine", r"Add \1 to system_packages", usual)
    assert progress.failure.startswith(usual), progress.failure


@pytest.mark.parametrize(
    ("has_token", "complaint", "message"),
    [
        (
            False,
            "fatal: Authentication failed for it",
            "Create a git token for a private repository, or check the address",
        ),
        (True, "fatal: Authentication failed for it", "Renew the git token, or let it read this repository"),
        (False, "fatal: couldn't find remote ref refs/heads/nex", "Choose another branch, or push this one"),
        (False, "fatal: repository 'it' not found", "Check the address: there is no repository at"),
        (
            False,
            "fatal: detected dubious ownership in repository at '/srv/shop.git'",
            "Ask the operator to give the repository to the user that runs Windlass",
        ),
    ],
)
def test_a_repository_that_cannot_be_read_says_what_to_do(has_token, complaint, message):
    error = explain(complaint, "https://git.example/acme/shop.git", has_token=has_token)
    assert str(error).startswith(message)


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        ("manifest for shop:9 not found: manifest unknown", "Choose another tag"),
        ("pull access denied for shop, repository does not exist", "Check the name of the image"),
        ("toomanyrequests: You have reached your pull rate limit", "Deploy again later"),
        ("write /var/lib/x: no space left on device", "Ask the operator for space"),
    ],
)
def test_an_image_that_cannot_be_pulled_says_what_to_do(refused, message):
    assert why_not_pulled("shop:9", refused).startswith(message)


async def failed(world: World, *lines: str, ended: str = CRASHED) -> str:
    """The message of a deployment whose program writes these lines and ends."""
    return await message_of_failure(world, await failing(world, *lines, ended=ended))


async def failing(world: World, *lines: str, ended: str = CRASHED) -> str:
    """Makes an application whose program writes these lines and ends."""
    begun = world.engine._begun

    async def begin(wanted, index):
        at, pod = world.clock.now(), "web-1-0"
        world.engine.says(wanted.service, *(OutputLine(at, line, pod, wanted.deployment) for line in lines))
        return await begun(wanted, index)

    world.engine._begun = begin  # type: ignore[method-assign]
    world.engine.exits = ended
    return str(await world.application(name="web", ports=[PORT]))


async def message_of_failure(world: World, app: str) -> str:
    id = await deploy(world, app)
    await world.settle()
    shown = await deployment(world, app, id)
    assert shown["status"] == "FAILED"
    return str(shown["message"])


async def test_a_missing_variable_is_named_in_the_message_of_the_deployment_with_the_last_lines():
    async with make_world() as world:
        message = await failed(world, "starting", "KeyError: 'API_TOKEN'")
    assert message.startswith(
        f"{VARIABLE}: web needs it to start. web exited with code 1 while it was starting"
    )
    assert message.endswith("Its last lines were:\nstarting\nKeyError: 'API_TOKEN'")


async def test_advice_that_did_not_help_is_not_given_again():
    async with make_world() as world:
        lines = ("Traceback (most recent call last):", "KeyError: 'API_TOKEN'")
        app = await failing(world, *lines)
        first, second, third = [await message_of_failure(world, app) for _ in range(3)]
        # Negative control: a failure without that advice gets its own.
        world.engine.exits = "was killed by SIGKILL: it used more than its memory of 512 MB"
        other = await message_of_failure(world, app)
    assert first.startswith(VARIABLE)
    for message in (second, third):
        assert message.startswith("Fix what web reports: `KeyError: 'API_TOKEN'` (the usual advice was given")
        assert "Set the variable" not in message
    assert other.startswith(MEMORY)


async def test_the_reason_of_a_crash_is_found_in_output_above_the_shown_lines():
    async with make_world() as world:
        message = await failed(world, "KeyError: 'API_TOKEN'", *(f"line {number}" for number in range(20)))
    assert message.startswith(VARIABLE)
    assert message.count("KeyError") == 0
    assert message.count("\nline ") == 10


async def test_a_program_that_exits_with_0_is_reported_with_advice_to_name_a_long_running_command():
    async with make_world() as world:
        message = await failed(world, ended="exited with code 0")
    assert message.startswith(
        "Name a command that keeps running, such as `web: gunicorn app:app` in a Procfile: web "
        "ended by itself"
    )


async def test_a_failure_message_says_its_cause_once():
    async with make_world() as world:
        message = await failed(world, "ValueError: no such shop")
    assert message.count("while it was starting") == 1
