"""An organization with many containers leaves places at which the output of others is read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from windlass.docker import names, watch
from windlass.docker.client import Docker
from windlass.docker.restarts import Restarts
from windlass.docker.watch import EventWatcher


@pytest.fixture
async def watched(tmp_path: Path, monkeypatch) -> AsyncIterator[EventWatcher]:
    """A watcher of an engine that is away, so that nothing is read."""
    monkeypatch.setattr(watch, "MAX_FOLLOWED_CONTAINERS", 8)

    async def nothing(*_: object) -> None:
        """Is not called."""

    docker = Docker(f"unix://{tmp_path}/none.sock")
    watcher = EventWatcher(docker, "test", tmp_path / "read", nothing, Restarts(nothing))
    await watcher.start(lambda _: None, lambda *_: None, lambda: None, 0.01)
    yield watcher
    await watcher.stop()
    await docker.close()


def listen(watcher: EventWatcher, org: str, count: int) -> int:
    """Starts containers of an organization. Returns of how many the output is read."""
    before = len(watcher._followers)
    for number in range(count):
        labels = {
            names.SERVICE_LABEL: "shop",
            names.POD_LABEL: f"shop-{number}",
            names.ORGANIZATION_LABEL: org,
        }
        watcher.listen(f"{org}{number}", labels)
    return len(watcher._followers) - before


async def test_an_organization_follows_at_most_as_many_containers_as_places_remain_free(watched):
    assert listen(watched, "acme", 20) == 8
    assert listen(watched, "other", 3) == 3
    assert listen(watched, "acme", 20) == 0


async def test_without_limits_per_organization_one_caller_can_take_all_log_follower_slots(watched):
    listen(watched, "", 20)
    assert listen(watched, "", 3) == 0
