"""The two ways in which a call to an engine fails."""

from __future__ import annotations

import re
from typing import Final

REFUSES: Final = "Check the settings of the service, or ask the operator: the Docker engine refuses"
"""Begins the message about a refusal that has no better remedy."""
_NO_ADDRESS: Final = "no available IPv4 addresses"
_NO_USER: Final = re.compile(r"unable to find (user|group) ([\w.-]{1,100}): no matching entries")


def refusal(message: str) -> str:
    """Returns what to do about the refusal of an engine to start a container, and its reason."""
    if match := _NO_USER.search(message):
        kind, name = match.groups()
        return f"Correct USER in the Dockerfile, or add the {kind} {name} there: the image has no such {kind}"
    if _NO_ADDRESS in message:
        return "Run fewer instances, or move services to another environment: the network of this one is full"
    return f"{REFUSES}: {message}"


class Away(Exception):
    """The engine does not answer; the message says where it was looked for, and what to do."""


class WrongEngine(Away):
    """Another engine answers at the address; the message names no address."""


class EngineRefused(Exception):
    """The engine answered, and said no."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class AnswerTooLong(EngineRefused):
    """The engine answered with more than is read."""

    def __init__(self, message: str) -> None:
        super().__init__(500, message)
