"""A real container registry (Debian's docker-registry), with TLS and a login."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import io
import json
import ssl
import subprocess
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.certificates import Authority, authority, serves
from tests.free_ports import free_port
from tests.needs import program

USER, PASSWORD = "reader", "reads-only"
_HTPASSWD = f"{USER}:$2b$04$cw4mrRKK.1.eAxf9r7seJul6aXOhIZM49TT3ma7VnYDPs35F0PPW.\n"
HOST = "localhost"


class DockerRegistry:
    def __init__(self, folder: Path, *, tls: bool = True, login: bool = True) -> None:
        self.port = free_port()
        self.scheme = "https" if tls else "http"
        self.has_login = login
        self.authority: Authority | None = authority(folder / "authority") if tls else None
        self._folder = folder
        self._trust = ssl.create_default_context(cafile=self.authority.file) if self.authority else None
        self.webhook = ""
        """Address that is told of pushes."""
        self.webhook_secret = ""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"{self.scheme}://{HOST}:{self.port}"

    @property
    def host(self) -> str:
        return f"{HOST}:{self.port}"

    def start(self) -> None:
        registry = program("docker-registry")
        file = self._folder / "registry.json"
        file.write_text(json.dumps(self._settings()))
        self._process = subprocess.Popen(
            [registry, "serve", str(file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while True:
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                self._ask("GET", "/v2/")
                return
            assert self._process.poll() is None, "docker-registry ended"
            time.sleep(0.02)

    def stop(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()

    def push(self, image: str, tag: str, content: bytes = b"") -> str:
        """Puts an image without layers there; returns its digest."""
        config = json.dumps({"architecture": "amd64", "os": "linux", "note": content.decode()}).encode()
        empty = {"mediaType": "application/vnd.oci.image.config.v1+json", **self._upload(image, config)}
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": empty,
            "layers": [],
        }
        return self._put(image, tag, manifest)

    def push_list(self, image: str, tag: str, configs: dict[str, dict[str, Any]]) -> None:
        """Puts an image there that is another one for each processor, each with an empty layer."""
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w"):
            pass
        kind, packed = "application/vnd.oci.image.layer.v1.tar+gzip", gzip.compress(layer.getvalue())
        diff = f"sha256:{hashlib.sha256(layer.getvalue()).hexdigest()}"
        manifests = []
        for processor, config in configs.items():
            platform = {"architecture": processor, "os": "linux"}
            rootfs = {"type": "layers", "diff_ids": [diff]}
            made = json.dumps({**platform, "rootfs": rootfs, "config": config}).encode()
            config_kind = "application/vnd.oci.image.config.v1+json"
            manifest = {
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": {"mediaType": config_kind, **self._upload(image, made)},
                "layers": [{"mediaType": kind, **self._upload(image, packed)}],
            }
            digest = self._put(image, f"{tag}-{processor}", manifest)
            size = len(json.dumps(manifest).encode())
            entry = {"mediaType": manifest["mediaType"], "size": size, "digest": digest, "platform": platform}
            manifests.append(entry)
        kind = "application/vnd.oci.image.index.v1+json"
        self._put(image, tag, {"schemaVersion": 2, "mediaType": kind, "manifests": manifests})

    def _put(self, image: str, tag: str, manifest: dict[str, Any]) -> str:
        body, kind = json.dumps(manifest).encode(), str(manifest["mediaType"])
        answer = self._ask("PUT", f"/v2/{image}/manifests/{tag}", body, kind)
        return str(answer.headers["Docker-Content-Digest"])

    def _upload(self, image: str, blob: bytes) -> dict[str, Any]:
        digest = f"sha256:{hashlib.sha256(blob).hexdigest()}"
        where = self._ask("POST", f"/v2/{image}/blobs/uploads/").headers["Location"]
        self._ask("PUT", f"{where}&digest={digest}", blob, "application/octet-stream")
        return {"digest": digest, "size": len(blob)}

    def _ask(self, method: str, path: str, body: bytes = b"", kind: str = "") -> Any:
        url = path if path.startswith("http") else f"{self.url}{path}"
        request = urllib.request.Request(url, data=body or None, method=method)
        if kind:
            request.add_header("Content-Type", kind)
        if self.has_login:
            request.add_header(
                "Authorization", "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            )
        return urllib.request.urlopen(request, context=self._trust, timeout=10)

    def _settings(self) -> dict[str, Any]:
        http: dict[str, Any] = {"addr": f"127.0.0.1:{self.port}", "secret": "of-the-tests"}
        if self.authority:
            serves(self.authority, HOST)
            pem = str(self.authority.folder / f"{HOST}.pem")
            http["tls"] = {"certificate": pem, "key": pem}
        settings: dict[str, Any] = {
            "version": 0.1,
            "log": {"level": "error"},
            "storage": {"filesystem": {"rootdirectory": str(self._folder / "data")}},
            "http": http,
        }
        if self.webhook:
            headers = {"Authorization": [f"Bearer {self.webhook_secret}"]}
            endpoint = {"name": "windlass", "url": self.webhook, "headers": headers, "timeout": "5s"}
            settings["notifications"] = {"endpoints": [endpoint | {"threshold": 5, "backoff": "1s"}]}
        if self.has_login:
            file = self._folder / "htpasswd"
            file.write_text(_HTPASSWD)
            settings["auth"] = {"htpasswd": {"realm": "tests", "path": str(file)}}
        return settings


@contextlib.contextmanager
def docker_registry(
    folder: Path, *, webhook: str = "", webhook_secret: str = "", **options: bool
) -> Iterator[DockerRegistry]:
    folder.mkdir(parents=True, exist_ok=True)
    registry = DockerRegistry(folder, **options)
    registry.webhook, registry.webhook_secret = webhook, webhook_secret
    registry.start()
    try:
        yield registry
    finally:
        registry.stop()
