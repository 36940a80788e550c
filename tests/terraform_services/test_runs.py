"""Terraform services on a whole Windlass, with the real program: plan, apply, destroy."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.terraform_services.modules import SECRET, Service
from tests.whole import Place, until

pytestmark = pytest.mark.slow

SLOW = """
resource "terraform_data" "quick" { input = "quick" }
resource "terraform_data" "slow" {
  depends_on = [terraform_data.quick]
  provisioner "local-exec" {
    command = "echo $$ > ${path.root}/slow.pid; echo it-has-begun; sleep 60"
  }
}
"""


def values(*pairs: tuple[str, str], **secrets: str) -> dict[str, Any]:
    """The field with the values of input variables."""
    plain = [{"key": key, "value": value} for key, value in pairs]
    hidden = [{"key": key, "value": value, "secret": True} for key, value in secrets.items()]
    return {"terraform_variables_source": {"tf_vars": [*plain, *hidden]}}


async def test_a_stored_plan_can_be_applied_unchanged_and_only_once(service: Service):
    await service.make(**values(("size", "3")))
    first = await service.run()
    assert first["status"] == "SUCCEEDED", first
    await service.edit(**values(("size", "4")))

    planned = await service.run(action="PLAN")
    assert planned["status"] == "SUCCEEDED", planned
    assert planned["status_details"]["sub_action"] == "TERRAFORM_PLAN_ONLY"
    plan = (await service.results("plan"))[0]
    assert (plan["added"], plan["changed"], plan["destroyed"]) == (0, 1, 0)
    assert plan["resources"] == [{"address": "terraform_data.box", "action": "update"}]
    assert plan["applicable"]
    assert "will be updated in-place" in plan["text"]
    assert (await service.variables())[f"QOVERY_TERRAFORM_Z{service.id[:8].upper()}_SIZE"] == "3"

    applied = await service.run(plan_id=planned["id"])
    assert applied["status"] == "SUCCEEDED", applied
    assert applied["repeats"] == planned["id"]
    assert (await service.variables())[f"QOVERY_TERRAFORM_Z{service.id[:8].upper()}_SIZE"] == "4"
    assert not (await service.results(f"plan?deployment_id={planned['id']}"))[0]["applicable"]

    again = await service.run(plan_id=planned["id"])
    assert again["status"] == "FAILED"
    assert "apply that: the state has changed since this one" in again["message"]
    assert len(await service.results("stateVersion")) == 2


async def test_secrets_are_in_no_log_plan_list_or_file(service: Service, house: Place):
    await service.make(**values(password=SECRET))
    assert SECRET not in str(await service.windlass.call("GET", service.path))
    done = await service.run()
    assert done["status"] == "SUCCEEDED", done

    outputs = await service.variables()
    assert outputs[f"QOVERY_TERRAFORM_Z{service.id[:8].upper()}_VAULT_KEY"] == SECRET  # the control
    resources = {one["address"]: one for one in await service.results("terraformResources")}
    assert resources["terraform_data.vault"]["attributes"]["input"] == "(sensitive value)"
    assert SECRET not in str(resources), "the program itself does not hide it there"
    for where in (done, await service.log(), await service.get("plan")):
        assert SECRET not in str(where)
    kept = [path for path in house.folder.rglob("*") if path.is_file()]
    assert kept
    assert [path for path in kept if SECRET.encode() in path.read_bytes()] == []


@pytest.mark.nightly
async def test_variable_values_come_from_files_fields_and_the_environment(service: Service):
    service.repository.put({"infra/live.tfvars": 'size = 5\nfrom_environment = "file"\n'})
    service.repository.commit("Values")
    chosen = values(("size", "7"))
    chosen["terraform_variables_source"]["tf_var_file_paths"] = ["live.tfvars"]
    await service.make(**chosen)
    await service.run()
    prefix = f"QOVERY_TERRAFORM_Z{service.id[:8].upper()}_"
    assert (await service.variables())[prefix + "SIZE"] == "7"
    assert (await service.variables())[prefix + "FROM_ENVIRONMENT"] == "file"

    path = f"/environment/{service.environment}/environmentVariable"
    await service.windlass.call("POST", path, {"key": "TF_VAR_from_environment", "value": "variable"})
    await service.edit(terraform_variables_source={"tf_var_file_paths": []})
    await service.run()
    assert (await service.variables())[prefix + "FROM_ENVIRONMENT"] == "variable"


async def test_outputs_are_listed_with_their_variables_and_without_what_is_sensitive(service: Service):
    await service.make(**values(("size", "3"), password=SECRET))
    assert await service.results("output") == []
    done = await service.run()
    assert done["status"] == "SUCCEEDED", done
    listed = {output["name"]: output for output in await service.results("output")}
    given = await service.variables()
    assert (listed["size"]["value"], listed["size"]["sensitive"]) == ("3", False)
    assert given[listed["size"]["variable"]] == "3"
    assert (listed["vault-key"]["sensitive"], "value" in listed["vault-key"]) == (True, False)
    assert given[listed["vault-key"]["variable"]] == SECRET  # the control
    said = await service.windlass.say("terraform", "output", "bucket")
    assert listed["size"]["variable"] in said.out
    assert SECRET not in f"{listed}{said.out}"


async def test_a_deletion_destroys_and_a_removal_of_resources_keeps_the_service(service: Service):
    await service.make()
    await service.run()
    assert len(await service.results("terraformResources")) == 2
    await service.windlass.call("DELETE", f"{service.path}?resources_only=true")

    async def is_removed() -> bool:
        return bool((await service.get("status"))["deployment_state"] == "READY")

    await until(is_removed)
    assert await service.results("terraformResources") == []
    assert await service.variables() == {}
    newest = (await service.results("deployment"))[0]
    assert newest["status_details"]["sub_action"] == "TERRAFORM_DESTROY"

    await service.run()
    await service.windlass.call("DELETE", service.path)
    await until(lambda: is_gone(service))


async def is_gone(service: Service) -> bool:
    listed = await service.windlass.call("GET", f"/environment/{service.environment}/terraform")
    return not listed["results"]


@pytest.mark.nightly
async def test_uninstalling_with_skip_destroy_keeps_the_resources(service: Service):
    await service.make()
    await service.run()
    await service.run("uninstall?force_terraform_action=SKIP_DESTROY")
    assert len(await service.results("terraformResources")) == 2
    again = await service.run()
    assert "0 added, 0 changed, 0 destroyed" in "\n".join(again["run"]["output"])


@pytest.mark.nightly
async def test_a_failed_apply_shows_its_reason_and_keeps_created_resources_in_the_state(service: Service):
    service.repository.put(
        {
            "infra/main.tf": 'resource "terraform_data" "good" {}\n'
            'resource "terraform_data" "bad" {\n  depends_on = [terraform_data.good]\n'
            '  provisioner "local-exec" { command = "echo the-disk-is-full; exit 3" }\n}\n'
        }
    )
    service.repository.commit("A module that fails")
    await service.make()
    done = await service.run()
    assert done["status"] == "FAILED"
    assert "the-disk-is-full" in done["message"]
    assert {one["address"] for one in await service.results("terraformResources")} == {
        "terraform_data.good",
        "terraform_data.bad",
    }
    assert (await service.get("lock")) == {"is_locked": False}


@pytest.mark.nightly
async def test_a_failed_apply_fails_the_applications_of_its_request(service: Service):
    call, above = service.windlass.call, f"/environment/{service.environment}"
    service.repository.put({"infra/main.tf": "nonsense {}\n"})
    service.repository.commit("A module that fails")
    await service.make()
    source = {"url": service.repository.url, "branch": "main", "root_path": "/infra"}
    app = (await call("POST", f"{above}/application", {"name": "shop", "git_repository": source}))["id"]

    async def message() -> str:
        return str((await call("GET", f"/application/{app}/status"))["message"])

    await call("POST", f"{above}/deploy")

    async def has_failed() -> bool:
        return "which comes first" in await message()

    await until(has_failed)
    assert (await message()).startswith("Fix the Terraform service ")
    await call("POST", f"/application/{app}/deploy")  # the control: alone, it fails by itself

    async def has_failed_alone() -> bool:
        return bool(said := await message()) and "which comes first" not in said

    await until(has_failed_alone)


@pytest.mark.nightly
async def test_a_failed_destruction_keeps_the_service_and_says_why(service: Service):
    await service.make()
    await service.run()
    await service.edit(terraform_variables_source={"tf_vars": [{"key": "unknown", "value": "1"}]})
    await service.windlass.call("DELETE", service.path)

    async def has_failed() -> bool:
        return bool((await service.get("status"))["deployment_state"] == "DELETE_ERROR")

    await until(has_failed)
    assert "unknown" in (await service.get("status"))["message"]
    assert len(await service.results("terraformResources")) == 2
    await service.windlass.call("DELETE", f"{service.path}?force_terraform_action=SKIP_DESTROY")
    await until(lambda: is_gone(service))


async def begin_slow(service: Service) -> str:
    """A run in the middle of its second resource."""
    service.repository.put({"infra/main.tf": SLOW})
    service.repository.commit("A slow module")
    await service.make()
    begun = await service.begin()
    await service.says("it-has-begun")
    return begun


async def test_a_killed_run_leaves_a_lock_that_is_shown_and_can_be_force_released(
    service: Service, house: Place
):
    begun = await begin_slow(service)
    held = await service.get("lock")
    assert (held["is_locked"], held["deployment_id"], held["is_running"]) == (True, begun, True)
    assert (held["operation"], held["owner"]) == ("apply", "operator")
    kill_programs(house.folder)
    done = await service.ended(begun)
    assert done["status"] == "FAILED"
    assert "by v1 of operator (apply), which has ended" in done["message"]
    assert not (await service.get("lock"))["is_running"]

    service.repository.put({"infra/main.tf": 'resource "terraform_data" "quick" { input = "quick" }\n'})
    service.repository.commit("A quick module")
    refused = await service.run()
    assert refused["status"] == "FAILED"
    assert refused["message"].startswith("Deploy with the action FORCE_UNLOCK: ")

    unlocked = await service.run(action="FORCE_UNLOCK")
    assert unlocked["status"] == "SUCCEEDED", unlocked
    assert (await service.get("lock")) == {"is_locked": False}
    assert (await service.run())["status"] == "SUCCEEDED"


def kill_programs(folder: Path) -> None:
    """Kills the program of a run of this Windlass, as the kernel does when memory is short."""
    mark = f"WINDLASS_FILES={folder}/".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            is_ours = mark in (process / "environ").read_bytes()
        except OSError:
            continue
        if (
            is_ours
            and len(words) > 2
            and words[1] == b"apply"
            and words[0].endswith((b"/terraform", b"/tofu"))
        ):
            os.kill(int(process.name), signal.SIGKILL)


async def test_a_cancelled_run_stores_its_state_and_releases_its_lock(service: Service):
    begun = await begin_slow(service)
    await service.windlass.call("POST", f"{service.path}/cancelDeployment")
    done = await service.ended(begun)
    assert done["status"] == "CANCELED"
    assert (await service.get("lock")) == {"is_locked": False}
    assert "terraform_data.quick" in {one["address"] for one in await service.results("terraformResources")}


@pytest.mark.nightly
async def test_a_terraform_run_is_ended_after_its_timeout(service: Service):
    service.repository.put({"infra/main.tf": SLOW})
    service.repository.commit("A slow module")
    await service.make(timeout_sec=4)
    done = await service.run()
    assert done["status"] == "FAILED"
    assert "did not end within 4 seconds" in done["message"]
    assert (await service.get("lock")) == {"is_locked": False}


@pytest.mark.nightly
async def test_an_earlier_state_is_restored_as_the_newest_version(service: Service):
    await service.make(**values(("size", "1")))
    await service.run()
    await service.edit(**values(("size", "2")))
    await service.run()
    prefix = f"QOVERY_TERRAFORM_Z{service.id[:8].upper()}_"
    assert (await service.variables())[prefix + "SIZE"] == "2"
    restored = await service.windlass.call("POST", f"{service.path}/restoreState", {"number": 1})
    assert (restored["number"], restored["restored_from"], restored["is_current"]) == (3, 1, True)
    assert (await service.variables())[prefix + "SIZE"] == "1"
    plan = await service.run(action="PLAN")
    assert plan["status"] == "SUCCEEDED", plan
    assert (await service.results("plan"))[0]["changed"] == 1


@pytest.mark.nightly
async def test_concurrent_deploy_requests_are_applied_one_after_the_other(service: Service):
    await service.make()
    first, second = await asyncio.gather(service.begin(), service.begin())
    states = {(await service.ended(one))["status"] for one in (first, second)}
    assert states <= {"SUCCEEDED", "SUPERSEDED"}
    assert len(await service.results("stateVersion")) == 1
