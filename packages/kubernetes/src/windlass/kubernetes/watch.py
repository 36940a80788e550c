"""The objects of one kind in a cluster, kept up to date by a single watch.

The watch begins with a list that the API server streams. It continues at the last version that it has seen,
and lists again if the API server no longer has that version, which an event inside a successful answer says.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import Final, Generic

from windlass.base.foreign_json import BadJson, read_json
from windlass.base.log import log
from windlass.kubernetes import names
from windlass.kubernetes.api import (
    MAX_LINE_BYTES,
    ClusterApi,
    ClusterRefusal,
    ClusterUnavailable,
    decode,
    lines,
)
from windlass.kubernetes.documents import FailureStatus, KubeObject, ObjectMetadata, ObjectT, WatchEvent
from windlass.kubernetes.instances import number
from windlass.kubernetes.kept_objects import KeptObjects, Key

_LIST_END: Final = "k8s.io/initial-events-end"
_FIRST_PAUSE, _MAX_PAUSE = 0.1, 5.0
_WATCH_SECONDS: Final = 540
"""Seconds after which a watch is opened again, so that an idle hour needs few requests."""
_SILENCE: Final = 150.0
"""Seconds without an event or bookmark after which the API server counts as away. It sends a bookmark each
minute."""
_FAILURES: Final = 2
"""Number of failures in a row after which the API server counts as away."""
_MAX_DROPPED: Final = 10_000
_MAX_NAME_LENGTH: Final = 253
"""Maximum length of a name in a cluster."""
_NAME_PATTERN: Final = re.compile(
    rb'"metadata": ?\{"name": ?"([a-z0-9.-]{1,253})"(?:, ?"namespace": ?"([a-z0-9-]{1,63})")?'
)
"""The name and the namespace, with which API servers begin an object."""
_log = log("engines.kubernetes")

Recovered = Callable[[], None]
"""Callback for the moment when the API server answers again."""
IsHome = Callable[[str, str], bool]
"""Returns whether objects in a namespace count for a service."""
Changed = Callable[[KubeObject | None, KubeObject | None], None]
"""Callback with an object before and after a change; None if it does not exist. Two times None: a list is
complete."""


class _Bookmark(KubeObject, frozen=True):
    """An event that has only a version."""


class Watch(Generic[ObjectT]):
    """`path`: the collection, over all namespaces."""

    def __init__(
        self,
        api: ClusterApi,
        path: str,
        type: type[ObjectT],
        selector: str,
        changed: Changed,
        recovered: Recovered,
        kept: KeptObjects,
        is_home: IsHome,
    ) -> None:
        self._kept, self._is_home = kept, is_home
        self._api, self._path, self._type, self._selector = api, path, type, selector
        self._changed, self._recovered = changed, recovered
        self._objects: dict[Key, ObjectT] = {}
        self._by_service: dict[str, dict[Key, ObjectT]] = defaultdict(dict)
        self._dropped: dict[Key, int] = {}
        """The last version of deleted objects, so that a late answer does not bring one back."""
        self._version = ""
        self._failures = 0
        self._has_unreadable = False
        """Whether the log tells of an object that cannot be read. An API server may tell of any number."""
        self.is_synced = False
        self.problem = ""
        """Why the API server is away; empty while it answers."""
        self.lists = 0
        """Number of complete lists so far."""

    def all(self) -> Iterable[ObjectT]:
        for service in tuple(self._by_service):
            yield from self.of(service)

    def of(self, service: str) -> Iterable[ObjectT]:
        """Returns the objects of a service in its own namespace. Who may write to another namespace may give
        the label of the service to objects there."""
        found = self._by_service.get(service, {})
        return tuple(each for each in found.values() if self._is_home(service, each.metadata.namespace))

    def services(self) -> Collection[str]:
        """Returns all services that objects have as their label."""
        return self._by_service.keys()

    def get(self, namespace: str, name: str) -> ObjectT | None:
        return self._objects.get((namespace, name))

    def note(self, it: ObjectT) -> None:
        """Records the answer to a write, unless the watch has seen a later state."""
        known = self.get(it.metadata.namespace, it.metadata.name)
        if _number(it.metadata) <= self._dropped.get(_key(it), -1):
            return
        if known is None or _number(known.metadata) < _number(it.metadata):
            self._put(it)

    async def run(self) -> None:
        """Watches until it is cancelled."""
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._watch()
                pause = _FIRST_PAUSE
                continue
            except ClusterUnavailable as away:
                self._note_problem(str(away))
            except ClusterRefusal as refused:
                if refused.is_expired:
                    self._version = ""
                    continue
                self._note_problem(
                    f"Give the account of Windlass the right to watch {self._path}: the cluster refuses: "
                    f"{refused}"
                )
                self._version = ""
            await asyncio.sleep(pause * (1 + random.random()))  # noqa: S311 (spreads the requests)
            pause = min(pause * 2, _MAX_PAUSE)

    def _note_problem(self, why: str) -> None:
        """Notes that a watch has ended. It is a problem if the next one cannot begin either."""
        self._failures += 1
        if self._failures < _FAILURES:
            return
        if not self.problem:
            _log.warning("a watch of the cluster has ended", extra={"path": self._path, "why": why})
        self.problem = why

    def _note_answer(self) -> None:
        self._failures = 0
        was_away, self.problem = bool(self.problem), ""
        if was_away:
            self._recovered()

    async def _watch(self) -> None:
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "labelSelector": self._selector,
            "timeoutSeconds": str(_WATCH_SECONDS + random.randrange(60)),  # noqa: S311 (as above)
        }
        listed: set[Key] | None = None
        if self._version:
            params["resourceVersion"] = self._version
        else:
            params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
            listed = set()
        async with self._api.stream(self._path, params, silence=_SILENCE) as pieces:
            if listed is None:
                self._note_answer()
            async for line in lines(pieces, self._skip):
                if not line.strip():
                    continue
                listed = self._take(decode(line, WatchEvent), listed)

    def _take(self, event: WatchEvent, listed: set[Key] | None) -> set[Key] | None:
        """Applies an event. `listed`: the objects of a list that is not complete; None after that."""
        body = bytes(event.object)
        match event.type:
            case "ERROR":
                status = decode(body, FailureStatus)
                raise ClusterRefusal(status.code, status.reason, status.message)
            case "BOOKMARK":
                mark = decode(body, _Bookmark)
                self._version = mark.metadata.resource_version
                if listed is not None and mark.annotation(_LIST_END) == "true":
                    for key in [key for key in self._objects if key not in listed]:
                        self._drop(key)
                    self.lists += 1
                    self.is_synced = True
                    self._note_answer()
                    self._changed(None, None)
                    return None
            case "ADDED" | "MODIFIED":
                found = self._decoded(body)
                if found is None:
                    return listed
                self._put(found)
                if listed is not None:
                    listed.add(_key(found))
                else:
                    self._version = found.metadata.resource_version
            case "DELETED":
                found = self._decoded(body)
                if found is not None:
                    self._drop(_key(found))
                    if listed is None:
                        self._version = found.metadata.resource_version
        return listed

    def _decoded(self, body: bytes) -> ObjectT | None:
        """Returns the object of an event; None if it is not of its kind."""
        try:
            found = read_json(body, self._type)
        except BadJson as error:
            if not self._has_unreadable:
                self._has_unreadable = True
                _log.warning(
                    "objects of the cluster are not readable", extra={"path": self._path, "why": str(error)}
                )
            return None
        longest = max(len(found.metadata.name), len(found.metadata.namespace))
        return found if found.metadata.name and longest <= _MAX_NAME_LENGTH else None

    def _skip(self, beginning: bytes) -> None:
        """Passes over an event that is too large to be decoded. What is known of its object is outdated."""
        if match := _NAME_PATTERN.search(beginning):
            key = (match[2] or b"").decode(), match[1].decode()
            self._kept.tell(self._path, key, f"it has more than {MAX_LINE_BYTES >> 20} MiB")
            self._drop(key)

    def _put(self, new: ObjectT) -> None:
        new, key = self._kept.without_unused(new), _key(new)
        old = self._objects.get(key)
        if old is not None and old.metadata.resource_version == new.metadata.resource_version:
            return
        if not self._kept.put(self._path, key, new):
            self._drop(key)
            return
        if old is not None and old.label(names.SERVICE) != new.label(names.SERVICE):
            self._forget_service(key, old)
        self._objects[key] = new
        self._by_service[new.label(names.SERVICE)][key] = new
        self._changed(old, new)

    def _drop(self, key: Key) -> None:
        old = self._objects.pop(key, None)
        if old is None:
            return
        self._kept.drop(self._path, key)
        if len(self._dropped) >= _MAX_DROPPED:
            self._dropped.clear()
        self._dropped[key] = _number(old.metadata)
        self._forget_service(key, old)
        self._changed(old, None)

    def _forget_service(self, key: Key, old: ObjectT) -> None:
        service = old.label(names.SERVICE)
        self._by_service[service].pop(key, None)
        if not self._by_service[service]:
            del self._by_service[service]


def _key(found: KubeObject) -> Key:
    return found.metadata.namespace, found.metadata.name


def _number(metadata: ObjectMetadata) -> int:
    """Returns the version as a number. Versions of one kind grow, as Kubernetes guarantees since 1.35."""
    return number(metadata.resource_version)
