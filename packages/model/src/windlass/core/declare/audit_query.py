"""Declares the query parameters and answers of an organization's audit."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from windlass.core.declare.actions import get
from windlass.core.declare.fields import Id, Line, Maybe, Timestamp, absent, example, shaped
from windlass.core.declare.resource import Shown, Spec
from windlass.core.words.audit import EVENT_TYPES, ORIGINS, SUB_TARGETS, TARGET_TYPES, WORDS

T = TypeVar("T")
Given: TypeAlias = T | UnsetType

Since = Annotated[
    str,
    Meta(
        pattern=shaped(
            r"^([0-9]{1,19}|[12][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
            r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,3})?Z)?\Z",
            "must be a time such as 2026-01-31T09:05:00.007Z",
        ),
        description="A timestamp as it is answered; or seconds, milli-, micro- or nanoseconds since 1970",
        examples=["2026-01-31T09:05:00.007Z"],
    ),
]
Token = Annotated[
    str,
    Meta(
        pattern=shaped(r"^([0-9]{1,18})?\Z", "must be a token from `links`"),
        description="From `links`: where to continue",
    ),
]
TypeWord = Annotated[
    Literal[*WORDS],  # type: ignore[valid-type]
    Meta(description="The kind of event; deployments have the words of webhooks"),
]
TargetWord = Annotated[
    Literal[*TARGET_TYPES],  # type: ignore[valid-type]
    Meta(description="Only what happened to things of this kind, or to what belongs to them"),
]
SubTargetWord = Annotated[
    Literal[*SUB_TARGETS],  # type: ignore[valid-type]
    Meta(description="Only what happened to this kind of thing that belongs to another"),
]
OriginWord = Annotated[
    Literal[*ORIGINS],  # type: ignore[valid-type]
    Meta(description="Only what was done with this client"),
]
TargetId = Annotated[Id, Meta(description="Only what happened to this, or to what belongs to it")]
InProject = Annotated[Id, Meta(description="Only what happened in this project")]
InEnvironment = Annotated[Id, Meta(description="Only what happened in this environment")]


class _Parameters(Spec):
    from_timestamp: Annotated[Since, Meta(description="Only what happened from this time on")] = (
        msgspec.field(default="", name="fromTimestamp")
    )
    to_timestamp: Annotated[Since, Meta(description="Only what happened up to this time")] = msgspec.field(
        default="", name="toTimestamp"
    )
    event_type: Given[TypeWord] = msgspec.field(default=UNSET, name="eventType")
    target_type: Given[TargetWord] = msgspec.field(default=UNSET, name="targetType")
    triggered_by: Annotated[Line, Meta(description="Name of the token, or address of the person")] = (
        msgspec.field(default="", name="triggeredBy")
    )
    origin: Given[OriginWord] = UNSET


class AuditParameters(_Parameters):
    page_size: Annotated[int, Meta(ge=1, le=1000, description="Number of events")] = msgspec.field(
        default=10, name="pageSize"
    )
    continue_token: Annotated[Token, Meta(description="From `links.next`: the older ones")] = msgspec.field(
        default="", name="continueToken"
    )
    step_back_token: Annotated[Token, Meta(description="From `links.previous`: the newer ones")] = (
        msgspec.field(default="", name="stepBackToken")
    )
    target_id: Given[TargetId] = msgspec.field(default=UNSET, name="targetId")
    sub_target_type: Given[SubTargetWord] = msgspec.field(default=UNSET, name="subTargetType")
    service_project_id: Given[InProject] = msgspec.field(default=UNSET, name="serviceProjectId")
    service_environment_id: Given[InEnvironment] = msgspec.field(default=UNSET, name="serviceEnvironmentId")


class TargetParameters(_Parameters):
    project_id: Given[InProject] = msgspec.field(default=UNSET, name="projectId")
    environment_id: Given[InEnvironment] = msgspec.field(default=UNSET, name="environmentId")
    target_level: Given[
        Annotated[
            Literal["PROJECT", "ENVIRONMENT"],
            Meta(description="The projects or environments of the events, instead of their subjects"),
        ]
    ] = msgspec.field(default=UNSET, name="targetLevelToFetch")


class OrganizationEvent(Shown):
    timestamp: Timestamp
    event_type: Annotated[
        str,
        Meta(
            description=f"One of {', '.join(EVENT_TYPES)}; or, of what these do not name, a word of our own"
        ),
        example("UPDATE"),
    ]
    target_type: Annotated[str, Meta(description=f"One of {', '.join(TARGET_TYPES)}"), example("APPLICATION")]
    target_name: Annotated[str, Meta(description="As it was called then"), example("COLOUR")]
    triggered_by: Annotated[
        str, Meta(description="Name of the token, or address of the person"), example("deployments from CI")
    ]
    address: Annotated[
        str,
        Meta(description="Address of the client; empty for actions of Windlass itself"),
        example("203.0.113.7"),
    ] = ""
    origin: Annotated[str, Meta(description=f"One of {', '.join(ORIGINS)}"), example("CLI")]
    project_name: Annotated[str, example("shop")] = ""
    environment_name: Annotated[str, example("production")] = ""
    sub_target_type: Maybe[
        Annotated[str, Meta(description=f"One of {', '.join(SUB_TARGETS)}"), example("VARIABLE")]
    ] = absent
    number: Annotated[
        int, Meta(description="Its place in the chain of all events of the installation"), example(1482)
    ]
    hash: Annotated[
        str,
        Meta(description="Over the event and the hash before it; empty from before the chain began"),
        example("9b1fca6ba5d0a0b1b7b0f3a2a1d4f0c6cf3f0a4e5e3b9d7a6c8e2f1d0b4a3c29"),
    ]
    id: Id
    target_id: (
        Annotated[
            Id,
            Meta(description="The subject that people look for: of a variable, the level at which it is set"),
        ]
        | None
    )
    project_id: Id | None = None
    environment_id: Id | None = None
    user_agent: Annotated[str | None, example("CLI 1.0.4")] = None
    request_id: Annotated[str, example("5f0c2a9be41d7783")] = ""
    change: Annotated[
        str,
        Meta(description="JSON: the resource after the change, or details of the event"),
        example('{"key":"COLOUR","value":"red"}'),
    ]
    original_change: Annotated[
        str | None,
        Meta(description="JSON: the resource before the change"),
        example('{"key":"COLOUR","value":"blue"}'),
    ] = None


class EventLinks(Shown):
    previous: Annotated[
        Maybe[str], example("https://windlass.example.com/organization/…/events?stepBackToken=1482")
    ] = absent
    next: Annotated[
        Maybe[str], example("https://windlass.example.com/organization/…/events?continueToken=1473")
    ] = absent


class OrganizationEvents(Shown):
    links: EventLinks
    organization_max_limit_reached: Annotated[
        bool, Meta(description="True if older events were deleted because of their age")
    ]
    events: list[OrganizationEvent]


class EventTarget(Shown):
    name: Annotated[str, example("web")]
    id: Id


class EventTargets(Shown):
    targets: list[EventTarget]


_EVENTS_DESCRIPTION: Final = (
    "Newest first. `links.next` leads to the older ones, `links.previous` to the newer ones. A token "
    "that is limited to parts of the organization sees what happened there."
)

events = get(
    "events",
    OrganizationEvents,
    "Query the audit",
    _EVENTS_DESCRIPTION,
    id="getOrganizationEvents",
    query=AuditParameters,
)
targets = get(
    "targets",
    EventTargets,
    "List the resources that the audit is about",
    "By name; out of the newest 50,000 events that fit.",
    id="getOrganizationEventTargets",
    query=TargetParameters,
)
