"""The files of a static site are found in its build, which is on this machine."""

from __future__ import annotations

import pytest

from windlass.engines.engine import ArtifactLost, EngineError
from windlass.engines.workload import Artifact
from windlass.process.files import built_folder


@pytest.mark.parametrize(
    ("workdir", "folder", "path"),
    [
        ("", "dist", "app/dist"),
        ("", ".", "app"),
        ("web", "dist", "app/web/dist"),
        ("/app/web", ".", "app/web"),
        ("", "linked", "app/web/dist"),
    ],
)
def test_a_folder_is_relative_to_the_working_directory_of_its_build(tmp_path, workdir, folder, path):
    (tmp_path / "app/web/dist").mkdir(parents=True)
    (tmp_path / "app/linked").symlink_to("web/dist")
    artifact = Artifact(kind="native", ref=str(tmp_path), workdir=workdir)
    assert built_folder(artifact, folder) == tmp_path / path


@pytest.mark.parametrize(
    "folder", ["..", "../../other/app", "dist/../../..", "/etc", "out", "out/x", "up/other"]
)
def test_no_folder_leads_to_the_files_of_another_organization(tmp_path, folder):
    for service in ("own", "other"):
        (tmp_path / service / "app/dist").mkdir(parents=True)
    (tmp_path / "own/app/out").symlink_to(tmp_path / "other/app")
    (tmp_path / "own/app/up").symlink_to("../..")
    with pytest.raises(EngineError, match="Choose a static_folder inside of what is built"):
        built_folder(Artifact(kind="native", ref=str(tmp_path / "own")), folder)
    # Negative control: the same folder of its own is found.
    assert built_folder(Artifact(kind="native", ref=str(tmp_path / "own")), "dist").is_dir()


def test_the_folder_of_a_missing_build_raises_artifact_lost(tmp_path):
    with pytest.raises(ArtifactLost):
        built_folder(Artifact(kind="native", ref=str(tmp_path / "none")), "dist")


@pytest.mark.parametrize("workdir", ["/etc", "../etc", "/app/../../etc"])
def test_a_working_directory_outside_of_a_build_is_refused(tmp_path, workdir):
    (tmp_path / "app").mkdir()
    with pytest.raises(EngineError, match="Choose a working directory below /app"):
        built_folder(Artifact(kind="native", ref=str(tmp_path), workdir=workdir), ".")
