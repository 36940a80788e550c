"""Query parameters of operations: pages of lists, selections of log lines, and options of deletions."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, field

from windlass.core.declare.fields import Id, Maybe, absent, shaped
from windlass.core.declare.resource import Spec

Moment = Annotated[
    str,
    Meta(
        # Days that do not exist in a month are accepted and count as days of the next month.
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
    """Selects log lines, and whether to follow the log."""

    tail: Annotated[int, Meta(ge=1, le=10_000, description="Number of last lines")] = 1000
    since: Annotated[Moment, Meta(description="Only lines from this time on")] = ""
    until: Annotated[Moment, Meta(description="Only lines from before this time")] = ""
    search: Annotated[
        str,
        Meta(max_length=1024, description="Only lines whose message contains this text, letter by letter"),
    ] = ""
    follow: Annotated[
        bool, Meta(description="Answer with a stream of server-sent events, which continues with new entries")
    ] = False


class ServiceTail(Tail):
    """Selects lines of the output of a service, or of its access log."""

    access: Annotated[
        bool,
        Meta(
            description="Only the requests to the service, in place of its output; see the advanced setting "
            "windlass.access_log.format"
        ),
    ] = False


REMOVAL: Final = (
    "The deletion is stored when the answer arrives. A service that was deployed is DELETING until "
    "everything that was made for it is removed; then its id answers 404. If that fails, it is in "
    "DELETE_ERROR and its message says why: delete it again, or with `skipReconcile`. An environment or a "
    "project is deleted after the last of its services."
)


class Removal(Spec):
    skip_reconcile: Annotated[
        bool,
        Meta(
            description="Delete it at once, even if cleaning up fails or its engine is unavailable. Its "
            "remains are removed in the background, with retries until that succeeds."
        ),
    ] = field(default=False, name="skipReconcile")


DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE = 100, 1000


class Paging(Spec):
    page: Annotated[int, Meta(ge=1, le=2**31 - 1, description="Page number, from 1")] = 1
    page_size: Annotated[int, Meta(ge=1, le=MAX_PAGE_SIZE, description="Results per page")] = (
        DEFAULT_PAGE_SIZE
    )


class PageOfWhole(Paging):
    """The query of a list that is returned as a whole unless the request names a page."""

    page: Annotated[
        int, Meta(ge=1, le=2**31 - 1, description="Page number, from 1. Without a page, the whole list")
    ] = 1


class ServiceListQuery(Paging):
    to_update: Annotated[
        bool, Meta(description="Only those that are OUT_OF_DATE: a deployment would change them")
    ] = field(default=False, name="toUpdate")


class PastDeploymentsQuery(Paging):
    start_id: Maybe[
        Annotated[Id, Meta(description="Go on after the entry with this id: the last one of the former page")]
    ] = field(default=absent, name="startId")
