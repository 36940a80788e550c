"""A chart repository for tests: at every address, over HTTPS with an index, and as an OCI registry."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from tests.world import NoWayOut
from windlass.base.http_out import HttpResult

CHART = {
    "shop/Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.2.3\n",
    "shop/values.yaml": "replicas: 1\n",
    "shop/templates/web.yaml": "kind: ConfigMap\nmetadata:\n  name: web\n",
}
LOGIN = "Basic YWRhOnB3"
"""The header of ada with the password pw."""


def archive_of(files: Mapping[str, str]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return content.getvalue()


class FakeCharts(NoWayOut):
    """Knows one chart, `shop`, in the versions 1.2.3 and 1.10.0."""

    def __init__(self) -> None:
        self.archive = archive_of(CHART)
        self.digest = hashlib.sha256(self.archive).hexdigest()
        self.needs_login = False
        self.files_at = ""
        """Where the archives are; empty for the repository itself."""
        self.moved_to = ""
        """If set, archives have moved there."""
        self.index: bytes | None = None
        """If set, the index."""
        self.asked: list[tuple[str, str]] = []
        """Each address that was asked for, with the login."""

    async def send(
        self, method: str, url: str, body: bytes = b"", headers: Any = None, **options: Any
    ) -> HttpResult:
        login = (headers or {}).get("Authorization", "")
        self.asked.append((url, login))
        path = urlsplit(url).path
        if self.needs_login and login != LOGIN and urlsplit(url).netloc == "charts.example.com":
            return _answer(401)
        if path.endswith("/index.yaml"):
            return _answer(200, self._index() if self.index is None else self.index)
        if path.endswith(".tgz"):
            if self.moved_to and not url.startswith(self.moved_to):
                return _answer(302, b"", location=f"{self.moved_to}/shop.tgz")
            return _answer(200, self.archive)
        return self._registry(path)

    def _index(self) -> bytes:
        entries = [
            {"version": version, "urls": [f"{self.files_at}shop-{version}.tgz"], "digest": self.digest}
            for version in ("1.2.3", "1.10.0")
        ]
        return json.dumps({"apiVersion": "v1", "entries": {"shop": entries}}).encode()

    def _registry(self, path: str) -> HttpResult:
        if path in ("/v2/", "/v2"):
            return _answer(200, b"{}", **{"docker-distribution-api-version": "registry/2.0"})
        if path.endswith("/tags/list"):
            return _answer(200, json.dumps({"tags": ["1.2.3", "1.10.0_b1"]}).encode())
        if "/manifests/" in path:
            layer = {
                "mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
                "digest": f"sha256:{self.digest}",
            }
            return _answer(200, json.dumps({"layers": [layer]}).encode())
        if "/blobs/" in path:
            return _answer(200, self.archive)
        return _answer(404)


def _answer(status: int, body: bytes = b"", **headers: str) -> HttpResult:
    return HttpResult(status, headers, body, False, 1)
