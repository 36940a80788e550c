"""The chart of Windlass, rendered by the real helm."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.kubernetes.programs import HELM, require_helm
from tests.source import ROOT
from windlass.kubernetes import checks, engine_rights

CHART: Final = ROOT / "deploy" / "chart"
IMAGE: Final = "image.repository=registry.example.com/windlass"


def helm(*words: str, home: Path) -> subprocess.CompletedProcess[str]:
    require_helm()
    environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
    return subprocess.run(
        [HELM, *words], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def render(tmp_path: Path) -> Any:
    """Renders the chart with these values. Returns its objects by kind and name."""

    def rendered(*values: str) -> dict[tuple[str, str], Any]:
        chosen = [word for value in (IMAGE, *values) for word in ("--set", value)]
        done = helm("template", "demo", str(CHART), "--namespace=tools", *chosen, home=tmp_path)
        assert done.returncode == 0, done.stderr
        found = [document for document in yaml.safe_load_all(done.stdout) if document]
        return {(one["kind"], one["metadata"]["name"]): one for one in found}

    return rendered


def container(objects: dict[tuple[str, str], Any]) -> Any:
    (found,) = objects["Deployment", "demo-windlass"]["spec"]["template"]["spec"]["containers"]
    return found


def test_the_chart_has_no_fault(tmp_path: Path):
    done = helm("lint", "--strict", str(CHART), "--set", IMAGE, home=tmp_path)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("image.repository=", "image.repository: name the image"),
        ("replicas=2", "replicas"),
        ("image.digest=latest", "digest"),
    ],
)
def test_wrong_values_are_refused_with_their_name(tmp_path: Path, value: str, reason: str):
    done = helm("template", "demo", str(CHART), "--set", IMAGE, "--set", value, home=tmp_path)
    assert done.returncode != 0
    assert reason in done.stderr


def test_one_server_runs_which_ends_before_the_next_one_starts(render):
    spec = render()["Deployment", "demo-windlass"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_the_server_has_no_rights_on_its_node(render):
    objects = render()
    pod = objects["Deployment", "demo-windlass"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container(objects)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_secrets_come_from_a_secret_of_the_user_alone(render):
    objects = render("secret=mine")
    assert "Secret" not in {kind for kind, _ in objects}
    variables = {one["name"]: one for one in container(objects)["env"]}
    for name in ("WINDLASS_DATABASE_URL", "WINDLASS_KEY", "WINDLASS_ADMIN_TOKEN"):
        assert variables[name]["valueFrom"]["secretKeyRef"]["name"] == "mine"


def test_settings_are_variables_of_the_server(render):
    objects = render(
        "settings.kubernetes_allow_from={ingress-nginx,10.0.0.0/8}",
        "settings.log_retention_bytes=67108864",
        "settings.open_metrics=true",
    )
    variables = {one["name"]: one.get("value") for one in container(objects)["env"]}
    assert variables["WINDLASS_KUBERNETES_ALLOW_FROM"] == "ingress-nginx 10.0.0.0/8"
    assert variables["WINDLASS_LOG_RETENTION_BYTES"] == "67108864"
    assert variables["WINDLASS_OPEN_METRICS"] == "true"
    assert variables["WINDLASS_ENGINE"] == "kubernetes"


def test_the_account_has_the_rights_of_the_engine_and_no_others(render):
    role = ("ClusterRole", "tools-demo-windlass")
    assert render()[role]["rules"] == list(engine_rights.ENGINE_RIGHTS)
    with_charts = render("rights.charts=true")[role]["rules"]
    assert with_charts == [*engine_rights.ENGINE_RIGHTS, *engine_rights.ACCOUNT_RIGHTS]
    assert role not in render("rights.create=false")


def test_the_file_with_the_rights_is_the_one_that_the_engine_writes():
    assert (CHART / "files" / "rights.yaml").read_text() == engine_rights.text()


def test_the_rights_have_all_that_a_connection_checks():
    for group, resource, subresource, verb in checks.NEEDED:
        name = f"{resource}/{subresource}" if subresource else resource
        assert any(
            group in rule["apiGroups"] and name in rule["resources"] and verb in rule["verbs"]
            for rule in engine_rights.ENGINE_RIGHTS
        ), (group, name, verb)


def test_the_database_is_migrated_before_the_server_is_replaced(render):
    job = render()["Job", "demo-windlass-migration"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    (program,) = job["spec"]["template"]["spec"]["containers"]
    assert program["args"] == ["serve", "--migrate-only"]
    assert job["spec"]["template"]["spec"]["automountServiceAccountToken"] is False


def test_the_data_stays_when_the_release_is_removed(render):
    claim = render()["PersistentVolumeClaim", "demo-windlass-data"]
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert "PersistentVolumeClaim" not in {kind for kind, _ in render("data.existingClaim=mine")}
