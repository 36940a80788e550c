"""Kinds of services, one module for each kind; see `control.kinds.service_kind`.

Modules in this folder are found automatically. So are the modules of installed packages with an entry point
in the group `windlass.kinds`, including the handlers that they register.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from windlass.base.entry_points import modules_of
from windlass.control.kinds.service_kind import AnyKind, ServiceKind
from windlass.core.declare.registry import Registry
from windlass.core.declare.resource import Family


def kinds_of(*kinds: AnyKind) -> Mapping[str, AnyKind]:
    """Returns kinds by the name of their family, in the order in which they are deployed."""
    by_name = {kind.family.name: kind for kind in kinds}
    if len(by_name) < len(set(kinds)):
        raise LookupError("There are two kinds of one family: leave one of them in control/kinds")
    return dict(sorted(by_name.items(), key=lambda item: (item[1].precedence, item[0])))


def find_kinds() -> Iterator[AnyKind]:
    for module in modules_of(__name__, __path__, "windlass.kinds"):
        for thing in vars(module).values():
            if isinstance(thing, ServiceKind):
                yield thing


def check_kinds(registry: Registry, kinds: Mapping[str, AnyKind]) -> None:
    """Raises LookupError at the start unless every service family has a kind, and every kind has such a
    family."""
    services = {family.name: family for family in registry.services}
    _check_service_types(services.values())
    for name in services.keys() - kinds.keys():
        raise LookupError(
            f"{name} can be deployed, and nothing says how: add its kind, control/kinds/{name}.py"
        )
    for name, kind in kinds.items():
        if services.get(name) is not kind.family:
            raise LookupError(
                f"control/kinds has a kind of {name}, which is no family that can be deployed: "
                f"add the trait `deployable` to families/{name}.py, or remove the kind"
            )


def _check_service_types(services: Iterable[Family]) -> None:
    """Raises LookupError if a family's `service_type` differs from the type in links, service lists and
    variables."""
    for family in services:
        expected = family.enum_value
        for field in family.additions:
            if field.name == "service_type" and field.info.default != expected:
                raise LookupError(
                    f"{family.name} has the service_type {field.info.default}, and links and variables say "
                    f'{expected}: write `service_type: str = "{expected}"` in families/{family.name}.py'
                )
