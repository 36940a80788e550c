"""A run of Helm passes on allowed options, and explains failures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from windlass.launch.helm import RUN_VARIABLE, TOKEN, HelmRun, hint_for, options_of_program
from windlass.launch.launcher import LaunchRefused


def run_of(program: str, folder: Path) -> HelmRun:
    request = {
        "program": program,
        "action": "",
        "release": "shop",
        "urls": ["http://127.0.0.1:1"],
        "container": False,
    }
    return HelmRun({RUN_VARIABLE: json.dumps(request), TOKEN: "t", "SECRET": "value", "TMPDIR": str(folder)})


def test_options_of_earlier_versions_are_translated_and_those_that_tell_secrets_left_out():
    asked = ["--atomic", "--debug", "--debug=true", "--wait", "--description=--debug"]
    assert options_of_program(asked) == ["--rollback-on-failure", "--wait", "--description=--debug"]


@pytest.mark.parametrize(
    ("output", "hint"),
    [
        (
            "Error: UPGRADE FAILED: conflict occurred while applying object",
            "arguments: add --force-conflicts",
        ),
        ("Error: invalid ownership metadata; label validation error", "arguments: add --take-ownership"),
        ('namespaces is forbidden: User "x" cannot list', "allow_cluster_wide_resources: turn it on"),
        ("Error: UPGRADE FAILED: context deadline exceeded", "timeout_sec: raise it"),
        ("Error: something else", ""),
    ],
)
def test_known_failures_have_a_remedy(output: str, hint: str):
    assert hint_for(output).startswith(hint)
    assert bool(hint_for(output)) is bool(hint)


@pytest.mark.parametrize("key", ["a=/proc/self/environ,b", "a,b", "a=b"])
def test_a_path_of_a_value_that_names_files_of_the_machine_is_refused(tmp_path: Path, key: str):
    """Services of earlier versions may have such paths. The negative control has none."""
    run = run_of("", tmp_path)
    (tmp_path / "windlass-helm").mkdir()
    assert run._value("set", 0, "a.b", "qovery.env.SECRET")[0] == "--set-file"
    with pytest.raises(LaunchRefused, match="leave `,` and `=` out of the path"):
        run._value("set", 0, key, "qovery.env.SECRET")


def test_a_run_reads_a_release_again_only_after_it_has_changed_it(tmp_path: Path):
    """Each command of Helm costs a third of a second of the processor."""
    program, told = tmp_path / "helm", tmp_path / "told"
    revisions = json.dumps([{"revision": 10, "status": "deployed"}, {"revision": 9, "status": "superseded"}])
    program.write_text(f"#!/bin/sh\necho $1 >> {told}\necho '{revisions}'\n")
    program.chmod(0o700)
    run = run_of(str(program), tmp_path)
    assert (run._state(), run._last_deployed(), run._manifest(), run._manifest()) == (
        "deployed",
        10,
        f"{revisions}\n",
        f"{revisions}\n",
    )
    assert told.read_text().split() == ["history", "get"]
    run._helm("upgrade")
    assert (run._state(), run._manifest()) == ("deployed", f"{revisions}\n")
    assert told.read_text().split() == ["history", "get", "upgrade", "history", "get"]
