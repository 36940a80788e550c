"""A build system that needs no registry, and files that several tests of native builds share."""

from __future__ import annotations

import shutil
import subprocess
import textwrap
import zipfile
from pathlib import Path

import pytest

from windlass.builders.builder import BuildError, Order
from windlass.process.builds import NativeBuilder

PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "shop"
version = "1"
[project.scripts]
serve = "shop:main"
"""


def write(top, files):
    for name, content in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(content).lstrip("\n"))


def wheel(path, name="tiny", version="1", code="VALUE = 5\n", script="", requires=""):
    """A package that is there already, so that nothing has to be fetched or built."""
    info = f"{name}-{version}.dist-info"
    path.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path / f"{name}-{version}-py3-none-any.whl", "w") as made:
        made.writestr(f"{name}.py", code)
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        made.writestr(f"{info}/METADATA", metadata + (f"Requires-Dist: {requires}\n" if requires else ""))
        made.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        made.writestr(f"{info}/RECORD", "")
        if script:
            program = zipfile.ZipInfo(f"{name}-{version}.data/scripts/{name}")
            program.external_attr = 0o100755 << 16
            made.writestr(program, f"#!python\n{script}")


class Site:
    """A builder, trees to build, and what came of them."""

    def __init__(self, top):
        self.top = top
        top.mkdir(exist_ok=True)
        self.kept = top / "built"
        self.builder = NativeBuilder(self.kept, {})
        self.said = []
        self.count = 0

    def order(self, files, **given):
        self.count += 1
        source = self.top / f"source{self.count}"
        source.mkdir()
        write(source, files)
        made = {"service": "service", "org": "org", "name": "shop", "deployment": "d", "commit": "c"}
        return Order(**{**made, "key": f"key{self.count}", "source": source, **given})

    async def build(self, files=None, order=None, **given):
        self.said.clear()
        return await self.builder.build(order or self.order(files, **given), self.said.append)

    async def refused(self, files, **given):
        with pytest.raises(BuildError) as caught:
            await self.build(files, **given)
        assert self.left() == set(), "nothing half-made stays"
        return str(caught.value)

    async def services(self):
        """Returns the services with builds. The folder also has copies of settings for cells here."""
        return {*await self.builder.services()} - {"etc"}

    def left(self):
        found = (path for path in self.kept.glob("*/*") if path.parent.name not in {"cache", "etc"})
        return {path.name for path in found if path.name != ".deps"} | {
            path.name for path in self.kept.glob("*/.deps/*")
        }

    def run(self, artifact, **more):
        """As an engine would: in a copy of the code, with the artifact's environment and nothing else."""
        copy = self.top / "instances" / str(len(list(self.top.glob("instances/*"))))
        shutil.copytree(Path(artifact.ref) / "app", copy, symlinks=True)
        env = {**artifact.environment, **more}
        ended = subprocess.run(
            artifact.command, cwd=copy / artifact.workdir, env=env, capture_output=True, text=True, timeout=30
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.strip()

    def folder_of(self, artifact, name):
        return Path(artifact.ref) / name

    def log(self):
        return "\n".join(self.said)
