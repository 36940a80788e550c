"""The databases that an application needs, and the variables from which its code takes the access."""

from __future__ import annotations

import pytest

from tests.detect.trees import DJANGO, FASTAPI, FLASK, package, tree_of
from windlass.detect import detect

GO = "module example.com/shop\nrequire (\n\tgithub.com/labstack/echo v4\n\tgorm.io/driver/postgres v1.5\n)\n"
POM = """<parent><artifactId>spring-boot-starter-parent</artifactId><version>3.3.1</version></parent>
<dependency><groupId>org.postgresql</groupId></dependency>"""
RESOURCES = "src/main/resources"
SETTINGS = "import os\nDATABASES = {'default': {'ENGINE': 'django.db.backends.postgresql', %s}}\n"
OF_DJANGO = "'NAME': os.environ['DB_NAME'], 'HOST': os.environ.get('DB_HOST', 'localhost')"


def needs_of(files) -> dict[str, dict[str, str]]:
    found = detect(tree_of(files)).databases
    return {need.type: {variable.name: variable.value for variable in need.variables} for need in found}


@pytest.mark.parametrize(
    ("files", "needs"),
    [
        (
            {
                **DJANGO,
                "requirements.txt": "django\npsycopg2-binary\n",
                "shop/settings.py": SETTINGS % OF_DJANGO,
            },
            {"POSTGRESQL": {"DB_NAME": "{{MAIN_DB_NAME}}", "DB_HOST": "{{MAIN_DB_HOST}}"}},
        ),
        (
            {
                **DJANGO,
                "requirements.txt": "django\npsycopg2\ndj-database-url\n",
                "shop/settings.py": "DATABASES = {'default': dj_database_url.config()}\n",
            },
            {"POSTGRESQL": {"DATABASE_URL": "{{MAIN_DB_URL}}"}},
        ),
        (
            {
                "go.mod": GO,
                "main.go": 'package main\nvar a = E{Getenv("DBHOST"), Getenv("DBPASS"), Getenv("SSLMODE")}\n',
            },
            {
                "POSTGRESQL": {
                    "DBHOST": "{{MAIN_DB_HOST}}",
                    "DBPASS": "{{MAIN_DB_PASSWORD}}",
                    "SSLMODE": "disable",
                },
            },
        ),
        (
            {
                "go.mod": GO,
                "main.go": 'package main\nvar a = own.EnvOr("SHOP_DB_CONNECTION_STRING", "")\n',
            },
            {"POSTGRESQL": {"SHOP_DB_CONNECTION_STRING": "{{MAIN_DB_URL}}"}},
        ),
        (
            {
                "go.mod": "module example.com/shop\nrequire github.com/lib/pq v1.10.9\n",
                "main.go": 'package main\nvar a = os.Getenv("DATABASE_URL")\n',
            },
            {"POSTGRESQL": {"DATABASE_URL": "{{MAIN_DB_URL}}?sslmode=disable"}},
        ),
        (
            {
                "package.json": package("express", "mongoose", start="node x.js"),
                "x.js": "connect(process.env.DB_URL)",
            },
            {"MONGODB": {"DB_URL": "{{MAIN_DB_URL}}"}},
        ),
        (
            {
                "package.json": package("express", "pg", "ioredis", start="node x.js"),
                "db.js": "const { PGHOST, PGUSER } = process.env;\nnew Redis(process.env.REDIS_URL)\n",
            },
            {
                "POSTGRESQL": {"PGHOST": "{{MAIN_DB_HOST}}", "PGUSER": "{{MAIN_DB_USER}}"},
                "REDIS": {"REDIS_URL": "{{REDIS_DB_URL}}"},
            },
        ),
        (
            {
                "package.json": package("@prisma/client", start="node x.js"),
                "prisma/schema.prisma": 'datasource db {\nprovider = "mysql"\nurl = env("DATABASE_URL")\n}\n',
            },
            {"MYSQL": {"DATABASE_URL": "{{MAIN_DB_URL}}"}},
        ),
        (
            {
                "requirements.txt": "fastapi\nsqlalchemy\nasyncpg\npydantic-settings\n",
                "main.py": FASTAPI,
                "config.py": "class Settings(BaseSettings):\n    database_url: str\n    debug: bool\n",
            },
            {
                "POSTGRESQL": {
                    "DATABASE_URL": "postgresql+asyncpg://{{MAIN_DB_USER}}:{{MAIN_DB_PASSWORD}}@{{MAIN_DB_HOST}}:"
                    "{{MAIN_DB_PORT}}/{{MAIN_DB_NAME}}"
                },
            },
        ),
        (
            {
                "pom.xml": POM,
                f"{RESOURCES}/application.yml": "spring:\n  datasource:\n    url: ${DB_URL}\n"
                "    username: ${DB_USER:me}\n",
            },
            {
                "POSTGRESQL": {
                    "DB_URL": "jdbc:postgresql://{{MAIN_DB_HOST}}:{{MAIN_DB_PORT}}/{{MAIN_DB_NAME}}",
                    "DB_USER": "{{MAIN_DB_USER}}",
                    "SPRING_DATASOURCE_PASSWORD": "{{MAIN_DB_PASSWORD}}",
                },
            },
        ),
        (
            {
                "pom.xml": POM,
                f"{RESOURCES}/application.properties": "spring.datasource.url=jdbc:postgresql://${DB_HOST}:5432/"
                "${DB_NAME:shop}\nspring.datasource.username=me\nspring.datasource.password=${SECRET}\n",
            },
            {
                "POSTGRESQL": {
                    "DB_HOST": "{{MAIN_DB_HOST}}",
                    "DB_NAME": "{{MAIN_DB_NAME}}",
                    "SECRET": "{{MAIN_DB_PASSWORD}}",
                    "SPRING_DATASOURCE_USERNAME": "{{MAIN_DB_USER}}",
                },
            },
        ),
        (
            {
                "Gemfile": "gem 'rails'\ngem 'pg'\n",
                "config.ru": "",
                "config/application.rb": "",
                "config/database.yml": "production:\n  adapter: postgresql\n",
            },
            {"POSTGRESQL": {"DATABASE_URL": "{{MAIN_DB_URL}}"}},
        ),
        (
            {
                "pom.xml": POM,
                f"{RESOURCES}/application.yml": "spring:\n  data:\n    mongodb:\n      host: localhost\n",
            },
            {
                "MONGODB": {
                    "SPRING_DATA_MONGODB_HOST": "{{MAIN_DB_HOST}}",
                    "SPRING_DATA_MONGODB_PORT": "{{MAIN_DB_PORT}}",
                    "SPRING_DATA_MONGODB_USERNAME": "{{MAIN_DB_USER}}",
                    "SPRING_DATA_MONGODB_PASSWORD": "{{MAIN_DB_PASSWORD}}",
                    "SPRING_DATA_MONGODB_DATABASE": "{{MAIN_DB_NAME}}",
                    "SPRING_DATA_MONGODB_AUTHENTICATIONDATABASE": "admin",
                },
            },
        ),
    ],
    ids=[
        "Django",
        "dj-database-url",
        "Go",
        "Go with a function of its own",
        "lib/pq",
        "mongoose",
        "two kinds",
        "Prisma",
        "asyncpg",
        "Spring with an address",
        "Spring with parts",
        "Rails",
        "Spring with MongoDB",
    ],
)
def test_variables_that_the_code_reads_show_the_database_that_it_needs(files, needs):
    assert needs_of(files) == needs


@pytest.mark.parametrize(
    "files",
    [
        {
            "requirements.txt": "flask\npsycopg2\n",
            "app.py": f"{FLASK}os.getenv('DATABASE_URL', 'sqlite:///a.db')\n",
        },
        {"requirements.txt": "flask\n", "app.py": f"{FLASK}os.getenv('DATABASE_URL')\n"},
        {
            "requirements.txt": "flask\npsycopg2\n",
            "app.py": FLASK,
            "tests/test_app.py": "os.getenv('DB_HOST')\n",
        },
        {"requirements.txt": "flask\npsycopg2\n", "app.py": f"{FLASK}os.getenv('TEST_DB_HOST')\n"},
        {
            "requirements.txt": "flask\npsycopg2\n",
            "app.py": f"{FLASK}connect('a.example', os.getenv('DB_PASS'))\n",
        },
        {
            "package.json": package("express", "pg", "mysql2", start="node x.js"),
            "x.js": "connect(process.env.DB_URL)",
        },
        {"pom.xml": POM, f"{RESOURCES}/application.properties": "spring.datasource.url=jdbc:h2:mem:shop\n"},
        {
            "package.json": package("react-scripts", build="react-scripts build"),
            "src/a.js": "process.env.DB_URL",
        },
    ],
    ids=[
        "a default of SQLite",
        "no client",
        "only tests",
        "a variable of tests",
        "no host",
        "two clients",
        "H2",
        "a page",
    ],
)
def test_a_database_that_is_not_certain_is_not_needed(files):
    assert needs_of(files) == {}


@pytest.mark.parametrize(
    ("files", "names"),
    [
        ({"requirements.txt": "flask\n", "app.py": f"{FLASK}os.environ['SECRET_KEY']\n"}, ["SECRET_KEY"]),
        (
            {"package.json": package("express", start="node x.js"), "x.js": "sign(process.env.JWT_SECRET)"},
            ["JWT_SECRET"],
        ),
        ({"pom.xml": POM, f"{RESOURCES}/application.yml": "jwt:\n  key: ${JWT_SECRET}\n"}, ["JWT_SECRET"]),
        (
            {
                "package.json": package("express", start="node x.js"),
                "x.js": "a(process.env.JWT_RESET_PASSWORD_SECRET)",
            },
            ["JWT_RESET_PASSWORD_SECRET"],
        ),
        # Those of other services are not for the application to choose.
        ({"requirements.txt": "flask\n", "app.py": f"{FLASK}os.environ['AWS_SECRET_ACCESS_KEY']\n"}, []),
        ({"requirements.txt": "flask\n", "app.py": f"{FLASK}os.environ['GITHUB_CLIENT_SECRET']\n"}, []),
    ],
)
def test_secrets_of_the_application_itself_are_found(files, names):
    assert detect(tree_of(files)).own_secrets == names


@pytest.mark.parametrize(
    ("files", "is_named"),
    [
        ({"db.js": "connect('mongodb://localhost:27017/shop')"}, True),
        ({"db.js": "connect(process.env.MONGO_URI || 'mongodb://localhost:27017/shop')"}, False),
        ({"db.js": "connect('mongodb://db.example/shop')"}, False),
    ],
)
def test_an_address_on_the_same_machine_is_named_if_no_variable_replaces_it(files, is_named):
    files = {"package.json": package("express", "mongoose", start="node db.js"), **files}
    problems = detect(tree_of(files)).problems
    assert [problem for problem in problems if "db.js names one on the same machine" in problem] == (
        problems if is_named else []
    )
    assert bool(problems) is is_named
