"""Releases of static sites for tests of the router."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.gateway.routers.town import Town, route
from windlass.routers.sites.publish import PublishReport, SiteSettings, publish

PAGE = b"<h1>Shop</h1>"
SCRIPT = b"console.log('shop');\n" * 40
FILES: Mapping[str, bytes] = {
    "index.html": PAGE,
    "about.html": b"<h1>About</h1>",
    "app.js": SCRIPT,
    "docs/index.html": b"<h1>Docs</h1>",
    "docs/plan b.txt": b"plan",
    "photo.png": bytes(range(256)) * 4,
}


def written(folder: Path, files: Mapping[str, bytes | str]) -> Path:
    """Writes files below a folder."""
    for path, content in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def made(folder: Path, files: Mapping[str, bytes | str], **settings: Any) -> tuple[Path, PublishReport]:
    """Makes a release of these files."""
    release = folder / "release"
    release.mkdir(parents=True)
    report = publish(written(folder / "built", files), SiteSettings(**settings), release)
    return release, report


async def serve(town: Town, folder: Path, files: Mapping[str, bytes | str] = FILES, **settings: Any) -> Path:
    """Has the router serve a release as the shop."""
    release, _ = made(folder, files, **settings)
    await town.router.set("shop", [route(site=str(release))])
    return release
