"""Rollbacks of services and environments: requests, and the differences that are shown beforehand."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from windlass.base import ids
from windlass.core.declare.fields import Id, Maybe, absent, example, id_of_subject, shaped
from windlass.core.declare.queries import Moment
from windlass.core.declare.resource import Shown
from windlass.core.declare.spec import Spec

_ID_OR_VERSION: Final = rf"^({ids.PATTERN[1:-2]}|v[1-9][0-9]{{0,8}})\Z"
"""Matches the id of a deployment, or its version as lists and messages show it, such as v3."""

EarlierDeployment = Annotated[
    Maybe[
        Annotated[
            str,
            Meta(
                pattern=shaped(
                    _ID_OR_VERSION,
                    "must be a version such as v3, or an id such as 6f1c1f0a-5c53-4b8e-9d43-6f4a5a0f7a11",
                ),
                description="An earlier deployment: its id, or its version such as v3; without it, the "
                "release before what runs now",
            ),
        ]
    ],
    example("db01511f-abe4-5113-a2dc-90c7f2efb14a"),
]
PRESENT: Final = "present"
KeptSettings = Annotated[
    Maybe[Literal["present"]],
    Meta(
        description="`present` keeps the present settings, variables and secrets; without it, they go back, "
        "too. Needs Write if any of them does"
    ),
]


class Rollback(Spec):
    deployment_id: EarlierDeployment = absent
    settings: KeptSettings = absent


class RollbackQuery(Spec):
    """Selects the deployment of a difference."""

    deployment_id: EarlierDeployment = absent


Change = Literal["CHANGE", "ADD", "REMOVE"]


class RollbackChange(Shown):
    """A setting, variable or secret that differs from that of an earlier deployment."""

    subject: Annotated[
        Literal["SETTING", "ADVANCED_SETTING", "VARIABLE", "SECRET"],
        Meta(description="What differs"),
        example("VARIABLE"),
    ]
    scope: Annotated[str, Meta(description="The level that it belongs to"), example("APPLICATION")]
    key: Annotated[str, Meta(description="Its field or key"), example("LOG_LEVEL")]
    change: Annotated[
        Change,
        Meta(description="CHANGE gives it the former value, ADD creates it again, REMOVE deletes it"),
        example("CHANGE"),
    ]
    present: Annotated[
        str | None,
        Meta(description="The present value, a setting as JSON; null if there is none, and of a secret"),
        example("debug"),
    ] = None
    former: Annotated[
        str | None, Meta(description="The value of that deployment, in the same form"), example("info")
    ] = None
    goes_back: Annotated[bool, Meta(description="False if a rollback leaves it as it is")] = True
    reason: Annotated[str, Meta(description="Why it stays as it is; empty if it goes back")] = ""


class RollbackDifference(Shown):
    """What a rollback of a service changes."""

    service_id: Annotated[Id, id_of_subject()]
    service_name: Annotated[str, example("web")]
    deployment_id: Annotated[
        Id | None,
        Meta(description="The earlier deployment; null if there is no earlier release"),
        example("db01511f-abe4-5113-a2dc-90c7f2efb14a"),
    ]
    number: Annotated[int, Meta(description="Its number: 3 is v3"), example(3)]
    git_commit_id: Annotated[
        Maybe[str], Meta(description="Its commit"), example("9f2c4e1b7a60d3588ec1f0a94b7d62e35c81fa07")
    ] = absent
    image_tag: Annotated[Maybe[str], Meta(description="Its tag, of an image"), example("1.4.2")] = absent
    same_build: Annotated[bool, Meta(description="True if the version that serves has the same build")]
    settings_known: Annotated[
        bool,
        Meta(
            description="False if the deployment is from before Windlass kept settings; a rollback then "
            "keeps the present ones"
        ),
    ] = True
    changes: list[RollbackChange]
    missing: Annotated[
        list[str],
        Meta(
            description="Keys of secrets that were deleted since; a rollback asks to create them again first"
        ),
        example([]),
    ] = []


class EnvironmentRollbackQuery(Spec):
    """Selects the state of an environment to go back to. Without a choice, it is the one before the newest
    deployment that serves."""

    deployment_id: Annotated[
        Maybe[Id],
        Meta(description="A deployment of the environment: the id of an entry of its history"),
        example("db01511f-abe4-5113-a2dc-90c7f2efb14a"),
    ] = absent
    at: Annotated[Moment, Meta(description="A time: back to what ran then; `deployment_id` wins")] = ""


class EnvironmentRollback(EnvironmentRollbackQuery):
    settings: KeptSettings = absent


class ServiceDifference(RollbackDifference):
    """What a rollback of its environment changes at a service."""

    is_deployed: Annotated[
        bool, Meta(description="Whether the rollback deploys it; otherwise, it runs as it did then")
    ]
    reason: Annotated[str, Meta(description="Why it is left out; empty if it is not")] = ""


class EnvironmentRollbackDifference(Shown):
    """What a rollback of an environment changes."""

    environment_id: Annotated[Id, id_of_subject()]
    changes: Annotated[
        list[RollbackChange], Meta(description="Variables and secrets of the environment itself")
    ]
    missing: Annotated[
        list[str], Meta(description="Keys of secrets of the environment that were deleted since"), example([])
    ] = []
    services: list[ServiceDifference]


SHOW_ENVIRONMENT_DIFFERENCE: Final = (
    "Compares each service, and the variables of the environment, with an earlier deployment of the "
    "environment or an earlier time, and changes nothing."
)
ROLLBACK_OF_ENVIRONMENT: Final = (
    "Each service goes back to the version that it ran then, with its settings, variables and secrets, and "
    "so do the variables of the environment: all or nothing, as one deployment of the environment, in the "
    "order of its stages. Services that run as they did then are not deployed. Those that are newer, or are "
    "skipped in their stage, are left out. 409 if a secret was deleted since."
)
SHOW_DIFFERENCE: Final = (
    "Compares the present settings, variables and secrets with those of an earlier deployment, and changes "
    "nothing. Values of secrets are not shown. The variables of levels above are shared with other services "
    "and stay as they are."
)
ROLLBACK: Final = (
    "Runs the build of that deployment again; nothing is built. Settings, variables and secrets of the "
    "service become those of that deployment, in one change; `rollbackDifference` shows them beforehand. "
    "Built-in variables and credentials are those of today. Storage, versions of databases, names and "
    "domains stay. 409 if a secret of that deployment was deleted since. Automatic deployment pauses until "
    "the next push."
)
