"""The shapes of API responses about plans and the state of Terraform services."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from windlass.core.declare.fields import Id, Maybe, Timestamp, absent, example
from windlass.core.declare.queries import PageOfWhole
from windlass.core.declare.resource import Shown, Spec


class TerraformResource(Shown):
    """A resource in the state."""

    id: Annotated[Id, Meta(description="The same as long as the address stays")]
    resource_type: Annotated[str, example("random_pet")]
    name: Annotated[str, example("bucket")]
    address: Annotated[str, example("random_pet.bucket")]
    provider: Annotated[str, example("registry.terraform.io/hashicorp/random")]
    mode: Annotated[Literal["managed", "data"], example("managed")]
    attributes: Annotated[
        dict[str, Any],
        Meta(description="Its attributes; what is sensitive is hidden"),
        example({"length": 2}),
    ]
    extracted_at: Timestamp


class TerraformOutput(Shown):
    """An output of the state."""

    name: Annotated[str, example("bucket_name")]
    variable: Annotated[
        str,
        Meta(description="The variable that has it in the environment; empty if there is none"),
        example("WINDLASS_TERRAFORM_Z0C0B1DD2_BUCKET_NAME"),
    ]
    value: Annotated[
        Maybe[str],
        Meta(description="A value that is no text is JSON; left out if it is sensitive"),
        example("shop-5d0c9a11"),
    ] = absent
    sensitive: bool


class PlannedResource(Shown):
    address: Annotated[str, example("random_pet.bucket")]
    action: Annotated[Literal["create", "update", "replace", "destroy", "read", "forget"], example("create")]


class TerraformPlan(Shown):
    """The plan of a deployment."""

    deployment_id: Id
    created_at: Timestamp
    added: Annotated[int, Meta(description="Number of resources to add"), example(1)]
    changed: Annotated[int, Meta(description="Number of resources to change"), example(0)]
    destroyed: Annotated[int, Meta(description="Number of resources to destroy"), example(0)]
    applicable: Annotated[
        bool, Meta(description="True if it was not applied, and the state is the same as then")
    ]
    resources: list[PlannedResource] = []
    text: Annotated[
        str,
        Meta(description="The plan as the program shows it; what is sensitive is hidden"),
        example("Plan: 1 to add, 0 to change, 0 to destroy."),
    ]


class PlanQuery(PageOfWhole):
    deployment_id: Annotated[Maybe[Id], Meta(description="Only the plan of this deployment")] = absent


class TerraformLock(Shown):
    """The lock on the state."""

    is_locked: bool
    lock_id: Annotated[Maybe[str], example("7ce52510-febe-df6a-5931-b457390ae70a")] = absent
    operation: Annotated[Maybe[str], example("apply")] = absent
    owner: Annotated[Maybe[str], Meta(description="The person who started the run"), example("Ada")] = absent
    deployment_id: Maybe[Id] = absent
    created_at: Maybe[Timestamp] = absent
    age_seconds: Annotated[Maybe[int], example(12)] = absent
    is_running: Annotated[
        Maybe[bool], Meta(description="False: its run has ended, and FORCE_UNLOCK releases it")
    ] = absent


class StateVersionShown(Shown):
    """A version of the state."""

    number: Annotated[int, example(7)]
    created_at: Timestamp
    deployment_id: Id
    restored_from: Annotated[Maybe[int], Meta(description="The version that was restored, if it was")] = (
        absent
    )
    bytes: Annotated[int, example(2048)]
    is_current: bool


class RestoreRequest(Spec):
    number: Annotated[
        int, Meta(ge=1, le=2**31 - 1, description="The version whose content becomes the newest"), example(6)
    ]
