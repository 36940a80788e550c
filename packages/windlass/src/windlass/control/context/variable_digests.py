"""Caches digests of the variables of projects, environments and services, by the version of their lists.

Every read of a status compares the current variables with those of the deployment. The cache makes this
comparison independent of the number of variables.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct

from windlass.families.variable import secret, variable
from windlass.store import Reads, Tx

VARIABLE_FAMILIES: Final = (variable.name, secret.name)
_MAX_CACHED: Final = 10_000
"""The largest number of cached digests. A level is a project, an environment or a service."""

LevelDigest = tuple[str, str]
"""The id of a level that has variables, and the digest of the variables."""


class _CachedDigest(Struct, frozen=True, gc=False):
    version: tuple[int, ...]
    digest: str


class CurrentAnswers:
    """Keeps whether services are as deployed, each with the version of everything that this depends on."""

    def __init__(self) -> None:
        self._answers: dict[str, tuple[tuple[object, ...], bool]] = {}

    def get(self, service: str, version: tuple[object, ...]) -> bool | None:
        kept = self._answers.get(service)
        return kept[1] if kept is not None and kept[0] == version else None

    def keep(self, service: str, version: tuple[object, ...], is_current: bool) -> None:
        if len(self._answers) >= _MAX_CACHED:
            self._answers.clear()
        self._answers[service] = (version, is_current)


class VariableDigests:
    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self.answers = CurrentAnswers()
        self._cached: dict[str, _CachedDigest] = {}
        """Cached digests by level."""

    async def of(self, reads: Reads, service: str) -> list[LevelDigest]:
        """Returns the digests of all levels of a service that have variables, nearest level first."""
        versions = await reads.tree.versions(service, VARIABLE_FAMILIES)
        return [(level, await self._of_level(reads, level, version)) for level, version in versions.items()]

    async def _of_level(self, reads: Reads, level: str, version: tuple[int, ...]) -> str:
        cached = self._cached.get(level)
        if cached is not None and cached.version == version:
            return cached.digest
        if isinstance(reads, Tx):
            return await _of_level_in_change(reads, level, version)
        # A change between these two reads is already in the digest. The next caller sees a newer version and
        # reads again.
        digest = digest_of(await reads.tree.tags(level, VARIABLE_FAMILIES))
        if reads is self._reads:
            if len(self._cached) >= _MAX_CACHED:
                self._cached.clear()
            self._cached[level] = _CachedDigest(version, digest)
        return digest


async def _of_level_in_change(tx: Tx, level: str, version: tuple[int, ...]) -> str:
    """Remembers the digest for this change only: it may be rolled back. All services of an environment share
    most levels, and everybody waits for a change."""
    key, memory = ("variables", level, version), tx.session.memory
    if key not in memory:
        memory[key] = digest_of(await tx.tree.tags(level, VARIABLE_FAMILIES))
    return str(memory[key])


def digest_of(tags: Iterable[tuple[str, str]]) -> str:
    """Returns the digest of variables, given by id and tag."""
    return hashlib.sha256(msgspec.json.encode(sorted(tags))).hexdigest()
