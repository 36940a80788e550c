"""Comparisons and footprints of answers, for the tests of access."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from tests.derived.stage import Stage
from tests.world import Answer


async def footprint(stage: Stage) -> tuple[int, ...]:
    """Changes with everything that is done: each change is an event."""
    counts = ", ".join(f"(SELECT count(*) FROM {table})" for table in ("event", "resource", "deployment"))
    return tuple((await stage.beside(f"SELECT {counts}"))[0])


def refused(answer: Answer, why: str) -> None:
    assert answer.status == 401, f"{why}: {answer}"
    assert answer.headers["www-authenticate"]


def never_there(ids: Iterable[str]) -> list[str]:
    return [str(uuid.uuid4()) for _ in ids]


def exchanged(ids: tuple[str, ...], place: int, id: str) -> list[str]:
    return [*ids[:place], id, *ids[place + 1 :]]


def same(one: Answer, other: Answer) -> bool:
    return (one.status, one.body, set(one.headers)) == (other.status, other.body, set(other.headers))


def same_result(one: Answer, other: Answer) -> bool:
    return (one.status, one.body) == (other.status, other.body)
