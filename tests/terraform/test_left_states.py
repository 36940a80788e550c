"""A state that the program could not send: the launcher hands over one of this run, and no older one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import ClassVar

import pytest

from tests.stub_server import StubServer

PROGRAM = """#!/bin/sh
case "$1" in
plan) for word; do case "$word" in -out=*) echo plan > "${word#-out=}";; esac; done;;
apply) [ "$SAVES" ] && echo "the state of this run" > errored.tfstate; exit 1;;
esac
"""


class Handler(BaseHTTPRequestHandler):
    states: ClassVar[list[bytes]]

    def _take(self) -> None:
        sent = self.rfile.read(int(self.headers.get("content-length", 0)))
        if (self.command, self.path) == ("POST", "/state"):
            self.states.append(sent)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    do_POST = do_PUT = do_UNLOCK = _take

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(("saves", "sent"), [("", []), ("1", [b"the state of this run\n"])])
def test_an_errored_state_file_from_the_repository_is_not_uploaded(
    tmp_path: Path, saves: str, sent: list[bytes]
):
    module = tmp_path / "module"
    module.mkdir()
    (module / "errored.tfstate").write_text("a state of long ago")
    program = tmp_path / "terraform"
    program.write_text(PROGRAM)
    program.chmod(0o755)

    class States(Handler):
        states: ClassVar[list[bytes]] = []

    with StubServer(("127.0.0.1", 0), States) as server, server.in_thread():
        request = {
            "program": str(program), "action": "TERRAFORM_PLAN_AND_APPLY", "keeps_state": True, "plan_of": "",
            "arguments": {}, "url": f"http://127.0.0.1:{server.server_address[1]}", "var_files": [],
            "vars": [], "mirror": "", "downloads": False, "others": [],
        }  # fmt: skip
        variables = {
            "PATH": os.environ["PATH"], "TMPDIR": str(tmp_path), "WINDLASS_VOLUME_TERRAFORM": str(tmp_path),
            "WINDLASS_TERRAFORM": json.dumps(request), "WINDLASS_TERRAFORM_TOKEN": "t",
            "WINDLASS_TERRAFORM_STATE_TOKEN": "s", "SAVES": saves,
        }  # fmt: skip
        command = [sys.executable, "-I", "-m", "windlass.launch.terraform"]
        done = subprocess.run(command, cwd=module, env=variables, timeout=60, check=False)
    assert (done.returncode, States.states) == (1, sent)
