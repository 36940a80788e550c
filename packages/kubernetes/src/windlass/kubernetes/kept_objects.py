"""Limits what the watches of a cluster keep, so that no namespace takes the room of the others.

Who may write to one namespace may put any number of objects there that Windlass watches, with annotations of
256 KiB each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from windlass.base.log import log
from windlass.kubernetes.documents import KubeObject

KeptT = TypeVar("KeptT", bound=KubeObject)
MAX_KEPT_BYTES: Final = 64 * 1024 * 1024
"""Maximum size in bytes of what is kept of the objects of a cluster, beyond which each namespace has only its
share. 10,000 Pods with what belongs to them have a third of it."""
MIN_NAMESPACES: Final = 16
"""The least number of namespaces among which the shares are divided."""
MAX_OBJECT_BYTES: Final = 256 * 1024
"""Maximum size in bytes of what is kept of one object. An EndpointSlice of 1,000 Pods has half of it."""
_MAX_TOLD: Final = 100
_OWN_PREFIX: Final = "windlass.dev/"
_log = log("engines.kubernetes")

Key = tuple[str, str]
"""Namespace and name."""


class KeptObjects:
    """The sizes of what the watches of a cluster keep."""

    def __init__(self, read_annotations: Collection[str] = ()) -> None:
        """`read_annotations`: those that are kept beside those of Windlass."""
        self._read_annotations = read_annotations
        self._sizes: dict[tuple[str, Key], int] = {}
        self._by_namespace = Counter[str]()
        self._size = 0
        self._told: set[str] = set()
        """The namespaces of objects that the log has named."""

    def without_unused(self, it: KeptT) -> KeptT:
        """Drops the annotations of an object that are not read."""
        if not (annotations := it.metadata.annotations):
            return it
        kept = {
            name: value
            for name, value in annotations.items()
            if name.startswith(_OWN_PREFIX) or name in self._read_annotations
        }
        if len(kept) == len(annotations):
            return it
        return replace(it, metadata=replace(it.metadata, annotations=kept))

    def put(self, path: str, key: Key, new: KubeObject) -> bool:
        """Notes that an object is kept. Returns False, and names it in the log, if it is too large, or if its
        namespace has more than its share."""
        size, before = len(msgspec.json.encode(new)), self._sizes.get((path, key), 0)
        if size > MAX_OBJECT_BYTES:
            self.tell(path, key, f"it has {size >> 10} KiB, more than {MAX_OBJECT_BYTES >> 10}")
            return False
        grown = size - before
        if grown > 0 and self._size + grown > MAX_KEPT_BYTES:
            share = MAX_KEPT_BYTES // max(MIN_NAMESPACES, len(self._by_namespace))
            if self._by_namespace[key[0]] + grown > share:
                self.tell(path, key, f"the objects of its namespace have more than {share >> 10} KiB")
                return False
        self._change(key[0], grown)
        self._sizes[path, key] = size
        return True

    def drop(self, path: str, key: Key) -> None:
        self._change(key[0], -self._sizes.pop((path, key), 0))

    def tell(self, path: str, key: Key, why: str) -> None:
        """Names an object that is not kept, the first of each namespace."""
        if key[0] not in self._told and len(self._told) < _MAX_TOLD:
            self._told.add(key[0])
            extra = {"path": path, "namespace": key[0], "object": key[1], "why": why}
            _log.warning("an object of the cluster is passed over: it counts as missing", extra=extra)

    def _change(self, namespace: str, grown: int) -> None:
        self._size += grown
        self._by_namespace[namespace] += grown
        if not self._by_namespace[namespace]:
            del self._by_namespace[namespace]
