"""Pushes: the webhook of a service's repository, and what came of each push."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from windlass.core.declare.actions import delete, get, post
from windlass.core.declare.fields import Id, Maybe, Timestamp, absent, example, shown_once
from windlass.core.declare.registry import Actions
from windlass.core.declare.resource import Shown
from windlass.core.words.git_pushes import PushResult
from windlass.families.deployment_history import service

_Url = Annotated[
    str,
    Meta(description="Address that the git server sends pushes to; it begins with `public_url`"),
    example("https://windlass.example.com/git-webhook/0f9e8d7c6b5a49382716051423324150"),
]


class GitWebhook(Shown):
    """The webhook of a repository. All services that are built from it share it."""

    repository: Annotated[str, Meta(description="Host and path"), example("github.com/acme/shop")]
    url: Annotated[Maybe[_Url], Meta(description="Missing until the webhook is made")] = absent
    events: Annotated[
        list[str],
        Meta(description="Events to choose; the last two are for previews"),
        example(["push", "pull_request", "issue_comment"]),
    ]
    content_type: Annotated[str, Meta(description="Form of the deliveries")] = "application/json"
    warning: Annotated[
        Maybe[str],
        Meta(description="Why the git server may not reach the address"),
        example("Set public_url: http://127.0.0.1:8080 is an address of this machine alone"),
    ] = absent
    created_at: Maybe[Timestamp] = absent


class NewGitWebhook(GitWebhook):
    """The webhook of a repository, with its new secret."""

    secret: Annotated[
        str,
        Meta(description="Key of the signatures, or at GitLab the secret token"),
        shown_once(),
        example("4Kq0wXcX2yqRk1f0cSg5n9m6l8b7v3u2t1s0r9q8p7o"),
    ] = ""


class GitPush(Shown):
    """A push, and what was done after it."""

    id: Id
    arrived_at: Timestamp
    found_by: Annotated[
        Literal["WEBHOOK", "LOOKING"],
        Meta(description="LOOKING: no webhook came, and the commit was found by looking at the branch"),
        example("WEBHOOK"),
    ]
    event: Annotated[str, Meta(description="The event of the git server"), example("push")] = ""
    branch: Annotated[str, example("main")] = ""
    commit_id: Annotated[str, example("9f2c4e1b7a60d3588ec1f0a94b7d62e35c81fa07")] = ""
    result: Annotated[str, Meta(description=f"One of {', '.join(PushResult)}"), example("DEPLOYED")]
    message: Annotated[
        str, Meta(description="What was done, or why nothing was"), example("The commit is deployed")
    ]
    times: Annotated[int, Meta(description="Deliveries that this entry stands for")] = 1


_ADDRESS = (
    "The git server sends each push to this address, and Windlass looks at the branches at once. Without it, "
    "they are looked at every `auto_deploy_seconds`."
)

of_services = Actions(
    service,
    "Git repositories",
    (
        get(
            "gitWebhook",
            GitWebhook,
            "Read the webhook of the repository",
            _ADDRESS,
            id="getGitWebhook",
            also=(409,),
        ),
        post(
            "renewGitWebhook",
            NewGitWebhook,
            "Make the webhook of the repository, with a new secret",
            f"{_ADDRESS} The secret is shown once; a former one ends, for all services of the repository. "
            "Enter both at the git server.",
            suffix="/gitWebhook",
            id="renewGitWebhook",
        ),
        delete(
            "removeGitWebhook",
            "Remove the webhook of the repository",
            "Its address ends, for all services of the repository. Branches are still looked at.",
            suffix="/gitWebhook",
            id="removeGitWebhook",
        ),
        get(
            "gitPush",
            list[GitPush],
            "List the newest pushes",
            "Newest first, at most 100. Also deliveries to the webhook of the repository that are no push.",
            id="listGitPushes",
            paged=False,
        ),
    ),
)
