"""A workload becomes objects of the cluster with the fewest rights that it needs."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from msgspec import structs

from tests.kubernetes.stations import web
from windlass.engines.registries import RegistryLogin
from windlass.engines.workload import Artifact, HealthProbe, ProbeKind, Volume
from windlass.kubernetes import manifests, names
from windlass.kubernetes.manifests import ClusterOptions

OPTIONS = ClusterOptions(installation="one", helper_image="box:1")


def container(**given: Any) -> dict[str, Any]:
    found: dict[str, Any] = manifests.controller(OPTIONS, web(**given), 1)["spec"]["template"]["spec"][
        "containers"
    ][0]
    return found


def pod(**given: Any) -> dict[str, Any]:
    found: dict[str, Any] = manifests.controller(OPTIONS, web(**given), 1)["spec"]["template"]["spec"]
    return found


def test_values_of_variables_are_in_a_secret_alone():
    it = web(variables={"spring.profile": "s3cret", "B": "$HOME"}, files={"conf/a": b"f1le"})
    made = manifests.controller(OPTIONS, it, 1)
    secret = manifests.secret(OPTIONS, it)
    assert "s3cret" not in str(made)
    assert "f1le" not in str(made)
    values = [base64.b64decode(value) for value in secret["data"].values()]
    assert values == [b"s3cret", b"$HOME", b"f1le"]
    env = container(variables=it.variables, files=it.files)["env"]
    assert [each["name"] for each in env] == ["spring.profile", "B"]


def test_other_values_are_in_another_secret():
    one, two = (manifests.secret_name(web(variables={"A": value})) for value in ("1", "2"))
    assert one != two
    assert manifests.secret_name(web(deployment="another", variables={"A": "1"})) != one


def test_words_of_commands_are_taken_literally():
    assert container(command=("echo", "$(HOME)", "$$", "50%"))["args"] == ["echo", "$$(HOME)", "$$$$", "50%"]


def test_a_container_has_limits_and_no_more_rights_than_images_need():
    made = container(cpu=500, memory=128)
    assert made["resources"]["limits"] == {"cpu": "500m", "memory": "128Mi"}
    assert made["resources"]["requests"] == {"cpu": "50m", "memory": "128Mi"}
    assert made["securityContext"]["allowPrivilegeEscalation"] is False
    assert made["securityContext"]["capabilities"]["drop"] == ["ALL"]
    assert pod()["automountServiceAccountToken"] is False
    assert pod()["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_no_pod_gets_an_account_of_its_namespace_which_may_be_that_of_a_chart():
    account = {
        "security.service_account_name": "operator",
        "security.automount_service_account_token": "true",
    }
    it = web(variables=account, labels=account)
    for made in (manifests.controller(OPTIONS, it, 1)["spec"]["template"], manifests.run(OPTIONS, it, 0)):
        assert made["spec"]["automountServiceAccountToken"] is False
        assert "serviceAccountName" not in made["spec"]


def test_a_program_that_is_an_init_stays_the_first_process():
    assert pod()["shareProcessNamespace"] is True
    assert pod(command=("/sbin/tini", "--", "web"))["shareProcessNamespace"] is False


def test_files_are_mounted_at_their_paths_and_relative_ones_in_the_working_directory():
    mounts = container(files={"a": b"1", "/etc/b": b"2"})["volumeMounts"]
    assert [mount["mountPath"] for mount in mounts] == ["/a", "/etc/b"]


def test_a_read_only_program_can_write_to_temporary_folders():
    made = container(read_only=True)
    assert made["securityContext"]["readOnlyRootFilesystem"] is True
    assert {mount["mountPath"] for mount in made["volumeMounts"]} == {"/tmp", "/run", "/var/tmp"}


def test_a_derived_probe_only_delays_the_start_and_declared_ones_are_repeated():
    probe = HealthProbe(kind=ProbeKind.HTTP, port=80, path="health", period=0.2)
    derived, declared = container(ready=(probe,)), container(ready=(probe,), watched=True, alive=(probe,))
    assert derived["startupProbe"]["httpGet"]["path"] == "/health"
    assert "readinessProbe" not in derived
    assert declared["readinessProbe"]["periodSeconds"] == 1
    assert declared["livenessProbe"]["failureThreshold"] == 9


def test_what_runs_alone_is_a_stateful_set_and_all_else_a_deployment_that_is_replaced_at_once():
    assert manifests.controller(OPTIONS, web(alone=True), 1)["kind"] == "StatefulSet"
    made = manifests.controller(OPTIONS, web(), 1)
    assert made["kind"] == "Deployment"
    assert made["spec"]["strategy"] == {"type": "Recreate"}


def test_instances_are_spread_over_nodes_and_zones_without_a_restart_of_running_releases():
    template = manifests.controller(OPTIONS, web(), 2)["spec"]["template"]
    spread = template["spec"].pop("topologySpreadConstraints")
    assert [each["topologyKey"] for each in spread] == [
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    ]
    assert {each["whenUnsatisfiable"] for each in spread} == {"ScheduleAnyway"}
    selected = manifests.controller(OPTIONS, web(), 2)["spec"]["selector"]
    assert all(each["labelSelector"] == selected for each in spread)
    made = manifests.controller(OPTIONS, web(), 2)["metadata"]["annotations"]
    assert made[names.DIGEST] == manifests.digest(template)
    alone = manifests.controller(OPTIONS, web(alone=True), 1)["spec"]["template"]["spec"]
    assert "topologySpreadConstraints" not in alone


def test_a_run_is_a_pod_that_is_never_started_again():
    made = manifests.run(OPTIONS, web(writes_output=True), 3)
    assert made["kind"] == "Pod"
    assert made["spec"]["restartPolicy"] == "Never"
    assert made["metadata"]["finalizers"] == [names.RESULT_FINALIZER]
    assert made["spec"]["initContainers"][0]["restartPolicy"] == "Always"


def test_pods_of_other_environments_are_kept_out():
    (rule,) = manifests.network_policy(OPTIONS, "e")["spec"]["ingress"]
    assert rule == {"from": [{"podSelector": {}}]}


def test_allowed_namespaces_are_chosen_by_their_name_and_networks_by_their_range():
    options = structs.replace(OPTIONS, allowed_sources=("gateway", "10.0.0.0/24"))
    (rule,) = manifests.network_policy(options, "e")["spec"]["ingress"]
    named = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["gateway"]}
    assert rule["from"][1:] == [
        {"namespaceSelector": {"matchExpressions": [named]}},
        {"ipBlock": {"cidr": "10.0.0.0/24"}},
    ]


def test_a_login_is_written_for_its_registry():
    data = manifests.pull_data("registry.example.com", RegistryLogin("me", "pw"))
    made = manifests.pull_secret(OPTIONS, web(), data, "")
    document = base64.b64decode(made["data"][".dockerconfigjson"])
    assert b'"registry.example.com"' in document
    assert base64.b64encode(b"me:pw") in document


@pytest.mark.parametrize("name", ["web", "Über-Käse", "9lives", "-", "x" * 100, "a.b_c"])
def test_names_are_valid_for_the_cluster(name):
    it = web(name=name, generation=123_456, environment="22222222-aaaa-4aaa-8aaa-000000000002")
    made = [
        names.run(it, 100_000),
        names.variables_secret(it, "f" * 64),
        names.neighbour(it.service, name),
        names.claim(it.service, Volume(name=name, mount="/data")),
        names.namespace("one", it.environment),
    ]
    for each in made:
        assert len(each) <= 63
        assert each.replace("-", "a").isalnum()
        assert each[0].isalpha()
        assert each == each.lower()


def test_installations_have_namespaces_of_their_own():
    assert names.namespace("one", "e") != names.namespace("two", "e")


def test_labels_of_groups_are_attached_unless_they_are_ours_or_not_valid():
    it = web(labels={"team": "shop", "windlass.dev/service": "x", "bad": "a b", "": "x"})
    labels = manifests.controller(OPTIONS, it, 1)["metadata"]["labels"]
    assert labels["team"] == "shop"
    assert labels[names.SERVICE] == it.service
    assert "bad" not in labels
    assert "" not in labels


def test_an_image_by_tag_is_asked_for_at_each_start_and_one_by_digest_is_not():
    by_digest = structs.replace(web(), artifact=Artifact(kind="image", ref=f"shop/web@sha256:{'0' * 64}"))
    made = manifests.run(OPTIONS, by_digest, 0)["spec"]["containers"][0]
    assert container()["imagePullPolicy"] == "Always"
    assert made["imagePullPolicy"] == "IfNotPresent"
