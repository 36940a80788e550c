"""Members and invitations: the people of an organization, who sign in with a password or at a provider."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from windlass.core.access import ROLE_IDS, Scope
from windlass.core.declare.actions import delete, post, put
from windlass.core.declare.fields import (
    BLANK_RANGES,
    CONTROL_RANGES,
    Id,
    Maybe,
    Timestamp,
    absent,
    example,
    shaped,
    shown_once,
)
from windlass.core.declare.registry import Actions
from windlass.core.declare.resource import Family, Shown, Spec, Verb
from windlass.core.words.audit import AuditWords
from windlass.families.api_token import RoleId
from windlass.families.organization import organization

_ADDRESS_PART_PATTERN = f"[^@{CONTROL_RANGES}{BLANK_RANGES}]+"
Email = Annotated[
    str,
    Meta(
        min_length=3,
        max_length=254,
        pattern=shaped(
            rf"^({_ADDRESS_PART_PATTERN}@{_ADDRESS_PART_PATTERN})\Z",
            "must be an address such as ada@example.com",
        ),
        description="Address with which the person signs in",
    ),
]
_OLD_ROLES = {"OWNER": Scope.ADMIN, "ADMIN": Scope.ADMIN, "DEVELOPER": Scope.WRITE, "VIEWER": Scope.READ}


class Member(Spec):
    """A member: a person of the organization, who signs in with a password or at a provider."""

    email: Annotated[str, example("ada@example.com")]
    role_id: Annotated[RoleId, example(ROLE_IDS[Scope.DEPLOY])]
    name: Annotated[str, example("Ada Lovelace")] = ""


class MemberShown(Shown):
    nickname: str = ""
    role: Annotated[str, example("DEVELOPER")]
    role_name: Annotated[str, example(Scope.DEPLOY.word)]
    last_activity_at: Maybe[Timestamp] = absent


MemberId = Annotated[Id, Meta(description="Id of the member")]


class MemberRoleUpdate(Spec):
    user_id: MemberId
    role_id: Annotated[RoleId, example(ROLE_IDS[Scope.DEPLOY])]


class MemberRemoval(Spec):
    user_id: MemberId


class MemberReset(Spec):
    user_id: MemberId


class PasswordLinkShown(Struct):
    """A link with which a person chooses a password. It works once."""

    url: Annotated[
        str,
        Meta(description="Shown only in this answer"),
        shown_once(),
        example("https://windlass.example.com/console/#password=EXAMPLE"),
    ]
    expires_at: Timestamp


class OwnershipTransfer(Spec):
    user_id: MemberId


class Invitation(Spec):
    """An invitation: the person with its address becomes a member."""

    email: Annotated[Email, example("grace@example.com")]
    role_id: Annotated[Maybe[RoleId], example(ROLE_IDS[Scope.DEPLOY])] = absent
    role: Maybe[
        Annotated[
            Literal["ADMIN", "DEVELOPER", "OWNER", "VIEWER"],
            Meta(description="Older form of role_id"),
        ]
    ] = absent


class InvitationShown(Shown):
    role_id: Annotated[Id, example(ROLE_IDS[Scope.DEPLOY])]
    role: Annotated[str, example("DEVELOPER")]
    role_name: Annotated[str, example(Scope.DEPLOY.word)]
    invitation_link: Annotated[str, example("https://windlass.example.com/console")]
    invitation_status: Annotated[Literal["EXPIRED", "PENDING"], example("PENDING")]
    inviter: Annotated[str, example("ada@example.com")]
    organization_name: Annotated[str, example("Acme")]


def normalise(spec: Invitation) -> None:
    """Accepts `role`, the older form of `role_id`. By default, the invited person may only read."""
    if not spec.role_id:
        spec.role_id = ROLE_IDS[_OLD_ROLES[spec.role] if spec.role else Scope.READ]


def old_role(scope: Scope) -> str:
    return {Scope.ADMIN: "ADMIN", Scope.READ: "VIEWER"}.get(scope, "DEVELOPER")


_change = put(
    "changeRole",
    None,
    "Change the role of a member",
    id="editOrganizationMemberRole",
    suffix="",
    on_collection=True,
    need=Scope.ADMIN,
    body=MemberRoleUpdate,
)
_remove = delete(
    "remove", "Remove a member", id="deleteMember", suffix="", on_collection=True, body=MemberRemoval
)
_reset = post(
    "createPasswordReset",
    PasswordLinkShown,
    "Create a link to choose a new password",
    "The member chooses a new password with it within an hour, and is signed out everywhere. Who has the "
    "link can sign in as the member: the caller must be an Admin of all organizations of the member.",
    id="createPasswordResetLink",
    suffix="/passwordReset",
    on_collection=True,
    need=Scope.ADMIN,
    status=201,
    body=MemberReset,
)
_reset_factor = post(
    "resetSecondFactor",
    None,
    "Remove the second factor of a member",
    "For a member who has lost the authenticator app and the recovery codes. The caller must be an Admin "
    "of all organizations of the member.",
    id="resetSecondFactor",
    suffix="/secondFactorReset",
    on_collection=True,
    need=Scope.ADMIN,
    status=204,
    body=MemberReset,
)
_link = post(
    "createLink",
    PasswordLinkShown,
    "Create another link for an invitation",
    "The invited person chooses a password with it within seven days. The former link ends.",
    id="createInvitationLink",
    suffix="/link",
    need=Scope.ADMIN,
    status=201,
)
_PEOPLE_GROUP = "MEMBERS_AND_ROLES"

ownership = Actions(
    organization,
    "Members",
    (
        post(
            "transferOwnership",
            None,
            "Make a member the owner",
            "The member becomes an Admin, and is shown as `owner` of the organization. The owner has the "
            "rights of an Admin, and no others.",
            id="transferOrganizationOwnership",
            need=Scope.ADMIN,
            status=204,
            body=OwnershipTransfer,
        ),
    ),
)

member = Family(
    "member",
    Member,
    parent=organization,
    shown=MemberShown,
    title="OrganizationMember",
    group="Members",
    nested=True,
    names="email",
    audit=AuditWords(target=_PEOPLE_GROUP),
    verbs=frozenset({Verb.LIST}),
    actions=(_change, _remove, _reset, _reset_factor),
)

invitation = Family(
    "inviteMember",
    Invitation,
    parent=organization,
    shown=InvitationShown,
    group="Members",
    param="invite_id",
    nested=True,
    audit=AuditWords(target=_PEOPLE_GROUP, sub_target="INVITATION"),
    names="email",
    write_need=Scope.ADMIN,
    verbs=frozenset({Verb.LIST, Verb.CREATE, Verb.READ, Verb.DELETE}),
    actions=(_link,),
    normalise=normalise,
    about="A person who opens the link of the invitation and chooses a password, or who signs in at a "
    "provider with this address, verified by it, becomes a member with this role. The answer to the creation "
    "has the link with its code, which works once, within seven days.",
)
