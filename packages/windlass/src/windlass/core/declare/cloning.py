"""Copies of services: settings, variables and secrets, without data and without anything that runs."""

from __future__ import annotations

from typing import Annotated, Final

from windlass.core.declare.actions import Itself, Trait, post
from windlass.core.declare.fields import Id, Name, example, refers
from windlass.core.declare.spec import Spec


class CloneRequest(Spec):
    name: Annotated[Name, example("shop-copy")]
    environment_id: Annotated[
        Id,
        refers("environment"),
    ]


_ABOUT: Final = (
    "Copies the settings, the variables and the secrets of the service itself. Data is not copied, and the "
    "copy is not deployed. It sees the variables of its own environment: an alias or an override of a "
    "variable that is not there is left out."
)

can_be_cloned = Trait(
    name="can_be_cloned",
    actions=(
        post(
            "clone", Itself, "Copy it to an environment", _ABOUT, body=CloneRequest, status=202, also=(409,)
        ),
    ),
)
"""Services with this trait can be copied to an environment."""
