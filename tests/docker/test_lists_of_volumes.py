"""Volumes of one organization do not make the list of all volumes too long to be read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from windlass.docker.client import Docker, EngineRefused
from windlass.docker.client.answers import decode
from windlass.docker.descriptions import MAX_LIST_LENGTH
from windlass.docker.resources import DockerResources


def resources(count: int, *, is_elsewhere: bool) -> DockerResources:
    """Returns those of an engine with as many volumes."""

    async def read_list(path: str, kind: Any, **_: Any) -> Any:
        labels = {"windlass.installation": "here", "windlass.service": "shop"}
        volumes = [{"Name": f"v{number}", "Labels": labels} for number in range(count)]
        return decode(msgspec.json.encode({"Volumes": volumes}), kind)

    docker = SimpleNamespace(read_list=read_list, is_elsewhere=is_elsewhere)
    return DockerResources(cast(Docker, docker), "here")


async def test_many_volumes_of_a_service_are_listed_by_the_engine_that_all_share():
    count = MAX_LIST_LENGTH + 1
    assert await resources(count, is_elsewhere=False).volumes_by_service() == {"shop": count}
    with pytest.raises(EngineRefused, match="does not answer like this"):
        await resources(count, is_elsewhere=True).volumes_by_service()
