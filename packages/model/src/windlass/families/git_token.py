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
    left_out_of_examples,
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
        pattern=shaped(
            r"^([!-~]+|-----BEGIN [A-Z ]*PRIVATE KEY-----[ -~\r\n]+)\Z",
            "must be printable ASCII, without blanks, or a private key in PEM form",
        ),
    ),
    hidden("has_token", sent_to=("type", "git_api_url", "github_app_id", "github_installation_id")),
]
_KEY_BEGINNING = "-----BEGIN"
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
        Secret,
        example("ghp_EXAMPLE"),
        Meta(description="The token of the git server; for a GitHub App, its private key. Never answered"),
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

    github_app_id: Maybe[
        Annotated[
            str,
            Meta(
                max_length=64,
                pattern=shaped(r"^[A-Za-z0-9._-]+\Z", "must be the App ID or Client ID of the app"),
                description="App ID or Client ID of a GitHub App, in whose name Windlass acts. `token` is "
                "then a private key of the app",
            ),
            example("1234567"),
            left_out_of_examples(),
        ]
    ] = absent
    github_installation_id: Maybe[
        Annotated[
            str,
            Meta(
                max_length=20,
                pattern=shaped(r"^[0-9]+\Z", "must be a number"),
                description="The installation of this app: the number at the end of the address of its page",
            ),
            example("45678901"),
            left_out_of_examples(),
        ]
    ] = absent


class GitTokenShown(Shown):
    git_api_url: Annotated[str, example("https://api.github.com")]
    expired_at: Maybe[Timestamp] = absent
    associated_services_count: Annotated[int, counts_users()] = 0


def normalise(spec: GitToken) -> None:
    if spec.type == "BITBUCKET" and not spec.workspace:
        raise clash("workspace", "a BITBUCKET token needs the workspace that it is for")
    if bool(spec.github_app_id) != bool(spec.github_installation_id):
        name = "github_installation_id" if spec.github_app_id else "github_app_id"
        raise clash(name, "a GitHub App needs both, github_app_id and github_installation_id")
    if spec.github_app_id and spec.type != "GITHUB":
        raise clash("github_app_id", "only a git token of type GITHUB may be that of a GitHub App")
    if bool(spec.github_app_id) != spec.token.startswith(_KEY_BEGINNING):
        raise clash(
            "token",
            "must be a private key of the app, beginning with -----BEGIN, if github_app_id is set"
            if spec.github_app_id
            else "is a private key: set github_app_id and github_installation_id as well",
        )
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
