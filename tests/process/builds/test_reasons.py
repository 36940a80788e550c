"""The reason of a build that failed is a whole sentence of its program, and what to do suits its files."""

from __future__ import annotations

from collections import deque

import pytest

from windlass.base.bounded import CallLimits
from windlass.builders.detecting import bounded_detection
from windlass.builders.remedies import failure
from windlass.process.builds.node_engines import check_refusal
from windlass.process.builds.python_versions import PythonRequirement, required_by_packages
from windlass.process.builds.start import nothing_found

MANY = ", ".join(f"1.{number}" for number in range(40))


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (
            [
                "error during build:",
                'main.js (1:9): "greet" is not exported by "shared.js".',
                "file: main.js",
            ],
            'during build: main.js (1:9): "greet" is not exported by "shared.js". The',
        ),
        (
            ["Could not reach host index.example.org. Check your network connection and try", "again."],
            "Check your network connection and try again. The",
        ),
        (
            [f"ERROR: Could not find a version that satisfies flask==99 (from versions: {MANY})"],
            "flask==99 (from versions: …, 1.37, 1.38, 1.39). The",
        ),
        (
            ["ERROR: Could not find a version that satisfies the requirement x==9 (from versions: 1.0, 1.1)"],
            "x==9 (from versions: 1.0, 1.1). The",
        ),
        (["first", "Second of two."], "(exit code 1): Second of two. The"),
        (["It said why.", "and then this"], "(exit code 1): and then this. The"),
    ],
)
def test_the_reason_of_a_build_failure_is_a_complete_sentence(output, reason):
    assert reason in failure("the build", 1, deque(output))


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("server.js", "node server.js"),
        ("index.html", "python3 -m http.server $PORT"),
        ("start.py", "python start.py"),
        ("bot.rb", "ruby bot.rb"),
    ],
)
def test_the_suggested_start_command_matches_the_files(tmp_path, file, command):
    (tmp_path / file).touch()
    said = str(nothing_found(tmp_path, "Python"))
    assert said.startswith(
        f"Set start_command to `{command}`, or add a Procfile with the line `web: {command}`: "
    )


def test_no_command_is_suggested_for_files_that_none_suits(tmp_path):
    (tmp_path / "Gemfile").touch()
    said = str(nothing_found(tmp_path, "Ruby"))
    assert said.startswith(
        "Set start_command, or add a Procfile with a line such as `web: command`: this is Ruby, "
    )
    assert "python" not in said


def test_the_example_for_a_program_of_streamlit_runs_streamlit(tmp_path):
    (tmp_path / "dashboard.py").write_text("import pandas\nimport streamlit as st\n")
    assert "`streamlit run dashboard.py --server.port $PORT`" in str(nothing_found(tmp_path, "Python"))
    # Negative control: other programs are run by Python.
    (tmp_path / "dashboard.py").write_text("import pandas  # not streamlit\n")
    assert "`python dashboard.py`" in str(nothing_found(tmp_path, "Python"))


LINES = {
    "connection broken by": "connection broken by" * 100,
    "Because": "Because " * 100 + "a." * 600,
    "Requires-Python": "a Requires-Python >=3 " * 90,
    "No matching distribution": "No matching distribution found for a[" * 50,
    "The engine": "a" * 2000,
}
"""Lines in which a search can take time that grows with the square or the cube of their length."""


@pytest.mark.slow
@pytest.mark.parametrize("name", LINES)
async def test_hostile_output_of_a_build_step_is_searched_within_seconds(name):
    calls, lines = bounded_detection(CallLimits(seconds=10)), [LINES[name]] * 200
    assert await calls.run("org", failure, "the build", 1, lines)
    await calls.run("org", required_by_packages, lines, PythonRequirement())
    await calls.run("org", check_refusal, lines, "22.1.0")
