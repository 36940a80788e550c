"""The remedy for a program that ends because a variable is not set, or because it asks a database for TLS.

The lines are as the programs write them: Python 3.10 to 3.13, Node.js 20, zod 4, envalid 8, t3-env,
pydantic 2, lib/pq 1.10, pgx 5, psycopg 2 and 3, asyncpg, node-postgres 8.
"""

from __future__ import annotations

import pytest

from windlass.builders.remedies import failure
from windlass.engines.start_remedies import database_remedy, remedy_of

VARIABLE = "Set the variable API_TOKEN, such as with `windlass env set API_TOKEN=…`"
TLS = "Turn off TLS for the connection to the database: add `?sslmode=disable` to its address"

SPLIT = """\
Traceback (most recent call last):
  File "/app/main.py", line 2, in <module>
    TOKENS = os.environ.get("API_TOKEN").split(",")
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
AttributeError: 'NoneType' object has no attribute 'split'"""
SPLIT_IN_310 = SPLIT.replace(f"{' ' * 13}{'^' * 32}\n", "")
NUMBER = """\
    LIMIT = int(os.getenv('API_TOKEN'))
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^
TypeError: int() argument must be a string, a bytes-like object or a real number, not 'NoneType'"""
JOINED = """\
    URL = "https://" + getenv("API_TOKEN")
          ~~~~~~~~~~~^~~~~~~~~~~~~~~~~~~~~
TypeError: can only concatenate str (not "NoneType") to str"""
ADDED = """\
    URL = os.environ.get("API_TOKEN") + "/v1"
TypeError: unsupported operand type(s) for +: 'NoneType' and 'str'"""
NODE = """\
/app/a.js:1
const t = process.env.API_TOKEN.split(',');
                                ^

TypeError: Cannot read properties of undefined (reading 'split')
    at Object.<anonymous> (/app/a.js:1:33)"""
ZOD = """\
ZodError: [
  {
    "expected": "string",
    "code": "invalid_type",
    "path": [
      "API_TOKEN"
    ],
    "message": "Invalid input: expected string, received undefined"
  }
]"""
T3 = """\
❌ Invalid environment variables: [
  {
    expected: 'string',
    code: 'invalid_type',
    path: [ 'API_TOKEN' ],
    message: 'Invalid input: expected string, received undefined'
  }
]"""
ENVALID = "\x1b[33mMissing\x1b[0m environment variables:\n    \x1b[34mAPI_TOKEN\x1b[0m: undefined"
PYDANTIC = """\
  File "/venv/lib/python3.11/site-packages/pydantic_settings/main.py", line 292, in __init__
pydantic_core._pydantic_core.ValidationError: 1 validation error for Vars
api_token
  Field required [type=missing, input_value={}, input_type=dict]"""


def remedy(output: str) -> str:
    return remedy_of("exited with code 1", "web", output.splitlines())


@pytest.mark.parametrize(
    "output",
    [
        SPLIT,
        SPLIT_IN_310,
        NUMBER,
        JOINED,
        ADDED,
        NODE,
        ZOD,
        T3,
        ENVALID,
        PYDANTIC,
        "2026/01/31 09:05:00 required key API_TOKEN missing value",
        '2026/01/31 09:05:00 env: required environment variable "API_TOKEN" is not set',
    ],
)
def test_the_variable_that_is_not_set_is_named(output):
    assert remedy(output).startswith(VARIABLE)


@pytest.mark.parametrize(
    "output",
    [
        SPLIT.replace('os.environ.get("API_TOKEN")', 'find(os.getenv("A_B"), os.getenv("API_TOKEN"))'),
        SPLIT.replace('os.environ.get("API_TOKEN")', "find()"),
        NODE.replace("process.env.API_TOKEN.split", "find().split"),
        ZOD.replace("received undefined", "received number"),
    ],
)
def test_another_cause_names_no_variable(output):
    assert "Set the variable" not in remedy(output)


def test_an_address_that_is_not_set_is_said_without_a_name():
    output = """\
TypeError: Invalid URL
    at new URL (node:internal/url:806:29) {
  code: 'ERR_INVALID_URL',
  input: 'undefined'
}"""
    assert remedy(output).startswith("Set the variable from which web takes an address")
    assert "Set the variable" not in remedy(output.replace("'undefined'", "'nonsense'"))


@pytest.mark.parametrize(
    "said",
    [
        "2026/01/31 09:05:00 pq: SSL is not enabled on the server",
        "failed to connect to `user=u`: 10.0.0.2:5432 (db): tls error: server refused TLS connection",
        'OperationalError: connection to server at "10.0.0.2", port 5432 failed: '
        "server does not support SSL, but SSL was required",
        'ConnectionError: PostgreSQL server at "10.0.0.2:5432" rejected SSL upgrade',
        "Error: The server does not support SSL connections",
    ],
)
def test_a_program_that_asks_a_database_for_tls_is_told_how_to_do_without(said):
    assert remedy(said).startswith(TLS)
    assert database_remedy("web", [said]).startswith(TLS)


@pytest.mark.parametrize(
    "said",
    [
        "sqlite3.OperationalError: unable to open database file",
        "sqlalchemy.exc.OperationalError: (sqlite3.OperationalError) unable to open database file",
        "TypeError: Cannot open database because the directory does not exist",
        "[Error: SQLITE_CANTOPEN: unable to open database file] {\n  errno: 14,",
    ],
)
def test_a_database_file_that_cannot_be_opened_leads_to_a_volume(said):
    assert remedy(said).startswith("Add a volume (`storage`) at the folder of the database file")


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data/orders/today.csv'", "today.csv"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'settings.yml'", "settings.yml"),
        ("Error: ENOENT: no such file or directory, open '/srv/x/app/config.json'", "config.json"),
        ("Error: ENOENT: no such file or directory, mkdir '/data/uploads'", "uploads"),
    ],
)
def test_a_missing_file_is_named_without_the_folders_of_the_machine(said, name):
    assert remedy(said).startswith(f"Commit {name}, make its folder in start_command, or add a volume")


@pytest.mark.parametrize(
    "said",
    [
        """\
  File "/usr/lib/python3.11/subprocess.py", line 1953, in _execute_child
    raise child_exception_type(errno_num, err_msg, err_filename)
FileNotFoundError: [Errno 2] No such file or directory: 'ffmpeg'""",
        "Error: spawn ffmpeg ENOENT\n    at ChildProcess._handle.onexit (node:internal/child_process:285:19)",
    ],
)
def test_a_program_of_the_machine_that_is_missing_is_no_file_to_commit(said):
    assert remedy(said).startswith("Add the Debian package of ffmpeg to system_packages")


def test_a_missing_program_leads_to_the_package_that_contains_it():
    output = ["> shop@1.0.0 build", "> tsc", "", "sh: 1: tsc: not found"]
    said = failure("npm run build", 127, output)
    assert said.startswith("Add typescript to the dependencies: the build calls tsc.")
    started = remedy_of("exited with code 127", "web", output)
    assert started.startswith("Install typescript with the dependencies, or correct the start command")
    assert remedy("sh: 1: gunicorn: not found").startswith("Install gunicorn with the dependencies")


def test_a_site_whose_modules_need_go_leads_to_go():
    said = 'ERROR failed to load modules: failed to download modules: binary with name "go" not found in PATH'
    assert failure("hugo --minify", 1, [said]).startswith(
        "Add golang to system_packages on the Docker engine"
    )
