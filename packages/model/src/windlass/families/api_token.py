"""An API token: gives a program access, optionally for a limited time or to selected resources only."""

from typing import Annotated, Literal

from msgspec import Meta, field

from windlass.core.access import ROLE_IDS, SCOPE_MEANINGS, SCOPE_WORDS, Scope, scopes_of, words_of
from windlass.core.declare.fields import (
    SERVICE_OR_ABOVE,
    Description,
    Id,
    Line,
    Maybe,
    Name,
    Positive,
    Timestamp,
    absent,
    example,
    fixed,
    shaped,
    shown_once,
    takes_names,
)
from windlass.core.declare.registry import Paging
from windlass.core.declare.resource import Family, Shown, Spec, clash
from windlass.core.words.audit import AuditWords
from windlass.families.organization import organization

# Scope names are case-insensitive. The pattern is used both by the OpenAPI document and by validation.
ScopeWord = Annotated[
    str,
    Meta(
        pattern=shaped(
            "^("
            + "|".join("".join(f"[{c.upper()}{c.lower()}]" for c in word) for word in SCOPE_WORDS)
            + r")\Z",
            f"must be one of {', '.join(SCOPE_WORDS)}",
        ),
        description="; ".join(f"{scope.word}: {meaning}" for scope, meaning in SCOPE_MEANINGS.items()),
        examples=["Deploy"],
        extra_json_schema={"x-words": {scope.word: meaning for scope, meaning in SCOPE_MEANINGS.items()}},
    ),
]
RoleId = Annotated[
    str,
    Meta(
        pattern=shaped(
            "^(" + "|".join(ROLE_IDS.values()) + r")\Z", "must be the id of a role, from availableRole"
        ),
        description="Id of a role",
    ),
]


class ApiToken(Spec):
    name: Annotated[Name, example("deployments from CI")]
    description: Annotated[Description | None, example("Used by the pipeline of the shop")] = ""
    scopes: Annotated[
        Maybe[Annotated[list[ScopeWord], Meta(min_length=1, max_length=16), fixed()]],
        example([Scope.DEPLOY.word]),
    ] = absent
    role_id: Maybe[Annotated[RoleId, fixed()]] = absent
    scope: Maybe[Annotated[Literal["ADMIN"], fixed(), Meta(description="Deprecated: use scopes")]] = absent
    expires_at: Annotated[Annotated[Timestamp, fixed()] | None, example("2027-01-31T00:00:00.000Z")] = None
    limited_to: Maybe[
        Annotated[
            list[Annotated[Id, takes_names(SERVICE_OR_ABOVE)]],
            Meta(
                min_length=1,
                max_length=1000,
                description="Ids of projects, environments or services; for this token, nothing else exists",
            ),
            fixed(),
        ]
    ] = absent
    rate_limit: (
        Annotated[Positive, Meta(description="Requests per hour, instead of the server's default")] | None
    ) = None


class ApiTokenShown(Shown):
    description: Annotated[Description, example("Used by the pipeline of the shop")] = ""
    scopes: Annotated[list[str], example([Scope.DEPLOY.word])]
    role_id: Annotated[Id, example(ROLE_IDS[Scope.DEPLOY])]
    role_name: Annotated[str, example(Scope.DEPLOY.word)]
    limited_to: list[Id] | None = None
    last_used_at: Timestamp | None = None
    creator_name: str = ""
    token: Annotated[
        str,
        Meta(description="Shown only in this answer"),
        shown_once(),
        example("wdl_EXAMPLE-of-a-token-that-is-shown-only-once"),
    ]


class ApiTokenListQuery(Paging):
    """Selects API tokens. Case does not matter."""

    name: Annotated[Maybe[Line], Meta(description="Only the one with this name")] = absent
    creator_name: Annotated[
        Maybe[Line], Meta(description="Only those that this person or token has created")
    ] = field(default=absent, name="creatorName")


def normalise(spec: ApiToken) -> None:
    """Converts roles, scopes and the deprecated `scope` to scopes. By default, the token may only read."""
    spec.description = spec.description or ""
    scopes = scopes_of(spec.scopes or ())
    roles = {id: scope for scope, id in ROLE_IDS.items()}
    role = roles[spec.role_id] if spec.role_id else Scope(0)
    if scopes and role and role not in scopes:
        raise clash("role_id", "differs from scopes: send one of them")
    old = Scope.ADMIN if spec.scope else Scope(0)
    spec.scopes = words_of(scopes or role or old or Scope.READ)


api_token = Family(
    "apiToken",
    ApiToken,
    parent=organization,
    shown=ApiTokenShown,
    title="OrganizationApiToken",
    group="API Tokens",
    nested=True,
    list_query=ApiTokenListQuery,
    audit=AuditWords(sub_target="API_TOKEN", is_part=True),
    write_need=Scope.ADMIN,
    normalise=normalise,
    about="`token` is shown only in this answer. Scopes, expiry and limits cannot be changed.",
)
