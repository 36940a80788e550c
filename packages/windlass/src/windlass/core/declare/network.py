"""Network options of services, as the full interface has them."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from windlass.core.declare.actions import Trait, get, put
from windlass.core.declare.resource import Shown, Spec

_STICKY: Final = Meta(description="Always false: the gateway keeps no client at one instance")


class NetworkRequest(Spec):
    sticky_session: Annotated[bool, _STICKY] = False


class Network(Shown):
    """The network options of a service."""

    sticky_session: Annotated[bool, _STICKY] = False


has_network = Trait(
    name="has_network",
    actions=(
        get("network", Network, "Read the network options"),
        put(
            "editNetwork",
            Network,
            "Replace the network options",
            "400 for sticky sessions, which the gateway does not have.",
            suffix="/network",
            body=NetworkRequest,
            status=201,
        ),
    ),
)
"""Services with this trait have network options."""
