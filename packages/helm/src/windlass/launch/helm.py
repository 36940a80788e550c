"""Runs Helm for one deployment. The variable WINDLASS_HELM contains the request as JSON.

A run that was killed leaves its release in a state such as `pending-upgrade`, in which Helm refuses every
further change. So each run heals the release first: it goes back to the last revision that was deployed, or
removes the release if there is none. The deployments of a service run one after the other, so no other run is
under way then.

The launcher gets the credential for the cluster from Windlass when it begins. It writes it to a file that
only it can read, and that ends with the run."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from windlass.launch.kubernetes_api import SCALED_KINDS, WATCHED_KINDS, KubernetesApi
from windlass.launch.launcher import LaunchRefused, Variables, launch, say
from windlass.launch.run_server import RunServer

RUN_VARIABLE: Final = "WINDLASS_HELM"
TOKEN: Final = "WINDLASS_HELM_TOKEN"  # noqa: S105 (the name of a variable)
FILES_FOLDER: Final = "/windlass-helm/values"
UPGRADE: Final = "upgrade release"
SHOW: Final = "show difference"
REMOVE: Final = "remove release"
PAUSE: Final = "pause release"
_FILES_VARIABLE: Final = "WINDLASS_FILES"
"""The folder with the files of settings, where they are not at their own paths."""
_OTHER_ADDRESS: Final = (
    ". If it runs, containers cannot reach it there: ask the operator to set containers_url to an address "
    "that they can reach"
)
_VARIABLE_PATTERN: Final = re.compile(r"qovery\.env\.([A-Za-z_][A-Za-z0-9_]*)")
_NOT_FOUND: Final = "not found"
_HISTORY: Final = "20"
"""Number of revisions that Helm keeps."""
_RENAMED: Final = {"--atomic": "--rollback-on-failure"}
"""Options that Helm 4 has under another name."""
_LEFT_OUT: Final = "--debug"
"""An option that makes Helm write the manifests of Secrets into its output, which is a log."""
_HEALTHY: Final = frozenset({"deployed", "failed", "superseded", "uninstalled"})
"""States in which Helm accepts an upgrade."""
_REMOVING: Final = "uninstalling"
_PENDING: Final = "pending"
_KIND_PATTERN: Final = re.compile(r"^kind: *[\"']?([A-Za-z]+)", re.MULTILINE)
_NAME_PATTERN: Final = re.compile(r"^metadata:(?:\n(?:  .*)?)*?\n  name: *[\"']?([a-z0-9.-]+)", re.MULTILINE)
_MAX_OUTPUT_LENGTH: Final = 8 * 1024 * 1024
_HINTS: Final = (
    (
        "conflict occurred",
        "arguments: add --force-conflicts, or leave the field out of the chart: another client has changed "
        "it in the cluster",
    ),
    (
        "invalid ownership metadata",
        "arguments: add --take-ownership, or rename the object: an object with this name exists, and belongs "
        "to no release",
    ),
    (
        "is forbidden: User",
        "allow_cluster_wide_resources: turn it on, or choose a chart that stays in its namespace: this one "
        "changes objects outside of it",
    ),
    (
        "values don't meet the specifications",
        "values_override: correct the values: the schema of the chart refuses them",
    ),
    ("parse error at", "source: correct the templates of the chart: one of them cannot be parsed"),
    (
        "context deadline exceeded",
        "timeout_sec: raise it, or find out why the objects do not become ready in time",
    ),
    ("timed out waiting", "timeout_sec: raise it, or find out why the objects do not become ready in time"),
)


class HelmFailure(Exception):
    """Raised if a command of Helm failed. Its output contains the reason."""

    def __init__(self, code: int, output: str) -> None:
        super().__init__(code)
        self.code, self.output = code, output


class HelmRun:
    """One run of Helm for the release of a service."""

    def __init__(self, variables: Variables) -> None:
        request = json.loads(variables[RUN_VARIABLE])
        self._request: dict[str, Any] = request
        self._variables = variables
        self._program: str = request["program"]
        self._release: str = request["release"]
        self._action: str = request["action"]
        self._in_container: bool = request["container"]
        self._server = RunServer(
            request["urls"], variables[TOKEN], _OTHER_ADDRESS if self._in_container else ""
        )
        self._temporary = Path(variables["TMPDIR"]) if "TMPDIR" in variables else Path("/tmp")  # noqa: S108 (of the container)
        self._home = self._temporary / "windlass-helm"
        self._environment: dict[str, str] = {}
        self._namespace = ""
        self._api: KubernetesApi | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._was_paused = False
        self._known_history: list[dict[str, Any]] | None = None
        """The history of the release, until this run changes it. Each Helm command costs a third of a
        second of CPU time."""
        self._known_manifest: str | None = None
        self.was_asked = 0
        """The number of the signal that asks this run to end, or 0."""

    def heed(self, number: int, _: object) -> None:
        self.was_asked = number
        self._pass_on()

    def _pass_on(self) -> None:
        """Forwards the signal to Helm in a container. Outside of one, the engine has already signalled it."""
        if self._in_container and self.was_asked and self._process is not None:
            self._process.terminate()

    def execute(self) -> None:
        self._server.greet()
        self._open_cluster()
        if self._action == REMOVE:
            self._remove()
            return
        if self._action == SHOW:
            self._show()
            return
        self._repair()
        if self._action == PAUSE:
            self._pause()
            return
        self._show()
        self._resume()
        self._upgrade()

    # The cluster

    def _open_cluster(self) -> None:
        credential = json.loads(self._server.send("GET", "/credential"))
        self._namespace = credential["namespace"]
        self._api = KubernetesApi(credential)
        self._home.mkdir(mode=0o700, exist_ok=True)
        file = self._home / "kubeconfig"
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as writing:
            json.dump(kubeconfig_of(credential), writing)  # JSON is YAML
        # Nothing of the service's variables: programs of charts read no environment, and values name what
        # they need.
        self._environment = {
            "PATH": self._variables.get("PATH", os.defpath),
            "HOME": str(self._home),
            "TMPDIR": str(self._temporary),
            "KUBECONFIG": str(file),
            "HELM_CACHE_HOME": str(self._home / "cache"),
            "HELM_CONFIG_HOME": str(self._home / "config"),
            "HELM_DATA_HOME": str(self._home / "data"),
        }

    # A release that an earlier run has left

    def _repair(self) -> None:
        state = self._state()
        if state in ("", *_HEALTHY):
            return
        say(f"an earlier run left the release {state}, because it was killed: it is repaired first")
        if state == _REMOVING:
            self._uninstall()
            return
        revision = self._last_deployed()
        if not revision:
            self._uninstall("--no-hooks")
            return
        unfinished = [item["revision"] for item in self._history() if item["status"].startswith(_PENDING)]
        options = ("--no-hooks", "--force-conflicts", *self._place(), *self._limit())
        self._helm("rollback", self._release, str(revision), *options)
        assert self._api is not None
        for number in unfinished:  # otherwise, the history would show them as in progress forever
            self._api.forget_revision(self._release, number)
        self._forget_release()

    def _state(self) -> str:
        """Returns the state of the release; empty if there is none."""
        newest = max(self._history(), key=lambda item: int(item["revision"]), default=None)
        return str(newest["status"]) if newest else ""

    def _history(self) -> list[dict[str, Any]]:
        if self._known_history is None:
            self._known_history = self._ask("history", self._release, "-o", "json", *self._place()) or []
        return self._known_history

    def _manifest(self) -> str:
        if self._known_manifest is None:
            self._known_manifest = self._text("get", "manifest", self._release, *self._place())
        return self._known_manifest

    def _forget_release(self) -> None:
        self._known_history = self._known_manifest = None

    def _last_deployed(self) -> int:
        """Returns the newest revision that was deployed; 0 if there is none."""
        good = [item["revision"] for item in self._history() if item["status"] in ("deployed", "superseded")]
        return max(good, default=0)

    # The steps

    def _show(self) -> None:
        """Sends what the upgrade will change, by objects: the server hides the values of Secrets."""
        revisions = self._history()
        before = self._manifest() if revisions else ""
        planned = json.loads(self._text(*self._upgrade_words(), "--dry-run=server", "-o", "json"))
        plan = {
            "before": before,
            "after": planned.get("manifest") or "",
            "namespace": self._namespace,
            "revision": max((item["revision"] for item in revisions), default=0),
        }
        self._server.send("PUT", "/plan", json.dumps(plan).encode())

    def _upgrade(self) -> None:
        try:
            self._helm(*self._upgrade_words(), *self._limit())
        except HelmFailure:
            self._explain()
            raise
        self._send_controllers()

    def _send_controllers(self) -> None:
        """Sends how the run leaves the release, so that the server notices what others change later."""
        assert self._api is not None
        controllers = [
            {"kind": kind, "name": name, "generation": generation, "replicas": replicas}
            for kind, name in self._objects(WATCHED_KINDS)
            for generation, replicas in self._api.generation(kind, name)
        ]
        self._server.send("PUT", "/controllers", json.dumps({"controllers": controllers}).encode())

    def _upgrade_words(self) -> list[str]:
        request = self._request
        words = ["upgrade", "--install", self._release, f"./{request['chart']}", *self._place()]
        for index, path in enumerate(request["values"]):
            words += ["--values", str(self._values_file(index, path))]
        for option in ("set", "set_string", "set_json"):
            for index, (key, value) in enumerate(request[option]):
                words += self._value(option, index, key, value)
        has_limit = any(argument.startswith("--history-max") for argument in request["arguments"])
        # The number of pods is not a change of somebody else that would have to be kept.
        if self._was_paused and "--force-conflicts" not in request["arguments"]:
            words.append("--force-conflicts")
        arguments = options_of_program(request["arguments"])
        return [*words, *arguments, *([] if has_limit else [f"--history-max={_HISTORY}"])]

    def _values_file(self, index: int, path: str) -> Path:
        """Returns a copy of a file of values with the values of variables."""
        source = (
            Path(path) if not path.startswith("/") else Path(self._variables.get(_FILES_VARIABLE, "/") + path)
        )
        filled = self._home / f"values-{index:02}.yaml"
        filled.write_text(self._fill(source.read_text(errors="replace")))
        return filled

    def _value(self, option: str, index: int, key: str, value: str) -> list[str]:
        filled = self._fill(value)
        if filled == value:
            return [f"--{option.replace('_', '-')}", f"{key}={value}"]
        if re.search("[,=]", key):  # it could name files of this machine: services of earlier versions
            raise LaunchRefused(f"values_override.{option}: leave `,` and `=` out of the path {key}")
        # Other programs may read a command line, and the value of a variable may be secret.
        file = self._home / f"{option}-{index}"
        file.write_text(filled)
        return ["--set-file", f"{key}={file}"]

    def _fill(self, text: str) -> str:
        def value_of(match: re.Match[str]) -> str:
            if match[1] not in self._variables:
                raise LaunchRefused(
                    f"values_override: add the variable {match[1]}, or leave out {match[0]}: there is none"
                )
            return self._variables[match[1]]

        return _VARIABLE_PATTERN.sub(value_of, text)

    def _pause(self) -> None:
        """Scales the Deployments and StatefulSets of the release to 0, and records their replicas."""
        assert self._api is not None
        for kind, name in self._scaled():
            if count := self._api.pause(kind, name):
                say(f"{kind} {name}: scaled from {count} to 0")

    def _resume(self) -> None:
        """Restores the replicas from before the release was paused."""
        assert self._api is not None
        for kind, name in self._scaled():
            if count := self._api.resume(kind, name):
                say(f"{kind} {name}: scaled back to {count}")
                self._was_paused = True

    def _scaled(self) -> Iterator[tuple[str, str]]:
        """Yields the kind and the name of the release's objects that have replicas."""
        return self._objects(SCALED_KINDS)

    def _objects(self, kinds: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yields the kind and the name of the release's objects of these kinds."""
        if not self._history():
            return
        for document in re.split(r"^---$", self._manifest(), flags=re.MULTILINE):
            kind, name = _KIND_PATTERN.search(document), _NAME_PATTERN.search(document)
            if kind and name and kind[1] in kinds:
                yield kind[1], name[1]

    def _remove(self) -> None:
        if not self._history():
            say("there is no release")
            return
        sets = [name for kind, name in self._scaled() if kind == "StatefulSet"]
        claims = self._api_answer(lambda api: api.claims(self._release, sets))
        self._uninstall()
        present = self._api_answer(KubernetesApi.all_claims) if claims else []
        if left := [claim for claim in claims if claim in present]:
            say(
                f"the claims {', '.join(left)} stay in the namespace {self._namespace}, with their data: "
                "delete them there"
            )

    def _api_answer(self, ask: Callable[[KubernetesApi], list[str]]) -> list[str]:
        """Returns what the API server answers about claims; nothing, with a remark, if it does not."""
        assert self._api is not None
        try:
            return ask(self._api)
        except (OSError, ValueError, KeyError, TypeError) as error:
            say(f"the claims that stay cannot be listed: {error}")
            return []

    def _uninstall(self, *options: str) -> None:
        self._helm("uninstall", self._release, "--ignore-not-found", *options, *self._place(), *self._limit())

    def _place(self) -> tuple[str, ...]:
        return "--namespace", self._namespace

    def _limit(self) -> tuple[str, ...]:
        return "--wait", f"--timeout={self._request['timeout']}s"

    # Failures

    def _explain(self) -> None:
        """Prints why objects are not ready, as the cluster reports it."""
        assert self._api is not None
        try:
            for problem in self._api.problems(self._release):
                say(problem)
            if failed := self._api.failed_hook([*self._hook_jobs()]):
                job, lines = failed
                for line in lines:
                    sys.stdout.write(f"{line}\n")
                say(f"the hook {job} has failed. Its last lines: {' | '.join(lines[-3:]) or 'none'}")
        except (OSError, ValueError, KeyError, TypeError) as error:
            say(f"the cluster does not say why: {error}")

    def _hook_jobs(self) -> Iterator[str]:
        hooks = self._text("get", "hooks", self._release, *self._place())
        for document in re.split(r"^---$", hooks, flags=re.MULTILINE):
            kind, name = _KIND_PATTERN.search(document), _NAME_PATTERN.search(document)
            if kind and name and kind[1] == "Job":
                yield name[1]

    # The program

    def _ask(self, *words: str) -> Any:
        """Returns the JSON that a command prints; None if there is no such release."""
        try:
            return json.loads(self._text(*words))
        except HelmFailure as failure:
            if _NOT_FOUND in failure.output:
                return None
            raise

    def _text(self, *words: str) -> str:
        """Returns the output of a command. Raises HelmFailure with its messages."""
        with self._start(words, subprocess.PIPE) as process:
            output, errors = process.communicate()
        if process.returncode:
            message = errors.decode(errors="replace")
            if _NOT_FOUND not in message:
                sys.stdout.write(message)
            raise HelmFailure(process.returncode, message)
        return output.decode(errors="replace")

    def _helm(self, *words: str) -> None:
        """Runs a command that changes the release, and prints its output. Raises HelmFailure if it fails."""
        say(f"helm {words[0]}")
        self._forget_release()
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
        if process.returncode:
            raise HelmFailure(process.returncode, "".join(kept))

    def _start(self, words: Sequence[str], errors: int) -> subprocess.Popen[bytes]:
        if self.was_asked:
            raise HelmFailure(128 + self.was_asked, "")
        self._process = subprocess.Popen(
            [self._program, *words],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        self._pass_on()
        return self._process


def options_of_program(arguments: Sequence[str]) -> list[str]:
    """Returns the options that a service asks for, as this version of Helm has them."""
    wanted = [argument for argument in arguments if argument.partition("=")[0] != _LEFT_OUT]
    return [_RENAMED.get(argument, argument) for argument in wanted]


def hint_for(output: str) -> str:
    """Returns the remedy for the output of a failed command. Empty if it matches no known failure."""
    return next((hint for words, hint in _HINTS if words in output), "")


def kubeconfig_of(credential: dict[str, str]) -> dict[str, Any]:
    authority = base64.b64encode(credential["ca_certificate"].encode()).decode()
    cluster = {"server": credential["server"], "certificate-authority-data": authority}
    if server_name := credential["server_name"]:
        cluster["tls-server-name"] = server_name
    name = "windlass"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": credential["token"]}}],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": name, "namespace": credential["namespace"]}}
        ],
    }


def start(variables: Variables) -> NoReturn:
    run = HelmRun(variables)
    heed: Callable[[int, object], None] = run.heed
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # Helm gets the signal as well, marks the release as failed and ends. The launcher waits for its end.
        signal.signal(number, heed)
    try:
        run.execute()
    except HelmFailure as failure:
        if hint := hint_for(failure.output):
            say(hint)
        sys.exit(128 + run.was_asked if run.was_asked else failure.code)
    sys.exit(128 + run.was_asked if run.was_asked else 0)


if __name__ == "__main__":
    launch(start)
