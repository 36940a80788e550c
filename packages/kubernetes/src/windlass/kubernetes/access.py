"""The address and the credentials of a cluster, from a kubeconfig or from the service account of a Pod.

A kubeconfig can name programs to run and files to read. Windlass runs no such program and reads no such file:
it uses only the text itself.
"""

from __future__ import annotations

import base64
import binascii
import re
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml
from msgspec import Struct

MAX_CONFIG_BYTES: Final = 256 * 1024
ACCOUNT_FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_IN_CLUSTER_SERVER: Final = "https://kubernetes.default.svc"
_MAX_DEPTH: Final = 50
_MAX_EVENTS: Final = 10_000
"""Maximum number of values, with the beginnings and ends of lists."""
_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_HOST_PATTERN: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_FLATTEN_ADVICE: Final = "`kubectl config view --flatten --minify` writes one that contains everything"


class BadAccess(ValueError):
    """Raised if a kubeconfig is not usable. The message names the field, and what to do."""


class ClusterAccess(Struct, frozen=True, kw_only=True):
    server: str
    """URL of the API server, without a final slash."""
    authority: str
    """PEM certificates of the authority; empty for the authorities of this machine."""
    token: str = ""
    token_file: str = ""
    """File with a token that is replaced before it expires, as in a Pod."""
    certificate: str = ""
    key: str = ""
    server_name: str = ""

    def __repr__(self) -> str:
        return f"ClusterAccess({self.server})"

    def current_token(self) -> str:
        """Returns the bearer token; empty with a client certificate."""
        return Path(self.token_file).read_text().strip() if self.token_file else self.token


def pod_account(folder: Path = ACCOUNT_FOLDER) -> ClusterAccess | None:
    """Returns the access of the Pod in which this server runs; None if it runs in none."""
    token, authority = folder / "token", folder / "ca.crt"
    if not (token.is_file() and authority.is_file()):
        return None
    return ClusterAccess(server=_IN_CLUSTER_SERVER, authority=authority.read_text(), token_file=str(token))


def pod_namespace(folder: Path = ACCOUNT_FOLDER) -> str:
    """Returns the namespace of the Pod in which this server runs; empty if it runs in none."""
    file = folder / "namespace"
    return file.read_text().strip() if file.is_file() else ""


def read_kubeconfig(text: str) -> ClusterAccess:
    """Returns the access of the current context. Raises BadAccess."""
    document = _parse(text)
    context = _named(document, "contexts", "context", str(document.get("current-context") or ""))
    cluster = _named(document, "clusters", "cluster", str(context.get("cluster") or ""))
    user = _named(document, "users", "user", str(context.get("user") or ""))
    _refuse_unsafe_cluster(cluster)
    _refuse_unsafe_user(user)
    access = ClusterAccess(
        server=_server(str(cluster.get("server") or "")),
        authority=_pem(cluster, "certificate-authority-data"),
        token=str(user.get("token") or ""),
        certificate=_pem(user, "client-certificate-data"),
        key=_pem(user, "client-key-data"),
        server_name=_server_name(cluster),
    )
    if not access.token and not (access.certificate and access.key):
        raise BadAccess(
            "users: give the user a token, or client-certificate-data and client-key-data: it has no "
            f"credentials of its own ({_FLATTEN_ADVICE})"
        )
    return access


def _server_name(cluster: Mapping[str, Any]) -> str:
    """Returns the name for which the certificate of the API server is; empty for that in its address."""
    name = str(cluster.get("tls-server-name") or "")
    if name and not _HOST_PATTERN.fullmatch(name):
        raise BadAccess("tls-server-name: must be a host name")
    return name


def _parse(text: str) -> Mapping[str, Any]:
    if len(text) > MAX_CONFIG_BYTES:
        raise BadAccess(f"kubeconfig: must not be longer than {MAX_CONFIG_BYTES} bytes")
    try:
        _refuse_unsafe_yaml(text)
        document = yaml.load(text, _Loader)  # noqa: S506 (a safe loader, written in C)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, BadAccess):
            raise
        raise BadAccess("kubeconfig: must be YAML or JSON, as kubectl writes it") from error
    if not isinstance(document, dict) or document.get("kind") != "Config":
        raise BadAccess("kubeconfig: must be a document of kind Config, as kubectl writes it")
    return document


def _refuse_unsafe_yaml(text: str) -> None:
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=_Loader)):
        if count > _MAX_EVENTS:  # seconds of work, and a cluster's file is read again at each start
            raise BadAccess(
                "kubeconfig: must be smaller: send that of one cluster (kubectl config view --minify)"
            )
        if isinstance(event, yaml.AliasEvent):  # a few of them can stand for gigabytes
            raise BadAccess("kubeconfig: write it without YAML aliases (*name)")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            raise BadAccess(f"kubeconfig: must not be nested deeper than {_MAX_DEPTH}")


def _named(document: Mapping[str, Any], list_name: str, field: str, name: str) -> Mapping[str, Any]:
    entries = document.get(list_name) or []
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and str(entry.get("name") or "") == name and name:
            found = entry.get(field)
            return found if isinstance(found, dict) else {}
    raise BadAccess(f"{list_name}: there is no {field} named `{name[:100]}`, which the current context needs")


def _refuse_unsafe_cluster(cluster: Mapping[str, Any]) -> None:
    if cluster.get("insecure-skip-tls-verify"):
        raise BadAccess(
            "insecure-skip-tls-verify: leave it out, and give certificate-authority-data: without a "
            "check of the certificate, anyone on the network path could read the credentials"
        )
    if cluster.get("certificate-authority"):
        raise _file_refusal("certificate-authority")
    if cluster.get("proxy-url"):
        raise BadAccess("proxy-url: leave it out: Windlass connects to the server of the cluster directly")


def _refuse_unsafe_user(user: Mapping[str, Any]) -> None:
    for field in ("exec", "auth-provider"):
        if user.get(field):
            raise BadAccess(
                f"{field}: give a token or a client certificate instead, for example that of a service "
                "account: Windlass runs no programs that a kubeconfig names"
            )
    for field in ("client-certificate", "client-key", "tokenFile"):
        if user.get(field):
            raise _file_refusal(field)
    for field in ("username", "password"):
        if user.get(field):
            raise BadAccess(
                f"{field}: give a token or a client certificate: Kubernetes no longer supports passwords"
            )
    for field in ("as", "as-groups", "as-uid", "as-user-extra"):
        if user.get(field):
            raise BadAccess(f"{field}: give the credentials of the account itself")


def _file_refusal(field: str) -> BadAccess:
    return BadAccess(
        f"{field}: put the content into {field}-data: the file is on another machine ({_FLATTEN_ADVICE})"
        if field != "tokenFile"
        else f"{field}: put the content into token: the file is on another machine"
    )


def _server(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadAccess("server: must be a URL such as https://10.0.0.5:6443") from error
    if parts.scheme != "https" or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise BadAccess("server: must be a URL such as https://10.0.0.5:6443")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"https://{host}:{port or 443}{parts.path.rstrip('/')}"


def _pem(entry: Mapping[str, Any], field: str) -> str:
    value = entry.get(field)
    if not value:
        return ""
    try:
        decoded = base64.b64decode(str(value), validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError, ValueError) as error:
        raise BadAccess(f"{field}: must be a PEM text in base64") from error
    if "-----BEGIN " not in decoded:
        raise BadAccess(f"{field}: must be a PEM text in base64")
    return decoded


def tls_context(access: ClusterAccess) -> ssl.SSLContext:
    """Returns the TLS context of an access. Raises BadAccess if a certificate or key is not usable."""
    try:
        context = ssl.create_default_context(cadata=access.authority or None)
    except (ssl.SSLError, ValueError) as error:
        raise BadAccess("certificate-authority-data: must be certificates in PEM form") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not access.certificate:
        return context
    # The ssl module loads a client certificate and key from files only.
    with tempfile.TemporaryDirectory(prefix="windlass-tls-") as folder:
        certificate, key = Path(folder) / "certificate", Path(folder) / "key"
        certificate.write_text(access.certificate)
        key.touch(mode=0o600)
        key.write_text(access.key)
        try:
            context.load_cert_chain(certificate, key, password=_refuse_encrypted_key)
        except BadAccess:
            raise
        except (ssl.SSLError, ValueError) as error:
            raise BadAccess(
                "client-certificate-data, client-key-data: must be a certificate and its key, without a "
                "passphrase"
            ) from error
    return context


def _refuse_encrypted_key() -> str:
    """Is called for the passphrase of a key. Any answer could take half an hour: the file of the key decides
    how often it is hashed."""
    raise BadAccess("client-key-data: must be a key without a passphrase")
