"""The authorities whose certificates git takes: those of the system, and those of the operator.

The setting of git takes the place of the system's file, so both are written into one.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

BUNDLE_NAME: Final = "authorities.pem"
_SYSTEM_FILES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Alpine, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # macOS, BSD
)


def write_bundle(folder: Path, own_file: str) -> Path:
    """Writes the authorities of the system and of a PEM file into a file in `folder`, unless it has them.
    Returns its path."""
    bundle, parts = folder / BUNDLE_NAME, [_system_file(), Path(own_file)]
    content = b"\n".join(part.read_bytes() for part in parts if part)
    if not bundle.is_file() or bundle.read_bytes() != content:
        new = bundle.with_suffix(".new")
        new.write_bytes(content)
        new.replace(bundle)
    return bundle


def _system_file() -> Path | None:
    """Returns the file with the authorities of the system, as for other requests; None if there is none."""
    found = (ssl.get_default_verify_paths().cafile, *_SYSTEM_FILES)
    return next((Path(file) for file in found if file and Path(file).is_file()), None)
