"""Refusals of builders and sources, which never tell a path of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def heard_refusals(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *kinds: type[Exception]
) -> Iterator[list[str]]:
    """Hears every refusal of a test, whose own folder is in none of them."""
    told: list[str] = []
    for kind in kinds:
        monkeypatch.setattr(kind, "__init__", _told_to(told))
    yield told
    given = f"file://{folder}"  # the author of the test knows the address of the repository
    assert [message for message in told if str(folder) in message.replace(given, "")] == []


def _told_to(told: list[str]) -> Callable[..., None]:
    def note(error: Exception, *said: object) -> None:
        told.extend(map(str, said))
        Exception.__init__(error, *said)

    return note
