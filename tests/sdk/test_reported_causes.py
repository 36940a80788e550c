"""The remedy for a program that ends because a variable is not set, or because it asks a database for TLS.

The lines are as the programs write them: Python 3.10 to 3.13, Node.js 20, zod 4, envalid 8, t3-env,
pydantic 2, lib/pq 1.10, pgx 5, psycopg 2 and 3, asyncpg, node-postgres 8, SQLAlchemy 2, redis-py, godotenv.
"""

from __future__ import annotations

import pytest

from windlass.builders.remedies import failure
from windlass.engines.start_remedies import database_remedy, remedy_of

VARIABLE = "Set the variable API_TOKEN, such as with `windlass env set API_TOKEN=…`"
MONGODB = (
    "Create a MongoDB database, such as main-db with `windlass database create --name main-db --type "
    "MONGODB …`"
)
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
UNWRAPPED = "called `Result::unwrap()` on an `Err` value: NotPresent"
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
        ENVALID.replace("undefined", "(required)"),
        "❌ Invalid environment variables: {\n  API_TOKEN: [ 'Required' ]\n}",
        "Error: Missing credentials. Please pass an `apiKey`, or set the `API_TOKEN` or `KEY` environment",
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


def test_the_address_of_a_database_among_settings_is_that_of_a_database():
    said = remedy(PYDANTIC.replace("api_token", "mongodb_uri"))
    assert said.startswith(f"{MONGODB}, and set the variable MONGODB_URI to its address")


SEVERAL = [
    "Error: Missing required environment variables: API_TOKEN, PORT_A and PORT_B",
    "ValueError: Missing environment variables: ['API_TOKEN', 'PORT_A', 'PORT_B']",
    "Missing required environment variables:\n  - API_TOKEN\n  - PORT_A\n  - PORT_B",
    'Error: Config validation error: "API_TOKEN" is required. "PORT_A" is required. "PORT_B" is required',
    'env: required environment variable "API_TOKEN" is not set; required environment variable "PORT_A" is '
    'not set; required environment variable "PORT_B" is not set',
    f"{ENVALID}\n    \x1b[34mPORT_A\x1b[0m: undefined\n    \x1b[34mPORT_B\x1b[0m: undefined\n\n Exiting",
    T3.replace("\n]", "\n  { path: [ 'PORT_A' ] },\n  { path: [ 'PORT_B' ] }\n]"),
    "❌ Invalid environment variables: {\n  API_TOKEN: [ 'Required' ],\n  PORT_A: [ 'Required' ],\n"
    "  PORT_B: [ 'Required' ]\n}",
]
"""Dotenv-safe programs of Node, Python, validate-env, Joi, env of Go, envalid, t3-env."""


@pytest.mark.parametrize("output", SEVERAL)
def test_all_variables_that_are_not_set_are_named_at_once(output):
    assert remedy(output).startswith(
        "Set the variables API_TOKEN, PORT_A, PORT_B, such as with "
        "`windlass env set API_TOKEN=… PORT_A=… PORT_B=…`"
    )


ACCESS = """\
================================
 Missing environment variables:
    MONGO_USER: undefined
    MONGO_PASSWORD: undefined
    MONGO_PATH: undefined

 Exiting with error code 1
================================"""


def test_the_parts_of_the_access_to_a_database_refer_to_the_one_to_create():
    assert remedy(ACCESS).startswith(
        f"{MONGODB}, and set the variables with `windlass env set MONGO_USER={{{{MAIN_DB_USER}}}} "
        "MONGO_PASSWORD={{MAIN_DB_PASSWORD}} MONGO_PATH=…`"
    )
    host = remedy("KeyError: 'DB_HOST'")
    assert host.startswith("Create a database, such as main-db, and set the variable DB_HOST with ")
    assert "DB_HOST={{MAIN_DB_HOST}}" in host
    two = remedy('"DATABASE_URL" is required. "REDIS_HOST" is required')
    assert two.startswith("Create the databases main-db (of the kind that it uses) and redis-db (Redis), and")
    assert "DATABASE_URL={{MAIN_DB_URL}} REDIS_HOST={{REDIS_DB_HOST}}`" in two


SPRING_PLACEHOLDER = """\
Caused by: java.lang.IllegalArgumentException: Could not resolve placeholder '{}' in value "${{{}}}"
\tat org.springframework.util.PropertyPlaceholderHelper.parseStringValue(A.java:180)"""


def test_a_placeholder_of_spring_is_told_as_a_variable():
    said = remedy(SPRING_PLACEHOLDER.format("app.jwt-secret", "app.jwt-secret"))
    assert said.startswith("Set the variable APP_JWT_SECRET")
    address = remedy(SPRING_PLACEHOLDER.format("DB_URL", "DB_URL"))
    assert "DB_URL=jdbc:postgresql://{{MAIN_DB_HOST}}:{{MAIN_DB_PORT}}/{{MAIN_DB_NAME}}`" in address


def test_a_variable_of_decouple_is_named_as_the_program_writes_it():
    said = "decouple.UndefinedValueError: secret not found. Declare it as envvar or define a default value."
    assert remedy(said).startswith("Set the variable secret, such as with `windlass env set secret=…`")


def test_rails_without_its_secret_is_told_the_variable():
    said = "Missing `secret_key_base` for 'production' environment, set this string with `bin/rails …`"
    assert remedy(said).startswith("Set the variable SECRET_KEY_BASE")


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("MongooseServerSelectionError: connect ECONNREFUSED 127.0.0.1:27017", MONGODB),
        ("Error: connect ECONNREFUSED ::1:6379", "Create a Redis database, such as main-db with "),
        (
            "PDOException: SQLSTATE[HY000] [2002] Connection refused",
            "Create a database, such as main-db, and",
        ),
    ],
)
def test_a_database_on_localhost_is_told_by_its_kind(said, kind):
    assert remedy(said).startswith(kind)


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
    assert remedy(said).startswith("Install ffmpeg on this machine (`apt-get install ffmpeg`), or add it to")
    assert remedy(said.replace("ffmpeg", "soffice")).startswith("Install libreoffice-writer on this machine")


@pytest.mark.parametrize(
    ("said", "package"),
    [
        ("ImportError: libGL.so.1: cannot open shared object file: No such file or directory", "libgl1"),
        ("OSError: cannot load library 'libpango-1.0-0': libpango-1.0-0: cannot", "libpango-1.0-0"),
        ("ImportError: failed to find libmagic.  Check your installation", "libmagic1"),
        ("x: error while loading shared libraries: libx.so.2: cannot open shared object file", "the D"),
    ],
)
def test_a_library_of_the_machine_that_is_missing_leads_to_its_package(said, package):
    assert remedy(said).startswith(f"Install {package}")


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


@pytest.mark.parametrize(
    "said",
    [
        "sqlalchemy.exc.ArgumentError: Could not parse SQLAlchemy URL from given URL string",
        "sqlalchemy.exc.ArgumentError: Expected string or URL object, got None",
        "RuntimeError: Either 'SQLALCHEMY_DATABASE_URI' or 'SQLALCHEMY_BINDS' must be set.",
        'MongoParseError: Invalid scheme, expected connection string to start with "mongodb://"',
    ],
)
def test_a_program_without_the_address_of_its_database_is_told_to_create_one(said):
    kind = MONGODB if "Mongo" in said else "Create a database, such as main-db"
    assert remedy(said).startswith(f"{kind}, and set the variable that web reads")


@pytest.mark.parametrize(
    ("said", "host"),
    [
        ('could not translate host name "db" to address: Name or service not known', "db"),
        ("Error: getaddrinfo ENOTFOUND mongo", "mongo"),
        ("Error: getaddrinfo EAI_AGAIN postgres", "postgres"),
        ("2026/01/31 09:05:00 dial tcp: lookup db on 127.0.0.53:53: no such host", "db"),
        ("ConnectionError: Error -2 connecting to cache:6379. Name or service not known.", "cache"),
        ("Can't connect to MySQL server on 'db' ([Errno -2] Name or service not known)", "db"),
    ],
)  # fmt: skip
def test_a_host_of_docker_compose_is_named(said, host):
    assert remedy(said).startswith("Create the database or service, such as main-db")
    assert f": {host}, a name of Docker Compose" in remedy(said)
    elsewhere = said.replace(f"{host}:", f"{host}.example.com:").replace(f" {host} ", f" {host}.example.com ")
    elsewhere = elsewhere.replace(f"{host}'", f"{host}.example.com'").replace(
        f'{host}"', f'{host}.example.com"'
    )
    if elsewhere == said:
        elsewhere = f"{said}.example.com"
    assert "Docker Compose" not in remedy(elsewhere)


@pytest.mark.parametrize(
    ("said", "file"),
    [
        ("2026/01/31 09:05:00 Error loading .env file", ".env"),
        ("panic: open configs/.env: no such file or directory", "configs/.env"),
        ("panic: open ./configs/.env: no such file or directory", "configs/.env"),
        ("panic: open /srv/app/.env: no such file or directory", ".env"),
        ("node: .env.production: not found", ".env.production"),
        ("Error: ENOENT: no such file or directory, open '/srv/app/.env'", ".env"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '.env'", ".env"),
    ],
)
def test_a_program_that_needs_a_file_of_variables_is_not_told_to_commit_it(said, file):
    assert remedy(said).startswith(f"Set the variables of {file}, such as with `windlass env import {file}`")
    assert f"`touch {file} && …`" in remedy(said)
    assert "touch" not in remedy(said.replace(".env", "settings.ini"))


@pytest.mark.parametrize(
    "said",
    [
        f"thread 'main' panicked at src/main.rs:10:5:\n{UNWRAPPED}",
        f"thread 'main' panicked at '{UNWRAPPED}', src/main.rs:10:5",
    ],
)
def test_the_line_of_rust_that_reads_a_missing_variable_is_named(said):
    assert remedy(said).startswith("Set the variable that src/main.rs:10 reads")
    assert "Set the variable" not in remedy(said.replace("NotPresent", "ParseIntError"))


def test_spring_gets_the_address_of_its_database_by_its_own_variables():
    refused = (
        "org.postgresql.util.PSQLException: Connection to localhost:5432 refused. Check that the hostname"
    )
    spring = (
        f"Caused by: {refused}\n\tat org.springframework.boot.SpringApplication.run(SpringApplication.java:9)"
    )
    assert "`windlass env set 'SPRING_DATASOURCE_URL=jdbc:postgresql://{{MAIN_DB_HOST}}:" in remedy(spring)
    assert "SPRING" not in remedy(refused)


def test_a_client_of_prisma_that_is_not_generated_is_built_first():
    said = 'Error: @prisma/client did not initialize yet. Please run "prisma generate" and try again.'
    assert remedy(said).startswith("Set build_command to `npx prisma generate && …`")


@pytest.mark.parametrize(
    "said",
    [
        'Error: https://npm.example/@shop/chat/-/chat-1.0.0.tgz: Request failed "404 Not Found"',
        "ERR_PNPM_FETCH_404  GET https://npm.example/@shop%2Fchat: Not Found - 404",
    ],
)
def test_a_package_that_the_registry_does_not_have_is_named(said):
    assert failure("yarn install", 1, [said]).startswith("Correct @shop")
    assert "chat in package.json: the registry has no such package" in failure("yarn install", 1, [said])


@pytest.mark.parametrize(
    "said",
    [
        "KeyError: 'API_TOKEN'",
        ZOD,
        T3,
        ENVALID,
        "error: Environment variable not found: API_TOKEN.",
        'src/lib/tokens.ts (1:9): "API_TOKEN" is not exported by "virtual:env/static/private", imported',
        "Error: Missing required environment variable: API_TOKEN",
    ],
)
def test_a_build_that_misses_a_variable_names_it(said):
    assert failure("npm run build", 1, said.splitlines()).startswith(f"{VARIABLE}: the build needs it.")
    there = said.replace("API_TOKEN", "api").replace("environment variables", "words")
    assert "Set the variable" not in failure("npm run build", 1, there.splitlines())


UNSET = [
    ("Error: supabaseUrl is required.", "the address of Supabase, such as SUPABASE_URL"),
    ("TypeError: OAuth2Strategy requires a clientID option", "the client id of its sign-in, such as GOOGLE"),
    ("TypeError: JwtStrategy requires a secret or key", "the secret of its tokens, such as JWT_SECRET"),
    ("Error: secretOrPrivateKey must have a value", "the secret of its tokens, such as JWT_SECRET"),
    ("Error: secret option required for sessions", "the secret of its sessions, such as SESSION_SECRET"),
    ("Error: Neither apiKey nor config.authenticator provided", "the key of Stripe, such as STRIPE_SECRET"),
    ('Error: Missing API key. Pass it to the constructor `new Resend("re_123")`', "the key of Resend, such"),
    (
        "telegram.error.InvalidToken: You must pass the token you received",
        "the token of its bot, such as BOT",
    ),
]


@pytest.mark.parametrize(("said", "what"), UNSET)
def test_a_client_without_its_key_or_address_leads_to_the_variable_of_the_application(said, what):
    assert remedy(said).startswith(f"Set the variable from which web takes {what}")


@pytest.mark.parametrize(
    ("said", "beginning"),
    [
        (
            "com.mysql.cj.jdbc.exceptions.CommunicationsException: Communications link failure\n"
            "\tat org.springframework.boot.SpringApplication.run(SpringApplication.java:9)",
            "Create a MySQL database, such as main-db, and set SPRING_DATASOURCE_URL with `windlass env set "
            "'SPRING_DATASOURCE_URL=jdbc:mysql://{{MAIN_DB_HOST}}",
        ),
        (
            "Failed to configure a DataSource: 'url' attribute is not specified and no embedded datasource",
            "Create a PostgreSQL database, such as main-db, and set SPRING_DATASOURCE_URL",
        ),
        (
            "[error] failed to initialize database, got error cannot parse `host= user= password=xxxxx "
            "dbname= port= sslmode=disable`: failed to parse as keyword/value (invalid port)",
            "Create a database, such as main-db, and set the variable that web reads",
        ),
        (
            'OperationalError: connection to server on socket "/var/run/postgresql/.s.PGSQL.5432" failed: No '
            "such file or directory",
            "Create a PostgreSQL database, such as main-db with",
        ),
        (
            "failed to connect to `user=shop database=`: /tmp/.s.PGSQL.5432 (/tmp): dial error: dial unix",
            "Create a PostgreSQL database, such as main-db with",
        ),
        (
            "panic: failed to connect to 'host=port= user= password= database=sslmode=': hostname",
            "Create a database, such as main-db, and set the variable that web reads",
        ),
        (
            "RuntimeError: The session is unavailable because no secret key was set.  Set the secret_key on",
            "Set the variable from which the settings take SECRET_KEY",
        ),
        (
            "ModuleNotFoundError: No module named 'shop.settings.live'",
            "Commit the file of the module shop.settings.live, or name a version of its package that has it",
        ),
        ("bundler: command not found: rackup", "Run `bundle add rackup` on your machine, and commit"),
        ("Couldn't find handler for: puma, falcon, webrick. (LoadError)", "Run `bundle add puma` on"),
        ("ModuleNotFoundError: No module named 'google.generativeai'", "Add google.generativeai to the"),
    ],
)
def test_what_frameworks_report_leads_to_what_to_set_or_to_commit(said, beginning):
    assert remedy(said).startswith(beginning)


def test_a_build_that_checks_queries_leads_to_the_prepared_ones():
    said = "error: set `DATABASE_URL` to use query macros online, or run `cargo sqlx prepare` to update the"
    assert failure("cargo build", 101, [said]).startswith("Run `cargo sqlx prepare` beside the database")
