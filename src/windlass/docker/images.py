"""Images: whether one is on the engine, and how it gets there."""

from __future__ import annotations

import re
from typing import Any, Final

from windlass.docker.client import Docker
from windlass.docker.failures import EngineRefused

PULLING: Final = 600.0
"""Seconds that a registry may be silent."""


async def image(docker: Docker, ref: str) -> dict[str, Any] | None:
    """Returns the engine's description of an image; None if the engine does not have it."""
    try:
        return dict(await docker.json("GET", f"/images/{ref}/json"))
    except EngineRefused as refused:
        if refused.status == 404:
            return None
        raise


async def pull(docker: Docker, ref: str) -> None:
    """From the registry that its name says. Refused with the reason, if it cannot be had."""
    # Without a tag the engine would fetch every one there is.
    params = {"fromImage": ref if has_tag(ref) else f"{ref}:latest"}
    async with docker.stream("POST", "/images/create", params=params, patience=PULLING) as answer:
        async for message in answer.objects():
            if "error" in message:
                raise EngineRefused(404, str(message["error"]))


# What the engine says when an image cannot be pulled, and what can be done about it. The first that fits.
_REASONS: Final = (
    (
        r"toomanyrequests|rate limit",
        "Deploy again later: the registry of {ref} allows no more pulls for now",
    ),
    (
        r"no matching manifest|does not match the (detected|specified|host) platform",
        "Choose another tag: {ref} has no image for the processor of this Docker engine",
    ),
    (
        r"manifest (for \S+ )?(unknown|not found)",
        "Choose another tag: the registry has the image, and no tag {tag} of it ({ref})",
    ),
    (
        r"pull access denied|repository does not exist|unauthorized|authentication required|denied|forbidden"
        r"|name unknown|not found",
        "Check the name of the image: the registry has no {ref} that can be pulled without a password",
    ),
    (
        r"x509|certificate|http response to https client",
        "Ask the operator to let the Docker engine trust the registry of {ref}: its certificate is refused",
    ),
    (
        r"no space left",
        "Ask the operator for space: the disk of the Docker engine is full, {ref} is not pulled",
    ),
    (
        r"no such host|connection refused|timeout|timed out|deadline|unreachable|no route|connection reset"
        r"|EOF|server misbehaving|exceeded|temporary failure",
        "Check the registry: that of {ref} does not answer the Docker engine",
    ),
)


def why_not_pulled(ref: str, message: str) -> str:
    """Says what a person can do. What the engine says itself names addresses of its network."""
    for pattern, words in _REASONS:
        if re.search(pattern, message, re.IGNORECASE):
            return words.format(ref=ref, tag=ref.rpartition(":")[2])
    return f"Check the name and the tag of the image: {ref} cannot be pulled: {message}"


def has_tag(ref: str) -> bool:
    """`host:5000/shop` is not."""
    return "@" in ref or ":" in ref.rpartition("/")[2]
