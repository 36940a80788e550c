"""Builds of Node applications that serve the pages of another folder, or whose lock file lacks packages."""

from __future__ import annotations

import json

import pytest

from windlass.base.isolation.isolation import Isolation
from windlass.builders.builder import BuildError
from windlass.process.builds import NativeBuilder

pytestmark = pytest.mark.slow

NPM = """#!/bin/sh
echo "called npm $*"
case "$*" in
  "run build --prefix client")
    mkdir -p client/build client/node_modules && echo page > client/build/index.html ;;
  *--prefix*) ;;
  ci*|install*) mkdir -p node_modules/express ;;
esac
"""
OUT_OF_SYNC = """#!/bin/sh
echo "called npm $*"
[ "$1" = ci ] || exec mkdir -p node_modules/express
echo 'npm error code EUSAGE'
echo 'npm error `npm ci` can only install packages when your package.json and package-lock.json or '\\
'npm-shrinkwrap.json are in sync. Please update your lock file with `npm install` before continuing.'
echo 'npm error {0}'
exit 1
"""
MISSING = "Missing: @pkgjs/parseargs@0.11.0 from lock file"
INVALID = "Invalid: lock file's express@4.1.0 does not satisfy express@5.0.0"


@pytest.fixture
def npm(site, tmp_path, monkeypatch):
    """Replaces npm and Node by programs of the test."""
    folder = tmp_path / "programs"
    folder.mkdir()

    def replace(text):
        for name, content in {"npm": text, "node": "#!/bin/sh\necho v24.1.0\n"}.items():
            (folder / name).write_text(content)
            (folder / name).chmod(0o755)

    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    site.builder = NativeBuilder(site.kept, {}, Isolation("off", site.kept))
    return replace


def shop(**more):
    package = {"dependencies": {"express": "4"}, "scripts": {"start": "node server.js"}}
    return {"package.json": json.dumps(package), "package-lock.json": "{}", "server.js": "", **more}


def calls(site):
    return [line.removeprefix("called ") for line in site.said if line.startswith("called npm")]


async def test_a_build_makes_the_pages_that_the_server_serves_from_another_folder(site, npm):
    npm(NPM)
    pages = {"client/package.json": json.dumps({"scripts": {"build": "react-scripts build"}})}
    served = "app.use(express.static('client/build'))"
    artifact = await site.build(shop(**pages, **{"server.js": served, "client/package-lock.json": "{}"}))
    made = site.folder_of(artifact, "app") / "client"
    assert (made / "build" / "index.html").read_text() == "page\n"
    assert not (made / "node_modules").exists()
    assert calls(site)[1:] == ["npm ci --prefix client --include=dev", "npm run build --prefix client"]
    await site.build(shop(**pages))  # negative control: a server that serves no pages
    assert calls(site)[3:] in (["npm ci --omit=dev"], [])


async def test_npm_adds_packages_that_a_lock_file_lacks(site, npm):
    npm(OUT_OF_SYNC.format(MISSING))
    await site.build(shop())
    assert calls(site) == ["npm ci --omit=dev", "npm install --omit=dev"]
    assert any(line.startswith("package-lock.json lacks packages: npm adds them") for line in site.said)


async def test_a_lock_file_that_contradicts_the_manifest_fails_the_build(site, npm):
    npm(OUT_OF_SYNC.format(INVALID))
    with pytest.raises(BuildError, match="Install the dependencies once on your machine"):
        await site.build(shop())
    assert calls(site) == ["npm ci --omit=dev"]
