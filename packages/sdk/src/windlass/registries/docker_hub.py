"""Searches Docker Hub, which does not support listing images like other registries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from windlass.base.foreign_json import BadJson, read_json
from windlass.base.http_out import AddressRefused, HttpTransport, NoAnswer
from windlass.registries.client import MAX_ANSWER_BYTES, TIMEOUT
from windlass.registries.refusals import Problem, RegistryFailure

_HUB_URL: Final = "https://hub.docker.com/v2"
OFFICIAL_NAMESPACE: Final = "library"
_MAX_PAGE_SIZE: Final = 100


class FoundImage(Struct):
    repo_name: str = ""
    """The full name, in search results."""
    name: str = ""
    namespace: str = ""


class SearchAnswer(Struct):
    results: list[FoundImage] = []
    count: int = 0


async def search_images(
    transport: HttpTransport, text: str, page: int, size: int
) -> tuple[Sequence[str], int]:
    """Returns a page of names of public images, and the total number. Sends no credentials."""
    answer = await _search(
        transport, f"{_HUB_URL}/search/repositories/?query={quote(text, safe='')}", page, size
    )
    return [image.repo_name for image in answer.results], answer.count


async def public_images(
    transport: HttpTransport, namespace: str, page: int, size: int
) -> tuple[Sequence[str], int]:
    """Returns a page of public images of a user or organization, and the total number. Official images belong
    to `library`."""
    answer = await _search(
        transport, f"{_HUB_URL}/repositories/{quote(namespace, safe='')}/?ordering=name", page, size
    )
    above = "" if namespace == OFFICIAL_NAMESPACE else f"{namespace}/"
    return [f"{above}{image.name}" for image in answer.results], answer.count


async def _search(transport: HttpTransport, url: str, page: int, size: int) -> SearchAnswer:
    paged = f"{url}&page={page}&page_size={min(size, _MAX_PAGE_SIZE)}"
    try:
        answer = await transport.send(
            "GET", paged, b"", {"Accept": "application/json"}, seconds=TIMEOUT, limit=MAX_ANSWER_BYTES
        )
    except (AddressRefused, NoAnswer) as error:
        raise RegistryFailure(
            Problem.UNREACHABLE, f"Try again later: Docker Hub cannot be searched. {error}"
        ) from error
    if answer.status == 429:
        raise RegistryFailure(
            Problem.RATE_LIMIT, "Try again in a minute: Docker Hub allows no more searches", 60
        )
    if answer.status == 404:  # beyond the last page, or unknown user
        return SearchAnswer()
    try:
        if answer.status == 200:
            return read_json(answer.body, SearchAnswer)
    except BadJson as error:
        raise RegistryFailure(
            Problem.UNREACHABLE, "Try again later: Docker Hub did not answer with a list of images"
        ) from error
    raise RegistryFailure(Problem.UNREACHABLE, f"Try again later: Docker Hub answers {answer.status}")
