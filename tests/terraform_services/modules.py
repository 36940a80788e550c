"""Modules of Terraform in git repositories, and services that run them with the real program."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.repositories import Repository
from tests.whole import Windlass, until
from windlass.base.environment import for_tools
from windlass.core.deploy.states import OPEN_STATES_OF_DEPLOYMENTS
from windlass.terraform.programs import PROGRAM_NAMES, InstalledPrograms

ENGINE = next((engine for engine, name in PROGRAM_NAMES.items() if shutil.which(name)), "")

SECRET = "correct-horse-battery-staple"

MODULE = """
variable "size" {
  type    = number
  default = 1
}
variable "password" {
  type      = string
  sensitive = true
  default   = "not-set-anywhere"
}
variable "from_environment" {
  type    = string
  default = ""
}
resource "terraform_data" "box" { input = var.size }
resource "terraform_data" "vault" { input = var.password }
output "size" { value = terraform_data.box.output }
output "from_environment" { value = var.from_environment }
output "vault-key" {
  value     = terraform_data.vault.output
  sensitive = true
}
"""


def needs_program() -> str:
    """Skips the test on a machine without the program; CI has it, and refuses skipped tests."""
    if not ENGINE:
        pytest.skip("neither terraform nor tofu is installed: bash .ci/tofu")
    return ENGINE


def program() -> str:
    """The path of the program."""
    engine = needs_program()
    return next(one.path for one in InstalledPrograms(for_tools()).find_all() if one.engine == engine)


def run_by_hand(folder: Path, *words: str) -> str:
    done = subprocess.run([program(), *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


class Service:
    """A Terraform service, as its clients see it."""

    def __init__(self, windlass: Windlass, repository: Repository, environment: str) -> None:
        self.windlass = windlass
        self.repository = repository
        self.environment = environment
        self.id = ""

    @property
    def path(self) -> str:
        return f"/terraform/{self.id}"

    async def make(self, **fields: Any) -> None:
        body = document(self.repository.url) | fields
        made = await self.windlass.call("POST", f"/environment/{self.environment}/terraform", body)
        self.id = str(made["id"])

    async def edit(self, **fields: Any) -> Any:
        return await self.windlass.call("PATCH", self.path, fields)

    async def begin(self, action_name: str = "deploy", **body: Any) -> str:
        return str((await self.windlass.call("POST", f"{self.path}/{action_name}", body))["id"])

    async def run(self, action_name: str = "deploy", **body: Any) -> Any:
        return await self.ended(await self.begin(action_name, **body))

    async def ended(self, deployment: str) -> Any:
        at = f"{self.path}/deployment/{deployment}"

        async def has_ended() -> bool:
            return (await self.windlass.call("GET", at))["status"] not in OPEN_STATES_OF_DEPLOYMENTS

        await until(has_ended)
        return await self.windlass.call("GET", at)

    async def get(self, what: str) -> Any:
        return await self.windlass.call("GET", f"{self.path}/{what}")

    async def results(self, what: str) -> list[Any]:
        return list((await self.get(what))["results"])

    async def log(self) -> str:
        return "\n".join(line["message"] for line in await self.results("log?tail=2000"))

    async def says(self, text: str) -> None:
        """Waits until the log of the service has this text."""

        async def has_said() -> bool:
            return text in await self.log()

        await until(has_said)

    async def variables(self) -> dict[str, str]:
        """The outputs, as its neighbours get them."""
        ctx = self.windlass.installation.ctx
        kind = ctx.kinds["terraform"]

        async def address(*_: object) -> Any:
            raise AssertionError("a Terraform service has no address")

        offer = await kind.offer(ctx, ctx.store.reads, self.environment, address)
        return {variable.key: variable.value for variable in offer.variables}


def document(url: str) -> dict[str, Any]:
    """The body of a service, with the required fields alone."""
    return {
        "name": "bucket",
        "terraform_files_source": {"git_repository": {"url": url, "branch": "main", "root_path": "/infra"}},
        "backend": {"kubernetes": {}},
        "engine": ENGINE or "TERRAFORM",
    }
