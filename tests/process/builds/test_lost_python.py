"""An upgrade of the operating system may remove the Python that a build starts with: it is built again."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.engines.engine import ArtifactLost
from windlass.engines.workload import Artifact, StaticSite
from windlass.process.builds.artifacts import ArtifactStore
from windlass.process.files import check_python


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A Python of the machine."""
    program = tmp_path / "usr/bin/python3.11"
    program.parent.mkdir(parents=True)
    program.touch()
    return program


def built(store: ArtifactStore, python: Path, programs: str, static: StaticSite | None = None) -> Artifact:
    """Stores a build that starts with a Python of the machine."""
    with store.making() as fresh:
        folder = fresh / "artifact"
        (folder / "app").mkdir(parents=True)
        if programs == "venv/bin":
            dependencies = store.folder / ".deps" / "python-1" / "venv"
            (dependencies / "bin").mkdir(parents=True)
            (folder / "venv").symlink_to(dependencies)
        else:
            (folder / programs).mkdir()
        (folder / programs / "python3").symlink_to(python)
        (folder / programs / "python").symlink_to("python3")
        artifact = Artifact(kind="native", ref=str(store.at("key")), key="key", static=static)
        store.complete(folder, artifact)
        return store.put(folder, artifact)


@pytest.mark.parametrize("programs", ["venv/bin", "bin"])
def test_a_build_whose_python_was_removed_is_built_again(tmp_path: Path, python: Path, programs: str) -> None:
    store = ArtifactStore(tmp_path, "service")
    artifact = built(store, python, programs)
    assert store.find("key") == artifact  # the negative control: its Python is there
    check_python(artifact)
    python.unlink()
    assert store.find("key") is None
    with pytest.raises(ArtifactLost, match="Deploy again: the Python that this deployment was built with"):
        check_python(artifact)


def test_a_static_site_needs_no_python(tmp_path: Path, python: Path) -> None:
    store = ArtifactStore(tmp_path, "service")
    artifact = built(store, python, "bin", static=StaticSite(folder="public"))
    python.unlink()
    assert store.find("key") == artifact
