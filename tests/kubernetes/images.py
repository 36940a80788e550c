"""Images for test clusters, as OCI describes them, without a Docker engine: see image_files.py."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.engines.image_files import add_text, box_files, python_files

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"


class Image(NamedTuple):
    """The blobs of an image by their digests, and its manifest."""

    blobs: Mapping[str, bytes]
    manifest: bytes

    @property
    def digest(self) -> str:
        return digest_of(self.manifest)


def box(*command: str) -> Image:
    """An image with a shell and the usual tools."""
    return made_of(box_files(), Cmd=command or ("sh",), Env=["PATH=/bin"])


def python() -> Image:
    """The same, with a copy of the Python that runs these tests."""
    return made_of(python_files(), Cmd=("python3",), Env=["PATH=/usr/bin:/bin", "PYTHONUNBUFFERED=1"])


def made_of(*layers: bytes, **settings: object) -> Image:
    """`settings` are those of OCI: Cmd, Env, User, WorkingDir, ExposedPorts."""
    config = {
        "architecture": "amd64",
        "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [digest_of(layer) for layer in layers]},
        "config": settings,
    }
    return _image({}, [*map(_named, layers)], config)


def with_files(
    base: Mapping[str, Any], config: Mapping[str, Any], files: Mapping[str, str], **settings: object
) -> Image:
    """An image of this manifest and configuration with one more layer; other blobs are not repeated."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path, text in files.items():
            add_text(tar, path, text)
    layer = packed.getvalue()
    rootfs = {"type": "layers", "diff_ids": [*config["rootfs"]["diff_ids"], digest_of(layer)]}
    more = {**config, "rootfs": rootfs, "config": {**config["config"], **settings}}
    return _image({"layers": base["layers"]}, [_named(layer)], more)


def archive(ref: str, image: Image) -> bytes:
    """Returns an image layout as an archive, which `ctr images import` reads."""
    annotations = {"io.containerd.image.name": ref}
    entry = {
        "mediaType": MANIFEST,
        "digest": image.digest,
        "size": len(image.manifest),
        "annotations": annotations,
    }
    files = {
        "oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
        "index.json": json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode(),
        **{f"blobs/{name.replace(':', '/')}": blob for name, blob in image.blobs.items()},
        f"blobs/{image.digest.replace(':', '/')}": image.manifest,
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _named(content: bytes) -> tuple[str, bytes]:
    return digest_of(content), content


def _image(base: Mapping[str, Any], layers: list[tuple[str, bytes]], config: object) -> Image:
    written = json.dumps(config).encode()
    own = [{"mediaType": _LAYER, "digest": name, "size": len(layer)} for name, layer in layers]
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": _CONFIG, "digest": digest_of(written), "size": len(written)},
        "layers": [*base.get("layers", ()), *own],
    }
    return Image(dict([*layers, _named(written)]), json.dumps(manifest).encode())
