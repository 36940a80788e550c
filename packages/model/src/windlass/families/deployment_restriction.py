"""A deployment restriction: chooses the commits that `auto_deploy` deploys, by the paths that they change."""

from typing import Annotated, Literal

from msgspec import Meta

from windlass.core.declare.build_shapes import RestrictedPath
from windlass.core.declare.fields import example
from windlass.core.declare.resource import Family, Shown, Spec
from windlass.core.declare.traits import has_commits
from windlass.core.words.audit import AuditWords


class DeploymentRestriction(Spec):
    mode: Annotated[
        Literal["EXCLUDE", "MATCH"],
        Meta(description="EXCLUDE leaves out what is at the path; MATCH leaves out everything else"),
        example("EXCLUDE"),
    ]
    type: Annotated[Literal["PATH"], Meta(description="Paths of changed files are compared"), example("PATH")]
    value: Annotated[
        RestrictedPath,
        Meta(description="A file or a folder of the repository, from its root; * and ** are allowed"),
        example("docs"),
    ]


class DeploymentRestrictionShown(Shown):
    pass


deployment_restriction = Family(
    "deploymentRestriction",
    DeploymentRestriction,
    parent=has_commits,
    shown=DeploymentRestrictionShown,
    group="Deployment Restrictions",
    param="restriction_id",
    nested=True,
    names=None,
    audit=AuditWords(is_part=True),
    about="With `auto_deploy`, a commit is deployed only if it changes a file that no EXCLUDE is about, and "
    "that a MATCH is about if there are any. `watch_paths` of the service must watch the same file.",
)
