"""Receivers of a test: they note what they get, and answer as the test says."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from windlass.base.http_out import MAX_BODY_BYTES, HttpResult, NoAnswer

SECRET = "a secret of the tests"


class Sent:
    """A delivery as it came in."""

    def __init__(self, url: str, body: bytes, headers: Mapping[str, str]) -> None:
        self.url = url
        self.body = body
        self.headers = headers

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def kind(self) -> str:
        return str(self.json["event_type"])

    @property
    def payload(self) -> Any:
        return self.json["payload"]


Answer = Callable[[Sent], int | HttpResult]


class Receivers:
    """The receivers that can be reached from a world."""

    def __init__(self) -> None:
        self.got: defaultdict[str, list[Sent]] = defaultdict(list)
        """Accepted deliveries, by address."""
        self.tried: defaultdict[str, list[Sent]] = defaultdict(list)
        """All deliveries, accepted or not."""
        self.looks: defaultdict[str, int] = defaultdict(int)
        """Number of `HEAD` requests, which only ask whether the receiver is there."""
        self.away: set[str] = set()
        self.answers: dict[str, Answer] = {}

    async def send(
        self,
        method: str,
        url: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        seconds: float = 15.0,
        limit: int = MAX_BODY_BYTES,
    ) -> HttpResult:
        if method == "HEAD":
            self.looks[url] += 1
        sent = Sent(url, body, headers or {})
        if method == "POST":
            self.tried[url].append(sent)
        if url in self.away:
            raise NoAnswer("nobody listens there")
        if method == "HEAD":
            return _answered(405)
        answer = self.answers.get(url, lambda sent: 200)(sent)
        answered = answer if isinstance(answer, HttpResult) else _answered(answer)
        if 200 <= answered.status < 300:
            self.got[url].append(sent)
        return answered

    async def fetch(self, url: str) -> bytes:
        raise OSError(f"this test reaches nobody, and not {url}")

    async def close(self) -> None:
        """Has nothing to close."""


def _answered(status: int) -> HttpResult:
    return HttpResult(status=status, headers={}, body=b"said the receiver", cut=False, milliseconds=7)
