"""Exports an environment as Terraform files: reads what the caller may read. `terraform_files` writes it.

Values of secrets are not even decrypted: each secret is an input variable of the files.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

import msgspec

from windlass.base.errors import Conflict, Invalid
from windlass.base.fair_share import FairShare
from windlass.base.subprocesses import in_thread
from windlass.control.context.call import Call, Reply, reads
from windlass.control.context.context import Context
from windlass.control.request.paths import target
from windlass.control.request.permissions import is_visible, visible_below
from windlass.control.request.stage_placement import prepare_stages
from windlass.control.services.environments import services_of
from windlass.control.services.exported_fields import attributes_of, fields_left_out
from windlass.control.services.exported_stages import (
    ExportedStages,
    PresentStage,
    StageMember,
    export_stages,
)
from windlass.control.services.terraform_files import ResourceBlock, TerraformFiles, packed
from windlass.core.declare.document import Document
from windlass.core.declare.exported import (
    ALIASES,
    DOMAINS,
    FILES,
    OVERRIDES,
    RESTRICTIONS,
    SECRET_ALIASES,
    SECRET_FILES,
    SECRET_OVERRIDES,
    SECRETS,
    SETTINGS,
    UNREAD_IF_DESCRIBED,
    UNREAD_WHEN_IMPORTED,
    VARIABLES,
    ExportedResource,
)
from windlass.core.declare.resource import Family, Spec
from windlass.core.declare.traits import has_commits, has_domains, has_variables
from windlass.core.words.hcl import Expression, JsonCode, Template, shortened
from windlass.core.words.naming import kebab, plural
from windlass.families.deployment_restriction import DeploymentRestriction, deployment_restriction
from windlass.families.deployment_stage import DeploymentStage, deployment_stage
from windlass.families.domain import CustomDomain, domain
from windlass.families.environment import Environment, TerraformExportQuery, environment
from windlass.families.variable import (
    OriginalVariable,
    Secret,
    SecretShown,
    Variable,
    VariableShown,
    secret,
    variable,
)
from windlass.store import Reads, Row

MAX_EXPORT_BYTES: Final = 32 * 1024 * 1024
"""Maximum size of the files of an export before they are packed."""
ID_IN_KEY_PATTERN: Final = re.compile(r"((?:QOVERY|WINDLASS)_[A-Z0-9_]{1,40}_Z)([0-9A-F]{8})(?=_)")
"""The id of a service in the key of one of its built-in variables. Without a limit of what is before it, a
search in a long value would take seconds, in which nothing else runs."""


@reads("environment.terraformExport")
async def export_environment(ctx: Context, call: Call) -> Reply:
    if call.asked(TerraformExportQuery).export_secrets:
        raise Invalid(
            "exportSecrets: leave it out: values of secrets are never answered, and the files have an input "
            "variable for each secret"
        )
    row = await target(ctx.store.reads, call)
    await prepare_stages(ctx, row)
    files = await _Export(ctx, call, row).make()
    body = await in_thread(lambda: packed(files.files()))
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", row.read(Environment).name).strip("-.") or environment.name
    return Reply(body, headers={"content-disposition": f'attachment; filename="{name}-terraform.zip"'})


class _ExportedService(NamedTuple):
    row: Row
    resource: ExportedResource
    label: str
    is_skipped: bool

    @property
    def address(self) -> str:
        return f"{self.resource.type}.{self.label}"


class _Lists(NamedTuple):
    """The attributes of a resource whose values are resources of their own here."""

    values: dict[str, object]
    notes: list[str]
    """What the provider cannot express."""
    unread: set[str]
    """The attributes that the provider reads differently, or not at all, when it imports the resource."""


class _Export:
    """The export of one environment."""

    def __init__(self, ctx: Context, call: Call, row: Row) -> None:
        self._ctx, self._call, self._environment = ctx, call, row
        self._reads: Reads = ctx.store.reads
        self._share = FairShare()
        self._files = TerraformFiles(row.read(Environment).name)
        self._addresses: dict[str, str] = {}
        """The addresses of the services so far, by the digits of their ids in keys of variables."""
        self._digits: set[str] = set()
        """These digits of all services of the export."""

    async def make(self) -> TerraformFiles:
        services = await self._services()
        self._digits = {service.row.id[:8].upper() for service in services}
        above = Expression(f"{await self._add_environment()}.id")
        stages = await self._add_stages(services, above)
        by_id = {service.row.id: service for service in services}
        for id in stages.order:
            service = by_id[id]
            placed: dict[str, object] = {"environment_id": above}
            if stage := stages.stages.get(id):
                placed["deployment_stage_id"] = stage
            if service.is_skipped:
                placed["is_skipped"] = True
            family = self._ctx.registry[service.row.family]
            await self._add(kebab(plural(family.name)), service.row, service.resource, service.label, placed)
            self._addresses[id[:8].upper()] = service.address
        return self._files

    async def _add_environment(self) -> str:
        """Adds the environment, and its project if the caller may read that. Returns its address."""
        row, inputs = self._environment, self._files.inputs
        above = await self._reads.resources.get(row.parent)
        assert above is not None
        if await is_visible(self._reads, self._call.actor, above):
            organization = inputs.outside("organization", row.org)
            holder = await self._add_holder(above, {"organization_id": organization})
            project_id = Expression(f"{holder}.id")
        else:
            project_id = inputs.outside("project", row.parent)
        return await self._add_holder(row, {"project_id": project_id})

    async def _add_holder(self, row: Row, placed: Mapping[str, object]) -> str:
        resource = self._resource_of(row)
        label = self._label(row, resource)
        await self._add(environment.name, row, resource, label, placed)
        return f"{resource.type}.{label}"

    def _resource_of(self, row: Row) -> ExportedResource:
        resource = self._ctx.registry[row.family].exported
        assert resource is not None
        return resource

    def _label(self, row: Row, resource: ExportedResource) -> str:
        return self._files.label(resource.type, row.name or row.family)

    # Stages and services

    async def _services(self) -> list[_ExportedService]:
        """Returns the services that the caller may read, in the order of deployment."""
        skipped = await self._reads.deployment_stages.skipped(self._environment.id)
        services = []
        for row in await services_of(self._ctx, self._reads, self._environment):
            if await is_visible(self._reads, self._call.actor, row):
                resource = self._ctx.registry[row.family].exported
                if resource is None:
                    raise Conflict(
                        f"Move {row.name} to another environment: the provider has no resource for a "
                        f"service of the kind {row.family}"
                    )
                label = self._label(row, resource)
                services.append(_ExportedService(row, resource, label, row.id in skipped))
            await self._share.pause()
        return services

    async def _add_stages(self, services: Sequence[_ExportedService], above: Expression) -> ExportedStages:
        id = self._environment.id
        rows = {
            row.id: row.read(DeploymentStage)
            for row in await self._reads.resources.of_parent(id, deployment_stage.name)
        }
        stages = [
            PresentStage(stage.id, rows[stage.id].name, rows[stage.id].description or "", stage.takes)
            for stage in await self._reads.deployment_stages.of_environment(id)
            if stage.id in rows
        ]
        placed = await self._reads.deployment_stages.services_of_environment(id)
        stage_of = {item.row.service: item.row.stage for item in placed}
        staged = [
            StageMember(
                service.row.id,
                stage_of[service.row.id],
                self._ctx.kinds[service.row.family].precedence,
                service.address,
            )
            for service in services
            if service.row.id in stage_of
        ]
        assert deployment_stage.exported is not None
        type_name = deployment_stage.exported.type
        exported = export_stages(stages, staged, type_name, above)
        for made in exported.resources:
            has_comma = "," in made.stage.name
            import_id = "" if has_comma else f"{id},{made.stage.name}"
            notes = ["its import: rename the stage, so that its name has no comma"] if has_comma else []
            unread = sorted(made.fields.keys() & deployment_stage.exported.unread)
            self._files.add(
                environment.name,
                ResourceBlock(type_name, made.label, made.fields, import_id, notes, unread),
            )
        return exported

    # Resources

    async def _add(
        self, file: str, row: Row, resource: ExportedResource, label: str, placed: Mapping[str, object]
    ) -> None:
        await self._share.pause()
        family, document = self._ctx.registry[row.family], msgspec.json.decode(row.body)
        self._files.inputs.of(label)
        exported = attributes_of(resource, document, self._files.inputs)
        fields, unread = {**placed, **exported.attributes}, exported.unread
        left_out = {**exported.raised, **fields_left_out(resource, family.spec, row.read(family.spec))}
        notes = [*exported.told, *(f"{path} = {shortened(value)}" for path, value in left_out.items())]
        lists = await self._lists(row, family, document)
        for name, value in lists.values.items():
            if name in resource.lists:
                fields[name] = value
            else:
                notes += _keys_of(name, value)
        notes += lists.notes
        unread += sorted(lists.unread & fields.keys())
        added = ResourceBlock(resource.type, label, fields, row.id, notes, unread)
        await in_thread(self._files.add, file, added)  # it may have many MB
        if self._files.size > MAX_EXPORT_BYTES:
            raise Conflict(
                f"Remove values that are large, or make them smaller: the files of an export may have "
                f"{MAX_EXPORT_BYTES >> 20} MiB"
            )

    async def _lists(self, row: Row, family: Family, document: Document) -> _Lists:
        lists, notes, unread = defaultdict[str, list[Document]](list), list[str](), set[str]()
        if has_variables in family.traits:
            unread |= await self._add_variables(row, lists, notes)
        if has_domains in family.traits:
            lists[DOMAINS] = await self._documents(row, domain, CustomDomain)
        if has_commits in family.traits:
            lists[RESTRICTIONS] = await self._documents(row, deployment_restriction, DeploymentRestriction)
        found: dict[str, object] = {name: lists[name] for name in lists if lists[name]}
        if settings := document.get("advanced_settings"):
            assert isinstance(settings, dict)
            found[SETTINGS] = JsonCode(settings)
        unread |= {name for name, value in found.items() if _is_unread(name, value)}
        return _Lists({name: found[name] for name in sorted(found)}, notes, unread)

    async def _documents(self, row: Row, family: Family, spec: type[Spec]) -> list[Document]:
        """Returns the fields of the resources of a family below another resource."""
        return [msgspec.to_builtins(child.read(spec)) for child in await self._children(row, family)]

    async def _children(self, row: Row, family: Family) -> Sequence[Row]:
        """Returns the resources of a family below another resource that the caller may read."""
        visible = await visible_below(self._reads, self._call.actor, row, family)
        return await self._reads.resources.of_parent(row.id, family.name) if visible is None else visible

    async def _add_variables(
        self, row: Row, lists: defaultdict[str, list[Document]], notes: list[str]
    ) -> set[str]:
        """Adds the variables and secrets. Returns the attributes in which an alias has another target than in
        the environment."""
        retargeted = set[str]()
        variables = await self._children(row, variable)
        targets = {child.id: child.read(VariableShown).aliased_variable or None for child in variables}
        for child in variables:
            spec, shown = child.read(Variable), child.read(VariableShown)
            item: Document = {"key": spec.key}
            if target := _first_target(targets, child.id):
                name, item["value"] = ALIASES, self._with_ids(target.key, spec.key, notes)
                if target is not targets[child.id]:
                    retargeted.add(ALIASES)
            else:
                item["value"] = self._with_ids(spec.value, spec.key, notes)
                name = OVERRIDES if shown.overridden_variable else FILES if spec.mount_path else VARIABLES
            _complete(item, name == FILES, spec, notes)
            lists[name].append(item)
            await self._share.pause()
        secrets = await self._children(row, secret)
        targets = {child.id: child.read(SecretShown).aliased_secret or None for child in secrets}
        for child in secrets:
            sealed, shown_secret = child.read(Secret), child.read(SecretShown)
            item = {"key": sealed.key}
            if target := _first_target(targets, child.id):
                name, item["value"] = SECRET_ALIASES, self._with_ids(target.key, sealed.key, notes)
            else:
                item["value"] = self._files.inputs.secret(sealed.key)
                name = (
                    SECRET_OVERRIDES
                    if shown_secret.overridden_secret
                    else SECRET_FILES
                    if sealed.mount_path
                    else SECRETS
                )
            _complete(item, name == SECRET_FILES, sealed, notes)
            lists[name].append(item)
            await self._share.pause()
        for items in lists.values():
            items.sort(key=itemgetter("key"))
        return retargeted

    def _with_ids(self, text: str, key: str, notes: list[str]) -> str | Template:
        """Returns a text in which the ids of services are those of the resources, as far as these come before
        the present one."""
        parts: list[str | Expression] = []
        end = 0
        for match in ID_IN_KEY_PATTERN.finditer(text):
            address = self._addresses.get(match[2])
            if address is None:
                if match[2] in self._digits:
                    notes.append(f"the id {match[2]} in {key}: it is that of the present service")
                continue
            parts += [text[end : match.start(2)], Expression(f"upper(substr({address}.id, 0, 8))")]
            end = match.end(2)
        return Template((*parts, text[end:])) if parts else text


def _first_target(targets: Mapping[str, OriginalVariable | None], id: str) -> OriginalVariable | None:
    """Returns the target of an alias, or of the alias that it stands for: the provider creates the aliases of
    a resource in any order, and fails at one whose target is not there yet."""
    target = targets[id]
    while target and (further := targets.get(target.id)):
        target = further
    return target


def _complete(item: Document, is_file: bool, spec: Variable | Secret, notes: list[str]) -> None:
    if is_file:
        item["mount_path"] = spec.mount_path
    if spec.description:
        item["description"] = spec.description
    if spec.enable_interpolation_in_file:
        notes.append(f"enable_interpolation_in_file of {spec.key}")


def _is_unread(name: str, value: object) -> bool:
    """Returns whether the provider does not read all of the attribute when it imports a resource."""
    if name in UNREAD_WHEN_IMPORTED:
        return True
    items = value if isinstance(value, list) else []
    return name in UNREAD_IF_DESCRIBED and any("description" in item for item in items)


def _keys_of(name: str, value: object) -> list[str]:
    """Returns notes about an attribute that the resource of the provider does not have."""
    keys = [str(item.get("key", "")) for item in value] if isinstance(value, list) else []
    return [f"{name}: {', '.join(keys)}" if any(keys) else name]
