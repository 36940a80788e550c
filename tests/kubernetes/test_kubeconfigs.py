"""A kubeconfig is read as a text: it runs no program, reads no file, and skips no check."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from tests.certificates import authority, write_pair
from windlass.kubernetes.access import BadAccess, pod_account, read_kubeconfig, tls_context

PEM = base64.b64encode(b"-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n").decode()


def config(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {
                "name": "c",
                "cluster": {"server": "https://k.example.com", "certificate-authority-data": PEM}
                | (cluster or {}),
            }
        ],
        "users": [{"name": "u", "user": {"token": "a-secret"} if user is None else user}],
    }


def test_the_current_context_gives_server_authority_and_token():
    access = read_kubeconfig(json.dumps(config()))
    assert (access.server, access.current_token()) == ("https://k.example.com:443", "a-secret")
    assert access.authority.startswith("-----BEGIN CERTIFICATE")
    assert "a-secret" not in repr(access)


def test_yaml_as_kubectl_writes_it_is_read():
    text = """
apiVersion: v1
kind: Config
current-context: here
clusters:
- name: c
  cluster: {server: "https://10.0.0.5:6443"}
contexts:
- context: {cluster: c, user: u}
  name: here
users:
- name: u
  user:
    token: a-secret
"""
    assert read_kubeconfig(text).server == "https://10.0.0.5:6443"


LONG_TEXTS = {
    "nested deeper": "kind: Config\nx: " + "[" * 900 + "]" * 900,
    "must be smaller": "kind: Config\nx:\n" + "- [a,b,c,d,e,f,g,h]\n" * 10_000,
}


@pytest.mark.parametrize(("words", "text"), LONG_TEXTS.items())
def test_a_text_that_would_take_seconds_to_read_is_refused(words, text):
    with pytest.raises(BadAccess, match=words):
        read_kubeconfig(text)


USERS: dict[str, dict[str, Any]] = {
    "exec": {"exec": {"command": "aws"}},
    "auth-provider": {"auth-provider": {"name": "gcp"}},
    "client-certificate": {"client-certificate": "/etc/passwd", "client-key": "/etc/shadow"},
    "client-key": {"client-key": "/etc/shadow", "token": "t"},
    "tokenFile": {"tokenFile": "/etc/passwd"},
    "password": {"password": "p"},
    "as": {"token": "t", "as": "system:admin"},
    "users": {},
}


@pytest.mark.parametrize("field", list(USERS))
def test_credentials_that_are_not_in_the_text_are_refused_by_their_field(field):
    with pytest.raises(BadAccess, match=rf"^{field}: "):
        read_kubeconfig(json.dumps(config(user=USERS[field])))


CLUSTERS: dict[str, dict[str, Any]] = {
    "insecure-skip-tls-verify": {"insecure-skip-tls-verify": True},
    "certificate-authority": {"certificate-authority": "/etc/passwd"},
    "proxy-url": {"proxy-url": "http://10.0.0.1:3128"},
    "certificate-authority-data": {"certificate-authority-data": "not base64"},
    "server": {"server": "http://10.0.0.5:6443"},
}


@pytest.mark.parametrize("field", list(CLUSTERS))
def test_an_unsafe_or_unusable_cluster_is_refused_by_its_field(field):
    with pytest.raises(BadAccess, match=rf"^{field}: "):
        read_kubeconfig(json.dumps(config(cluster=CLUSTERS[field])))


def test_no_passphrase_of_a_key_is_tried_because_its_file_decides_how_long_that_takes(tmp_path):
    certificate, key = write_pair(authority(tmp_path / "authority"), "somebody", "127.0.0.1")
    loaded = load_pem_private_key(key.read_bytes(), None)
    sealed = loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"-"))
    data = {"client-certificate-data": certificate.read_bytes(), "client-key-data": sealed}
    user = {name: base64.b64encode(value).decode() for name, value in data.items()}
    access = read_kubeconfig(json.dumps(config({"certificate-authority-data": None}, user)))
    with pytest.raises(BadAccess, match=r"^client-key-data: must be a key without a passphrase"):
        tls_context(access)


TEXTS = {
    "not YAML": "a: [",
    "not a kubeconfig": "kind: Pod",
    "a list": "[]",
    "aliases": "kind: Config\na: &a [x]\nb: [*a, *a]",
    "nested too deep": "[" * 5000,
    "a tag that makes an object": "kind: Config\nx: !!python/object/apply:os.system ['true']",
    "too long": " " * 300_000,
    "no context": "kind: Config",
}


@pytest.mark.parametrize("text", list(TEXTS.values()), ids=list(TEXTS))
def test_another_text_is_refused(text):
    with pytest.raises(BadAccess):
        read_kubeconfig(text)


def test_the_account_of_a_pod_is_read_from_its_files_and_its_token_anew(tmp_path):
    assert pod_account(tmp_path) is None
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_text("-----BEGIN CERTIFICATE-----")
    account = pod_account(tmp_path)
    assert account is not None
    assert account.current_token() == "first"
    (tmp_path / "token").write_text("second\n")
    assert account.current_token() == "second"
