"""The metrics of a service, as the API answers them."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from windlass.core.declare.fields import Timestamp, example
from windlass.core.declare.resource import Shown

_POINTS: Final = "One number for each of `times`; null where nothing is known"
Numbers = Annotated[list[float | None], Meta(description=_POINTS), example([12.5])]


class InstanceMetrics(Shown):
    name: Annotated[str, Meta(description="Generation and number of the instance"), example("3-0")]
    cpu: Annotated[
        list[float | None], Meta(description=f"Thousandths of a processor. {_POINTS}"), example([12.5])
    ]
    memory: Annotated[list[int | None], Meta(description=f"Bytes. {_POINTS}"), example([52428800])]


class RequestMetrics(Shown):
    by_status: Annotated[
        dict[str, list[float | None]],
        Meta(description=f"Requests per second, by class of the status. {_POINTS}"),
        example({"2xx": [4.2], "3xx": [0.0], "4xx": [0.1], "5xx": [0.0]}),
    ]
    p50: Annotated[Numbers, Meta(description="Milliseconds that half of the answers took at most")]
    p90: Numbers
    p99: Numbers


class ServiceMetrics(Shown):
    """What the instances of a service used in the last hour, and the requests to it."""

    every_seconds: Annotated[int, Meta(description="Seconds between two samples"), example(15)]
    times: Annotated[list[Timestamp], Meta(description="Times of the samples, oldest first; at most 240")]
    instances: list[InstanceMetrics]
    requests: Annotated[
        RequestMetrics | None, Meta(description="null if the gateway counted none of its requests")
    ] = None


METRICS: Final = (
    "Four samples a minute, in the memory of the server that reaches the engine of the service: 503 at "
    "another one, and a new hour after its restart. Requests are those through the gateway."
)
