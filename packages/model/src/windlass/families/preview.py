"""A preview: an environment of its own for a pull request, a branch or a tag of an image, copied from another
environment."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from windlass.core.access import Scope
from windlass.core.declare.actions import Itself, post
from windlass.core.declare.fields import (
    Id,
    Maybe,
    Timestamp,
    absent,
    example,
    fixed,
    id_of_subject,
    left_out_of_examples,
    shaped,
    usual_choice,
    visible,
)
from windlass.core.declare.registry import Actions
from windlass.core.declare.resource import ALL_VERBS, Family, Owner, Shown, Spec, Verb, clash
from windlass.core.declare.shapes import Branch
from windlass.core.declare.traits import Status
from windlass.families.container import ImageName, ImageToDeploy, Tag, check_image_name
from windlass.families.environment import environment
from windlass.families.organization import organization


class Preview(Spec):
    """Previews: copies of an environment, each for a pull request, a branch or a tag of an image."""

    branch: Annotated[
        Maybe[Branch],
        fixed(),
        usual_choice(),
        Meta(description="Branch of the repositories of the environment"),
        example("colours"),
    ] = absent
    pull_request: Annotated[
        Maybe[Annotated[int, Meta(ge=1, le=2**31 - 1)]],
        fixed(),
        Meta(description="Number of an open pull request at the git server"),
    ] = absent
    image_name: Annotated[
        Maybe[ImageName],
        fixed(),
        left_out_of_examples(),
        Meta(description="Image of containers of the environment; with `image_tag`"),
    ] = absent
    image_tag: Annotated[
        Maybe[Tag],
        fixed(),
        left_out_of_examples(),
        Meta(description="Tag of the image in the preview; with `image_name`"),
    ] = absent


class PreviewEvent(Shown):
    """What happened to a preview, and why."""

    at: Timestamp
    message: Annotated[str, example("Commit 9f2c4e1b7a60 is deployed")]


class PreviewShown(Shown):
    environment: Owner
    name: Annotated[str, Meta(description="Name of its environment"), example("production-pr-12")]
    state: Annotated[
        Literal[
            "PLANNED",
            "WAITING_FOR_APPROVAL",
            "WAITING_FOR_ROOM",
            "DEPLOYING",
            "RUNNING",
            "FAILED",
            "STOPPED",
            "ENDED",
        ],
        Meta(
            description="WAITING_FOR_APPROVAL: it comes from a fork. WAITING_FOR_ROOM: the project has as "
            "many previews as it may have"
        ),
    ] = "PLANNED"
    preview_environment_id: Annotated[Maybe[Id], Meta(description="Its environment, once it is there")] = (
        absent
    )
    repository: Annotated[
        str, Meta(description="Host and path of the repository; empty for a branch of all of them")
    ] = ""
    title: str = ""
    url: Annotated[str, Meta(description="Address of the pull request")] = ""
    author: str = ""
    head_branch: Annotated[str, example("colours")] = ""
    target_branch: Annotated[str, Meta(description="Branch into which it is to be merged")] = ""
    is_open: Annotated[bool, Meta(description="False once the pull request is closed or merged")] = True
    commit_id: Annotated[str, Meta(description="Newest commit of the pull request")] = ""
    deployed_commit_id: str = ""
    deployed_image_tag: Annotated[str, Meta(description="The tag, once it is deployed")] = ""
    is_fork: Annotated[bool, Meta(description="A fork gets no secrets, and only after approval")] = False
    source_url: Annotated[
        str, Meta(description="Address of the fork, where the repository does not have its commits")
    ] = ""
    approved_commit_id: Annotated[str, Meta(description="The one commit that a member has approved")] = ""
    missing_secrets: Annotated[
        list[str], Meta(description="Keys of the secrets that a preview of a fork does not have"), example([])
    ] = []
    address: Annotated[str, Meta(description="Address of its first service that is public")] = ""
    active_at: Annotated[Maybe[Timestamp], Meta(description="When its newest commit came")] = absent
    ends_at: Annotated[
        Maybe[Timestamp], Meta(description="When it is deleted, unless a commit comes before")
    ] = absent
    comment_id: Annotated[str, Meta(description="The comment at the pull request; empty without one")] = ""
    told: Annotated[str, Meta(description="What the comment was last written for")] = ""
    problem: Annotated[str, Meta(description="Why the git server was not told, with what to do")] = ""
    events: Annotated[
        list[PreviewEvent], Meta(description="What happened, newest last; the last 20"), example([])
    ] = []


class TagPreview(Shown):
    """A preview of a tag that was begun, or is deployed again."""

    id: Id
    environment_id: Annotated[Id, Meta(description="The environment of which it is a preview")]
    name: Annotated[str, Meta(description="Name of its own environment"), example("production-shop-pr-12")]


class TagPreviews(Status):
    """The previews of an image tag in an organization, with the id of the organization."""

    id: Annotated[Id, id_of_subject()]
    previews: list[TagPreview] = []


class Approval(Spec):
    commit_id: Annotated[
        str,
        Meta(
            min_length=7,
            max_length=64,
            pattern=shaped(r"^[0-9a-f]+\Z", "must be the id of a commit, in hexadecimal digits"),
            description="The whole id of the commit that was looked at; 409 if it is not the newest",
        ),
        example("9f2c4e1b7a60d3588ec1f0a94b7d62e35c81fa07"),
    ]


def normalise(spec: Preview) -> None:
    if [bool(spec.branch), bool(spec.pull_request), bool(spec.image_tag)].count(True) != 1:
        raise clash("branch", "name either a branch, the number of a pull request, or a tag of an image")
    if bool(spec.image_name) != bool(spec.image_tag):
        missing = "image_tag" if spec.image_name else "image_name"
        raise clash(missing, "is required with the other: a preview is of one tag of one image")
    if spec.image_name:
        check_image_name("image_name", spec.image_name)
    if spec.branch:
        spec.branch = visible(spec.branch)


preview = Family(
    "preview",
    Preview,
    parent=environment,
    shown=PreviewShown,
    normalise=normalise,
    names=None,
    write_need=Scope.ADMIN,
    verbs=ALL_VERBS - {Verb.UPDATE, Verb.PATCH},
    actions=(
        post(
            "approve",
            Itself,
            "Approve a commit of a fork",
            "The approval is for this commit alone: a later one needs another. 409 if it is not the newest, "
            "or nothing waits for an approval.",
            need=Scope.ADMIN,
            body=Approval,
            status=200,
            also=(409,),
        ),
    ),
    about="A copy of the environment with names, variables and databases of its own. Its deletion deletes "
    "the copy.",
)

of_tags = Actions(
    organization,
    "Containers",
    (
        post(
            "containerPreview",
            TagPreviews,
            "Preview a new tag everywhere",
            "Makes a preview of each environment that has previews on, and a container with this image, "
            "`auto_preview` and another tag. If the tag has a preview there, it is deployed again. 403 "
            "without the scopes Write and Deploy for the projects of these environments.",
            id="previewContainers",
            suffix="/container/preview",
            body=ImageToDeploy,
            need=Scope.DEPLOY,
            also=(409,),
        ),
    ),
)
