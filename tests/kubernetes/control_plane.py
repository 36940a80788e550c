"""A real Kubernetes control plane for tests: etcd, API server, controller manager and scheduler, no node.

It needs neither root nor a network of its own: each has its own folder, and its own ports of the loopback
address."""

from __future__ import annotations

import base64
import json
import os
import secrets
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.certificates import authority
from tests.free_ports import free_port
from tests.kubernetes.programs import CLUSTER

SECONDS_TO_WAIT: Final = 180
"""A machine under load is slow; nothing depends on how fast a part is ready."""
ADMIN: Final = "admin"
_USERS: Final = (ADMIN, "manager", "scheduler", "node", "proxy", "dns")
_LOOPBACK: Final = "127.0.0.1"


class Addresses(NamedTuple):
    """Where the parts of a control plane listen. Only the API server is to be reached by others."""

    api: str = _LOOPBACK
    api_port: int = 6443
    etcd_port: int = 2379
    peer_port: int = 2380
    manager_port: int = 10257
    scheduler_port: int = 10259
    services: str = "10.96.0.0/16"
    pods: str = "10.97.0.0/16"


class ClusterFiles:
    """The folder of a cluster: how its API server is asked, whoever has started it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def url(self) -> str:
        return (self.folder / "url").read_text()

    @property
    def ca_certificate(self) -> str:
        """The server signs its certificate itself at its first start, so it is its own authority."""
        return (self.folder / "certs" / "apiserver.crt").read_text()

    def token(self, user: str = ADMIN) -> str:
        tokens: dict[str, str] = json.loads((self.folder / "tokens.json").read_text())
        return tokens[user]

    def kubeconfig(self, token: str = "", namespace: str = "default", **user: str) -> dict[str, Any]:
        """Returns a kubeconfig with a token, which is the administrator's if none is given, or with other
        credentials of its user."""
        ca = base64.b64encode(self.ca_certificate.encode()).decode()
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [
                {"name": "test", "cluster": {"server": self.url, "certificate-authority-data": ca}},
            ],
            "users": [{"name": "test", "user": user or {"token": token or self.token()}}],
            "contexts": [
                {"name": "test", "context": {"cluster": "test", "user": "test", "namespace": namespace}},
            ],
        }

    def ask(self, path: str, body: object = None, method: str = "", kind: str = "application/json") -> Any:
        """Asks the API server as the administrator; returns its answer, decoded if it is JSON."""
        request = urllib.request.Request(
            f"{self.url}{path}",
            data=None if body is None else json.dumps(body).encode(),
            method=method or ("GET" if body is None else "POST"),
            headers={"Authorization": f"Bearer {self.token()}", "Content-Type": kind},
        )
        trust = ssl.create_default_context(cadata=self.ca_certificate)
        with urllib.request.urlopen(request, context=trust, timeout=30) as answer:
            said = answer.read()
            return json.loads(said) if "json" in answer.headers["Content-Type"] else said.decode()

    def apply(self, path: str, body: Mapping[str, object]) -> Any:
        """Applies an object on the server; `path` is its own, with its name."""
        return self.ask(
            f"{path}?fieldManager=tests&force=true", body, "PATCH", kind="application/apply-patch+yaml"
        )

    def answers(self) -> bool:
        return _holds(lambda: self.ask("/readyz") == "ok")

    def wait(self, check: Callable[[], object], name: str) -> None:
        """Waits until a check returns something; it may fail before."""
        deadline = time.monotonic() + SECONDS_TO_WAIT
        while not _holds(check):
            self.expect_life()
            assert time.monotonic() < deadline, f"{name} is not there: see the logs in {self.folder}"
            time.sleep(0.05)

    def expect_life(self) -> None:
        """Fails if something of the cluster has ended that this process can tell."""

    def add_namespace(self, name: str) -> None:
        """Adds a namespace, and waits until it takes pods."""
        self.ask("/api/v1/namespaces", {"metadata": {"name": name}})
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        self.wait(lambda: self.ask(account), f"the service account of {name}")

    def kubectl(self, *words: str, given: str = "") -> str:
        """Runs kubectl as the administrator, with this input; returns its output."""
        environment = {**os.environ, "KUBECONFIG": f"{self.folder}/kubeconfig", "HOME": str(self.folder)}
        command = [str(CLUSTER), "kubectl", *words]
        done = subprocess.run(
            command, env=environment, input=given, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


class ControlPlane(ClusterFiles):
    def __init__(self, folder: Path, addresses: Addresses) -> None:
        super().__init__(folder)
        self.addresses = addresses
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Starts all parts; returns when pods can be created."""
        self.prepare()
        self.start_etcd()
        self.start_api_server()
        self.start_controllers()
        self.wait_for_default_account()

    def prepare(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        at = self.addresses
        (self.folder / "url").write_text(f"https://{at.api}:{at.api_port}")
        tokens = {user: secrets.token_hex(16) for user in _USERS}
        (self.folder / "tokens.json").write_text(json.dumps(tokens))
        rows = (f'{token},{user},{user},"system:masters"\n' for user, token in tokens.items())
        (self.folder / "tokens.csv").write_text("".join(rows))
        key = ec.generate_private_key(ec.SECP256R1())  # signs the tokens of service accounts
        (self.folder / "accounts.pem").write_bytes(_pem(key))
        self._authority = authority(self.folder / "clients")

    def client_certificate(self, user: str, *groups: str) -> tuple[str, str]:
        """Issues a certificate with which the API server knows this user; returns it, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name(
            [
                x509.NameAttribute(NameOID.COMMON_NAME, user),
                *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups),
            ]
        )
        made = self._authority.signed(name, key, x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]))
        return made.public_bytes(serialization.Encoding.PEM).decode(), _pem(key).decode()

    def start_etcd(self) -> None:
        at = self.addresses
        client = f"http://{_LOOPBACK}:{at.etcd_port}"
        peer = f"http://{_LOOPBACK}:{at.peer_port}"
        self.spawn(
            *("etcd", f"--data-dir={self.folder}/etcd", "--log-level=warn", "--unsafe-no-fsync"),
            *(f"--listen-client-urls={client}", f"--advertise-client-urls={client}"),
            *(f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"),
            f"--initial-cluster=default={peer}",
        )

    def start_api_server(self) -> None:
        at = self.addresses
        # Pods cannot reach a loopback address, so no Service can have it as an endpoint.
        endpoint = (
            ("--endpoint-reconciler-type=none",)
            if at.api == _LOOPBACK
            else (f"--advertise-address={at.api}",)
        )
        self.spawn(
            *("kube-apiserver", f"--etcd-servers=http://{_LOOPBACK}:{at.etcd_port}"),
            *(f"--secure-port={at.api_port}", f"--bind-address={at.api}", *endpoint),
            *(f"--cert-dir={self.folder}/certs", f"--token-auth-file={self.folder}/tokens.csv"),
            *(f"--client-ca-file={self._authority.file}", "--authorization-mode=RBAC"),
            f"--service-cluster-ip-range={at.services}",
            *(f"--service-account-{use}-file={self.folder}/accounts.pem" for use in ("key", "signing-key")),
            "--service-account-issuer=https://kubernetes.default.svc",
            *("--kubelet-preferred-address-types=InternalIP", "--allow-privileged=true", "--profiling=false"),
        )
        self.wait(self.answers, "the API server")
        (self.folder / "kubeconfig").write_text(json.dumps(self.kubeconfig()))

    def start_controllers(self) -> None:
        at = self.addresses
        self.spawn(
            *("kube-controller-manager", f"--kubeconfig={self.config_of('manager')}", "--leader-elect=false"),
            *(f"--service-account-private-key-file={self.folder}/accounts.pem", "--profiling=false"),
            *(f"--root-ca-file={self.folder}/certs/apiserver.crt", "--use-service-account-credentials=true"),
            *(
                f"--bind-address={_LOOPBACK}",
                f"--secure-port={at.manager_port}",
                f"--cert-dir={self.folder}/manager",
            ),
            *("--kube-api-qps=300", "--kube-api-burst=600"),  # the default creates 20 pods in a second
            "--pvclaimbinder-sync-period=1s",  # else a claim waits for up to 15 seconds
            *("--horizontal-pod-autoscaler-sync-period=5s", "--enable-hostpath-provisioner=true"),
        )
        self.spawn(
            *("kube-scheduler", f"--kubeconfig={self.config_of('scheduler')}", "--leader-elect=false"),
            *(f"--bind-address={_LOOPBACK}", f"--secure-port={at.scheduler_port}", "--profiling=false"),
            f"--cert-dir={self.folder}/scheduler",
        )

    def wait_for_default_account(self) -> None:
        """Until then, the namespace refuses pods."""
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self.wait(lambda: self.ask(account), "the service account of the namespace default")

    def config_of(self, user: str) -> Path:
        file = self.folder / f"{user}.kubeconfig"
        file.write_text(json.dumps(self.kubeconfig(self.token(user))))
        return file

    def spawn(self, name: str, *options: str, program: Path | str = "") -> None:
        """Starts a program; what it says is in its log."""
        command: Sequence[str | Path] = [program] if program else [CLUSTER, name]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [*command, *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self, name: str) -> None:
        """Ends a part as when the power goes."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def pause(self, name: str) -> None:
        self.processes[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self.processes[name].send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Kills all parts: an API server without its etcd would not end for a minute."""
        for name in [*self.processes]:
            self.kill(name)

    def expect_life(self) -> None:
        for name, process in self.processes.items():
            last_lines = (self.folder / f"{name}.log").read_text()[-2000:]
            assert process.poll() is None, f"{name} has ended: {last_lines}"


@contextmanager
def control_plane(folder: Path) -> Iterator[ControlPlane]:
    """A control plane of one test, which may kill its parts."""
    addresses = Addresses(_LOOPBACK, free_port(), free_port(), free_port(), free_port(), free_port())
    made = ControlPlane(folder, addresses)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def _holds(check: Callable[[], object]) -> bool:
    try:
        return bool(check())
    except (OSError, ValueError, LookupError):  # it does not listen yet, or says that it is not ready
        return False


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.TraditionalOpenSSL  # the API server reads public keys out of no other
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
