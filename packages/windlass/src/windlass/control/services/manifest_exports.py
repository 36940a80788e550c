"""Exports an environment as plain manifests of Kubernetes: reads what the caller may read. `manifest_files`
writes them.

Values of secrets are not decrypted: each secret is a placeholder, and so is what the caller may not read.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from windlass.base.errors import Conflict
from windlass.base.fair_share import FairShare
from windlass.control.context.call import Call, Reply, reads
from windlass.control.context.context import Context
from windlass.control.kinds.program_kind import UNLIMITED_INSTANCES
from windlass.control.kinds.service_kind import AnyKind
from windlass.control.records.deployments import particulars, status_of
from windlass.control.records.served_names import known_as
from windlass.control.request.paths import target
from windlass.control.request.permissions import is_visible, visible_below
from windlass.control.services.environments import services_of
from windlass.control.services.manifest_files import (
    MAX_NAME_LENGTH,
    ExportedWorkload,
    LeftOut,
    Placeholders,
    file_text,
)
from windlass.control.variables.injected import kinds_in
from windlass.control.variables.inputs import StoredVariable, variables_at
from windlass.control.workloads.images import whole_name
from windlass.core.declare.stored import NamedDocument
from windlass.core.declare.traits import has_variables
from windlass.core.deploy.hosts import label
from windlass.core.deploy.injected_variables import BuiltIn, of_level, with_compatible_keys
from windlass.core.settings.values import changed_in
from windlass.core.words.variables import (
    DeclaredVariable,
    ResolvedVariables,
    UnresolvableVariable,
    resolve,
)
from windlass.engines.image_names import with_registry
from windlass.engines.job_plans import RunEvent
from windlass.engines.registries import REGISTRY_KINDS, ImageRef, LoginSource, digest_of, parse_ref
from windlass.engines.workload import Artifact, ServiceAddress, Workload
from windlass.families.container_registry import ContainerRegistry, container_registry
from windlass.families.domain import CustomDomain, domain
from windlass.families.environment import Environment, environment
from windlass.families.variable import is_secret, secret, variable
from windlass.store import Reads, Row

MAX_EXPORT_BYTES: Final = 32 * 1024 * 1024
"""Maximum size of the file."""
_OWN_OBJECTS: Final = frozenset({"same-namespace"})
_EXPORTED_SETTINGS: Final = frozenset(
    {
        "deployment.termination_grace_period_seconds",
        "deployment.update_strategy.type",
        "security.read_only_root_filesystem",
    }
)
"""The advanced settings that are in the file."""


@reads("environment.manifestExport")
async def export_environment(ctx: Context, call: Call) -> Reply:
    row = await target(ctx.store.reads, call)
    text = await _ManifestExport(ctx, call, row).make()
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", row.read(Environment).name).strip("-.") or environment.name
    return Reply(
        text.encode(), headers={"content-disposition": f'attachment; filename="{name}-manifests.yaml"'}
    )


class _NotExported(Exception):
    """A service cannot be a manifest. The message says what to do instead."""


class _ManifestExport:
    """The export of one environment."""

    def __init__(self, ctx: Context, call: Call, row: Row) -> None:
        self._ctx, self._call, self._environment = ctx, call, row
        self._reads: Reads = ctx.store.reads
        self._share = FairShare()
        self._placeholders = Placeholders()
        self._names: dict[str, str] = {}
        """The names of the objects of each service, which are its host names, too."""
        self._visible: set[str] = set()
        self._exported: list[ExportedWorkload] = []
        self._left_out: list[LeftOut] = []

    async def make(self) -> str:
        services = await services_of(self._ctx, self._reads, self._environment)
        await self._name(services)
        levels = await self._reads.tree.above(self._environment.id)
        above = [await self._declared(level) for level in levels]
        neighbours = await self._neighbours()
        size = 0
        for row in services:
            if row.id not in self._visible:
                continue
            await self._share.pause()
            try:
                exported = await self._service(row, levels, above, neighbours)
            except (_NotExported, UnresolvableVariable) as reason:
                self._leave_out(row, str(reason))
                continue
            await self._note_settings(row, exported.workload)
            self._exported.append(exported)
            size += sum(map(len, exported.workload.variables.values()))
            size += sum(map(len, exported.workload.files.values()))
            if size > MAX_EXPORT_BYTES:
                raise Conflict(
                    f"Remove values that are large, or make them smaller: the file of an export may have "
                    f"{MAX_EXPORT_BYTES >> 20} MiB"
                )
        title = self._environment.read(Environment).name
        return file_text(title, self._exported, self._left_out, self._placeholders)

    async def _name(self, services: Sequence[Row]) -> None:
        """Gives each service the name under which others reach it here; otherwise, one that is like its
        own."""
        taken = set(_OWN_OBJECTS)
        for row in services:
            if await is_visible(self._reads, self._call.actor, row):
                self._visible.add(row.id)
            name = row.read(NamedDocument).name
            held = known_as(name, await self._reads.names.of(row.id))
            wish = held.name.rpartition(" ")[2] if held else label(name)
            self._names[row.id] = _free(wish[:MAX_NAME_LENGTH].strip("-"), taken)

    def _leave_out(self, row: Row, reason: str) -> None:
        self._left_out.append(LeftOut(row.read(NamedDocument).name, reason))

    # Variables

    async def _declared(self, level: Row) -> list[DeclaredVariable]:
        """Returns the variables and secrets of a level. What the caller may not read is a placeholder."""
        hidden = set[str]()
        for family in (variable, secret):
            visible = await visible_below(self._reads, self._call.actor, level, family)
            if visible is not None:
                rows = await self._reads.resources.of_parent(level.id, family.name)
                hidden |= {row.id for row in rows} - {row.id for row in visible}
        owner = level.read(NamedDocument).name
        rows = await variables_at(self._reads, level)
        return [self._entry(row, owner, is_hidden=row.id in hidden) for row in rows]

    def _entry(self, row: Row, owner: str, *, is_hidden: bool) -> DeclaredVariable:
        stored = row.read(StoredVariable)
        aliased = stored.aliased_secret or stored.aliased_variable
        is_hidden = is_hidden or is_secret(row.family)
        if is_hidden and not aliased:
            value = self._placeholders.of(row.id, owner, stored.key)
        else:
            value = stored.value
        return DeclaredVariable(
            id=row.id,
            key=stored.key,
            value=value,
            secret=is_hidden,
            mount_path=stored.mount_path or "",
            interpolated=not stored.mount_path or bool(stored.enable_interpolation_in_file),
            stands_for=aliased.id if aliased else "",
        )

    async def _neighbours(self) -> list[DeclaredVariable]:
        """Returns the variables that the services offer to each other, with their addresses in the
        cluster."""

        async def address(_: str, id: str, name: str, port: int) -> ServiceAddress:
            return ServiceAddress(self._names.get(id) or label(name), port)

        found: list[BuiltIn] = []
        for kind in kinds_in(self._ctx, self._environment):
            found += await kind.exported_offer(
                self._ctx, self._reads, self._environment.id, address, self._placeholder
            )
            await self._share.pause()
        return [
            _built_in(one)
            if one.owner in self._visible
            else _built_in(replace(one, value=self._placeholder(one.owner, one.key), secret=True))
            for one in found
        ]

    def _placeholder(self, service: str, key: str) -> str:
        name = self._names.get(service, service)
        return self._placeholders.of(f"{service} {key}", name, key)

    async def _resolved(
        self,
        row: Row,
        levels: Sequence[Row],
        above: Sequence[Sequence[DeclaredVariable]],
        neighbours: Sequence[DeclaredVariable],
    ) -> ResolvedVariables:
        if has_variables not in self._ctx.registry[row.family].traits:
            return resolve([])
        ids = [
            one
            for level in (row, *levels)
            if has_variables in self._ctx.registry[level.family].traits
            for one in of_level(level.family, level.id)
        ]
        own = [_built_in(one) for one in with_compatible_keys(ids)]
        return resolve([await self._declared(row), *above, [*own, *neighbours]])

    # Services

    async def _service(
        self,
        row: Row,
        levels: Sequence[Row],
        above: Sequence[Sequence[DeclaredVariable]],
        neighbours: Sequence[DeclaredVariable],
    ) -> ExportedWorkload:
        kind = self._ctx.kinds[row.family]
        if kind.instead_of_manifests:
            raise _NotExported(kind.instead_of_manifests)
        artifact, registry = await self._image(row, kind)
        inputs = await self._resolved(row, levels, above, neighbours)
        usual = kind.usual_workload(self._ctx, row, artifact)
        usual = replace(
            usual,
            variables=inputs.variables,
            files=inputs.files,
            hidden=inputs.secrets | inputs.secret_files,
        )
        workload = await kind.exported_workload(self._ctx, row, usual, partial(self._placeholder, row.id))
        if workload.artifact.static is not None:
            raise _NotExported(
                "it is a static site, which the gateway of Windlass serves: build an image with a server "
                "of files, and its files"
            )
        if workload.job and not {RunEvent.CRON, RunEvent.ON_START} & workload.job.commands.keys():
            raise _NotExported("it runs at a stop or a deletion, at which a cluster runs nothing")
        return ExportedWorkload(name=self._names[row.id], workload=workload, registry=registry)

    async def _image(self, row: Row, kind: AnyKind) -> tuple[Artifact, str]:
        """Returns the image of a service, and the host of its registry if that needs a login."""
        if public := kind.exported_image(row):
            return Artifact(kind="image", ref=public), ""
        status = await status_of(self._reads, row)
        serving = await self._reads.deployments.get(status.serving) if status.serving else None
        details = particulars(serving) if serving else None
        made = details.made.artifact if details and details.made else None
        if source := kind.image(row):
            ref = ImageRef(await whole_name(self._reads, row.org, source), source.tag)
            is_same = details is not None and details.image_tag == source.tag
            pinned = parse_ref(made.ref) if made and is_same else ref
            if pinned.digest and with_registry(pinned.name) == with_registry(ref.name):
                ref = ImageRef(ref.name, digest=pinned.digest)
            id = source.registry_id
            registry = await self._reads.resources.find(container_registry.name, id) if id else None
            has_login = registry is not None and _has_login(registry.read(ContainerRegistry))
            return Artifact(kind="image", ref=str(ref)), ref.host if has_login else ""
        if made is None:
            raise _NotExported("it is built from its files: deploy it first, and export it again")
        if made.static is None and (made.kind != "image" or not digest_of(made.ref)):
            raise _NotExported(
                "its build is in no registry: give the server a registry (setting registry) and the Docker "
                "engine, deploy it again, and export it again; or build an image of it yourself"
            )
        built, name = self._ctx.settings.build_registry, parse_ref(made.ref)
        needs_login = (
            built is None or not built.holds(name.name) or bool(self._ctx.settings.registry_username)
        )
        return made, name.host if needs_login else ""

    # What is not in the file

    async def _note_settings(self, row: Row, workload: Workload) -> None:
        for reason in [
            *(await self._public(row, workload)),
            *_other_commands(workload),
            *_counts(workload),
            *_advanced(row),
        ]:
            self._leave_out(row, reason)

    async def _public(self, row: Row, workload: Workload) -> list[str]:
        public = [port for port in workload.ports if port.public]
        if not public:
            return []
        numbers = ", ".join(f"{port.internal} ({port.protocol})" for port in public)
        visible = await visible_below(self._reads, self._call.actor, row, domain)
        rows = await self._reads.resources.of_parent(row.id, domain.name) if visible is None else visible
        names = ", ".join(child.read(CustomDomain).domain for child in rows)
        domains = f" with the domains {names}" if names else ""
        return [
            f"the way from outside to its public ports {numbers}{domains}: add an Ingress, or a Service of "
            "the type LoadBalancer"
        ]


def _built_in(one: BuiltIn) -> DeclaredVariable:
    return DeclaredVariable(id=one.id, key=one.key, value=one.value, secret=one.secret, interpolated=False)


def _free(wish: str, taken: set[str]) -> str:
    """Returns a name that begins with a letter, as names of Services have to, and that is not taken."""
    first = wish if wish[:1].isalpha() else f"s-{wish}"
    found, number = first, 1
    while found in taken:
        number += 1
        found = f"{first}-{number}"
    taken.add(found)
    return found


def _has_login(registry: ContainerRegistry) -> bool:
    kind = REGISTRY_KINDS[registry.kind]
    return bool(kind.required) or (kind.login is not LoginSource.NONE and bool(registry.config.username))


def _other_commands(workload: Workload) -> Iterator[str]:
    if workload.artifact.release:
        command = shlex.join(workload.artifact.release)
        yield f"its release command {command}: run it before each new version, such as in a Job"
    if workload.job:
        for event in (RunEvent.ON_STOP, RunEvent.ON_DELETE):
            if event in workload.job.commands:
                yield f"its command of {event.lower()}: run it by hand"


def _counts(workload: Workload) -> Iterator[str]:
    if workload.most > workload.instances:
        most = "any number of" if workload.most >= UNLIMITED_INSTANCES else f"up to {workload.most}"
        yield f"its scaling to {most} instances: add a HorizontalPodAutoscaler"


def _advanced(row: Row) -> Iterator[str]:
    settings: Mapping[str, object] = changed_in(row.body)
    if names := sorted(settings.keys() - _EXPORTED_SETTINGS):
        yield f"its advanced settings {', '.join(names)}"
