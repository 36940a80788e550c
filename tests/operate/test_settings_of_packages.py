"""A package brings settings, which are read, checked and shown like those of the server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

CHARTS = """
    from typing import Annotated

    from msgspec import Struct

    from windlass.base.settings import says


    class ChartSettings(Struct, frozen=True, kw_only=True):
        chart_image: Annotated[
            str, says("Image of charts", after_setting="docker_host", pattern="^[a-z0-9:]+$")
        ] = "charts:1"
        chart_folder: Annotated[str, says("Folder with charts", is_folder_of_services=True)] = ""
"""
SHOWN = """
import json
from windlass.base.settings import settings_of
from windlass.config import folders_of_services, load
from windlass_chart import ChartSettings
settings, sources = load({})
print(json.dumps([settings_of(ChartSettings, settings).chart_image, folders_of_services(settings)]))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """An installed package with settings, as a folder of the module path."""
    metadata = tmp_path / "windlass_chart-1.0.dist-info"
    metadata.mkdir()
    (tmp_path / "windlass_chart.py").write_text(dedent(CHARTS))
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: windlass-chart\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[windlass.settings]\nchart = windlass_chart:ChartSettings\n")
    return tmp_path


def run(package: Path | None, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path = {"PYTHONPATH": str(package)} if package else {}
    return subprocess.run(
        [sys.executable, *command], env=os.environ | path | variables, capture_output=True, text=True
    )


def shown(package: Path | None, **variables: str) -> dict[str, Any]:
    ended = run(package, "-m", "windlass", "config", "--json", **variables)
    assert ended.returncode == 0, ended.stderr
    return {setting["name"]: setting for setting in json.loads(ended.stdout)}


def test_a_setting_of_a_package_is_listed_in_its_group_with_its_value(package):
    settings = shown(package, WINDLASS_CHART_IMAGE="charts:2")
    assert settings["chart_image"]["value"] == "charts:2"
    assert settings["chart_image"]["group"] == settings["docker_host"]["group"]
    names = [*settings]
    assert names.index("docker_host") < names.index("chart_image") < names.index("git_allow_local")
    assert "chart_image" not in shown(None)


def test_an_invalid_value_for_a_setting_of_a_package_is_refused(package):
    ended = run(package, "-m", "windlass", "config", WINDLASS_CHART_IMAGE="NO IMAGE")
    assert ended.returncode != 0
    assert "WINDLASS_CHART_IMAGE: set it to a value of this form: Image of charts" in ended.stderr


def test_a_package_reads_its_settings_and_declares_readable_folders(package):
    ended = run(package, "-c", SHOWN, WINDLASS_CHART_FOLDER="/srv/charts")
    assert json.loads(ended.stdout) == ["charts:1", ["/srv/charts"]], ended.stderr


def test_a_package_setting_with_an_existing_name_is_refused_by_every_command(package):
    text = (package / "windlass_chart.py").read_text()
    (package / "windlass_chart.py").write_text(text.replace("chart_image", "docker_host"))
    ended = run(package, "-m", "windlass", "config")
    assert ended.returncode != 0
    assert "There are two settings docker_host" in ended.stderr
