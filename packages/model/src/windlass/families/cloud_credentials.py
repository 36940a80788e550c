"""Cloud credentials: logins of cloud providers, which Windlass keeps for clusters, and sends nowhere."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from msgspec import Meta

from windlass.core.access import Scope
from windlass.core.declare.actions import get
from windlass.core.declare.fields import (
    WITHOUT_EFFECT,
    Id,
    Line,
    Maybe,
    Name,
    absent,
    example,
    hidden,
    several_lines,
)
from windlass.core.declare.registry import Actions
from windlass.core.declare.resource import Family, Shown, Spec
from windlass.families.organization import organization

ObjectType = Literal["AWS", "SCW", "GCP", "AZURE", "OTHER"]
_EXAMPLE_ID: Final = example("41b3d8a0-7d3a-4b2b-9a6e-7a0e2a6d3f11")
_SECRET: Final = Meta(min_length=1, description="Secret; never answered")
SecretLine = Annotated[str, Meta(max_length=4096), _SECRET, hidden(sent_to=())]
KeyFile = Annotated[str, Meta(max_length=16_384), _SECRET, several_lines(), hidden(sent_to=())]


class AwsCredentials(Spec):
    """The key of an account at AWS."""

    name: Annotated[Name, example("account of the shop")]
    type: Annotated[Maybe[Line], WITHOUT_EFFECT] = absent
    access_key_id: Annotated[
        Line, Meta(min_length=1, description="Id of the access key"), example("AKIAIOSFODNN7EXAMPLE")
    ]
    secret_access_key: Annotated[SecretLine, example("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")]


class ScalewayCredentials(Spec):
    """The key of an account at Scaleway."""

    name: Annotated[Name, example("account of the shop")]
    scaleway_access_key: Annotated[
        Line, Meta(min_length=1, description="Id of the access key"), example("SCWXXXXXXXXXXXXXXXXX")
    ]
    scaleway_secret_key: Annotated[SecretLine, example("41b3d8a0-7d3a-4b2b-9a6e-7a0e2a6d3f11")]
    scaleway_project_id: Annotated[Line, Meta(description="Id of the project"), _EXAMPLE_ID]
    scaleway_organization_id: Annotated[Line, Meta(description="Id of the organization"), _EXAMPLE_ID]


class GcpCredentials(Spec):
    """The key of a service account at Google Cloud."""

    name: Annotated[Name, example("project of the shop")]
    credential_type: Annotated[Maybe[Literal["SERVICE_ACCOUNT_KEY"]], WITHOUT_EFFECT] = absent
    gcp_credentials: Annotated[
        KeyFile, Meta(description="Key of a service account, in JSON"), example('{"type": "service_account"}')
    ]


class AzureCredentials(Spec):
    """A subscription at Azure."""

    name: Annotated[Name, example("subscription of the shop")]
    azure_subscription_id: Annotated[Line, Meta(description="Id of the subscription"), _EXAMPLE_ID]
    azure_tenant_id: Annotated[Line, Meta(description="Id of the tenant"), _EXAMPLE_ID]


class OnPremiseCredentials(Spec):
    """The name of machines of your own, without a login."""

    name: Annotated[Name, example("the machines in the cellar")]


class CredentialsShown(Shown):
    object_type: Annotated[ObjectType, Meta(description="Provider of the credentials")]


class AzureCredentialsShown(CredentialsShown):
    azure_application_id: Annotated[str, Meta(description="Empty: Windlass registers no application")] = ""
    azure_application_object_id: str = ""


def _family(
    name: str,
    provider: str,
    spec: type[Spec],
    shown: type[Shown] = CredentialsShown,
) -> Family:
    return Family(
        f"{name}Credentials",
        spec,
        parent=organization,
        segment=f"{name}/credentials",
        shown=shown,
        nested=True,
        param="credentials_id",
        spoken=f"{provider} credential",
        group="Cloud credentials",
        write_need=Scope.ADMIN,
        about="Windlass keeps the credentials encrypted for clusters that name them, and sends them nowhere: "
        "it creates no machines. Roles and workload identities are not offered, because Windlass has no "
        "identity of its own at a cloud.",
    )


aws_credentials: Final = _family("aws", "AWS", AwsCredentials)
scaleway_credentials: Final = _family("scaleway", "Scaleway", ScalewayCredentials)
gcp_credentials: Final = _family("gcp", "Google Cloud", GcpCredentials)
azure_credentials: Final = _family("azure", "Azure", AzureCredentials, AzureCredentialsShown)
on_premise_credentials: Final = _family("onPremise", "on-premise", OnPremiseCredentials)
OBJECT_TYPES: Final[Mapping[str, ObjectType]] = {
    aws_credentials.name: "AWS",
    scaleway_credentials.name: "SCW",
    gcp_credentials.name: "GCP",
    azure_credentials.name: "AZURE",
    on_premise_credentials.name: "OTHER",
}
CREDENTIALS: Final = (
    aws_credentials,
    scaleway_credentials,
    gcp_credentials,
    azure_credentials,
    on_premise_credentials,
)


class CredentialCluster(Shown):
    """A cluster that names credentials."""

    id: Id
    name: Annotated[str, example("workshop")]
    cloud_provider: Annotated[str, example("AWS")]


class AnyCredentials(Shown):
    """Credentials of any provider, with additional fields that depend on their type."""

    id: Id
    name: Annotated[str, example("account of the shop")]
    object_type: ObjectType


class CredentialsWithClusters(Shown):
    """Credentials, and the clusters that name them."""

    credential: AnyCredentials
    clusters: list[CredentialCluster]


of_organizations = Actions(
    organization,
    "Cloud credentials",
    (
        get(
            "listCredentials",
            list[CredentialsWithClusters],
            "List the credentials of all cloud providers, with the clusters that name them",
            id="listCloudCredentials",
            suffix="/credentials",
            paged=False,
        ),
    ),
)
