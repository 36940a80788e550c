"""Applies an exported configuration with the requests of the Terraform provider of the full interface, in the
order of the references."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from tests.terraform_exports.configuration import Configuration, Scope

Send = Callable[[str, str, Any], Awaitable[Any]]
"""Sends a request below /compat, and returns the decoded answer. Raises AssertionError if it is refused."""

_SEGMENTS: Final = {
    "qovery_application": "application",
    "qovery_container": "container",
    "qovery_database": "database",
    "qovery_helm": "helm",
    "qovery_job": "job",
    "qovery_terraform_service": "terraform",
}
_BELOW: Final = {"custom_domains": "customDomain", "deployment_restrictions": "deploymentRestriction"}
_KINDS: Final = {"environmentVariable": "environment_variable", "secret": "secret"}
_NOT_IN_BODY: Final = frozenset(
    {"environment_id", "deployment_stage_id", "is_skipped", "custom_domains", "deployment_restrictions"}
    | {"advanced_settings_json", "annotations_group_ids", "labels_group_ids", "ephemeral_storage"}
    | {f"{kind}{ending}" for kind in _KINDS.values() for ending in ("s", "_aliases", "_overrides", "_files")}
)


class Provider:
    def __init__(self, send: Send, configuration: Configuration, inputs: Mapping[str, Any]) -> None:
        defaults = {
            name: body["default"] for name, body in configuration.variables.items() if "default" in body
        }
        self._send, self._configuration = send, configuration
        self.scope = Scope({**defaults, **inputs})

    async def apply(self) -> None:
        waiting = dict(self._configuration.resources)
        while waiting:
            ready = [address for address, body in waiting.items() if self.scope.is_ready(body)]
            assert ready, f"these refer to each other: {[*waiting]}"
            for address in ready:
                type_name, label = address
                fields = self.scope.value(waiting.pop(address))
                self.scope.made[type_name, label] = await self._make(type_name, fields)

    def id(self, type_name: str, label: str) -> str:
        return str(self.scope.made[type_name, label]["id"])

    async def _make(self, type_name: str, fields: dict[str, Any]) -> Mapping[str, Any]:
        if type_name == "qovery_project":
            return await self._project(fields)
        if type_name == "qovery_environment":
            return await self._environment(fields)
        if type_name == "qovery_deployment_stage":
            return await self._stage(fields)
        return await self._service(_SEGMENTS[type_name], fields)

    async def _project(self, fields: dict[str, Any]) -> Mapping[str, Any]:
        body = {name: fields[name] for name in ("name", "description") if name in fields}
        made = await self._send("POST", f"/organization/{fields['organization_id']}/project", body)
        await self._variables(f"/project/{made['id']}", fields)
        return {"id": made["id"]}

    async def _environment(self, fields: dict[str, Any]) -> Mapping[str, Any]:
        body = {"name": fields["name"], "mode": fields["mode"], "cluster": fields["cluster_id"]}
        made = await self._send("POST", f"/project/{fields['project_id']}/environment", body)
        await self._variables(f"/environment/{made['id']}", fields)
        return {"id": made["id"]}

    async def _stage(self, fields: dict[str, Any]) -> Mapping[str, Any]:
        body = {"name": fields["name"], "description": fields.get("description", "")}
        made = await self._send("POST", f"/environment/{fields['environment_id']}/deploymentStage", body)
        for attribute, move in (("is_after", "moveAfter"), ("is_before", "moveBefore")):
            if attribute in fields:
                await self._send("PUT", f"/deploymentStage/{made['id']}/{move}/{fields[attribute]}", None)
        return {"id": made["id"]}

    async def _service(self, segment: str, fields: dict[str, Any]) -> Mapping[str, Any]:
        body = {name: value for name, value in fields.items() if name not in _NOT_IN_BODY}
        body = _BODIES.get(segment, lambda body: body)(body)
        for group in ("annotations", "labels"):
            ids = fields.get(f"{group}_group_ids", [])
            body[f"{group}_groups"] = [{"id": id} for id in ids]
        if "ephemeral_storage" in fields:
            body["ephemeral_storage_in_gib"] = fields["ephemeral_storage"]
        if autoscaling := fields.get("autoscaling"):
            body["autoscaling"] = {"mode": "KEDA", **autoscaling, "scalers": _scalers(autoscaling)}
        made = await self._send("POST", f"/environment/{fields['environment_id']}/{segment}", body)
        path = f"/{segment}/{made['id']}"
        stage = await self._send("GET", f"/service/{made['id']}/deploymentStage", None)
        if "deployment_stage_id" in fields or fields.get("is_skipped"):
            stage = {"id": fields.get("deployment_stage_id", stage["id"])}
            skipped = {"is_skipped": fields.get("is_skipped", False)}
            await self._send("PUT", f"/deploymentStage/{stage['id']}/service/{made['id']}", skipped)
        if settings := fields.get("advanced_settings_json"):
            present = await self._send("GET", f"{path}/advancedSettings", None)
            await self._send("PUT", f"{path}/advancedSettings", present | json.loads(settings))
        for attribute, below in _BELOW.items():
            for item in fields.get(attribute, []):
                await self._send("POST", f"{path}/{below}", item)
        if segment not in {"database", "terraform"}:
            await self._variables(path, fields)
        return {"id": made["id"], "deployment_stage_id": stage["id"]}

    async def _variables(self, path: str, fields: dict[str, Any]) -> None:
        for segment, kind in _KINDS.items():
            for item in [*fields.get(f"{kind}s", []), *fields.get(f"{kind}_files", [])]:
                await self._send("POST", f"{path}/{segment}", item)
        for segment, kind in _KINDS.items():
            for item in fields.get(f"{kind}_overrides", []):
                id = await self._id_of(path, segment, item["key"])
                sent = {name: value for name, value in item.items() if name != "key"}
                await self._send("POST", f"{path}/{segment}/{id}/override", sent)
        for segment, kind in _KINDS.items():
            items = fields.get(f"{kind}_aliases", [])
            # The provider reads the ids of all targets before it creates any alias.
            ids = [await self._id_of(path, segment, item["value"]) for item in items]
            for id, item in zip(ids, items, strict=True):
                sent = {name: value for name, value in item.items() if name != "value"}
                await self._send("POST", f"{path}/{segment}/{id}/alias", sent)

    async def _id_of(self, path: str, segment: str, key: str) -> str:
        listed = (await self._send("GET", f"{path}/{segment}", None))["results"]
        found = next((one["id"] for one in listed if one["key"] == key), "")
        assert found, f"{path} has no {key}"
        return str(found)


def _scalers(autoscaling: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        {**scaler, "config_json": json.loads(scaler["config_json"])} if "config_json" in scaler else scaler
        for scaler in autoscaling["scalers"]
    ]


def _job(body: dict[str, Any]) -> dict[str, Any]:
    schedule, source = dict(body["schedule"]), dict(body["source"])
    if cron := schedule.get("cronjob"):
        schedule["cronjob"] = {"scheduled_at": cron["schedule"], **cron["command"]}
    if image := source.get("image"):
        source["image"] = {"image_name": image["name"], **{k: v for k, v in image.items() if k != "name"}}
    return {**body, "schedule": schedule, "source": source}


def _terraform(body: dict[str, Any]) -> dict[str, Any]:
    sent = {"action_extra_arguments", "name", "icon_uri", "backend", "engine", "use_cluster_credentials"}
    return {name: value for name, value in body.items() if name in sent} | {
        "description": body.get("description", ""),
        "auto_deploy_config": {
            "auto_deploy": body["auto_deploy"],
            "terraform_action": body["terraform_action"],
        },
        "terraform_files_source": {"git_repository": body["git_repository"]},
        "terraform_variables_source": {
            "tf_var_file_paths": body["tfvars_files"],
            "tf_vars": [
                {"key": item["key"], "value": item["value"], "secret": item["is_secret"]}
                for item in body.get("variables", [])
            ],
        },
        "provider_version": body["engine_version"],
        "timeout_sec": body["timeout_seconds"],
        "job_resources": body["job_resources"],
    }


_BODIES: Final[Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "job": _job,
    "terraform": _terraform,
}
