"""A project: what belongs together, in one or more environments."""

from windlass.core.fields import Description, Name
from windlass.core.resource import Family, Owner, Shown, Spec
from windlass.core.traits import has_variables
from windlass.families.organization import organization


class Project(Spec):
    name: Name
    description: Description = ""


class ProjectShown(Shown):
    associated_environments_count: int = 0
    organization: Owner


project = Family(
    "project",
    Project,
    parent=organization,
    shown=ProjectShown,
    title="Project",
    group="Projects",
    param="project_id",
    created=200,
    traits=(has_variables,),
)
