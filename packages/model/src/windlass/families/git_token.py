"""A git token: lets Windlass read private repositories. It is encrypted and never returned."""

from typing import Annotated, Literal

from msgspec import Meta

from windlass.core.access import Scope
from windlass.core.declare.fields import (
    WITHOUT_EFFECT,
    Description,
    Line,
    Maybe,
    Name,
    Timestamp,
    absent,
    counts_users,
    example,
    follows,
    hidden,
    shaped,
)
from windlass.core.declare.resource import Family, Shown, Spec, clash
from windlass.core.declare.shapes import LIST_USERS
from windlass.core.words.audit import AuditWords
from windlass.families.organization import organization

Secret = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=4096,
        pattern=shaped(r"^[!-~]+\Z", "must be printable ASCII, without blanks"),
    ),
    hidden("has_token", sent_to=("type", "git_api_url")),
]
Address = Annotated[
    str,
    Meta(
        max_length=2048,
        pattern=shaped(r"^https?://[!-~]+\Z", "must be an address such as https://git.example.com"),
    ),
]
API_URLS = {
    "GITHUB": "https://api.github.com",
    "GITLAB": "https://gitlab.com/api/v4",
    "BITBUCKET": "https://api.bitbucket.org/2.0",
}


class GitToken(Spec):
    name: Annotated[Name, example("shop on GitHub")]
    description: Annotated[Description, example("Reads the private repositories of the shop")] = ""
    type: Annotated[
        Literal["GITHUB", "GITLAB", "BITBUCKET"], Meta(description="Kind of git server", examples=["GITHUB"])
    ]
    token: Annotated[
        Secret, example("ghp_EXAMPLE"), Meta(description="The token of the git server. Never answered")
    ]
    workspace: Annotated[Maybe[Line], WITHOUT_EFFECT] = absent
    git_api_url: Maybe[
        Annotated[
            Address,
            follows("type"),
            example("https://api.github.com"),
            Meta(
                description="Address of the API of the git server. The token is sent to this host only. "
                "Without it, the usual address of the type"
            ),
        ]
    ] = absent


class GitTokenShown(Shown):
    git_api_url: Annotated[str, example("https://api.github.com")]
    expired_at: Maybe[Timestamp] = absent
    associated_services_count: Annotated[int, counts_users()] = 0


def normalise(spec: GitToken) -> None:
    if spec.type == "BITBUCKET" and not spec.workspace:
        raise clash("workspace", "a BITBUCKET token needs the workspace that it is for")
    spec.git_api_url = spec.git_api_url or API_URLS[spec.type]


git_token = Family(
    "gitToken",
    GitToken,
    parent=organization,
    shown=GitTokenShown,
    group="Git repositories",
    nested=True,
    audit=AuditWords(sub_target="GIT_TOKEN", is_part=True),
    write_need=Scope.ADMIN,
    normalise=normalise,
    actions=(LIST_USERS,),
    about="The value is never in an answer. Applications name it as `git_repository.git_token_id`.",
)
