"""Events of single objects. They are read on demand: a cluster has too many of them to watch."""

from __future__ import annotations

from typing import Final

from windlass.base.foreign_json import BadJson, read_json
from windlass.kubernetes import paths
from windlass.kubernetes.api import ClusterApi, ClusterRefusal
from windlass.kubernetes.documents import ClusterEvent, RawItems

_LIMIT: Final = "50"


async def read_events(api: ClusterApi, namespace: str, name: str) -> list[ClusterEvent]:
    """Returns the events of an object; none if the account may not read events."""
    params = {"fieldSelector": f"involvedObject.name={name}", "limit": _LIMIT}
    try:
        page = await api.get(paths.events(namespace), RawItems, params)
    except ClusterRefusal:
        return []
    found = []
    for item in page.items:
        try:
            found.append(read_json(bytes(item), ClusterEvent))
        except BadJson:
            continue
    return found
