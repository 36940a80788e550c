"""Databases, as they are deployed: the server, its data, its credentials, and whether it is well."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from windlass.control.context import Context
from windlass.control.credentials import credentials_of
from windlass.control.ports import public_port
from windlass.core import databases
from windlass.core.deployment import Made
from windlass.core.document import Document
from windlass.core.runtime import Artifact, PortWanted, Probe, ProbeKind, Volume, Wanted
from windlass.store.store import Row

VOLUME = "data"


async def made_database(ctx: Context, service: Row, say: Callable[[str], None]) -> Made:
    """Nothing is built: the server is an image, or on the machine already. Raises BuildError if it is not."""
    document: Document = msgspec.json.decode(service.body)
    type, version = document["type"], document["version"]
    if ctx.engine.takes == "image":
        ref = databases.image(type, version)
        artifact = Artifact(kind="image", ref=ref, key=ref)
        say(f"{type} {version} is the image {ref}")
    else:
        artifact = await ctx.servers.artifact(type, version, service.id)
        say(f"{type} {version} is {artifact.key} of this machine")
    return Made(artifact)


async def database_wanted(ctx: Context, service: Row, document: Document, wanted: Wanted) -> Wanted:
    type, version = document["type"], document["version"]
    known = await credentials_of(ctx, ctx.store.reads, service)
    port = databases.kind_of(type).port
    variables = dict(databases.environment(type, version, known))
    native = ctx.engine.takes == "native"
    public = document["accessibility"] == "PUBLIC"
    return replace(
        wanted,
        command=() if native else databases.command(type, known),
        variables=variables | {"WINDLASS_MEMORY": str(wanted.memory)},
        hidden=frozenset(name for name, value in variables.items() if known.password in value),
        ports=(_port(port, await public_port(ctx, service) if public else None),),
        volumes=(Volume(name=VOLUME, mount=databases.mount(type, version), size=document["storage"]),),
        alone=True,
        ready=(_native_probe(ctx, type, port) if native else databases.ready(type),),
        alive=() if native else (databases.alive(type),),
        # A server that is ended in the middle of writing takes long to come back.
        grace=max(wanted.grace, 30.0),
    )


def _port(internal: int, external: int | None) -> PortWanted:
    return PortWanted(
        name=f"p{internal}",
        internal=internal,
        protocol="TCP",
        public=external is not None,
        external=external,
        default=True,
    )


def _native_probe(ctx: Context, type: str, port: int) -> Probe:
    return Probe(kind=ProbeKind.EXEC, port=port, command=ctx.servers.ready(type))
