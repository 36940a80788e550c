"""The deployment rule of an environment: whether pull requests get previews, and when it runs."""

from __future__ import annotations

from msgspec import field

from windlass.core.declare.actions import WORD_PARAMETER, get, put
from windlass.core.declare.deployment_rules import (
    ALL_DAYS,
    START,
    STOP,
    AutoStop,
    DeploymentRule,
    StartTime,
    StopTime,
    Weekday,
    Zone,
)
from windlass.core.declare.fields import Id, Timestamp
from windlass.core.declare.registry import Actions
from windlass.core.declare.resource import Shown
from windlass.families.environment import environment


class EnvironmentDeploymentRule(Shown):
    """The rule of an environment."""

    id: Id
    created_at: Timestamp
    updated_at: Timestamp
    auto_preview: bool = False
    on_demand_preview: bool = False
    auto_stop: AutoStop = False
    timezone: Zone = "UTC"
    start_time: StartTime = START
    stop_time: StopTime = STOP
    weekdays: list[Weekday] = field(default_factory=lambda: [*ALL_DAYS])


of_environments = Actions(
    environment,
    "Deployment Rules",
    (
        get(
            "deploymentRule",
            EnvironmentDeploymentRule,
            "Read whether pull requests get previews, and when it runs",
            id="getEnvironmentDeploymentRule",
        ),
        put(
            "editDeploymentRule",
            EnvironmentDeploymentRule,
            "Replace whether pull requests get previews, and when it runs",
            "Needs the right to create environments in the project. An environment has one rule, for whose "
            "id a word such as `current` may stand.",
            id="editEnvironmentDeploymentRule",
            suffix="/deploymentRule/{rule_id}",
            ids={"rule_id": WORD_PARAMETER},
            body=DeploymentRule,
            also=(409,),
        ),
    ),
)
