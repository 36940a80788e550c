"""Operations of the full interface that Windlass deliberately does not offer, each with the reason.

A path that is neither in this list nor in the registry is not implemented yet, or does not exist in the full
interface.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from windlass.base.lazy import lazy_pattern

_BILLING: Final = "Windlass runs on your own machines, and bills nothing"
_SIGN_UP: Final = "Windlass has no vendor to sign up with: an administrator invites members"
_AGENTS: Final = (
    "Windlass runs no agents or MCP servers of a vendor: deploy yours as an application or a container"
)
_BLUEPRINTS: Final = "Windlass has no catalogue of a vendor: deploy a container, or a module of your own"
_OPERATOR: Final = "Windlass connects to a cluster itself, and installs no operator or platform in it"
_MANAGERS: Final = "Windlass keeps values of secrets itself, encrypted, and reads none from a secret manager"
_MACHINES: Final = "Windlass makes no machines: bring a cluster that exists"
_UPGRADES: Final = "Windlass upgrades no Kubernetes: upgrade the cluster with the tool that made it"
_KUBECONFIGS: Final = (
    "Values of secrets are never answered: change the field kubeconfig of the cluster, or read the file "
    "where it was made"
)
_STOPPED_MACHINES: Final = "Windlass stops no machines: stop the environments of the cluster, or lock it"
_ROUTES: Final = "Windlass makes no networks between machines, and so has no routes to change"
_NAMES: Final = (
    "Windlass manages no zone of a DNS provider: point a name at the server, and add it to a service as a "
    "custom domain"
)
_GITHUB_APP: Final = (
    "A GitHub App is linked on a page of its vendor, and Windlass has no such App: create a git token of the "
    "organization, which GitHub, GitLab, Gitea, Forgejo and Bitbucket give on their pages"
)
_LINKS: Final = "Windlass knows that an application uses a database by its variables: change or delete those"
_ACCEPTING: Final = "An invited person becomes a member by signing in with the invited address"
_ADDRESSES: Final = "Windlass calls others from your own machines, with their addresses"

NOT_OFFERED: Final[Mapping[str, Sequence[str]]] = {
    _BILLING: (
        "GET /organization/{}/currentCost",
        "POST /organization/{}/creditCode",
        "POST /organization/{}/changePlan",
        "GET /organization/{}/cluster/{}/currentCost",
        "GET /organization/{}/billingInfo",
        "PUT /organization/{}/billingInfo",
        "GET /organization/{}/billingStatus",
        "POST /organization/{}/billingUsageReport",
        "GET /organization/{}/billingExternalId",
        "GET /organization/{}/invoice",
        "GET /organization/{}/invoice/{}",
        "GET /organization/{}/invoice/{}/download",
        "POST /organization/{}/downloadInvoices",
        "GET /organization/{}/creditCard",
        "POST /organization/{}/creditCard",
        "DELETE /organization/{}/creditCard/{}",
    ),
    _SIGN_UP: (
        "GET /organization/{}/onboarding",
        "POST /organization/{}/onboarding",
        "GET /account/referral",
        "POST /account/rewardClaim",
        "GET /admin/userSignUp",
        "POST /admin/userSignUp",
    ),
    _AGENTS: (
        "GET /organization/{}/mcpServer",
        "POST /organization/{}/mcpServer",
        "GET /mcpServer/{}",
        "PUT /mcpServer/{}",
        "DELETE /mcpServer/{}",
        "GET /environment/{}/agenticWorkflow",
        "POST /environment/{}/agenticWorkflow",
        "GET /agenticWorkflow/{}",
        "PUT /agenticWorkflow/{}",
        "DELETE /agenticWorkflow/{}",
        "POST /agenticWorkflow/{}/cancelDeployment",
        "GET /agenticWorkflow/{}/deploymentHistoryV2",
    ),
    _BLUEPRINTS: (
        "GET /organization/{}/blueprint/catalog",
        "GET /organization/{}/blueprint/catalog/{}/{}/{}/readme",
        "GET /organization/{}/blueprint/catalog/{}/{}/{}/manifest",
        "POST /environment/{}/blueprint",
        "GET /blueprint/{}/update",
        "POST /blueprint/{}/update/preview",
        "POST /blueprint/{}/deploy",
        "PATCH /blueprint/{}",
        "GET /environment/{}/lifecycleTemplate",
        "GET /environment/{}/lifecycleTemplate/{}",
    ),
    _OPERATOR: (
        "GET /organization/{}/platformTemplate",
        "POST /organization/{}/platformTemplate/{}/{}/component/{}/resolve",
        "GET /organization/{}/cluster/{}/installationHelmValues",
        "GET /organization/{}/cluster/{}/platformBinding",
        "PUT /organization/{}/cluster/{}/platformBinding",
        "POST /organization/{}/cluster/{}/platformBinding/component/{}/resolve",
        "POST /organization/{}/cluster/{}/operator/attach",
        "GET /organization/{}/cluster/{}/operator/bootstrap",
        "GET /organization/{}/cluster/{}/operator/status",
        "POST /organization/{}/cluster/{}/operator/update",
        "GET /admin/operator/clusters",
    ),
    _MANAGERS: (
        "GET /secretManagerAccess/{}/secrets",
        "GET /secretManagerAccess/{}/associatedServices",
    ),
    _GITHUB_APP: (
        "POST /organization/{}/github/connect",
        "DELETE /organization/{}/github/disconnect",
    ),
    _LINKS: ("DELETE /database/{}/application/{}",),
    _ACCEPTING: ("POST /organization/{}/inviteMember/{}",),
    _ADDRESSES: ("GET /ips",),
    _UPGRADES: ("POST /cluster/{}/upgrade",),
    _KUBECONFIGS: (
        "GET /organization/{}/cluster/{}/kubeconfig",
        "PUT /organization/{}/cluster/{}/kubeconfig",
    ),
    _STOPPED_MACHINES: ("POST /organization/{}/cluster/{}/stop",),
    _ROUTES: ("PUT /organization/{}/cluster/{}/routingTable",),
    _NAMES: ("GET /cluster/{}/dnsProvider", "PUT /cluster/{}/dnsProvider"),
    _MACHINES: (
        *(f"GET /{provider}/clusterFeature" for provider in ("aws", "azure", "gcp", "scaleway")),
        "GET /aws/instanceType",
        "GET /aws/eks/instanceType/{}",
        "GET /azure/aks/instanceType/{}",
        "GET /gcp/instanceType/{}",
        "GET /scaleway/instanceType",
        "GET /scaleway/instanceType/{}",
        "GET /aws/managedDatabase/type",
        "GET /aws/managedDatabase/instanceType/{}/{}",
        "GET /scaleway/managedDatabase/type",
        "GET /organization/{}/cluster/{}/eks-anywhere/commits",
        "PUT /organization/{}/cluster/{}/eks-anywhere/commit",
        "GET /organization/{}/cluster/{}/eks-anywhere/jwt",
        "PUT /organization/{}/cluster/{}/karpenterPrivateSubnetIds",
    ),
}
"""Operations by the reason why they are not offered. `{}` stands for any path segment."""


def _operation_pattern(operation: str) -> str:
    return re.escape(operation).replace(r"\{\}", "[^/]+")


_REFUSED: Final = [
    (reason, lazy_pattern("|".join(map(_operation_pattern, operations))))
    for reason, operations in NOT_OFFERED.items()
]


def why_not_offered(method: str, path: str) -> str:
    """Returns why Windlass does not offer an operation of the full interface; empty for other paths."""
    asked = f"{'GET' if method == 'HEAD' else method} {path}"
    return next((reason for reason, pattern in _REFUSED if pattern.fullmatch(asked)), "")
