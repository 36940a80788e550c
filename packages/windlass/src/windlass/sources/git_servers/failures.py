"""The reasons for which the API of a git server cannot be used, each with its remedy."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from windlass.base.foreign_json import BadJson, read_json
from windlass.base.http_out import HttpResult

MAX_WAIT_SECONDS: Final = 3600
_MAX_WORDS_LENGTH: Final = 200


class GitServerProblem(StrEnum):
    ADDRESS = "ADDRESS"
    UNREACHABLE = "UNREACHABLE"
    LOGIN = "LOGIN"
    RIGHT = "RIGHT"
    UNKNOWN = "UNKNOWN"
    """There is no such repository, or it is hidden from the token."""
    REFUSED = "REFUSED"
    """The git server refuses what was sent, such as the address of a webhook."""
    RATE_LIMIT = "RATE_LIMIT"
    NOT_A_SERVER = "NOT_A_SERVER"


class GitServerFailure(Exception):
    """Raised if a git server does not do what was asked. The message begins with the remedy."""

    def __init__(self, problem: GitServerProblem, message: str, retry_after: int = 0) -> None:
        super().__init__(message)
        self.problem = problem
        self.retry_after = retry_after


class _ErrorText(Struct):
    message: object = ""
    errors: object = None
    error: object = None


def explain_refusal(host: str, answer: HttpResult, now: float) -> GitServerFailure:
    """Returns the failure for an answer that is no success."""
    if wait := rate_limit_wait(answer, now):
        return rate_limit_failure(host, wait)
    status = answer.status
    if status == 401:
        return GitServerFailure(
            GitServerProblem.LOGIN, f"Check the git token: {host} refuses it, or it has expired"
        )
    if status == 403:
        return GitServerFailure(
            GitServerProblem.RIGHT,
            f"Give the git token more rights: {host} does not let it do this. {_words_of(answer)}".strip(),
        )
    if status == 404:
        return GitServerFailure(
            GitServerProblem.UNKNOWN,
            f"Check the repository and the rights of the git token: {host} shows it no such thing",
        )
    if status in (301, 302, 303, 307, 308):
        return GitServerFailure(
            GitServerProblem.UNKNOWN,
            f"Check git_api_url and the name of the repository: {host} answers that it has moved",
        )
    if status in (400, 409, 422):
        return GitServerFailure(
            GitServerProblem.REFUSED, f"{host} refuses it: {_words_of(answer) or f'it answers {status}'}"
        )
    return GitServerFailure(
        GitServerProblem.UNREACHABLE, f"Try again later: {host} answers with the error {status}"
    )


def rate_limit_failure(host: str, seconds: int) -> GitServerFailure:
    return GitServerFailure(
        GitServerProblem.RATE_LIMIT,
        f"Try again in {seconds} seconds: {host} allows no more requests for now",
        seconds,
    )


def rate_limit_wait(answer: HttpResult, now: float) -> int:
    """Returns for how many seconds a git server wants no requests; 0 if it has not said so."""
    headers = answer.headers
    is_spent = headers.get("x-ratelimit-remaining") == "0" or headers.get("ratelimit-remaining") == "0"
    if answer.status != 429 and not (answer.status == 403 and (is_spent or "retry-after" in headers)):
        return 0
    return min(max(_asked_wait(headers, now), 1), MAX_WAIT_SECONDS)


def _asked_wait(headers: Mapping[str, str], now: float) -> int:
    if seconds := _number(headers.get("retry-after", "")):
        return seconds
    until = _number(headers.get("x-ratelimit-reset", "")) or _number(headers.get("ratelimit-reset", ""))
    return until - int(now) if until else 60


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 12 else 0


def _words_of(answer: HttpResult) -> str:
    """Returns what the git server says of the reason, in one line."""
    try:
        text = read_json(answer.body, _ErrorText)
    except BadJson:
        return ""
    said = [str(part) for part in (text.message, text.error, text.errors) if part]
    line = " ".join(" ".join(said).split())
    return "".join(letter for letter in line if letter.isprintable())[:_MAX_WORDS_LENGTH]
