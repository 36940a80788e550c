"""What can be asked about databases: how to enter one, and in which versions they come."""

from windlass.core.access import Scope
from windlass.core.databases import Mode, Type
from windlass.core.resource import Action, Shown


class Credentials(Shown):
    host: str
    port: int
    login: str
    password: str
    access_mode: str


class VersionMode(Shown):
    name: str
    supported_mode: Mode


class Configuration(Shown):
    database_type: Type
    version: list[VersionMode]


class Version(Shown):
    name: str


master_credentials = Action(
    name="masterCredentials",
    id="getDatabaseMasterCredentials",
    method="GET",
    suffix="/masterCredentials",
    # The only answer with a secret in it: reading what is running is not reading what is in it.
    need=Scope.ADMIN,
    summary="Read host, port, login and password",
    answer=Credentials,
)

configuration = Action(
    name="databaseConfiguration",
    id="listEnvironmentDatabaseConfiguration",
    method="GET",
    # Follows the path of the collection: /environment/{env_id}/databaseConfiguration
    suffix="Configuration",
    on_collection=True,
    need=Scope.READ,
    summary="List the types, versions and modes",
    answer=Configuration,
    listing=True,
    paged=False,
)

version = Action(
    name="version",
    id="listDatabaseVersion",
    method="GET",
    suffix="/version",
    need=Scope.READ,
    summary="List the versions that can go on with the data",
    answer=Version,
    listing=True,
    paged=False,
)

about_databases = (master_credentials, configuration, version)
"""All of them, for the family of databases."""
