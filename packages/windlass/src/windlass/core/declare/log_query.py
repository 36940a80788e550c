"""The query of a log: its lines, and whether to follow it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from windlass.core.declare.fields import shaped
from windlass.core.declare.resource import Spec

Moment = Annotated[
    str,
    Meta(
        # A day that its month does not have is accepted: it counts as a day of the next month.
        pattern=shaped(
            r"^([0-9]{1,14}|[12][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
            r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,3})?Z)?\Z",
            "must be a time such as 2026-01-31T09:05:00.007Z",
        ),
        description="A timestamp as it is answered, or milliseconds since 1970",
        examples=["2026-01-31T09:05:00.007Z"],
    ),
]


class Tail(Spec):
    """Selects lines of a log, and whether to follow it."""

    tail: Annotated[int, Meta(ge=1, le=10_000, description="Number of last lines")] = 1000
    since: Annotated[Moment, Meta(description="Only lines from this time on")] = ""
    until: Annotated[Moment, Meta(description="Only lines from before this time")] = ""
    search: Annotated[
        str,
        Meta(max_length=1024, description="Only lines whose message contains this text, letter by letter"),
    ] = ""
    follow: Annotated[
        bool, Meta(description="Answer with a stream of server-sent events, which goes on with what comes")
    ] = False
