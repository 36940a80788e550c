"""The inputs of a service from outside its own settings, and a digest that changes with each of them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct, inspect

from windlass.base.errors import Missing
from windlass.base.fair_share import FairShare
from windlass.control.context.context import Context
from windlass.control.context.variable_digests import LevelDigest, digest_of
from windlass.control.kinds.service_kind import AnyKind, FindAddress
from windlass.control.records.deployment_inputs import LevelRows
from windlass.control.records.previews import PreviewMark
from windlass.control.request.hidden_fields import decrypt_hidden
from windlass.control.variables.injected import injected_variables
from windlass.core.declare.resource import Family
from windlass.core.declare.stored import NamedDocument
from windlass.core.declare.traits import has_variables
from windlass.core.deploy.injected_variables import identity
from windlass.core.settings.values import changed_in, deployed_part
from windlass.core.words.variables import DeclaredVariable, Inputs, resolve
from windlass.families.variable import OriginalVariable, is_secret, secret, variable
from windlass.store import Reads, Row, Tx

# Fields for people, and fields that affect only later deployments.
_FOR_PEOPLE: Final = {"description", "icon_uri", "annotations_groups", "labels_groups"}
_OF_LATER_DEPLOYMENTS: Final = {"auto_deploy", "watch_paths", "auto_preview"}
SAYS_NOTHING_OF_RUNNING: Final = frozenset(_FOR_PEOPLE | _OF_LATER_DEPLOYMENTS)
"""Fields of services that do not affect how they run."""
_KINDS: Final = (variable, secret)
_BY_LEVEL: Final = "2-"
"""Prefix of digests that contain a separate digest for each level."""

Mark = tuple[str, str, str, str | None]
"""Id, family, tag and name of a resource."""


class StoredVariable(Struct):
    """The fields of a variable or secret that affect a running service."""

    key: str
    value: str = ""
    mount_path: str | None = None
    enable_interpolation_in_file: bool | None = None
    aliased_variable: OriginalVariable | None = None
    aliased_secret: OriginalVariable | None = None


async def inputs_of(
    ctx: Context, reads: Reads, service: Row, find_address: FindAddress
) -> tuple[Inputs, Sequence[LevelRows]]:
    """Reads and resolves the variables of a service. Returns them with the variables and secrets of each
    level, from which they were resolved. Raises `UnresolvableVariable` with a remedy."""
    if not _takes_variables(ctx, service):
        digest = Digest(_digest_of(ctx, service, (), ())).text
        return Inputs(variables={}, files={}, secrets=frozenset(), arguments={}, digest=digest), ()
    levels = await reads.tree.above(service.id)
    if not levels:
        raise Missing("Create the service again if you still need it: it was deleted meanwhile")
    rows = [await variables_at(reads, level) for level in levels]
    own = await injected_variables(ctx, reads, levels, find_address)
    visible = without_secrets_above(levels, rows)
    entries = [[entry_of(ctx, row) for row in level] for level in visible]
    result = resolve([*entries, own.entries])
    used = await _used(ctx, reads, own.counted, result.used)
    # The digests use the same rows as the variables, so that a concurrent change counts as a later change.
    digests = [
        (level.id, digest_of((row.id, row.tag) for row in stored))
        for level, stored in zip(levels, rows, strict=True)
        if stored
    ]
    counted = ((row.id, row.family, row.tag, row.name) for row in own.counted if row.id in used)
    sha = _digest_of(ctx, service, digests, counted)
    inputs = Inputs(
        variables=result.variables,
        files=result.files,
        secrets=result.secrets,
        secret_files=result.secret_files,
        arguments={key: value for key, value in result.variables.items() if key not in result.secrets},
        declared=frozenset(entry.key for level in entries for entry in level),
        warnings=(*own.warnings, *result.warnings),
        digest=Digest(sha, used, frozenset(map(_hash_name, result.missing))).text,
    )
    return inputs, [LevelRows(level, stored) for level, stored in zip(levels, rows, strict=True)]


def without_secrets_above(levels: Sequence[Row], rows: Sequence[Sequence[Row]]) -> Sequence[Sequence[Row]]:
    """Leaves out the secrets of levels above an environment that shows the code of a fork. Those of the
    environment itself were given to it by a member."""
    marks = [level.read(PreviewMark).preview for level in levels]
    place = next((number for number, mark in enumerate(marks) if mark and mark.without_secrets), None)
    if place is None:
        return rows
    return [
        level if number <= place else [row for row in level if not is_secret(row.family)]
        for number, level in enumerate(rows)
    ]


async def _used(
    ctx: Context, reads: Reads, counted: Sequence[Row], used_ids: Collection[str]
) -> frozenset[str]:
    share, found = FairShare(), set[str]()
    for row in counted:
        if is_used(ctx, row, used_ids):
            found.add(row.id)
        if not isinstance(reads, Tx):  # in a change, nothing else can run
            await share.pause()
    return frozenset(found)


def is_used(ctx: Context, row: Row, used_ids: Collection[str]) -> bool:
    """Returns whether a variable refers to, or is an alias of, a variable of this service."""
    return any(identity(row.id, key) in used_ids for key in counted_keys(ctx, row))


def counted_keys(ctx: Context, service: Row) -> Collection[str]:
    """Returns the keys of the variables of a service that affect the services that use them."""
    return ctx.kinds[service.family].counted_keys(service.id, _name(service))


def _name(row: Row) -> str:
    return row.read(NamedDocument).name


async def variables_at(reads: Reads, level: Row) -> list[Row]:
    return [row for family in _KINDS for row in await reads.resources.of_parent(level.id, family.name)]


def entry_of(ctx: Context, row: Row) -> DeclaredVariable:
    stored = row.read(StoredVariable)
    hush = "value" in ctx.registry[row.family].hidden
    mount_path = stored.mount_path or ""
    aliased = stored.aliased_secret or stored.aliased_variable
    return DeclaredVariable(
        id=row.id,
        key=stored.key,
        value=decrypt_hidden(ctx, row).get("value", "") if hush else stored.value,
        secret=hush,
        mount_path=mount_path,
        interpolated=not mount_path or bool(stored.enable_interpolation_in_file),
        stands_for=aliased.id if aliased else "",
    )


# Digests


class Digest(Struct, frozen=True):
    """A digest of the inputs of a service, with the services whose variables it uses.

    Every service can see the variables of all databases around it. A service that does not use a database's
    variables stays up to date when the database is created or deleted.
    """

    sha: str
    used: frozenset[str] = frozenset()
    """The counted services whose variables the service uses."""
    missing: frozenset[str] = frozenset()
    """Hashes of undefined names to which the variables refer. Hashed because a name may be part of a
    secret."""

    @property
    def text(self) -> str:
        return ".".join((self.sha, "+".join(sorted(self.used)), "+".join(sorted(self.missing))))


class _CountedServices:
    """An index of the services that affect the digests of others.

    All services of an environment share it, so that a change searches once, and not once for each pair of
    services.
    """

    def __init__(self, ctx: Context, marks: Iterable[Mark]) -> None:
        self._ctx = ctx
        self._marks = {mark[0]: mark for mark in marks}
        self._by_name: dict[str, list[str]] | None = None
        """The ids, by hashes of the names of their variables."""

    def of(self, digest: Digest) -> list[Mark]:
        """Returns the services that affect a digest."""
        ids = digest.used & self._marks.keys()
        if digest.missing:
            by_name = self._ids_by_name()
            ids |= {id for name in digest.missing for id in by_name.get(name, ())}
        return [self._marks[id] for id in ids]

    def _ids_by_name(self) -> Mapping[str, list[str]]:
        if self._by_name is None:
            self._by_name = {}
            for id, family, _, name in self._marks.values():
                for hashed in _hashed_names(self._ctx.kinds[family], id, str(name)):
                    self._by_name.setdefault(hashed, []).append(id)
        return self._by_name


@lru_cache(maxsize=2_000)
def _hashed_names(kind: AnyKind, id: str, name: str) -> tuple[str, ...]:
    return tuple(map(_hash_name, kind.counted_keys(id, name)))


async def _counted_services(ctx: Context, reads: Reads, service: Row) -> _CountedServices:
    families = counted_families(ctx)
    if not isinstance(reads, Tx):
        return _CountedServices(ctx, await reads.tree.marks(service.id, families))
    versions = await reads.tree.versions(service.id, families)
    key, memory = ("counted services", *versions.items()), reads.session.memory
    if key not in memory:
        memory[key] = _CountedServices(ctx, await reads.tree.marks(service.id, families))
    found = memory[key]
    assert isinstance(found, _CountedServices)
    return found


def _hash_name(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:16]


async def is_current(ctx: Context, reads: Reads, service: Row, digest: str) -> bool:
    """Returns whether a new deployment would have the same digest. Fast, because no secret is decrypted."""
    sha, _, rest = digest.partition(".")
    if not sha.startswith(_BY_LEVEL):
        return await _was_current(ctx, reads, service, digest)
    levels, marks = list[LevelDigest](), list[Mark]()
    if _takes_variables(ctx, service):
        levels = await ctx.variable_digests.of(reads, service.id)
        marks = (await _counted_services(ctx, reads, service)).of(_parse(sha, rest))
    return sha == _digest_of(ctx, service, levels, marks)


async def used_as_deployed(ctx: Context, reads: Reads, service: Row, digest: str) -> frozenset[str] | None:
    """Returns the services that a service uses, or None if its digest is not current. Fast, because no secret
    is decrypted."""
    sha, _, rest = digest.partition(".")
    if not sha.startswith(_BY_LEVEL) or not await is_current(ctx, reads, service, digest):
        return None
    return _parse(sha, rest).used


async def _was_current(ctx: Context, reads: Reads, service: Row, digest: str) -> bool:
    """Returns whether a digest in the former format, without a digest for each level, is current."""
    sha, new, rest = digest.partition(".")
    counted = counted_families(ctx)
    families = [*(family.name for family in _KINDS), *counted]
    marks = await reads.tree.marks(service.id, families) if _takes_variables(ctx, service) else []
    if new:  # otherwise the digest was made when every database counted
        own = _CountedServices(ctx, (mark for mark in marks if mark[1] in counted)).of(_parse(sha, rest))
        marks = [*(mark for mark in marks if mark[1] not in counted), *own]
    return sha == former_sha(ctx, service, marks)


def _parse(sha: str, rest: str) -> Digest:
    used, missing = (frozenset(part.split("+")) - {""} for part in rest.split("."))
    return Digest(sha, used, missing)


def counted_families(ctx: Context) -> list[str]:
    """Returns the families of services whose changes affect the services that use their variables."""
    return [family for family, kind in ctx.kinds.items() if kind.is_counted]


def _digest_of(ctx: Context, service: Row, levels: Iterable[LevelDigest], counted: Iterable[Mark]) -> str:
    """Returns a digest of the inputs.

    It covers all changes of variables, but of other services only their existence and names, because
    variables contain nothing else about a service.
    """
    return _BY_LEVEL + _hash(ctx, service, *levels, *sorted((id, name) for id, _, _, name in counted))


def former_sha(ctx: Context, service: Row, marks: Iterable[Mark]) -> str:
    return _hash(
        ctx, service, *sorted((id, name if family in ctx.kinds else tag) for id, family, tag, name in marks)
    )


def _hash(ctx: Context, service: Row, *parts: tuple[str, str | None]) -> str:
    document = _without_choices(msgspec.json.decode(service.body))
    settings = deployed_part(changed_in(service.body), ctx.registry[service.family])
    hashed = [
        _strip(_shape(ctx.registry[service.family]), document),
        parts,
        *([settings] if settings else []),
    ]
    return hashlib.sha256(msgspec.json.encode(hashed, order="deterministic")).hexdigest()


def _without_choices(document: dict[str, object]) -> dict[str, object]:
    """Removes fields that Windlass has chosen for a build, because a new deployment chooses again."""
    if document.pop("automatic_port", False):
        document.pop("ports", None)
    return document


Shape: TypeAlias = "Mapping[str, Shape] | None"
"""The nested fields that clients send. None stands for a value without nested fields."""


@cache
def _shape(family: Family) -> Mapping[str, Shape]:
    fields = _fields(family.spec)
    return {name: shape for name, shape in fields.items() if name not in SAYS_NOTHING_OF_RUNNING}


def _fields(spec: type[Struct]) -> dict[str, Shape]:
    return {
        field.encode_name: _inner_shape(inspect.type_info(field.type))
        for field in msgspec.structs.fields(spec)
    }


def _inner_shape(info: inspect.Type) -> Shape:
    match info:
        case inspect.Metadata(type=inner) | inspect.ListType(item_type=inner):
            return _inner_shape(inner)
        case inspect.UnionType(types=types):
            return next((shape for inner in types if (shape := _inner_shape(inner)) is not None), None)
        case inspect.StructType(cls=cls):
            return _fields(cls)
        case _:
            return None


def _strip(shape: Shape, value: object) -> object:
    """Returns a document without fields added by the server and without nulls, which are equivalent to
    missing fields."""
    if shape is None or not isinstance(value, dict | list):
        return value
    if isinstance(value, list):
        return [_strip(shape, item) for item in value]
    return {
        name: _strip(shape[name], field)
        for name, field in value.items()
        if name in shape and field is not None
    }


def _takes_variables(ctx: Context, service: Row) -> bool:
    return has_variables in ctx.registry[service.family].traits
