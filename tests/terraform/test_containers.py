"""Modules that run in containers of a real Docker engine, from an image with the real program."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.repositories import Repository
from tests.engines.dockers import docker_host
from tests.free_ports import free_port
from tests.terraform.conftest import new_environment
from tests.terraform.images import program_image
from tests.terraform.modules import SECRET, Service
from tests.terraform.test_runs import begin_slow, values
from tests.whole import Place, Windlass, place

SETTINGS: dict[str, Any] = {"git_allow_local": True, "stop_seconds": 1, "settle_seconds": 0}


@pytest.fixture(scope="module")
def image() -> str:
    return program_image(docker_host())


@pytest.fixture
async def house(image: str) -> AsyncIterator[Place]:
    """A folder for a Windlass that containers reach at the network of the engine."""
    images = {"terraform_image": image, "opentofu_image": image}
    async with place(
        "docker", docker_host(), port=free_port(), host="0.0.0.0", **images, **SETTINGS
    ) as made:
        yield made


async def test_a_module_is_applied_and_destroyed_in_containers(service: Service, house: Place):
    await service.make(**values(("size", "3"), password=SECRET))
    done = await service.run()
    assert done["status"] == "SUCCEEDED", done
    prefix = f"QOVERY_TERRAFORM_Z{service.id[:8].upper()}_"
    assert (await service.variables())[prefix + "SIZE"] == "3"
    assert (await service.variables())[prefix + "VAULT_KEY"] == SECRET
    assert len(await service.results("terraformResources")) == 2
    (plan,) = await service.results("plan")
    assert plan["added"] == 2
    assert SECRET not in f"{plan}{await service.log()}"
    assert await service.get("lock") == {"is_locked": False}

    await service.windlass.call("DELETE", service.path)
    await house.is_empty()
