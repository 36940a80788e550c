"""`windlass detect` shows a recipe of a local folder, for people and for programs."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from windlass.builders.dockerfile import read
from windlass.cli.main import main


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "requirements.txt").write_text("flask\n")
    (tmp_path / "app.py").write_text("from flask import Flask\napp = Flask(__name__)\n")
    return tmp_path


def test_detect_shows_each_value_with_its_reason(folder):
    shown = CliRunner().invoke(main, ["detect", str(folder), "--text"])
    assert shown.exit_code == 0, shown.output
    assert "Flask" in shown.output
    assert "requirements.txt names Flask; app.py defines `app`." in shown.output
    assert "added packages" in shown.output


def test_detect_shows_a_command_once_and_names_every_process_but_a_web_process_alone(folder):
    shown = CliRunner().invoke(main, ["detect", str(folder), "--text"]).output
    assert (shown.count("gunicorn app:app"), "processes" in shown) == (1, False)
    (folder / "Procfile").write_text("web: gunicorn app:app\nworker: python app.py\n")
    assert "worker: python app.py" in CliRunner().invoke(main, ["detect", str(folder), "--text"]).output
    (folder / "Procfile").write_text("worker: python app.py\n")
    assert "worker: python app.py" in CliRunner().invoke(main, ["detect", str(folder), "--text"]).output


def test_detect_prints_json_when_piped(folder):
    shown = CliRunner().invoke(main, ["detect", str(folder)])
    recipe = json.loads(shown.stdout)
    assert recipe["framework"] == "Flask"
    assert recipe["reasons"]["language"] == "requirements.txt is there."


def test_detect_ends_with_1_and_names_the_folders_of_a_monorepo(folder, tmp_path):
    top = tmp_path / "mono"
    (top / "api").mkdir(parents=True)
    (top / "api" / "main.py").write_text("")
    shown = CliRunner().invoke(main, ["detect", str(top), "--text"])
    assert shown.exit_code == 1
    assert "Set root_path to the folder of one application, such as /api." in shown.stderr
    assert "/api" in shown.stdout


def test_detect_prints_the_generated_dockerfile_unchanged_even_when_piped(folder):
    shown = CliRunner().invoke(main, ["detect", str(folder), "--dockerfile"])
    assert shown.exit_code == 0
    assert read(shown.stdout).stages[-1].base == "python:3.13-slim-bookworm"
    recipe = json.loads(CliRunner().invoke(main, ["detect", str(folder), "--dockerfile", "--json"]).stdout)
    assert recipe["dockerfile"] == shown.stdout
    assert recipe["framework"] == "Flask"


def test_detect_prints_no_dockerfile_for_a_folder_that_nothing_starts(tmp_path):
    (tmp_path / "README.md").write_text("x")
    shown = CliRunner().invoke(main, ["detect", str(tmp_path), "--dockerfile", "--text"])
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert "no language was recognized" in shown.stderr
