"""A command whose answer is a file saves it."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.cli.listener import listening
from tests.cli.said import say


async def test_an_export_is_saved_under_its_own_name_or_a_chosen_one(
    windlass, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    await windlass.done("project", "create", "--name", "shop")
    await windlass.done("environment", "create", "--project", "shop", "--name", "in the north")
    said = await windlass("environment", "terraform-export", "in the north")
    assert (said.code, said.err) == (0, "Saved in-the-north-terraform.zip.\n"), said
    saved = tmp_path / "in-the-north-terraform.zip"
    assert "environment.tf" in zipfile.ZipFile(saved).namelist()
    again = await windlass("environment", "terraform-export", "in the north")
    assert again.code == 1
    assert "choose another name with --output: in-the-north-terraform.zip exists already" in again.err
    for _ in range(2):
        assert (
            await windlass("environment", "terraform-export", "in the north", "--output", "x.zip")
        ).code == 0
    assert (tmp_path / "x.zip").read_bytes() == saved.read_bytes()


async def test_manifests_are_saved_as_one_file(windlass, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    await windlass.done("project", "create", "--name", "shop")
    await windlass.done("environment", "create", "--project", "shop", "--name", "east")
    said = await windlass("environment", "manifest-export", "east")
    assert (said.code, said.err) == (0, "Saved east-manifests.yaml.\n"), said
    assert "kind: NetworkPolicy" in (tmp_path / "east-manifests.yaml").read_text()


def test_a_server_chooses_no_folder_for_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "inside"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with listening() as server:
        server.answer = (200, {"Content-Disposition": 'attachment; filename="../evil.zip"'}, b"zip")
        id = "00000000-0000-4000-8000-000000000001"
        said = say("environment", "terraform-export", id, url=server.url)
    assert said.code == 0, said
    assert [path.name for path in folder.iterdir()] == ["evil.zip"]
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]
