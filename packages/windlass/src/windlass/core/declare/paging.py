"""Queries of lists: the page, and what narrows a list."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from windlass.core.declare.fields import Id, Maybe, absent
from windlass.core.declare.spec import Spec

PAGE, MOST_PER_PAGE = 100, 1000


class Paging(Spec):
    page: Annotated[int, Meta(ge=1, le=2**31 - 1, description="Page number, from 1")] = 1
    page_size: Annotated[int, Meta(ge=1, le=MOST_PER_PAGE, description="Results per page")] = PAGE


class PageOfWhole(Paging):
    """The query of a list that is answered whole, unless a page of it is asked for."""

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
