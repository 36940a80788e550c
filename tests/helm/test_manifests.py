"""The plan of a release: what changes, by object, without the values of Secrets."""

from __future__ import annotations

import json

import pytest
import yaml

from windlass.helm.chart_error import ChartError
from windlass.helm.manifests import compare

WEB = "kind: Deployment\nmetadata:\n  name: web\nspec:\n  replicas: {}\n"
SECRET = "kind: Secret\nmetadata:\n  name: login\n  annotations:\n    kept: {0}\ndata:\n  password: {0}\n"
SERVICE = (
    "kind: Service\nmetadata:\n  name: web\nspec:\n  selector:\n    app: web\n  ports:\n"
    "  - name: http\n    port: 80\n"
)


def joined(*documents: str) -> str:
    return "".join(f"---\n{document}" for document in documents)


def test_each_object_is_created_updated_deleted_or_stays():
    before = joined(WEB.format(1), SERVICE, SECRET.format("c2VjcmV0"))
    after = joined(WEB.format(2), SERVICE, "kind: ConfigMap\nmetadata:\n  name: new\n")
    compared = compare(before, after, "shop")
    assert {(change.kind, change.name): change.action for change in compared.changes} == {
        ("Deployment", "web"): "update",
        ("Service", "web"): "none",
        ("ConfigMap", "new"): "create",
        ("Secret", "login"): "destroy",
    }
    (web,) = (change for change in compared.changes if change.kind == "Deployment")
    assert "-  replicas: 1\n+  replicas: 2" in web.difference
    assert (compared.count("update"), compared.count("destroy")) == (1, 1)


def test_a_changed_secret_is_an_update_without_its_values():
    compared = compare(SECRET.format("c2VjcmV0"), SECRET.format("aGlkZGVu"), "shop")
    (change,) = compared.changes
    assert change.action == "update"
    assert "another value" in change.difference
    assert "c2VjcmV0" not in change.difference
    assert "aGlkZGVu" not in change.difference


@pytest.mark.parametrize("kind", ["SecretList", "List"])
def test_secrets_in_a_list_are_shown_without_their_values(kind: str):
    own = "" if kind == "SecretList" else "  kind: Secret\n"
    item = f"- metadata: {{name: login}}\n{own}  data: {{password: VALUE}}\n"
    text = f"kind: {kind}\nitems:\n{item}"
    nested = json.dumps({"kind": "List", "items": [{"kind": "List", "items": [yaml.safe_load(text)]}]})
    for manifest in (text, nested):
        (change,) = compare(
            manifest.replace("VALUE", "c2VjcmV0"), manifest.replace("VALUE", "aGlkZGVu"), "shop"
        ).changes
        assert (change.kind, change.name, change.action) == ("Secret", "login", "update")
        assert "another value" in change.difference
        assert "c2VjcmV0" not in change.difference
        assert "aGlkZGVu" not in change.difference


def test_services_are_told_with_ports_and_selectors():
    (service,) = compare("", SERVICE, "shop").services
    assert (service.name, service.type, service.selectors) == ("web", "ClusterIP", {"app": "web"})
    assert [(port.name, port.port) for port in service.ports] == [("http", 80)]


def test_an_object_of_another_namespace_is_another_object():
    elsewhere = WEB.format(1).replace("name: web", "name: web\n  namespace: other")
    assert [change.action for change in compare(WEB.format(1), elsewhere, "shop").changes] == [
        "create",
        "destroy",
    ]


@pytest.mark.parametrize("manifest", ["a: [", "\x00", "[" * 5_000])
def test_what_is_no_manifest_is_told(manifest: str):
    with pytest.raises(ChartError, match="Correct the templates of the chart"):
        compare("", manifest, "shop")


@pytest.mark.parametrize("manifest", ["", "---\n", "- 1\n", "kind: 1\n", "kind: A\nmetadata: []\n", "text"])
def test_documents_that_are_no_objects_are_left_out(manifest: str):
    assert compare("", manifest, "shop").changes == []
