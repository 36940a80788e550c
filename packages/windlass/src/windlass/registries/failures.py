"""The ways in which a registry cannot be used, each with a message for people."""

from __future__ import annotations

from enum import StrEnum


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
    """The registry has no such image or tag, or does not tell this login that it has."""


class RegistryFailure(Exception):
    """A registry cannot be used; the message says why, and the way out."""

    def __init__(self, problem: Problem, message: str, retry_after: int = 0) -> None:
        super().__init__(message)
        self.problem = problem
        self.retry_after = retry_after
        """Seconds after which it may be asked again, if it says so."""

    @property
    def is_silent(self) -> bool:
        """True if the registry did not answer: its settings may be right."""
        return self.problem in {Problem.NAME, Problem.UNREACHABLE, Problem.RATE_LIMIT}
