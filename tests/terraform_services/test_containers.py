"""Modules that run in containers of a real Docker engine, from an image with the real program."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.engines.dockers import BOX, docker_host
from tests.free_ports import free_port
from tests.repositories import Repository
from tests.terraform_services.conftest import new_environment
from tests.terraform_services.images import program_image
from tests.terraform_services.modules import MODULE, SECRET, Service
from tests.terraform_services.test_runs import begin_slow, values
from tests.whole import Place, place

pytestmark = pytest.mark.slow

SETTINGS: dict[str, Any] = {"git_allow_local": True, "stop_seconds": 1, "settle_seconds": 0}


@pytest.fixture(scope="module")
def image() -> str:
    return program_image(docker_host())


@pytest.fixture
async def house(image: str) -> AsyncIterator[Place]:
    """A folder for a Windlass that containers reach at the network of the engine."""
    images = {"terraform_image": image, "opentofu_image": image}
    async with place("docker", docker_host(), port=free_port(), host="0.0.0.0", **images, **SETTINGS) as made:
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


@pytest.mark.nightly
async def test_a_cancelled_run_in_a_container_stores_its_state_and_releases_its_lock(service: Service):
    begun = await begin_slow(service)
    await service.windlass.call("POST", f"{service.path}/cancelDeployment")
    done = await service.ended(begun)
    assert done["status"] == "CANCELED"
    assert await service.get("lock") == {"is_locked": False}
    assert "terraform_data.quick" in {one["address"] for one in await service.results("terraformResources")}


ALONE = """
resource "terraform_data" "who" {
  provisioner "local-exec" {
    command = "id; test -e /var/run/docker.sock || echo no-socket; touch /made || echo no-root"
  }
}
"""


async def test_a_module_runs_unprivileged_without_docker_socket_and_ignores_dockerignore(service: Service):
    service.repository.put({"infra/main.tf": ALONE, ".dockerignore": "infra\n", "Dockerfile": "FROM no\n"})
    service.repository.commit("A curious module")
    await service.make()
    done = await service.run()
    assert done["status"] == "SUCCEEDED", done
    for words in ("uid=65532", "no-socket", "no-root"):
        await service.says(words)


async def test_a_terraform_image_without_python_is_refused_with_advice():
    async with (
        place(
            "docker", docker_host(), port=free_port(), host="0.0.0.0", terraform_image=BOX, **SETTINGS
        ) as there,
        there.windlass() as windlass,
    ):
        repository = Repository(there.beside / "repository").put({"infra/main.tf": MODULE})
        repository.commit("A module")
        service = Service(windlass, repository, await new_environment(windlass))
        await service.make(engine="TERRAFORM")
        done = await service.run()
        assert done["status"] == "FAILED"
        assert "settings terraform_image and opentofu_image" in done["message"]
