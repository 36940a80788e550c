"""A project: a group of one or more environments."""

from typing import Annotated

from windlass.core.declare.fields import Description, Name, counts
from windlass.core.declare.resource import Family, Owner, Shown, Spec
from windlass.core.declare.traits import has_variables, holds_services
from windlass.families.organization import organization


class Project(Spec):
    name: Name
    description: Description = ""


class ProjectShown(Shown):
    associated_environments_count: Annotated[int, counts("environment")] = 0
    organization: Owner


project = Family(
    "project",
    Project,
    parent=organization,
    shown=ProjectShown,
    created=200,
    traits=(has_variables, holds_services),
)
