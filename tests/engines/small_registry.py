"""A registry for one image without content."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any


class SmallRegistry:
    """`more` are further fields of the configuration of the image."""

    def __init__(self, **more: Any) -> None:
        layer = _empty_layer()
        diff = f"sha256:{hashlib.sha256(gzip.decompress(layer)).hexdigest()}"
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Cmd": ["/none"]},
            "rootfs": {"type": "layers", "diff_ids": [diff]},
            **more,
        }
        self._blobs = dict(map(_named, (layer, json.dumps(config).encode())))
        names = list(self._blobs)
        kinds = ("image.rootfs.diff.tar.gzip", "container.image.v1+json")
        told = [
            {
                "mediaType": f"application/vnd.docker.{kind}",
                "size": len(self._blobs[name]),
                "digest": name,
            }
            for kind, name in zip(kinds, names, strict=True)
        ]
        self._kind = "application/vnd.docker.distribution.manifest.v2+json"
        manifest = {"schemaVersion": 2, "mediaType": self._kind, "config": told[1], "layers": [told[0]]}
        self._manifest = json.dumps(manifest).encode()

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        """Yields the host of the registry."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, _, rest = (await reader.read(4096)).decode(errors="replace").partition(" ")
        if method not in ("GET", "HEAD"):  # the engine tries TLS first
            writer.close()
            return
        path = rest.partition(" ")[0]
        is_manifest = "/manifests/" in path
        body = self._manifest if is_manifest else self._blobs.get(path.rpartition("/")[2], b"")
        lines = (
            "HTTP/1.1 200 OK",
            f"Content-Type: {self._kind if is_manifest else 'application/octet-stream'}",
            f"Docker-Content-Digest: {_named(self._manifest)[0]}",
            f"Content-Length: {len(body)}",
            "Connection: close",
        )
        writer.write("\r\n".join((*lines, "", "")).encode() + (b"" if method == "HEAD" else body))
        await writer.drain()
        writer.close()


def _named(content: bytes) -> tuple[str, bytes]:
    return f"sha256:{hashlib.sha256(content).hexdigest()}", content


def _empty_layer() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w"):
        pass
    return gzip.compress(packed.getvalue(), mtime=0)
