"""The versions of Terraform and OpenTofu that run at the cluster `local`."""

from typing import Annotated

from windlass.core.declare.actions import get
from windlass.core.declare.fields import example
from windlass.core.declare.registry import StandaloneOperation
from windlass.core.declare.resource import Shown
from windlass.terraform.families.shapes import Engine


class AvailableVersion(Shown):
    engine: Annotated[Engine, example("TERRAFORM")]
    version: Annotated[str, example("1.11.4")]


available_versions = StandaloneOperation(
    path="/terraform/availableVersion",
    group="Terraform",
    action=get(
        "listTerraformVersions",
        list[AvailableVersion],
        "List the installed versions of Terraform and OpenTofu",
        "Those that the machine of this server has; with the Docker engine, those of the images in its "
        "settings.",
        paged=False,
    ),
)
