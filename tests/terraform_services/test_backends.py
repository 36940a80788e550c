"""The state of a module in Windlass and elsewhere: the credential of a run, other backends, providers."""

from __future__ import annotations

import asyncio
import base64
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from tests.faults.witness import MACHINE
from tests.free_ports import free_port
from tests.repositories import Repository
from tests.terraform_services.conftest import new_environment
from tests.terraform_services.modules import MODULE, Service, needs_program
from tests.terraform_services.test_runs import begin_slow
from tests.whole import Place, Windlass, place
from windlass.terraform.states import CredentialHolder, run_credential

pytestmark = pytest.mark.slow

PROVIDERS = Path("/usr/local/share/windlass-tests/terraform-providers")


class OtherBackend:
    """An HTTP backend beside Windlass, without locks."""

    def __init__(self) -> None:
        self.state = b""


@contextmanager
def other_backend() -> Iterator[tuple[str, OtherBackend]]:
    kept = OtherBackend()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if kept.state else 404)
            self.end_headers()
            self.wfile.write(kept.state)

        def do_POST(self) -> None:
            kept.state = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer((MACHINE, 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://{MACHINE}:{server.server_port}/state", kept
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_with_a_user_provided_backend_windlass_reads_state_and_outputs_from_it(service: Service):
    with other_backend() as (address, kept):
        block = f'terraform {{\n  backend "http" {{\n    address = "{address}"\n  }}\n}}\n'
        service.repository.put({"infra/backend.tf": block})
        service.repository.commit("A backend")
        await service.make(backend={"user_provided": {}})
        done = await service.run()
        assert done["status"] == "SUCCEEDED", done
        assert b'"terraform_data"' in kept.state
        prefix = f"QOVERY_TERRAFORM_Z{service.id[:8].upper()}_"
        assert (await service.variables())[prefix + "SIZE"] == "1"

        lineage = msgspec.json.decode(kept.state)["lineage"]
        await service.edit(backend={"kubernetes": {}, "user_provided": None})
        refused = await service.run()
        assert refused["status"] == "FAILED"
        assert "deploy with the action MIGRATE_STATE first" in refused["message"]
        moved = await service.run(action="MIGRATE_STATE")
        assert moved["status"] == "SUCCEEDED", moved
        kept.state = b""
        again = await service.run()
        assert again["status"] == "SUCCEEDED", again
        assert "0 added, 0 changed, 0 destroyed" in "\n".join(again["run"]["output"])
        ctx = service.windlass.installation.ctx
        newest = await ctx.store.reads.terraform.newest(service.id)
        assert newest is not None
        assert lineage


async def test_a_state_that_would_end_with_its_run_is_refused(service: Service):
    await service.make(backend={"user_provided": {}})
    done = await service.run()
    assert done["status"] == "FAILED"
    assert "backend.user_provided: add a backend block to the module" in done["message"]
    assert await service.results("terraformResources") == []


async def ask(windlass: Windlass, service: str, password: str, path: str = "state") -> int:
    """Returns the status of a request for a state."""
    credential = base64.b64encode(f"run:{password}".encode()).decode()
    url = f"{windlass.url}/terraform-run/{service}/{path}"
    request = urllib.request.Request(url, headers={"Authorization": f"Basic {credential}"})

    def send() -> int:
        try:
            with urllib.request.urlopen(request) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    return await asyncio.to_thread(send)


# Terraform shows the command before it runs: the words of its output are not written as such in it.
CURIOUS = """
resource "terraform_data" "curious" {
  provisioner "local-exec" {
    command = "env > $WINDLASS_VOLUME_TERRAFORM/env; echo it-has''-begun $TF_HTTP_PASSWORD; sleep 60"
  }
}
"""


async def test_the_credential_given_to_a_module_is_valid_only_for_its_state_and_during_its_run(
    service: Service, house: Place
):
    other = Service(service.windlass, service.repository, service.environment)
    await other.make(name="other")
    service.repository.put({"infra/main.tf": CURIOUS})
    service.repository.commit("A curious module")
    await service.make()
    begun = await service.begin()
    await service.says("it-has-begun")
    (kept,) = house.folder.glob("run/volumes/*/terraform/env")
    found = dict(line.partition("=")[::2] for line in kept.read_text().splitlines())
    ctx = service.windlass.installation.ctx
    credential = found["TF_HTTP_PASSWORD"]
    assert credential == run_credential(ctx, begun, CredentialHolder.PROGRAM)
    assert run_credential(ctx, begun) not in found.values()
    assert credential not in await service.log()
    assert await ask(service.windlass, service.id, credential) in (200, 404)
    assert await ask(service.windlass, service.id, run_credential(ctx, begun), "run") == 200  # the control
    assert await ask(service.windlass, service.id, credential, "run") == 401
    assert await ask(service.windlass, other.id, credential) == 401
    assert await called(service.windlass, credential) == 401
    await service.windlass.call("POST", f"{service.path}/cancelDeployment")
    await service.ended(begun)
    assert await ask(service.windlass, service.id, credential) == 401


async def called(windlass: Windlass, token: str) -> int:
    """Returns the status of a request of a client with this token."""
    request = urllib.request.Request(
        f"{windlass.url}/organization", headers={"Authorization": f"Token {token}"}
    )

    def send() -> int:
        try:
            with urllib.request.urlopen(request) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    return await asyncio.to_thread(send)


@pytest.mark.nightly
async def test_a_run_credential_is_valid_only_for_its_own_state_until_the_run_ends(service: Service):
    other = Service(service.windlass, service.repository, service.environment)
    await other.make(name="other")
    begun = await begin_slow(service)
    credential = run_credential(service.windlass.installation.ctx, begun)
    assert await ask(service.windlass, service.id, credential) in (200, 404)
    false = credential[:-1] + ("1" if credential.endswith("0") else "0")
    assert await ask(service.windlass, service.id, false) == 401
    assert await ask(service.windlass, service.id, begun) == 401
    assert await ask(service.windlass, other.id, credential) == 401
    assert await ask(service.windlass, service.id, credential, f"plan/{begun}") == 404
    await service.windlass.call("POST", f"{service.path}/cancelDeployment")
    await service.ended(begun)
    assert await ask(service.windlass, service.id, credential) == 401


@pytest.mark.nightly
async def test_a_provider_from_the_operators_mirror_is_used_without_contacting_a_registry(tmp_path: Path):
    needs_program()
    if not PROVIDERS.is_dir():
        pytest.skip("the provider is not built: bash .ci/tofu builds it")
    repository = Repository(tmp_path / "repository").put(
        {
            "infra/main.tf": "terraform {\n  required_providers {\n"
            '    time = { source = "hashicorp/time" }\n  }\n}\n'
            'resource "time_static" "began" {}\noutput "year" { value = time_static.began.year }\n'
        }
    )
    repository.commit("A module with a provider")
    async with (
        place("process", port=free_port(), git_allow_local=True, terraform_providers=str(PROVIDERS)) as house,
        house.windlass() as windlass,
    ):
        service = Service(windlass, repository, await new_environment(windlass))
        await service.make()
        done = await service.run()
        assert done["status"] == "SUCCEEDED", done
        (resource,) = await service.results("terraformResources")
        assert resource["provider"].endswith("/hashicorp/time")
        assert resource["attributes"]["year"] > 2000
        assert MODULE
