"""Images: whether one is on the engine, and how it gets there."""

from __future__ import annotations

from typing import Any, Final

from windlass.base.docker.client import Docker, Refused

PULLING: Final = 600.0
"""Seconds that a registry may be silent."""


async def image(docker: Docker, ref: str) -> dict[str, Any] | None:
    """What the engine says of it; None where it is not on the engine."""
    try:
        return dict(await docker.json("GET", f"/images/{ref}/json"))
    except Refused as refused:
        if refused.status == 404:
            return None
        raise


async def pull(docker: Docker, ref: str) -> None:
    """From the registry that its name says. Refused with the reason, if it cannot be had."""
    # Without a tag the engine would fetch every one there is.
    params = {"fromImage": ref if tagged(ref) else f"{ref}:latest"}
    async with docker.stream("POST", "/images/create", params=params, patience=PULLING) as answer:
        async for said in answer.objects():
            if "error" in said:
                raise Refused(404, str(said["error"]))


def tagged(ref: str) -> bool:
    """`host:5000/shop` is not."""
    return "@" in ref or ":" in ref.rpartition("/")[2]
