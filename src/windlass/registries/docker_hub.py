"""Searches Docker Hub, which does not list its images as other registries do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from windlass.base.http_out import AddressRefused, NoAnswer
from windlass.registries.client import LONGEST, SECONDS, Sends
from windlass.registries.failures import Problem, RegistryFailure

SEARCH: Final = "https://hub.docker.com/v2/search/repositories/"


class FoundImage(Struct):
    repo_name: str


class SearchAnswer(Struct):
    results: list[FoundImage] = []
    count: int = 0


async def search_images(out: Sends, text: str, page: int, size: int) -> tuple[Sequence[str], int]:
    """Returns one page of the names of public images, and how many there are. No login is sent."""
    url = f"{SEARCH}?query={quote(text, safe='')}&page={page}&page_size={min(size, 100)}"
    try:
        answer = await out.send(
            "GET", url, b"", {"Accept": "application/json"}, seconds=SECONDS, most=LONGEST
        )
    except (AddressRefused, NoAnswer) as error:
        raise RegistryFailure(Problem.UNREACHABLE, f"Docker Hub cannot be searched. {error}") from error
    if answer.status == 429:
        raise RegistryFailure(
            Problem.RATE_LIMIT, "Try again in a minute: Docker Hub allows no more searches", 60
        )
    try:
        answered = msgspec.json.decode(answer.body, type=SearchAnswer) if answer.status == 200 else None
    except msgspec.DecodeError:
        answered = None
    if answered is None:
        raise RegistryFailure(
            Problem.UNREACHABLE, f"Try again later: the search of Docker Hub answers {answer.status}"
        )
    return [entry.repo_name for entry in answered.results], answered.count
