"""Builds that really fail, on each real engine: the first sentence of the status says what to do."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from tests.engines.dockers import BOX, Dockerd, own_engine
from tests.engines.newcomers import advice_for
from tests.faults.house import ROOT
from tests.whole import place
from windlass.docker.builds import builder as docker_builder
from windlass.process.builds import cells

pytestmark = pytest.mark.nightly

APART = ["unshare", "--map-root-user", "--mount"]
MEMORY = "Ask the operator for more memory for builds, or make this one need less: it used all that it had"
ROOM = "Ask the operator to free disk space: the disk of the machine that runs Windlass is full"
MISSING = [
    (
        "Ruby",
        {"Gemfile": "", "config.ru": "run 1"},
        "Install Ruby on this machine: `apt-get install ruby-full ruby-bundler`",
    ),
    (
        "PHP",
        {"composer.json": "{}", "index.php": "<?php"},
        "Install PHP on this machine: `apt-get install php-cli`",
    ),
    (
        "Rust",
        {"Cargo.toml": '[package]\nname = "shop"\n', "src/main.rs": ""},
        "Install Rust on this machine: `apt-get install cargo`",
    ),
    ("Java", {"pom.xml": "<project/>"}, "Install mvn on this machine: `apt-get install maven`"),
    (
        "a Procfile",
        {"Procfile": "web: ruby app.rb", "app.rb": ""},
        "Install ruby on this machine: `apt-get install ruby-full`",
    ),
    (
        "a Dockerfile",
        {"Dockerfile": "FROM ruby:3\nCMD ruby app.rb", "app.rb": ""},
        "Install ruby on this machine: `apt-get install ruby-full`",
    ),
    (
        "a program of a package",
        {"Procfile": "web: gunicorn app:app", "app.py": ""},
        "Add gunicorn to the dependencies, or correct the start command: gunicorn is neither a file of the "
        "application nor a program of this machine",
    ),
]


class SmallDockerd(Dockerd):
    """An engine with a small disk, and with the builder that can limit the memory of its steps."""

    def start(self) -> None:
        data = self._home / "data"
        data.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", data], check=True)
        self.features = {"buildkit": False}
        super().start()


@pytest.fixture
async def on_processes():
    async with place("process", git_allow_local=True) as made:
        yield made


@pytest.mark.parametrize(("files", "advice"), [row[1:] for row in MISSING], ids=[row[0] for row in MISSING])
async def test_a_missing_program_is_reported_with_the_command_that_installs_it(
    on_processes, tmp_path, monkeypatch, files, advice
):
    for program in ("git", "sh", "python3", "env"):
        (tmp_path / program).symlink_to(str(shutil.which(program)))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await advice_for(on_processes, files) == advice


@pytest.mark.parametrize(
    "code",
    ["bytearray(1 << 30)", "kept = []\nwhile True: kept.append(b'x' * 1_000_000)"],
    ids=["at once", "bit by bit"],
)
async def test_a_build_step_out_of_memory_is_reported_with_advice(on_processes, monkeypatch, code):
    monkeypatch.setattr(cells, "_MAX_MEMORY", 256 << 20)
    files = {"requirements.txt": "", "app.py": "", "build.py": code, "Procfile": "web: python3 app.py"}
    assert await advice_for(on_processes, files, build_command="python3 build.py") == MEMORY


def test_a_build_step_that_fills_the_disk_asks_for_room():
    if subprocess.run([*APART, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount a disk of his own to fill it up")
    program = [*APART, sys.executable, "-m", "tests.engines.small_disk"]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{ROOM}\n"


@pytest.mark.parametrize(
    ("step", "advice"),
    [("dd if=/dev/zero of=/large bs=1M count=100", ROOM), ("tail /dev/zero", MEMORY)],
    ids=["disk", "memory"],
)
async def test_a_build_step_in_a_container_without_room_asks_for_it(monkeypatch, step, advice):
    monkeypatch.setattr(docker_builder, "MEGABYTE", 1 << 15)  # a build has 64 MB instead of 2 GB
    files = {"Dockerfile": f"FROM {BOX}\nRUN {step}\nCMD sleep 600\n"}
    with own_engine(SmallDockerd) as engine:
        async with place("docker", engine.host, git_allow_local=True) as there:
            assert await advice_for(there, files) == advice
