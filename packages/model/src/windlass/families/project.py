"""A project: a group of one or more environments."""

from typing import Annotated

from windlass.core.declare.exported import OF_PROJECTS, ExportedResource, same
from windlass.core.declare.fields import Description, Name, counts, example
from windlass.core.declare.resource import Family, Owner, Shown, Spec
from windlass.core.declare.traits import has_variables, holds_services
from windlass.families.organization import organization


class Project(Spec):
    name: Annotated[Name, example("shop")]
    description: Annotated[Description, example("Where people buy rope")] = ""


class ProjectShown(Shown):
    associated_environments_count: Annotated[int, counts("environment")] = 0
    organization: Owner


project = Family(
    "project",
    Project,
    parent=organization,
    shown=ProjectShown,
    created_status=200,
    traits=(has_variables, holds_services),
    exported=ExportedResource("qovery_project", same("name description"), lists=OF_PROJECTS),
)
