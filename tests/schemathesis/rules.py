"""Rules between the fields of a body, which a JSON Schema cannot say: each brings a body into line."""

from __future__ import annotations

import posixpath
import zlib
from collections.abc import Callable
from typing import Any

from tests.documented import within
from windlass.core.declare.health_trials import HealthTrial
from windlass.core.declare.registry import Operation
from windlass.families.domain import domain

Body = dict[str, Any]
Rule = Callable[[Operation, Body], None]

FAR_AWAY = "2400"
"""A year that has a 29th of February."""

RULES: list[Rule] = []


def rule(one: Rule) -> Rule:
    RULES.append(one)
    return one


@rule
def what_is_fixed_stays(operation: Operation, body: Body) -> None:
    """A PUT may name what was chosen for good, but only to repeat it."""
    if operation.family and operation.body in {operation.family.edit, operation.family.patch}:
        for field in operation.family.fixed:
            body.pop(field, None)


@rule
def at_most_is_not_less_than_at_least(operation: Operation, body: Body) -> None:
    """`max_running_instances` is -1 or at least `min_running_instances`, also after a PUT of one of them."""
    if {"min_running_instances", "max_running_instances"} & body.keys():
        least, most = [
            1 if body.get(name) is None else body[name]
            for name in ("min_running_instances", "max_running_instances")
        ]
        body["min_running_instances"] = least
        body["max_running_instances"] = most if most == -1 else max(least, most)


@rule
def what_is_imported_is_for_a_level_here(operation: Operation, body: Body) -> None:
    """A variable is made at the level of the path or above it; the project is above them all."""
    for variable in body.get("vars") or ():
        if "scope" in variable:
            variable["scope"] = "PROJECT"


@rule
def a_domain_is_a_name_that_dns_may_have(operation: Operation, body: Body) -> None:
    """Which names those are is a table of Unicode; addresses and names of one label are none."""
    is_of_domain = operation.family is domain or operation.handler.endswith(".checkDomain")
    if isinstance(name := body.get("domain"), str) and is_of_domain:
        body["domain"] = f"d{zlib.crc32(name.encode('utf-8', 'surrogatepass'))}.example.com"
    if is_of_domain and body.get("redirect_to"):
        body["redirect_to"] = ""  # it would have to be that of another domain of the service


@rule
def a_health_check_that_is_tried_runs_no_command(operation: Operation, body: Body) -> None:
    """The schema is that of all probes, so that a client can send the one of its service; `exec` is answered
    with where a command can be tried."""
    if operation.body is HealthTrial and isinstance(kind := body["probe"].get("type"), dict):
        kind["exec"] = None


@rule
def a_secret_that_is_sent_is_fit_for_a_header(operation: Operation, body: Body) -> None:
    """`send_secret` asks for printable ASCII; a PUT meets a secret that it does not say."""
    if body.get("send_secret"):
        body["target_secret"] = "printable"


@rule
def volumes_are_in_folders_of_their_own(operation: Operation, body: Body) -> None:
    """Refuses a volume in the folder of all files, and two in one folder in any spelling. Databases have a
    number."""
    seen: set[str] = set()
    volumes = body.get("storage")
    for place, volume in enumerate(volumes if isinstance(volumes, list) else ()):
        folder = posixpath.normpath(volume["mount_point"]).lstrip("/")
        if not folder or folder in seen:
            folder = f"data-{place}"
            volume["mount_point"] = f"/{folder}"
        seen.add(folder)


@rule
def a_probe_of_a_port_names_it(operation: Operation, body: Body) -> None:
    """It may be left out where the service declares a port, which is a field elsewhere."""
    for probe in (body.get("healthchecks") or {}).values():
        for check in ((probe or {}).get("type") or {}).values():
            if check is not None and "command" not in check and check.get("port") is None:
                check["port"] = 8080


@rule
def ports_differ(operation: Operation, body: Body) -> None:
    """Each port of a service has a name of its own, and one of them at most is said to be the default."""
    names, default = set(), False
    for place, port in enumerate(body.get("ports") or ()):
        name = port.get("name") or f"p{port['internal_port']}"
        if name in names:
            port["name"] = name = f"port {place} of {port['internal_port']}"
        names.add(name)
        if port.get("is_default") and default:
            port["is_default"] = False
        default = default or bool(port.get("is_default"))


@rule
def ports_that_are_named_are_chosen_by_a_person(operation: Operation, body: Body) -> None:
    """`automatic_port` says what follows from the ports that are sent."""
    if body.get("ports"):
        body.pop("automatic_port", None)


@rule
def one_setting_says_what_runs(operation: Operation, body: Body) -> None:
    """An application names a folder, a command or a process. A Dockerfile follows no settings of a recipe,
    and headers that follow from a file are those of the gateway."""
    for name in ("static_folder", "start_command", "process"):
        body.pop(name, None)
    if body.get("builder") == "DOCKERFILE":
        body["builder"] = "RECIPE"
    for header in body.get("static_headers") or ():
        header["name"] = "X-Header"


@rule
def an_application_without_a_repository_is_built_from_uploads(operation: Operation, body: Body) -> None:
    """`git_repository` may be left out only where `source` says so; a PUT here meets an application with
    one."""
    if operation.handler.startswith("application.") and not body.get("git_repository"):
        body.pop("git_repository", None)
        if operation.handler == "application.create":
            body["source"] = "UPLOAD"


@rule
def a_repository_names_the_folder_of_its_application(operation: Operation, body: Body) -> None:
    """`root_path` is for uploaded folders. A PUT meets an application with a repository, named or not."""
    is_other = operation.handler.startswith("application.") and operation.handler != "application.create"
    if is_other or (operation.handler == "application.create" and body.get("git_repository")):
        body.pop("root_path", None)


@rule
def an_application_from_uploads_follows_no_branch(operation: Operation, body: Body) -> None:
    if body.get("source") == "UPLOAD":
        body.pop("auto_deploy", None)


@rule
def a_deploy_names_a_commit_or_an_upload(operation: Operation, body: Body) -> None:
    chosen = body.get("applications")
    for deploy in (body, *(chosen if isinstance(chosen, list) else ())):
        if deploy.get("git_commit_id"):
            deploy.pop("upload_id", None)


@rule
def an_upload_is_as_small_as_the_settings_say(operation: Operation, body: Body) -> None:
    if operation.handler == "upload.create":
        body["size"] = min(body["size"], 1024)


@rule
def a_container_has_no_instance_type(operation: Operation, body: Body) -> None:
    """`instance_type` and `disk_type` belong to the mode MANAGED; a PUT here meets the other one."""
    if operation.handler.startswith("database.") and body.get("mode", "CONTAINER") == "CONTAINER":
        body.pop("instance_type", None)
        body.pop("disk_type", None)


@rule
def a_token_for_bitbucket_names_its_workspace(operation: Operation, body: Body) -> None:
    """`workspace` may not be left out there; a PUT may meet one that is for Bitbucket."""
    if operation.handler.startswith("gitToken."):
        body["workspace"] = body.get("workspace") or "acme"


@rule
def a_git_token_is_of_no_app(operation: Operation, body: Body) -> None:
    """An app needs both of its ids, and its private key as token; see `test_github_apps`."""
    if operation.handler.startswith("gitToken."):
        body.pop("github_app_id", None)
        body.pop("github_installation_id", None)
        if str(body.get("token", "")).startswith("-----BEGIN"):
            body["token"] = "ghp_EXAMPLE"


@rule
def a_git_token_is_for_a_host(operation: Operation, body: Body) -> None:
    """`git_api_url` names a host in its usual form, which a pattern cannot say."""
    if body.get("git_api_url"):
        body["git_api_url"] = "https://git.example/api"


@rule
def a_role_says_the_same_as_scopes(operation: Operation, body: Body) -> None:
    """Refuses a body whose role and scopes differ in meaning."""
    if body.get("scopes") and body.get("role_id"):
        del body["role_id"]


@rule
def what_expires_does_so_later(operation: Operation, body: Body) -> None:
    """The past is no time to expire at."""
    if isinstance(body.get("expires_at"), str):
        body["expires_at"] = FAR_AWAY + body["expires_at"][4:]


@rule
def a_credential_comes_with_its_address(operation: Operation, body: Body) -> None:
    """Requires the secret for a change of its address; a PUT changes fields that it leaves out."""
    if body.get("git_api_url"):
        body["git_api_url"] = "https://git.example/api/v3"
    family = operation.family
    if family and operation.body in {family.edit, family.patch}:
        for secret, addresses in family.sent_to.items():
            if addresses and "." not in secret:
                body.setdefault(secret, "printable")


@rule
def a_registry_has_the_settings_of_its_kind(operation: Operation, body: Body) -> None:
    """`kind` decides which fields `config` has, and its secrets go with their address."""
    if operation.family and operation.family.name == "containerRegistry" and operation.verb:
        body.update({"kind": "GENERIC_CR"} if "kind" in body else {})
        body["url"] = "https://registry.example.com"
        if "kind" not in body:
            body.pop("url")  # the kind of one that is there decides
        body["config"] = {"username": "acme", "password": "printable"}


@rule
def keys_of_a_group_differ(operation: Operation, body: Body) -> None:
    """Labels and annotations have one value for each key."""
    for field in ("labels", "annotations"):
        rows = body.get(field)
        if isinstance(rows, list) and all(isinstance(row, dict) and "key" in row for row in rows):
            body[field] = [*{row["key"]: row for row in rows}.values()]


@rule
def only_an_application_takes_pushes(operation: Operation, body: Body) -> None:
    """Here, repositories of others may be in a source of files or of values, too."""
    if operation.handler.startswith("application."):
        return
    for part in within(body):
        if str(part.get("url", "")).startswith("windlass:"):
            part["url"] = _REPOSITORY["url"]


@rule
def a_repository_is_opened_without_a_token(operation: Operation, body: Body) -> None:
    """A git token is for one host, and there is none that fits every address."""
    for part in within(body):
        if "git_token_id" in part and (part is body or "url" in part):
            del part["git_token_id"]


@rule
def what_begins_with_a_patch_is_whole(operation: Operation, body: Body) -> None:
    """A merge patch may leave out what is there already; a service here has no probe with a command, and does
    not scale by itself."""
    if operation.method == "PATCH" and isinstance(scaling := body.get("autoscaling"), dict):
        scaling.setdefault("mode", "KEDA")
        scaling.setdefault("scalers", [{"scaler_type": "cpu", "role": "PRIMARY"}])
    for probe in (body.get("healthchecks") or {}).values() if operation.method == "PATCH" else ():
        command = ((probe or {}).get("type") or {}).get("exec")
        if command is not None:
            command.setdefault("command", ["true"])


@rule
def an_engine_is_that_of_this_machine(operation: Operation, body: Body) -> None:
    """Fields of an engine at another address go together, and are checked against a real one; the machine of
    another server has to be there. The last rule, because another adds a key."""
    apart = [f"engine_{field}" for field in ("address", "ca_certificate", "certificate", "key", "id")]
    apart += ["kubeconfig", "allow_from"]
    is_of_cluster = operation.body is not None and "router_port" in operation.body.__struct_fields__
    if is_of_cluster and body.keys() & {"engine", "place", "router_port", *apart}:
        body["engine"] = "LOCAL"
        if "place" in body:
            body["place"] = "local"
        for field in (*apart, "router_port"):
            body.pop(field, None)


_REPOSITORY = {"url": "https://github.com/acme/shop.git"}
_SCHEDULE: Body = {"on_start": {}}


@rule
def running_hours_are_those_of_a_clock(operation: Operation, body: Body) -> None:
    """The time zone exists, and an environment with hours is started on a day and stopped at another time."""
    if "timezone" in body:
        body["timezone"] = "UTC"
    if "weekdays" in body or "auto_stop" in body:
        times = {"start_time": "1970-01-01T08:00:00.000Z", "stop_time": "1970-01-01T19:00:00.000Z"}
        body |= {name: value for name, value in times.items() if name in body}
        body |= {"weekdays": ["MONDAY"], "timezone": "UTC"}


@rule
def a_job_has_one_source_and_one_sort_of_schedule(operation: Operation, body: Body) -> None:
    """A PUT here meets a job of a repository that runs on start."""
    if not operation.handler.startswith("job.") or not {"source", "schedule"} & body.keys():
        return
    if isinstance(source := body.get("source"), dict):
        docker = {**(source.get("docker") or {}), "git_repository": dict(_REPOSITORY)}
        docker.pop("dockerfile_raw", None)
        body["source"] = {"docker": docker}
    if isinstance(body.get("schedule"), dict):
        body["schedule"] = dict(_SCHEDULE)


@rule
def an_image_is_looked_for_at_the_registry_that_its_name_says(operation: Operation, body: Body) -> None:
    """The id of a registry would have to be that of one that is there."""
    body.pop("registry_id", None)
    body.pop("registry_pull_id", None)


_FILES: Body = {"dockerfile_path": "Dockerfile", "files": ["values.yaml"]}


@rule
def files_with_values_are_named_or_found(operation: Operation, body: Body) -> None:
    """`paths` are for the type SpecificPaths alone, which needs them, and name files of the repository."""
    if operation.handler.endswith(".listValuesFiles"):
        mode = body["mode"]
        mode["paths"] = _FILES["files"] if mode["type"] == "SpecificPaths" else []


@rule
def a_dockerfile_is_looked_at_where_there_is_one(operation: Operation, body: Body) -> None:
    if operation.handler.endswith(("checkDockerfile", "checkGitFile")):
        body.update({name: path for name, path in _FILES.items() if name in body})


@rule
def files_are_looked_for_in_a_folder_that_is_there(operation: Operation, body: Body) -> None:
    if operation.body and operation.only_reads and isinstance(body.get("git_repository"), dict):
        body["git_repository"]["root_path"] = "/"


_TEXTS_OF_SETTINGS = {
    "source_range": "10.0.0.0/8",
    "extra_headers": "{}",
    "http_status_codes": "503",
    "retry_on": "5xx",
    "basic_auth_env_var": "SITE_USERS",
}
"""Texts of advanced settings by the ending of their key: lists, objects and names of variables."""


@rule
def texts_of_settings_have_their_form(operation: Operation, body: Body) -> None:
    for name, value in body.items():
        for ending, text in _TEXTS_OF_SETTINGS.items():
            if name.endswith(ending) and isinstance(value, str):
                body[name] = text


@rule
def a_preview_is_of_a_branch_a_pull_request_or_a_tag(operation: Operation, body: Body) -> None:
    if operation.handler != "preview.create":
        return
    given = [bool(body.get(name)) for name in ("branch", "pull_request", "image_tag", "image_name")]
    if given not in ([True, False, False, False], [False, True, False, False], [False, False, True, True]):
        body |= {"pull_request": None, "image_name": None, "image_tag": None, "branch": "main"}


@rule
def a_job_of_a_repository_has_no_tag(operation: Operation, body: Body) -> None:
    chosen = body.get("jobs")
    alone = [body] if operation.family and operation.family.name == "job" else []
    for job in (*alone, *(chosen if isinstance(chosen, list) else ())):
        job.pop("image_tag", None)


@rule
def a_state_is_kept_in_one_place(operation: Operation, body: Body) -> None:
    if operation.family and operation.family.name == "terraform" and "backend" in body:
        body["backend"] = {"kubernetes": {}}


@rule
def the_program_of_terraform_is_called_as_it_knows(operation: Operation, body: Body) -> None:
    """Arguments are for its known commands; and no image is made of it."""
    body.pop("dockerfile_fragment", None)
    if body.get("action_extra_arguments"):
        body["action_extra_arguments"] = {"plan": ["-compact-warnings"]}


@rule
def variables_of_a_module_have_values(operation: Operation, body: Body) -> None:
    """One without a value has to be secret and there already; their files are files of the repository."""
    if isinstance(source := body.get("terraform_variables_source"), dict):
        if source.get("tf_var_file_paths"):
            source["tf_var_file_paths"] = ["prod.tfvars"]
        for place, variable in enumerate(source.get("tf_vars") or ()):
            variable["key"] = f"variable_{place}"  # each has one value
            variable["value"] = variable.get("value") or "1"


@rule
def a_module_is_run_at_a_commit_and_without_a_token(operation: Operation, body: Body) -> None:
    """A plan would have to be one that is there, and a git token one of the host."""
    for chosen in body.get("terraforms") or ():
        if isinstance(chosen, dict):
            chosen.pop("plan_id", None)
    if operation.family and operation.family.name == "terraform":
        for field in ("id", "plan_id"):
            body.pop(field, None)
        source = body.get("terraform_files_source")
        if isinstance(source, dict) and isinstance(repository := source.get("git_repository"), dict):
            repository.pop("git_token_id", None)


@rule
def groups_of_labels_and_annotations_are_there(operation: Operation, body: Body) -> None:
    """Their ids would have to be those of groups of the organization."""
    for name in {"labels_groups", "annotations_groups"} & body.keys():
        body[name] = []


@rule
def a_value_is_sent_and_not_read_elsewhere(operation: Operation, body: Body) -> None:
    """Windlass refuses the id of a secret manager, because it reads none."""
    body.pop("secret_manager_access_id", None)


@rule
def a_chart_repository_has_an_index(operation: Operation, body: Body) -> None:
    """Its kind decides which address and which login it takes; a PUT here meets one of the kind HTTPS, which
    may have a login."""
    if operation.handler.startswith("helmRepository."):
        address, login = "https://charts.example.com", {"username": "acme", "password": "printable"}
        fixed = {"kind": "HTTPS", "url": address, "skip_tls_verification": False, "config": login}
        body.update({name: value for name, value in fixed.items() if name in body})


@rule
def a_chart_is_in_git_and_its_values_are_pairs(operation: Operation, body: Body) -> None:
    """A chart has one source, a port one Service, a value one path, and options stay within the release. A
    chart in git has commits and no version of a repository, and its values are in no repository."""
    for chosen in (body, *(body.get("helms") or ())):
        if isinstance(chosen, dict):
            chosen.pop("chart_version", None)
            chosen.pop("values_override_git_commit_id", None)
    if "helm" not in operation.path.lower() or operation.handler.startswith("helmRepository."):
        return
    if "source" in body:
        repository = body["source"].get("git_repository") or {"url": "https://git.example/acme/shop.git"}
        body["source"] = {"git_repository": repository}
    if "arguments" in body:
        body["arguments"] = ["--wait"]
    for port in body.get("ports") or ():
        port.pop("service_selectors", None)
        port["service_name"] = "web"
    values = body.get("values_override") or {}
    for name in ("set", "set_string", "set_json"):
        if name in values:
            values[name] = [["image.tag", "1"]]
    files = values.get("file") or {}
    if files.get("git"):
        files["git"]["paths"] = ["values.yaml"]
    if files.get("raw"):
        files["raw"]["values"] = [{"name": "a.yaml", "content": "a: 1"}]
