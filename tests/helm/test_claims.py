"""An uninstalled release names the claims that stay, whether or not its chart labels them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from windlass.launch.kubernetes_api import KubernetesApi

RELEASE = "helm-z12345678"
CREDENTIAL = {
    "server": "https://127.0.0.1:1",
    "token": "t",
    "namespace": "shop",
    "ca_certificate": "",
    "server_name": "",
}


def claim(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}}


CLAIMS = [
    claim("labelled", labels={"app.kubernetes.io/instance": RELEASE}),
    claim("annotated", annotations={"meta.helm.sh/release-name": RELEASE}),
    claim("data-db-0"),
    claim("data-db-12"),
    claim("data-db-extra-0"),
    claim("data-other-0"),
    claim("foreign", labels={"app.kubernetes.io/instance": "another"}),
]


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> KubernetesApi:
    def send(self: KubernetesApi, method: str, path: str, body: bytes = b"") -> bytes:
        if "/statefulsets/db" in path:
            return json.dumps({"spec": {"volumeClaimTemplates": [claim("data")]}}).encode()
        assert "/persistentvolumeclaims?" in path
        return json.dumps({"items": CLAIMS}).encode()

    monkeypatch.setattr(KubernetesApi, "_send", send)
    return KubernetesApi(CREDENTIAL)


def test_claims_of_a_release_are_those_it_labels_and_those_of_its_stateful_sets(api: KubernetesApi):
    assert api.claims(RELEASE, ["db"]) == ["labelled", "annotated", "data-db-0", "data-db-12"]


def test_without_stateful_sets_only_marked_claims_belong_to_a_release(api: KubernetesApi):
    assert api.claims(RELEASE, []) == ["labelled", "annotated"]
