"""A plan and an apply of a changed module: by Windlass, and by the program itself in a working copy."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

from bench.machine import SERVER_CORE, Failed, stay_on
from bench.measure import Bench, Line, Target
from bench.servers import windlass
from bench.services import DeployedModule, commit_all, make_environment
from windlass.terraform.programs import PROGRAM_NAMES

_MODULE: Final = """resource "terraform_data" "made" {
  count = 10
  input = "%d-${count.index}"
}
output "made" { value = terraform_data.made[0].output }
"""


def run(bench: Bench) -> list[Line]:
    engine = next((engine for engine, name in PROGRAM_NAMES.items() if shutil.which(name)), "")
    if not engine:
        print("neither terraform nor tofu is installed: their runs are left out")
        return []
    folder = bench.folder / "terraform"
    ours, theirs = folder / "repository", folder / "working-copy"
    for copy in (ours, theirs):
        copy.mkdir(parents=True)
        _change(copy, 0)
    numbers = iter(range(1, 1_000_000))
    settings = {"WINDLASS_GIT_ALLOW_LOCAL": "1", "WINDLASS_STOP_SECONDS": "1"}
    with windlass(folder / "data", settings=settings) as server:
        service = DeployedModule(server, make_environment(server), engine, ours)

        def by_windlass() -> float:
            _change(ours, next(numbers))
            return service.deploy(commit_all(ours)).whole

        def by_the_program() -> float:
            _change(theirs, next(numbers))
            began = time.perf_counter()
            _command(theirs, PROGRAM_NAMES[engine], "init", "-input=false")
            _command(theirs, PROGRAM_NAMES[engine], "plan", "-input=false", "-out=plan")
            _command(theirs, PROGRAM_NAMES[engine], "apply", "-input=false", "plan")
            return time.perf_counter() - began

        by_windlass()
        by_the_program()
        rounds = bench.timed({"ours": by_windlass, "limit": by_the_program})
        service.delete()
    beyond = [ours - limit for ours, limit in zip(rounds["ours"], rounds["limit"], strict=True)]
    return [
        Line(
            what="a plan and an apply of a Terraform service, against the program in a working copy",
            unit="s",
            ours=rounds["ours"],
            limit=rounds["limit"],
        ),
        Line(
            what="the part of it beyond the program",
            unit="s",
            ours=beyond,
            target=Target(0.5, "≤", "s"),
        ),
    ]


def _change(folder: Path, number: int) -> None:
    (folder / "main.tf").write_text(_MODULE % number)


def _command(folder: Path, *words: str) -> None:
    """On the core of servers, as the runs of Windlass."""
    done = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, "TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: stay_on(SERVER_CORE),
    )
    if done.returncode:
        raise Failed(f"{' '.join(words)}: {done.stdout[-500:]}")
