"""Databases: a database server with its data volume, credentials and probes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from msgspec.structs import replace

from windlass.base.errors import Conflict
from windlass.control.context.context import Context
from windlass.control.context.place import Place
from windlass.control.kinds.service_kind import FindAddress, Offer, PreviewSource, ServiceKind
from windlass.control.records.deployments import particulars, status_of
from windlass.control.records.ports import PortOwner, public_port, take_public_port
from windlass.control.request.behaviour import Change, Draft
from windlass.control.workloads.build_input import BuildInput
from windlass.control.workloads.credentials import credentials_of, give_credentials
from windlass.core.declare.document import Document
from windlass.core.declare.stored import NamedDocument
from windlass.core.deploy import database_variables, databases
from windlass.core.deploy.databases import DatabaseLogin
from windlass.core.deploy.injected_variables import LISTED_PREFIX, BuiltIn, nominal_database_host
from windlass.core.deploy.progress import BuildResult, BuiltArtifact
from windlass.core.deploy.stage_order import Precedence
from windlass.engines.engine import EngineError
from windlass.engines.workload import Artifact, HealthProbe, ProbeKind, Volume, Workload, WorkloadPort
from windlass.families.database import Database, database
from windlass.store import Reads, Row, Tx

VOLUME_NAME = "data"
_PASSWORD = "PASSWORD"  # noqa: S105 (the name of a secret)


class DatabaseKind(ServiceKind[Database]):
    family = database
    instead_of_manifests = ""
    precedence = Precedence.DATA
    may_call = False
    builds = False
    has_versions = False
    is_counted = True

    async def creating(self, ctx: Context, tx: Tx, draft: Draft[Database]) -> None:
        assert draft.parent is not None
        draft.give(maximum_cpu=64_000, maximum_memory=1_048_576)
        give_credentials(draft)
        draft.give(**await _address(ctx, tx, draft.id, draft.parent, draft.spec))

    def obstacle_of(self, place: Place, spec: Database) -> str:
        is_native_here = place.is_connected and place.elsewhere is None and place.takes == "native"
        return place.servers.obstacle(spec.type) if is_native_here else ""

    async def updating(self, ctx: Context, tx: Tx, change: Change[Database]) -> None:
        await _refuse_unreadable_data(tx, change)
        await _refuse_others_names(tx, change)
        row = change.row
        above = await tx.resources.get(row.parent)
        assert above is not None
        change.extras |= await _address(ctx, tx, row.id, above, change.spec)

    async def make(self, ctx: Context, build_input: BuildInput) -> BuiltArtifact:
        """Returns the artifact of the image or of the installed server. Nothing is built."""
        spec = build_input.service.read(Database)
        type, version = spec.type, spec.version
        place = await ctx.places.of(build_input.service.id)
        if place.takes == "image":
            ref = databases.image(type, version)
            artifact = Artifact(kind="image", ref=ref, key=ref)
            build_input.say(f"{type} {version} is the image {ref}")
            # With the service, so that the image is removed when no service uses it.
            service = build_input.service
            await place.engine.prepare(artifact, build_input.say, org=service.org, service=service.id)
        else:
            artifact = await place.servers.artifact(type, version, build_input.service.id)
            build_input.say(f"{type} {version} is {artifact.key} of this machine")
        return BuiltArtifact(BuildResult(artifact))

    def in_preview(self, service: Row, source: PreviewSource | None) -> Document | None:
        return {"accessibility": "PRIVATE"}

    async def workload(self, ctx: Context, service: Row, default_workload: Workload) -> Workload:
        spec = service.read(Database)
        credentials = await credentials_of(ctx, ctx.store.reads, service)
        external = await public_port(ctx, service) if spec.accessibility == "PUBLIC" else None
        workload = _server(spec, credentials, default_workload, external)
        place = await ctx.places.of(service.id)
        if place.takes != "native":
            return workload
        port = databases.kind_of(spec.type).port
        return replace(workload, command=(), ready=(_native_probe(place, spec.type, port),), alive=())

    def exported_image(self, service: Row) -> str:
        spec = service.read(Database)
        return databases.image(spec.type, spec.version)

    async def exported_workload(
        self, ctx: Context, service: Row, default_workload: Workload, placeholder: Callable[[str], str]
    ) -> Workload:
        spec = service.read(Database)
        port = databases.kind_of(spec.type).port
        external = port if spec.accessibility == "PUBLIC" else None
        return _server(spec, _exported_login(spec, placeholder(_PASSWORD)), default_workload, external)

    async def exported_offer(
        self,
        ctx: Context,
        reads: Reads,
        environment: str,
        address: FindAddress,
        placeholder: Callable[[str, str], str],
    ) -> Sequence[BuiltIn]:
        found: list[BuiltIn] = []
        seen: set[str] = set()
        for row in await reads.resources.of_parent(environment, self.family.name):
            login = _exported_login(row.read(Database), placeholder(row.id, _PASSWORD))
            # Of databases with the same keys, the older one has them.
            own = [one for one in await _connection(row, login, address) if one.key not in seen]
            seen |= {one.key for one in own}
            found += own
        return found

    # Variables for other services of the environment

    async def listed_variables(self, ctx: Context, reads: Reads, service: Row) -> list[BuiltIn]:
        return [*_listed_variables(service)]

    def listed_keys(self, service: Row) -> Collection[str]:
        return [variable.key for variable in _listed_variables(service)]

    def counted_keys(self, id: str, name: str) -> Collection[str]:
        return database_variables.keys(id, name)

    async def offer(self, ctx: Context, reads: Reads, environment: str, address: FindAddress) -> Offer:
        """Returns the connection variables of all databases. If the names of two databases lead to the same
        keys, the older database gets them."""
        rows = await reads.resources.of_parent(environment, self.family.name)
        variables: list[BuiltIn] = []
        warnings: list[str] = []
        prefixes: dict[str, str] = {}
        for row in rows:
            name = row.read(NamedDocument).name
            prefix = database_variables.friendly_prefix(name, row.id)
            predecessor = prefixes.setdefault(prefix, name)
            own = await _connection(row, await credentials_of(ctx, reads, row), address)
            if predecessor != name:
                warnings.append(
                    f"{prefix}… are the variables of the database {predecessor}, not of {name}: rename one"
                )
                own = [variable for variable in own if not variable.key.startswith(prefix)]
            variables += own
        return Offer(variables, rows, warnings)


def _server(
    spec: Database, credentials: DatabaseLogin, default_workload: Workload, external: int | None
) -> Workload:
    """Returns the workload of a server's official image. `external`: its public port, if it has one."""
    type, version = spec.type, spec.version
    variables = dict(databases.environment(type, version, credentials))
    return replace(
        default_workload,
        command=databases.command(type, credentials),
        variables=variables | {"WINDLASS_MEMORY": str(default_workload.memory)},
        hidden=frozenset(name for name, value in variables.items() if credentials.password in value),
        ports=(_port(databases.kind_of(type).port, external),),
        volumes=(Volume(name=VOLUME_NAME, mount=databases.mount(type, version), size=spec.storage),),
        alone=True,
        direct=True,
        ready=(databases.ready(type),),
        alive=(databases.alive(type),),
        # A database server that is killed while it writes needs long to recover.
        grace=max(default_workload.grace, 30.0),
    )


def _exported_login(spec: Database, password: str) -> DatabaseLogin:
    server = databases.kind_of(spec.type)
    return DatabaseLogin(server.login, password, server.database)


async def _refuse_unreadable_data(tx: Tx, change: Change[Database]) -> None:
    """Refuses a version that cannot read the existing data. If no build succeeded, there is no data."""
    if (await status_of(tx, change.row)).deployed_at is None:
        return
    if not any(particulars(past).made for past in await tx.deployments.latest(change.row.id, 1000)):
        return
    if why := databases.obstacle(change.spec.type, change.before.version, change.spec.version):
        raise Conflict(why)


async def _refuse_others_names(tx: Tx, change: Change[Database]) -> None:
    """Refuses a name whose variables belong to another database: these variables would change their values
    with the next deployment."""
    row, name = change.row, change.spec.name
    prefix = database_variables.friendly_prefix(name, row.id)
    if prefix == database_variables.friendly_prefix(change.before.name, row.id):
        return
    for other in await tx.resources.of_parent(row.parent, database.name):
        other_name = other.read(NamedDocument).name
        if other.id != row.id and database_variables.friendly_prefix(other_name, other.id) == prefix:
            raise Conflict(
                f"name: choose another: the database {other_name} has the variables {prefix}… of this one"
            )


async def _address(ctx: Context, tx: Tx, service: str, environment: Row, spec: Database) -> Document:
    """Returns the public host and port of a database, or else those inside its environment."""
    if spec.accessibility != "PUBLIC":
        port = databases.kind_of(spec.type).port
        return {"host": nominal_database_host(service, spec.name), "port": port}
    place = await ctx.places.of_environment(tx, environment.id)
    try:
        port = await take_public_port(ctx.settings, tx, PortOwner(environment.org, environment.id, service))
    except EngineError as error:
        raise Conflict(f"accessibility: {error}") from error
    return {"host": place.public_host, "port": port}


def _port(internal: int, external: int | None) -> WorkloadPort:
    return WorkloadPort(
        name=f"p{internal}",
        internal=internal,
        protocol="TCP",
        public=external is not None,
        external=external,
        default=True,
    )


def _native_probe(place: Place, type: str, port: int) -> HealthProbe:
    return HealthProbe(kind=ProbeKind.EXEC, port=port, command=place.servers.ready(type))


def _listed_variables(service: Row) -> Iterator[BuiltIn]:
    """Returns connection variables for API lists: the host name is stable, and secrets are empty."""
    spec = service.read(Database)
    server, name = databases.kind_of(spec.type), spec.name
    host = nominal_database_host(service.id, name)
    values = database_variables.connection_variables(
        server.type, service.id, name, host, server.port, server.login, "", server.database
    )
    secrets = database_variables.secret_keys(server.type, service.id, name)
    for key, value in values.items():
        if key.startswith(LISTED_PREFIX):
            yield BuiltIn(
                owner=service.id, key=key, value="" if key in secrets else value, secret=key in secrets
            )


async def _connection(row: Row, credentials: DatabaseLogin, address: FindAddress) -> list[BuiltIn]:
    spec = row.read(Database)
    server, name = databases.kind_of(spec.type), spec.name
    endpoint = await address(row.parent, row.id, name, server.port)
    values = database_variables.connection_variables(
        server.type,
        row.id,
        name,
        endpoint.host,
        endpoint.port,
        credentials.login,
        credentials.password,
        credentials.database,
    )
    secrets = database_variables.secret_keys(server.type, row.id, name)
    return [
        BuiltIn(owner=row.id, key=key, value=value, secret=key in secrets) for key, value in values.items()
    ]


kind = DatabaseKind()
