"""The metrics of a service, as the API returns them."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from windlass.core.declare.fields import Timestamp, example
from windlass.core.declare.resource import Shown, Spec

_POINTS_DESCRIPTION: Final = "One number for each of `times`; null where it is not known"
Numbers = Annotated[list[float | None], Meta(description=_POINTS_DESCRIPTION), example([12.5])]


class InstanceMetrics(Shown):
    name: Annotated[str, Meta(description="Generation and number of the instance"), example("3-0")]
    cpu: Annotated[
        list[float | None],
        Meta(description=f"Thousandths of a processor. {_POINTS_DESCRIPTION}"),
        example([12.5]),
    ]
    memory: Annotated[
        list[int | None], Meta(description=f"Bytes. {_POINTS_DESCRIPTION}"), example([52428800])
    ]


class RequestMetrics(Shown):
    by_status: Annotated[
        dict[str, list[float | None]],
        Meta(
            description="Requests per second, by class of the status; `1xx` (websockets) and `none` (the "
            f"client left before) only if there were any. {_POINTS_DESCRIPTION}"
        ),
        example({"2xx": [4.2], "3xx": [0.0], "4xx": [0.1], "5xx": [0.0]}),
    ]
    p50: Annotated[
        Numbers,
        Meta(
            description="Milliseconds that half of the answers took at most, estimated; 10000 also stands "
            f"for longer times. {_POINTS_DESCRIPTION}"
        ),
    ]
    p90: Numbers
    p99: Numbers


class ServiceMetricsQuery(Spec):
    span: Annotated[
        Literal["1h", "24h", "7d", "30d"],
        Meta(description="How far back: the last hour, a day, a week or 30 days"),
    ] = "1h"


class UsageMetrics(Shown):
    instances: Annotated[
        list[int | None],
        Meta(description=f"The highest number of instances. {_POINTS_DESCRIPTION}"),
        example([2]),
    ]
    cpu: Annotated[
        list[float | None],
        Meta(description=f"Thousandths of a processor, of all instances: the mean. {_POINTS_DESCRIPTION}"),
        example([12.5]),
    ]
    memory: Annotated[
        list[int | None],
        Meta(description=f"Bytes, of all instances: the highest. {_POINTS_DESCRIPTION}"),
        example([52428800]),
    ]


class ServiceMetrics(Shown):
    """The usage of the instances of a service in the last hour or longer, and the requests to it."""

    every_seconds: Annotated[int, Meta(description="Seconds between two points"), example(15)]
    times: Annotated[
        list[Timestamp], Meta(description="Times of the points, oldest first, without a gap; at most 1440")
    ]
    instances: Annotated[
        list[InstanceMetrics],
        Meta(
            description="Those that ran in this hour; at most the newest 50. Empty for longer spans, which "
            "have `usage`"
        ),
    ]
    requests: Annotated[
        RequestMetrics | None, Meta(description="null if the gateway counted no request in this time")
    ] = None
    usage: Annotated[
        UsageMetrics | None,
        Meta(description="The usage of all instances together; null for the last hour"),
    ] = None


METRICS: Final = (
    "The last hour has four points a minute, in the memory of the server that reaches the engine of the "
    "service: another one answers 503, and a restart begins a new hour. Longer spans have a point every five "
    "minutes (`24h`) or every half hour, and survive a restart. Requests are those through the gateway of "
    "this server."
)
