"""Everything that the Python package of the full interface does with an organization, and whether it reads
the answers. It is run with that package alone, and prints a report."""

from __future__ import annotations

import json
import pkgutil
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

WEB = {
    "name": "web",
    "git_repository": {"url": "https://github.com/acme/shop.git", "branch": "main", "root_path": "/"},
    "build_mode": "DOCKER",
    "dockerfile_path": "Dockerfile",
    "cpu": 250,
    "memory": 256,
    "min_running_instances": 1,
    "max_running_instances": 1,
    "ports": [{"internal_port": 8080, "external_port": 443, "publicly_accessible": True, "protocol": "HTTP"}],
    "storage": [],
    "healthcheck": {},
}
DATABASE = {
    "name": "db", "type": "POSTGRESQL", "version": "16", "mode": "CONTAINER", "accessibility": "PRIVATE",
    "cpu": 250, "memory": 256, "storage": 10,
}  # fmt: skip
RULE = {
    "name": "trials", "description": "", "wildcard": "trial-*", "mode": "DEVELOPMENT", "auto_deploy": True,
    "auto_delete": False, "auto_stop": True, "timezone": "Europe/Oslo",
    "start_time": "1970-01-01T08:00:00.000Z", "stop_time": "1970-01-01T19:00:00.000Z",
    "weekdays": ["MONDAY", "FRIDAY"],
}  # fmt: skip


class Client:
    """Calls operations by the name that the package gives them, and notes what came of each."""

    def __init__(self, url: str, token: str) -> None:
        package = import_module("qovery")
        configuration = package.Configuration(host=url, access_token=token)
        client = package.ApiClient(configuration)
        self._package, self._client = package, client
        self._convert = import_module("qovery.model_utils").validate_and_convert_types
        self._endpoints: dict[str, Any] = {}
        self._calls: dict[str, Any] = {}
        for module in pkgutil.iter_modules(import_module("qovery.api").__path__):
            for name, value in vars(import_module(f"qovery.api.{module.name}")).items():
                if name.endswith("Api"):
                    api = value(client)
                    self._endpoints |= {
                        name.removesuffix("_endpoint"): one
                        for name, one in vars(api).items()
                        if name.endswith("_endpoint")
                    }
                    self._calls |= {
                        name: getattr(api, name) for name in self._endpoints if hasattr(api, name)
                    }
        self.calls: dict[str, str] = {}
        """The calls by name, each with what was wrong."""

    def __call__(self, name: str, *ids: str, body: Mapping[str, Any] | None = None, **query: Any) -> Any:
        """Returns the answer as a document. What the package cannot read is noted and returned as it came."""
        endpoint = self._endpoints[name]
        places = endpoint.location_map
        paths = [one for one in endpoint.params_map["required"] if places.get(one) == "path"]
        arguments = dict(zip(paths, ids, strict=True)) | query
        self._client.last_response = None
        try:
            if body is not None:
                of_body = next(one for one, place in places.items() if place == "body")
                types = endpoint.openapi_types[of_body]
                arguments[of_body] = self._convert(
                    dict(body), types, [of_body], True, True, configuration=self._client.configuration
                )
            self._calls[name](**arguments)
        except (self._package.OpenApiException, TypeError) as error:
            body = getattr(error, "body", None)
            self.calls[name] = f"{type(error).__name__}: {body or error}"
        else:
            self.calls.setdefault(name, "")
        return self._received()

    def _received(self) -> Any:
        last = self._client.last_response
        data = getattr(last, "data", None)
        try:
            return json.loads(data) if data else None
        except ValueError:
            return None


def levels(call: Client, project: str, environment: str, app: str) -> None:
    """Variables and secrets of all levels."""
    above: dict[str, str] = {}
    for level, id in (("project", project), ("environment", environment), ("application", app)):
        kind = f"{level}_environment_variable"
        made = call(f"create_{kind}", id, body={"key": f"COLOUR_{level}", "value": "red"})
        call(f"edit_{kind}", id, made["id"], body={"key": f"COLOUR_{level}", "value": "blue"})
        call(f"list_{kind}", id)
        call(f"create_{kind}_alias", id, made["id"], body={"key": f"FARBE_{level}"})
        secret = call(f"create_{level}_secret", id, body={"key": f"KEY_{level}", "value": "of the till"})
        call(f"edit_{level}_secret", id, secret["id"], body={"key": f"KEY_{level}", "value": "of the door"})
        call(f"list_{level}_secrets", id)
        call(f"create_{level}_secret_alias", id, secret["id"], body={"key": f"SCHLUESSEL_{level}"})
        if above:
            call(f"create_{kind}_override", id, above["variable"], body={"value": "green"})
            call(f"create_{level}_secret_override", id, above["secret"], body={"value": "of the house"})
        above = {"variable": made["id"], "secret": secret["id"]}
        gone = call(f"create_{kind}", id, body={"key": f"GONE_{level}", "value": "1"})
        call(f"delete_{kind}", id, gone["id"])
        gone = call(f"create_{level}_secret", id, body={"key": f"LOST_{level}", "value": "1"})
        call(f"delete_{level}_secret", id, gone["id"])


def tell(call: Client, org: str) -> None:
    call("list_organization")
    call("get_organization", org)
    call("edit_organization", org, body={"name": "acme", "plan": "FREE"})
    cluster = call("list_organization_cluster", org)["results"][0]["id"]
    call("get_organization_cluster_status", org)
    project = call("create_project", org, body={"name": "shop", "description": "a shop"})["id"]
    call("list_project", org)
    call("get_project", project)
    call("edit_project", project, body={"name": "shop", "description": "the shop"})
    call("get_organization_project_stats", org)
    environment = call("create_environment", project, body={"name": "production"})["id"]
    call("list_environment", project)
    call("get_environment", environment)
    call("edit_environment", environment, body={"name": "live"})
    call("get_project_environment_service_number", project)
    made = call("create_application", environment, body=WEB)
    app = made["id"]
    call("list_application", environment)
    call("get_application", app)
    call("edit_application", app, body={**WEB, "ports": made["ports"]})
    database = call("create_database", environment, body=DATABASE)["id"]
    call("list_database", environment)
    call("get_database", database)
    call("edit_database", database, body={**DATABASE, "memory": 512})
    call("get_database_master_credentials", database)
    call("list_database_version", database)
    call("list_environment_database_config", environment)
    call("list_database_application", database)
    call("get_application_network", app)
    call("edit_application_network", app, body={"sticky_session": True})
    levels(call, project, environment, app)
    call("create_application_custom_domain", app, body={"domain": "shop.example.com"})
    call("list_application_custom_domain", app)
    call("get_environment_deployment_rule", environment)
    wanted = {**RULE, "cluster_id": cluster}
    rule = call("create_deployment_rule", project, body=wanted)
    call("list_project_deployment_rules", project)
    call("get_project_deployment_rule", project, rule["id"])
    call("edit_project_deployemtn_rule", project, rule["id"], body={**wanted, "wildcard": "test-*"})
    call("update_deployment_rules_priority_order", project,
         body={"project_deployment_rule_ids_in_order": [rule["id"]]})  # fmt: skip
    call("delete_project_deployment_rule", project, rule["id"])
    deploy(call, project, environment, app, database)
    call("list_application_contributor", app)
    call("list_application_links", app)
    call("get_organization_members", org)
    call("get_organization_invited_members", org)
    call("list_aws_regions")
    call("list_scaleway_regions")
    call("list_cloud_provider")
    call("delete_application", app)
    call("delete_database", database)
    call("delete_environment", environment)
    call("delete_project", project)


def deploy(call: Client, project: str, environment: str, app: str, database: str) -> None:
    call("deploy_environment", environment)
    call("get_environment_status", environment)
    call("get_project_environment_status", project)
    wait(lambda: call("get_application_status", app)["state"] == "DEPLOYED")
    call("deploy_application", app, body={"git_commit_id": "0" * 40})
    call("deploy_database", database)
    call("get_database_status", database)
    call("get_environment_application_status", environment)
    call("get_environment_database_status", environment)
    call("list_application_deployment_history", app)
    call("list_environment_deployment_history", environment)
    call("list_application_log", app)
    call("list_environment_log", environment)
    call("restart_environment", environment)
    call("stop_environment", environment)
    call("stop_application", app)
    call("stop_database", database)
    call("cancel_environment_deployment", environment)
    call("clone_environment", environment, body={"name": "copy"})


def wait(is_done: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not is_done():
        assert time.monotonic() < until, "nothing is deployed"
        time.sleep(0.1)


def main(url: str, token: str, org: str) -> None:
    client = Client(url, token)
    try:
        tell(client, org)
    finally:
        print(json.dumps(client.calls))


if __name__ == "__main__":
    main(*sys.argv[1:])
