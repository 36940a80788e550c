"""The default deployment stages of an environment, and the order of its stages. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

T = TypeVar("T")


class Precedence(IntEnum):
    """The default stage of a kind, in the order of deployment. New services are placed in the default stage
    of their kind."""

    DATA = 0
    PREPARATION = 1
    """Jobs and similar services, which run to their end before programs start, and may set variables for
    them."""
    PROGRAM = 2


class DefaultStage(NamedTuple):
    """A deployment stage that each new environment has."""

    name: str
    description: str


# The names begin with `default`, so that users can name their own stages `databases`, `jobs` or
# `applications`.
DEFAULT_STAGES: Final[Mapping[Precedence, DefaultStage]] = {
    Precedence.DATA: DefaultStage("default-databases", "New databases are placed here"),
    Precedence.PREPARATION: DefaultStage(
        "default-jobs", "New jobs and similar services, which run to their end, are placed here"
    ),
    Precedence.PROGRAM: DefaultStage(
        "default-applications", "New applications and containers are placed here"
    ),
}


def stage_for(stages: Sequence[tuple[str, int]], precedence: int) -> str:
    """Returns the id of the stage for a new service. `stages`: the ids of all stages in their order, each
    with the precedence of the services that it takes by default, or a negative number.

    If the default stage of a kind was deleted, the next later default stage takes its place, then the nearest
    earlier one, then the last stage of the environment.
    """
    by_default = sorted((takes, id) for id, takes in stages if takes >= 0)
    later = [id for takes, id in by_default if takes >= precedence]
    earlier = [id for takes, id in by_default if takes < precedence]
    return [*later[:1], *earlier[-1:], stages[-1][0]][0]


def moved(order: Sequence[T], subject: T, other: T, *, is_after: bool) -> list[T]:
    """Returns the order with the subject moved directly before or after another item. Nothing changes if both
    are the same."""
    if subject == other:
        return [*order]
    rest = [item for item in order if item != subject]
    position = rest.index(other) + is_after
    return [*rest[:position], subject, *rest[position:]]
