"""Explains why a registry cannot be used: error messages for all reasons, and the meaning of a registry's
error answers. Pure.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from windlass.base.http_out import HttpResult


class Problem(StrEnum):
    ADDRESS = "ADDRESS"
    NAME = "NAME"
    UNREACHABLE = "UNREACHABLE"
    TLS = "TLS"
    LOGIN = "LOGIN"
    RIGHT = "RIGHT"
    NOT_A_REGISTRY = "NOT_A_REGISTRY"
    RATE_LIMIT = "RATE_LIMIT"
    UNKNOWN_IMAGE = "UNKNOWN_IMAGE"
    """The registry does not have the image or tag, or hides it from this login."""


class RegistryFailure(Exception):
    """Raised if a registry cannot be used. The message contains the reason and the remedy."""

    def __init__(self, problem: Problem, message: str, retry_after: int = 0) -> None:
        super().__init__(message)
        self.problem = problem
        self.retry_after = retry_after
        """Seconds until a retry, if the registry reports them; otherwise 0."""

    @property
    def is_silent(self) -> bool:
        """Whether the registry did not answer, so that its settings may be correct."""
        return self.problem in {Problem.NAME, Problem.UNREACHABLE, Problem.RATE_LIMIT}


_VERSION: Final = "docker-distribution-api-version"
"""Response header that identifies a registry."""


class RegistryFailures:
    """Creates the error messages of one registry."""

    def __init__(self, host: str, *, has_login: bool) -> None:
        self._host = host
        self._has_login = has_login

    def refuse_non_registry(self, answer: HttpResult) -> None:
        """Raises RegistryFailure if an answer is not from a registry."""
        if answer.status == 200 and (_VERSION in answer.headers or answer.body.strip() in (b"{}", b"")):
            return
        if answer.status in (301, 302, 303, 307, 308):
            raise self.not_a_registry("it redirects to another address")
        if answer.status >= 500:
            raise self._server_failure(answer.status)
        raise self.not_a_registry(f"it answers {answer.status} at /v2/")

    def explain(self, answer: HttpResult, image: str) -> RegistryFailure:
        """Returns the error for an answer with another status than 200. `image`: the requested image; empty
        if none."""
        match answer.status:
            case 401 if not self._has_login or not image:
                return self.login_failure()
            case 401 | 403:
                what = f"read {image}" if image else "do this"
                return RegistryFailure(
                    Problem.RIGHT,
                    f"Give the login of {self._host} the right to read: it may not {what}",
                )
            case 404 | 400 if image:
                return RegistryFailure(
                    Problem.UNKNOWN_IMAGE, f"Choose another image or tag: {self._host} has no {image}"
                )
            case status if status >= 500:
                return self._server_failure(status)
        return self.not_a_registry(f"it answers {answer.status}")

    def login_failure(self) -> RegistryFailure:
        if not self._has_login:
            return RegistryFailure(
                Problem.LOGIN, f"Give the registry a login: {self._host} answers nothing without one"
            )
        return RegistryFailure(Problem.LOGIN, f"Check user name and password: {self._host} refuses the login")

    def limit_failure(self, seconds: int) -> RegistryFailure:
        return RegistryFailure(
            Problem.RATE_LIMIT,
            f"Try again in {seconds} seconds: {self._host} allows no more requests for now. A login often "
            "raises the limit",
            seconds,
        )

    def not_a_registry(self, reason: str) -> RegistryFailure:
        return RegistryFailure(
            Problem.NOT_A_REGISTRY,
            f"Check the address: there is no container registry at {self._host}, {reason}",
        )

    def _server_failure(self, status: int) -> RegistryFailure:
        return RegistryFailure(
            Problem.UNREACHABLE, f"Try again later: {self._host} answers with the error {status}"
        )
