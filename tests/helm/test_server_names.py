"""A run reaches an API server whose certificate is for another name than that in its address."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.error import URLError

import pytest

from tests.certificates import authority, serves
from windlass.launch.helm import kubeconfig_of
from windlass.launch.kubernetes_api import KubernetesApi

CLAIM = {"metadata": {"name": "data"}}


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"items": [CLAIM]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def credential(tmp_path: Path) -> Iterator[dict[str, str]]:
    trusted = authority(tmp_path / "authority")
    server = HTTPServer(("127.0.0.1", 0), Answers)
    server.socket = serves(trusted, "api.example.com").wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield {
        "server": f"https://127.0.0.1:{server.server_port}",
        "ca_certificate": trusted.file.read_text(),
        "token": "t",
        "namespace": "shop",
        "server_name": "api.example.com",
    }
    server.shutdown()
    server.server_close()


def test_the_certificate_is_checked_for_the_name_of_the_kubeconfig(credential: dict[str, str]):
    assert KubernetesApi(credential).all_claims() == ["data"]
    (cluster,) = kubeconfig_of(credential)["clusters"]
    assert cluster["cluster"]["tls-server-name"] == "api.example.com"


@pytest.mark.parametrize("name", ["", "other.example.com"])
def test_a_certificate_for_another_name_is_refused(credential: dict[str, str], name: str):
    with pytest.raises(URLError) as refused:
        KubernetesApi({**credential, "server_name": name}).all_claims()
    assert isinstance(refused.value.reason, ssl.SSLCertVerificationError)


def test_a_kubeconfig_names_no_other_name_without_need(credential: dict[str, str]):
    (cluster,) = kubeconfig_of({**credential, "server_name": ""})["clusters"]
    assert "tls-server-name" not in cluster["cluster"]
