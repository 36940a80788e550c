"""Runs Terraform or OpenTofu for one deployment. The variable WINDLASS_TERRAFORM contains the request as
JSON.

With `backend.kubernetes`, the Terraform program stores its state in Windlass over HTTP, with a credential for
this run only. The launcher sends the plan, and also the state file that the program wrote while Windlass was
unavailable. It keeps running after the end of its server and retries its requests.
"""

from __future__ import annotations

import base64
import json
import math
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from windlass.launch.launcher import LaunchRefused, Variables, launch, say
from windlass.launch.run_server import RunServer, is_socket, relay
from windlass.launch.terraform_environment import RUN_VARIABLE, TOKEN, program_environment

_COUNTS_PATTERN: Final = re.compile(
    r"^Plan:(?: (\d+) to import,)? (\d+) to add, (\d+) to change, (\d+) to destroy", re.MULTILINE
)
_PLANNED_ACTIONS: Final = (
    ("must be replaced", "replace"),
    ("will be replaced", "replace"),
    ("will be created", "create"),
    ("will be updated in-place", "update"),
    ("will be destroyed", "destroy"),
    ("will be read during apply", "read"),
    ("will no longer be managed", "forget"),
)
_PLANNED_PATTERN: Final = re.compile(
    r"^  # (\S.*?) (?:\(deposed object \S+\) )?((?:must|will) .*)$", re.MULTILINE
)


def counts_in(text: str) -> dict[str, int]:
    """Returns the numbers of resources that a plan adds, changes and destroys."""
    match = _COUNTS_PATTERN.search(text)
    added, changed, destroyed = (int(number) for number in match.groups()[1:]) if match else (0, 0, 0)
    return {"added": added, "changed": changed, "destroyed": destroyed}


def planned_in(text: str) -> list[dict[str, str]]:
    """Returns the planned action for each resource."""
    return [
        {"address": address, "action": action}
        for address, words in _PLANNED_PATTERN.findall(text)
        for phrase, action in _PLANNED_ACTIONS
        if phrase in words
    ]


VOLUME_VARIABLE: Final = "WINDLASS_VOLUME_TERRAFORM"
"""The folder that is kept between runs: the module's providers, and the record of its backend."""
PLAN_ONLY: Final = "TERRAFORM_PLAN_ONLY"
APPLY: Final = "TERRAFORM_PLAN_AND_APPLY"
DESTROY: Final = "TERRAFORM_DESTROY"
UNLOCK: Final = "TERRAFORM_FORCE_UNLOCK_STATE"
MIGRATE: Final = "TERRAFORM_MIGRATE_STATE"
_MAX_OUTPUT_LENGTH: Final = 4 * 1024 * 1024
_OTHER_ADDRESS: Final = (
    ". If it runs, containers do not reach it there: ask the operator to set containers_url to an address at "
    "which they do, and to let a firewall of the machine pass it"
)
_OVERRIDE_FILE: Final = "windlass_state_override.tf"
_UNSAVED_STATE_FILE: Final = "errored.tfstate"
"""The file into which Terraform writes a state that it could not store in its backend."""
_LOCK_ID_PATTERN: Final = re.compile(r"^[│|\s]*ID:\s+(\S+)\s*$", re.MULTILINE)
_ERROR_HINTS: Final = (
    (
        "Saved plan is stale",
        "the plan is stale, because the state has changed since: plan again, and apply the new plan",
    ),
    (
        "Error acquiring the state lock",
        "the state is locked: wait for the run that holds the lock or, if that has ended, deploy with the "
        "action FORCE_UNLOCK",
    ),
    (
        "Backend configuration changed",
        "backend: the state is still kept elsewhere: deploy with the action MIGRATE_STATE first",
    ),
    (
        "Failed to query available provider packages",
        "a provider cannot be fetched: ask the operator to put it into the folder terraform_providers (on "
        "the Docker engine, into the image), or to let this machine reach its registry",
    ),
    (
        "Unsupported Terraform Core version",
        "provider_version: the module asks for another version of the program: choose one that "
        "GET /terraform/availableVersion lists, or ask the operator to install it",
    ),
)


class CommandFailure(Exception):
    """Raised if a command of the Terraform program failed. Its output contains the reason."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class TerraformRun:
    """One run of the Terraform program in the folder of the module."""

    def __init__(self, variables: Variables) -> None:
        request = json.loads(variables[RUN_VARIABLE])
        self.program: str = request["program"]
        self.action: str = request["action"]
        self.keeps_state: bool = request["keeps_state"]
        self.plan_of: str = request["plan_of"]
        self.arguments: dict[str, list[str]] = request["arguments"]
        self.is_in_container: bool = request.get("container", False)
        urls = [request["url"], *request["others"]]
        self.windlass = RunServer(urls, variables[TOKEN], _OTHER_ADDRESS if self.is_in_container else "")
        self.data = Path(variables[VOLUME_VARIABLE]) / "data"
        self.saved = Path(variables["TMPDIR"]) / "windlass.tfplan"
        keeper = ""
        if self._uses_our_state:
            needs_relay = self.windlass.are_several or is_socket(urls[0])
            keeper = relay(self.windlass) if needs_relay else urls[0]
        self._environment = program_environment(variables, request, self.data, keeper)
        self._output = ""
        self._process: subprocess.Popen[bytes] | None = None
        self.was_asked = 0
        """The number of the signal that asks this run to end, or 0."""

    def heed(self, number: int, _: object) -> None:
        self.was_asked = number
        self._pass_on()

    def _pass_on(self) -> None:
        """Forwards SIGTERM to the Terraform program in a container.

        Outside of a container, the engine has already signalled the program. A second signal would make it
        abort its current operations.
        """
        if self.is_in_container and self.was_asked and self._process is not None:
            self._process.terminate()

    @property
    def _uses_our_state(self) -> bool:
        return self.keeps_state or self.action == MIGRATE

    def execute(self) -> None:
        if self.is_in_container:
            self.windlass.greet()
        if self.action == UNLOCK:
            self._unlock()
            return
        if self.keeps_state:
            Path(_OVERRIDE_FILE).write_text('terraform {\n  backend "http" {}\n}\n')
        self._init()
        match self.action:
            case "TERRAFORM_PLAN_ONLY":
                self._plan()
                return
            case "TERRAFORM_MIGRATE_STATE":
                say("the state is in the present backend now")
            case "TERRAFORM_DESTROY":
                self._plan("-destroy")
                self._apply("destroy")
            case _:
                self._plan_or_fetch()
                self._apply("apply")
        self._hand_over_state()

    # The steps

    def _init(self) -> None:
        record = self.data / "terraform.tfstate"
        migrating: list[str] = []
        if self.action == MIGRATE:
            if not record.exists():
                raise LaunchRefused(
                    "deploy without an action: no run of this machine has used another backend, so there is "
                    "nothing to move"
                )
            migrating = ["-migrate-state", "-force-copy"]
        self.command("init", "-input=false", "-no-color", *migrating, *self.arguments.get("init", ()))
        if not self.keeps_state and _backend_in(record) in ("", "local"):
            raise LaunchRefused(
                "backend.user_provided: add a backend block to the module, or choose backend.kubernetes, and "
                "Windlass keeps the state: the module names no backend that outlives its run"
            )

    def _plan_or_fetch(self) -> None:
        if self.plan_of:
            self.saved.write_bytes(self.windlass.send("GET", f"/plan/{self.plan_of}"))
            return
        self._plan()

    def _plan(self, *options: str) -> None:
        extra = self.arguments.get("plan", ())
        self.command("plan", "-input=false", "-no-color", f"-out={self.saved}", *options, *extra)
        text = self._output
        plan = {**counts_in(text), "resources": planned_in(text), "text": text}
        plan["file"] = base64.b64encode(self.saved.read_bytes()).decode()
        self.windlass.send("PUT", "/plan", json.dumps(plan).encode())

    def _apply(self, which: str) -> None:
        unsaved = Path(_UNSAVED_STATE_FILE)
        unsaved.unlink(missing_ok=True)  # the repository may contain such a file from an earlier run
        try:
            self.command(
                "apply", "-input=false", "-no-color", *self.arguments.get(which, ()), str(self.saved)
            )
        except CommandFailure:
            self._recover_state(unsaved)
            raise

    def _recover_state(self, unsaved: Path) -> None:
        """Sends a state that the Terraform program could not store."""
        if self.keeps_state and unsaved.exists():
            say("the program could not send the state to Windlass: it is sent once that answers")
            self.windlass.send("POST", "/state", unsaved.read_bytes(), timeout=math.inf)
            self.windlass.send("UNLOCK", "/state")  # the program could not release the lock either

    def _hand_over_state(self) -> None:
        """Sends the resources to Windlass. Also sends a copy of a state in another backend, because Windlass
        shows its outputs."""
        if not self.keeps_state:
            self.windlass.send("PUT", "/snapshot", self._output_of("state", "pull"))
        self.windlass.send("PUT", "/resources", self._output_of("show", "-json"))

    def _unlock(self) -> None:
        if self.keeps_state:
            say(self.windlass.send("DELETE", "/lock").decode())
            return
        self._init()
        try:
            self.command("plan", "-input=false", "-no-color", "-refresh=false")
        except CommandFailure:
            lock = _LOCK_ID_PATTERN.search(self._output)
            if lock is None:
                raise
            self.command("force-unlock", "-force", lock[1])
            return
        say("the state is not locked")

    # The program

    def command(self, *words: str) -> None:
        """Runs a command of the Terraform program and prints its output. Raises CommandFailure if it
        fails."""
        if self.was_asked:
            raise CommandFailure(128 + self.was_asked)
        say(f"{Path(self.program).name} {words[0]}")
        kept: list[str] = []
        size = 0
        with self._start(words, subprocess.STDOUT) as process:
            assert process.stdout is not None
            for line in process.stdout:
                text = line.decode(errors="replace")
                sys.stdout.write(text)
                sys.stdout.flush()
                size += len(text)
                if size <= _MAX_OUTPUT_LENGTH:
                    kept.append(text)
        self._output = "".join(kept)
        if process.returncode:
            raise CommandFailure(process.returncode)

    def _output_of(self, *words: str) -> bytes:
        with self._start(words, None) as process:
            output, _ = process.communicate()
        if process.returncode:
            raise CommandFailure(process.returncode)
        return bytes(output)

    def _start(self, words: Sequence[str], errors: int | None) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(
            [self.program, *words],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        self._pass_on()
        return self._process

    @property
    def hint(self) -> str:
        """The remedy for the last failure. Empty if the output matches no known failure."""
        text = self._output.replace("\n│", " ")
        return next((hint for words, hint in _ERROR_HINTS if words in text), "")


def _backend_in(record: Path) -> str:
    """Returns the type of the backend in Terraform's record. Empty if there is no backend."""
    try:
        return str((json.loads(record.read_bytes()).get("backend") or {}).get("type", ""))
    except (FileNotFoundError, ValueError):
        return ""


def start(variables: Variables) -> NoReturn:
    run = TerraformRun(variables)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # The Terraform program gets the signal as well, stores its state and ends. The launcher waits for its
        # end.
        signal.signal(number, run.heed)
    run.data.mkdir(mode=0o700, exist_ok=True)
    try:
        run.execute()
    except CommandFailure as failure:
        if run.hint:
            say(run.hint)
        sys.exit(128 + run.was_asked if run.was_asked else failure.code)
    sys.exit(128 + run.was_asked if run.was_asked else 0)


if __name__ == "__main__":
    launch(start)
