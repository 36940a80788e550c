"""A module runs untrusted programs, which reach nothing but their own service."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.free_ports import free_port
from tests.repositories import Repository
from tests.terraform_services.conftest import new_environment
from tests.terraform_services.modules import MODULE, SECRET, Service, needs_program
from tests.whole import Place, place

pytestmark = pytest.mark.slow

SCRIPT = """
import base64, glob, http.client, json, os, socket
asked = json.loads(os.environ["ASKED"])
found = {"files": [], "environ": [], "states": {}, "written": [], "ports": []}
for top in asked["folders"]:
    for path, _, names in os.walk(top):
        for name in names:
            try:
                open(os.path.join(path, name), "rb").read(1)
                found["files"].append(os.path.join(path, name))
            except OSError:
                pass
for path in glob.glob("/proc/[0-9]*/environ"):
    try:
        if asked["secret_backwards"][::-1].encode() in open(path, "rb").read():
            found["environ"].append(path)
    except OSError:
        pass
for path in asked["written"]:
    try:
        open(path, "a").write("evil")
        found["written"].append(path)
    except OSError:
        pass
header = base64.b64encode(("run:" + os.environ["TF_HTTP_PASSWORD"]).encode()).decode()
for name, service in asked["states"].items():
    server = http.client.HTTPConnection("windlass")
    server.sock = socket.socket(socket.AF_UNIX)
    server.sock.connect(asked["socket"])
    server.request("GET", f"/terraform-run/{service}/state", headers={"Authorization": "Basic " + header})
    found["states"][name] = server.getresponse().status
for port in asked["ports"]:
    try:
        socket.create_connection(("127.0.0.1", port), 2).close()
        found["ports"].append(port)
    except OSError:
        pass
print("FOUND" + json.dumps(found))
"""

KEEPS_SECRET = """
variable "password" { type = string }
resource "terraform_data" "vault" { input = sensitive(var.password) }
"""
EXEC = """
resource "terraform_data" "evil" {
  triggers_replace = [timestamp()]
  provisioner "local-exec" {
    command = "python3 ${path.root}/evil.py"
  }
}
"""


def planted(folder: Path, name: str, main: str, **files: str) -> Repository:
    repository = Repository(folder / name)
    repository.put({"infra/main.tf": main, **files})
    repository.commit("A module")
    return repository


async def found_by(service: Service, asked: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Returns the things that the program of a module has found."""
    path = f"/environment/{service.environment}/environmentVariable"
    await service.make()
    await service.windlass.call("POST", path, {"key": "ASKED", "value": json.dumps(asked())})
    done = await service.run()
    assert done["status"] == "SUCCEEDED", done
    for line in (await service.log()).splitlines():
        if "FOUND" in line:
            return dict(json.loads(line.partition("FOUND")[2]))
    raise AssertionError("the program of the module has said nothing")


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """A folder of providers, which all organizations share."""
    program = tmp_path / "mirror" / "registry.test" / "acme" / "box" / "1.0.0" / "linux_amd64" / "program"
    program.parent.mkdir(parents=True)
    program.write_text("of the operator")
    return tmp_path / "mirror"


@pytest.fixture
async def house(mirror: Path) -> AsyncIterator[Place]:
    needs_program()
    async with place(
        "process", port=free_port(), git_allow_local=True, terraform_providers=str(mirror), stop_seconds=1
    ) as made:
        yield made


async def test_a_hostile_module_reads_and_changes_nothing_of_the_server_or_other_services(
    house: Place, tmp_path: Path, mirror: Path
) -> None:
    async with house.windlass() as windlass:
        environment = await new_environment(windlass)
        victim = Service(windlass, planted(tmp_path, "victim", KEEPS_SECRET), environment)
        secrets = {"tf_vars": [{"key": "password", "value": SECRET, "secret": True}]}
        await victim.make(terraform_variables_source=secrets, name="victim")
        assert (await victim.run())["status"] == "SUCCEEDED"
        module = planted(tmp_path, "evil", MODULE + EXEC, **{"infra/evil.py": SCRIPT})
        evil = Service(windlass, module, environment)
        there = [path for top in (house.folder, mirror) for path in top.rglob("*") if path.is_file()]
        copied = [path for path in there if "etc" in path.parts]
        kept = [str(path) for path in {*there} - {*copied[1:]}]  # of a thousand settings, one will do
        found = await found_by(
            evil,
            lambda: {
                "folders": [str(house.folder), str(module.folder.parent / "victim")],
                "secret_backwards": SECRET[::-1],
                "written": kept,
                "states": {"own": evil.id, "other": victim.id, "nobody": environment},
                "socket": str(house.folder / "run/servers" / str(house.settings.port)),
                "ports": [house.settings.port],
            },
        )
    assert any(path.endswith("main.tf") for path in found["files"]), "the control: its own files"
    assert [path for path in found["files"] if evil.id not in path] == []
    assert found["environ"] == []
    assert found["written"] == []
    assert found["ports"] == [], "the machine has its port, and the run a network of its own"
    assert found["states"].pop("own") in (200, 404), "the control: it has a credential"
    assert found["states"] == {"other": 401, "nobody": 401}
    assert (mirror / "registry.test/acme/box/1.0.0/linux_amd64/program").read_text() == "of the operator"
