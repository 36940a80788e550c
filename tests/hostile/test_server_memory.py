"""Other programs of the machine read no secret of a running server."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import ordinary_user

SECRETS = {
    "WINDLASS_ADMIN_TOKEN": "canary-admin-token-0123456789-0123456789",
    "WINDLASS_KEY": "ab" * 32,
    "WINDLASS_TOKEN": "canary-of-a-client-0123456789",
}
SERVE = (
    sys.executable,
    "-m",
    "windlass",
    "serve",
    "--port=0",
    "--gateway-port=0",
    "--engine=process",
)
SLEEP = (sys.executable, "-c", "import time; print('listens on', flush=True); time.sleep(1000)")
AS = pytest.mark.parametrize("user", ["as it is", "ordinary"])


@contextlib.contextmanager
def running(user: str, command: tuple[str, ...]) -> Iterator[int]:
    """The process id of a program with secrets in its environment, once it says that it listens."""
    before = ordinary_user() if user == "ordinary" else ()
    with tempfile.TemporaryDirectory(prefix="windlass-serve-") as folder:
        Path(folder).chmod(0o777)
        environment = {"PATH": os.environ["PATH"], "WINDLASS_DATA_DIR": f"{folder}/data", **SECRETS}
        with subprocess.Popen(
            [*before, *command],
            env=environment,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                assert process.stdout is not None
                said = ""
                while "listens on" not in said:
                    line = process.stdout.readline()
                    assert line, said
                    said += line
                yield process.pid
            finally:
                process.send_signal(signal.SIGKILL)


def shown(pid: int) -> set[str]:
    """Returns the secrets that a user with every right sees in the environment of a process."""
    environment = Path(f"/proc/{pid}/environ").read_bytes()
    return {name for name, value in SECRETS.items() if value.encode() in environment}


def read_as_its_user(pid: int, path: str) -> bool:
    """True if another process of the same user can read this file of /proc."""
    owner = int(Path(f"/proc/{pid}/status").read_text().split("Uid:")[1].split()[0])
    code = f"import sys; sys.exit(not open('/proc/{pid}/{path}', 'rb').readable())"
    before = ordinary_user() if owner and not os.geteuid() else ()
    done = subprocess.run([*before, sys.executable, "-I", "-S", "-c", code], capture_output=True, check=False)
    assert done.returncode in (0, 1), done
    return done.returncode == 0


@AS
def test_the_proc_environment_of_a_server_contains_no_secret(user):
    with running(user, SERVE) as pid:
        assert shown(pid) == set()
    with running(user, SLEEP) as pid:  # and a program that does nothing about it shows all
        assert shown(pid) == set(SECRETS)


@pytest.mark.slow
def test_another_process_of_its_user_reads_neither_environment_nor_memory_of_a_server():
    with running("ordinary", SERVE) as pid:
        assert not read_as_its_user(pid, "environ")
        assert not read_as_its_user(pid, "mem")
    with running("ordinary", SLEEP) as pid:
        assert read_as_its_user(pid, "environ")
        assert read_as_its_user(pid, "mem")
