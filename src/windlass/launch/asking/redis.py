"""Logs in to Redis and pings; while it still loads its data, it answers with an error."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.launch.asking.line import Line, NotReady


def ask(line: Line, variables: Mapping[str, str]) -> None:
    if password := variables.get("REDIS_PASSWORD"):
        _expect(line, b"+OK", "AUTH", password)
    _expect(line, b"+PONG", "PING")


def _expect(line: Line, wanted: bytes, *words: str) -> None:
    parts = [word.encode() for word in words]
    line.send(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts))
    answer = line.take_line()
    if answer != wanted:
        raise NotReady(answer.lstrip(b"-").decode("utf-8", "replace"))
