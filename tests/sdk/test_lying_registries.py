"""Registries that answer what no registry answers: endless lists, broken headers and bodies."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from itertools import count

import pytest

from tests.sdk.test_registry_protocol import Servers, registry
from windlass.base.http_out import HttpResult
from windlass.engines.registries import may_give_tokens
from windlass.registries.challenge import MAX_WAIT_SECONDS, next_page, wait_of
from windlass.registries.client import MAX_PAGES, RegistryClient, RequestPauses
from windlass.registries.docker_hub import search_images
from windlass.registries.refusals import Problem, RegistryFailure

URL = "https://reg.example.com"


def endless_registry(numbers: Iterator[int], most: int) -> Servers:
    def answer(*_: object) -> tuple[int, dict[str, str], object]:
        number = next(numbers)
        assert number < most, "the list is read without an end"
        return 200, {"link": f'</v2/a/tags/list?last={number}>; rel="next"'}, {"tags": []}

    return Servers(answer)


async def test_an_endless_list_of_a_registry_is_read_up_to_a_page_limit():
    """Negative control: `test_pages_are_read_to_the_end_and_never_at_another_host`."""
    read = await registry(endless_registry(count(), MAX_PAGES + 1), URL).tags("a", 10)
    assert (read.names, read.is_complete) == ([], False)


class SlowServers(Servers):
    """Sends the first page of a list, and never the second."""

    async def send(
        self, method: str, url: str, body: bytes = b"", headers: Mapping[str, str] = {}, **_: object
    ) -> HttpResult:
        if len(self.asked) == 1:
            await asyncio.Event().wait()
        return await super().send(method, url, body, headers)


async def test_a_list_that_comes_too_slowly_is_given_up():
    """Negative control: a registry that sends the second page at once."""
    link = {"link": '</v2/a/tags/list?last=1>; rel="next"'}
    slow = SlowServers(lambda *_: (200, link, {"tags": []}))
    client = RegistryClient(slow, "GENERIC_CR", URL, None, RequestPauses(), list_seconds=0.05)
    with pytest.raises(RegistryFailure, match="does not send its list") as refused:
        await client.tags("a", 10)
    assert refused.value.problem is Problem.UNREACHABLE


async def test_invalid_image_and_tag_names_of_a_registry_are_left_out():
    listed = ["1.0", "x y", "../../v2/other", "a\r\nHost: evil.test", "n" * 300, ""]
    servers = Servers(lambda *_: (200, {}, {"repositories": listed}))
    assert (await registry(servers, URL).images(10)).names == ["1.0"]


BROKEN = [
    b'{"tags": ["\xff"]}',
    b'{"else": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    b'{"tags": ["\\ud800"]}',
    b"[]",
]


@pytest.mark.parametrize("body", BROKEN)
async def test_a_malformed_answer_of_a_registry_is_reported(body: bytes):
    with pytest.raises(RegistryFailure, match="not JSON of the expected form") as refused:
        await registry(Servers(lambda *_: (200, {}, body)), URL).tags("a", 10)
    assert refused.value.problem is Problem.NOT_A_REGISTRY
    found = body.replace(b"tags", b"results")
    with pytest.raises(RegistryFailure, match="did not answer with a list of images"):
        await search_images(Servers(lambda *_: (200, {}, found)), "a", 1, 10)


@pytest.mark.parametrize("realm", ["https://[", "https://auth.example.com:99999/token", "https://[::1/x"])
async def test_a_token_server_with_an_invalid_address_gets_no_login(realm: str):
    header = {"www-authenticate": f'Bearer realm="{realm}",service="x"'}
    servers = Servers(lambda *_: (401, header, {}))
    assert not may_give_tokens("GENERIC_CR", URL, realm)
    with pytest.raises(RegistryFailure, match="does not send it there"):
        await registry(servers, URL).tags("a", 10)
    assert servers.told == {}


def test_malformed_headers_of_a_registry_are_ignored():
    assert next_page('<https://[/v2/a>; rel="next"', URL) == ""
    assert wait_of({"retry-after": "9" * 5000}, 0) == 60
    assert wait_of({"retry-after": "9" * 9}, 0) == MAX_WAIT_SECONDS
