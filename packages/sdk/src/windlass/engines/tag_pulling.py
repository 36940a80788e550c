"""Engines that ask no registry for the digest of a tag, because other machines pull their images."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class TagPulling(Protocol):
    """An engine whose machines pull images, and whose `resolve` returns a tag unchanged. The server asks the
    registry for the digest, so that all starts of a deployment, and a rollback to it, use the same image."""

    is_tag_pulling: bool
