"""The image registry of a test cluster, which its node pulls from without a login."""

from __future__ import annotations

import fcntl
import hashlib
import json
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.engines.image_files import VERSION
from tests.kubernetes.images import MANIFEST, Image, box, python, with_files

_PYTHON = "windlass-test/python"


class ImageRegistry(NamedTuple):
    host: str

    def box(self) -> str:
        """Returns the name of an image with a shell and the usual tools. The node takes it for the official
        `busybox:1.36` too."""
        return self._given("library/busybox", "1.36", box)

    def python(self) -> str:
        return self._given(_PYTHON, f"{VERSION}-1", python)

    def program(self, text: str) -> str:
        """Returns the name of an image whose program is this Python, in the file /app/main.py."""
        base = self.python().partition("@")[2]

        def made() -> Image:
            manifest = json.loads(self._ask("GET", f"{_PYTHON}/manifests/{base}"))
            config = json.loads(self._ask("GET", f"{_PYTHON}/blobs/{manifest['config']['digest']}"))
            files = {"app/main.py": text}
            return with_files(manifest, config, files, WorkingDir="/app", Cmd=("python3", "main.py"))

        tag = hashlib.sha256(f"{base} {text}".encode()).hexdigest()[:16]
        return self._given(_PYTHON, f"program-{tag}", made)

    def push(self, name: str, tag: str, image: Image) -> str:
        """Pushes an image; returns its name with its digest."""
        for digest, blob in image.blobs.items():
            if self._asked("HEAD", f"{name}/blobs/{digest}") is None:
                self._upload(name, digest, blob)
        self._ask("PUT", f"{name}/manifests/{tag}", image.manifest, MANIFEST)
        return f"{self.host}/{name}@{image.digest}"

    def _given(self, name: str, tag: str, make: Callable[[], Image]) -> str:
        with _alone():
            digest = self._asked("HEAD", f"{name}/manifests/{tag}")
            return f"{self.host}/{name}@{digest}" if digest else self.push(name, tag, make())

    def _upload(self, name: str, digest: str, blob: bytes) -> None:
        place = self._send("POST", f"http://{self.host}/v2/{name}/blobs/uploads/").headers["Location"]
        self._send("PUT", f"{place}&digest={digest}", blob, {"Content-Type": "application/octet-stream"})

    def _asked(self, method: str, path: str) -> str | None:
        """Returns the digest of what is there."""
        try:
            answer = self._send(method, f"http://{self.host}/v2/{path}", headers={"Accept": MANIFEST})
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise
        return str(answer.headers["Docker-Content-Digest"])

    def _ask(self, method: str, path: str, body: bytes = b"", kind: str = "") -> bytes:
        headers = {"Accept": MANIFEST, **({"Content-Type": kind} if kind else {})}
        answer: bytes = self._send(method, f"http://{self.host}/v2/{path}", body, headers).read()
        return answer

    @staticmethod
    def _send(method: str, url: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Any:
        request = urllib.request.Request(url, data=body or None, method=method, headers=headers or {})
        return urllib.request.urlopen(request, timeout=60)


@contextmanager
def _alone() -> Iterator[None]:
    """Test processes that need an image wait for the one that makes it."""
    with Path(tempfile.gettempdir(), "windlass-test-cluster-images.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
