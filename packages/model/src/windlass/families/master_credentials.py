"""Operations that only databases have: credentials, configurations and versions."""

from typing import Annotated

from windlass.core.access import Scope
from windlass.core.declare.actions import get
from windlass.core.declare.fields import example
from windlass.core.declare.resource import Shown
from windlass.core.deploy.databases import Mode, Type


class Credentials(Shown):
    host: Annotated[str, example("127.0.0.1")]
    port: Annotated[int, example(5432)]
    login: Annotated[str, example("postgres")]
    password: Annotated[str, example("EXAMPLE-of-a-password")]
    access_mode: Annotated[str, example("PRIVATE")]


class DatabaseVersionMode(Shown):
    name: Annotated[str, example("16")]
    supported_mode: Mode


class Configuration(Shown):
    database_type: Type
    version: list[DatabaseVersionMode]


class Version(Shown):
    name: Annotated[str, example("16")]


master_credentials = get(
    "masterCredentials",
    Credentials,
    "Read host, port, login and password",
    id="getDatabaseMasterCredentials",
    # Needs Admin because the response contains the password: permission to read the resource is not
    # permission to read its data.
    need=Scope.ADMIN,
)

configuration = get(
    "databaseConfiguration",
    list[Configuration],
    "List the types, versions and modes",
    id="listEnvironmentDatabaseConfiguration",
    # Completes the path of the collection to /environment/{env_id}/databaseConfiguration
    suffix="Configuration",
    on_collection=True,
    paged=False,
)

version = get(
    "version",
    list[Version],
    "List the versions that can use the present data",
    id="listDatabaseVersion",
    paged=False,
)

about_databases = (master_credentials, configuration, version)
"""The actions of the database family."""
