"""Ownership of the place `local`: the machine of the server on which its services run.

On the engine process, a server can start services only on its own machine. So one server owns the place, and
the others serve the API. `control.background.place_owner` keeps the lease.
"""

from __future__ import annotations

from windlass.store import PlaceHolder


class Ownership:
    """The state of the place for this server. Without a `holder`, all servers share the place."""

    def __init__(self, holder: PlaceHolder | None = None) -> None:
        self.holder = holder
        self.is_owner = holder is None
        self.is_lost = False
        """True while the owner is gone: its lease has ended."""
