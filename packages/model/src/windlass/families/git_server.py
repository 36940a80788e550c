"""Git servers as a git token sees them: repositories and branches, and the webhook of a repository."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from windlass.core.declare.actions import Action, get, post
from windlass.core.declare.fields import Id, Maybe, absent, example
from windlass.core.declare.queries import PageOfWhole
from windlass.core.declare.registry import Actions, StandaloneOperation
from windlass.core.declare.resource import Shown
from windlass.core.declare.shapes import GitProvider
from windlass.families.deployment_history import service
from windlass.families.organization import organization

_OPERATION_GROUP = "Git repositories"
_TokenId = Annotated[
    Id,
    Meta(description="Git token that the git server is asked with; the list is empty without it"),
]
_RepositoryName = Annotated[
    str,
    Meta(
        max_length=400,
        description="Name of the repository, with its owner; the list is empty without it",
        examples=["acme/shop"],
    ),
]


class GitAuthProvider(Shown):
    """A git server that can be asked for repositories."""

    id: Annotated[Maybe[str], Meta(description="Id of the git token")] = absent
    name: Annotated[str, Meta(description="Kind of git server"), example("GITHUB")]
    owner: Annotated[str, Meta(description="Workspace or name of the git token"), example("shop on GitHub")]
    use_bot: bool = False


class RepositoryAtServer(Shown):
    """A repository at a git server."""

    id: Annotated[str, Meta(description="Id at the git server"), example("1296269")]
    name: Annotated[str, Meta(description="With its owner"), example("acme/shop")]
    url: Annotated[str, example("https://github.com/acme/shop.git")]
    default_branch: Annotated[Maybe[str], example("main")] = absent
    is_private: Maybe[bool] = absent


class BranchAtServer(Shown):
    """A branch of a repository at a git server."""

    name: Annotated[str, example("main")]


class RepositoriesQuery(PageOfWhole):
    gitTokenId: Maybe[_TokenId] = absent


class BranchesQuery(PageOfWhole):
    name: _RepositoryName = ""
    gitTokenId: Maybe[_TokenId] = absent


class OwnBranchesQuery(PageOfWhole):
    name: _RepositoryName = ""


class GitWebhookStatus(Shown):
    """Whether the git server sends pushes."""

    status: Annotated[
        Literal["ACTIVE", "NOT_CONFIGURED", "MISCONFIGURED", "UNABLE_TO_VERIFY"],
        Meta(
            description="MISCONFIGURED: it is switched off, lacks events, or has a former address. "
            "UNABLE_TO_VERIFY: the git server cannot be asked with the git token of the service"
        ),
        example("ACTIVE"),
    ]
    provider: Annotated[GitProvider, Meta(description="GITHUB also for Gitea and Forgejo"), example("GITHUB")]
    missing_events: Annotated[
        Maybe[list[str]],
        Meta(
            description="Those of push, pull_request and issue_comment that are needed and not sent. The "
            "last two are needed where the environment has previews on"
        ),
    ] = absent
    message: Annotated[Maybe[str], Meta(description="What to do, if something is left to do")] = absent


_ABOUT_LISTS = (
    "Those that the git token sees, at most 5,000. 409 with the reason if the git server cannot be asked, "
    "and 503 while it allows no more requests."
)
_LINKED_DESCRIPTION = (
    "Always empty: people link no accounts of git servers. Ask with a git token of the organization."
)


def _organization_actions(kind: str, name: str) -> tuple[Action, ...]:
    return (
        get(
            f"{kind}Repositories",
            list[RepositoryAtServer],
            f"List repositories at {name}",
            f"{_ABOUT_LISTS}{' For Gitea and Forgejo, too.' if kind == 'github' else ''}",
            suffix=f"/account/{kind}/repository",
            id=f"listOrganization{name}Repositories",
            query=RepositoriesQuery,
            paged=False,
            outside=True,
            also=(409, 503),
        ),
        get(
            f"{kind}Branches",
            list[BranchAtServer],
            f"List the branches of a repository at {name}",
            _ABOUT_LISTS,
            suffix=f"/account/{kind}/repository/branch",
            id=f"listOrganization{name}Branches",
            query=BranchesQuery,
            paged=False,
            outside=True,
            also=(409, 503),
        ),
    )


def _account_operations(kind: str, name: str) -> tuple[StandaloneOperation, StandaloneOperation]:
    return (
        StandaloneOperation(
            path=f"/account/{kind}/repository",
            group=_OPERATION_GROUP,
            action=get(
                f"list{name}Repositories",
                list[RepositoryAtServer],
                f"List repositories of one's own account at {name}",
                _LINKED_DESCRIPTION,
                paged=False,
            ),
        ),
        StandaloneOperation(
            path=f"/account/{kind}/repository/branch",
            group=_OPERATION_GROUP,
            action=get(
                f"list{name}Branches",
                list[BranchAtServer],
                f"List branches of one's own repository at {name}",
                _LINKED_DESCRIPTION,
                query=OwnBranchesQuery,
                paged=False,
            ),
        ),
    )


of_organizations = Actions(
    organization,
    _OPERATION_GROUP,
    (
        get(
            "gitAuthProviders",
            list[GitAuthProvider],
            "List the git servers that can be asked for repositories",
            "One for each git token that the caller may read.",
            suffix="/account/gitAuthProvider",
            id="listOrganizationGitAuthProviders",
            paged=False,
        ),
        *_organization_actions("github", "Github"),
        *_organization_actions("gitlab", "Gitlab"),
        *_organization_actions("bitbucket", "Bitbucket"),
    ),
)

own_providers = StandaloneOperation(
    path="/account/gitAuthProvider",
    group=_OPERATION_GROUP,
    action=get(
        "listGitAuthProviders",
        list[GitAuthProvider],
        "List linked accounts of git servers",
        _LINKED_DESCRIPTION,
        paged=False,
    ),
)
own_github, own_github_branches = _account_operations("github", "Github")
own_gitlab, own_gitlab_branches = _account_operations("gitlab", "Gitlab")
own_bitbucket, own_bitbucket_branches = _account_operations("bitbucket", "Bitbucket")

of_services = Actions(
    service,
    _OPERATION_GROUP,
    (
        get(
            "gitWebhookStatus",
            GitWebhookStatus,
            "Read whether the git server sends pushes",
            "Asks the git server with the git token of the service. Without one, a webhook is ACTIVE once a "
            "signed delivery has come.",
            id="getServiceGitWebhookStatus",
            outside=True,
            also=(409,),
        ),
        post(
            "gitWebhookSync",
            GitWebhookStatus,
            "Set up or repair the webhook at the git server",
            "With the git token of the service, which needs the right to manage webhooks of the repository. "
            "422 if it lacks it, or the git server refuses the address. Without a git token, or if the git "
            "server does not answer, `message` says what to do.",
            suffix="/gitWebhook/sync",
            id="syncServiceGitWebhook",
            outside=True,
            also=(409, 422),
        ),
    ),
)
