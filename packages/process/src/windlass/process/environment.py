"""Prepares the ports and the environment variables of an instance."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Final

from windlass.engines.engine import EngineError
from windlass.engines.workload import OUTPUT_VARIABLE, Workload
from windlass.process import files, ports
from windlass.process.process_table import EXECUTED_BY, FILES_VARIABLE, INSTANCE_VARIABLE
from windlass.process.records import InstanceKey, Record, RecordStore

_LAUNCHERS_PACKAGE: Final = "windlass.launch."
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def command(workload: Workload) -> tuple[str, ...]:
    command = tuple(workload.command or workload.artifact.command)
    if not command:
        raise EngineError(f"Name a command in a Procfile or in the Dockerfile: {workload.name} has none")
    return with_this_python(command)


def with_this_python(command: Sequence[str]) -> tuple[str, ...]:
    """Replaces the Python in the command of a Windlass launcher with the current Python. The command may have
    been recorded by a Windlass in another folder, which is not visible in the cell."""
    if len(command) > 3 and tuple(command[1:3]) == ("-I", "-m") and command[3].startswith(_LAUNCHERS_PACKAGE):
        return (sys.executable, *command[1:])
    return tuple(command)


class InstanceEnvironment:
    def __init__(self, records: RecordStore, claims: ports.PortClaims) -> None:
        self._records, self._claims = records, claims

    def ports(
        self, key: InstanceKey, workload: Workload, record: Record, *, has_network: bool
    ) -> dict[int, int]:
        """Returns the outer port for each internal port. They are equal in the instance's own network.
        Otherwise, the outer port is a free port of this machine."""
        internal = dict.fromkeys([*(port.internal for port in workload.ports), *workload.artifact.ports])
        if has_network:
            return {port: port for port in internal}
        return {port: self._port(key, record.ports.get(port)) for port in internal}

    def _port(self, key: InstanceKey, previous_port: int | None) -> int:
        """Returns the port of the previous run, or another port if that one is in use."""
        if previous_port is not None:
            if ports.free(previous_port):
                return previous_port
            self._claims.release(previous_port, key)
        return self._claims.claim(key)

    def environment(self, key: InstanceKey, workload: Workload, ports: Mapping[int, int]) -> dict[str, str]:
        """Returns the environment of an instance. Variables of Windlass's own environment are not part of
        it."""
        home = self._records.home(key)
        own = {"PATH": _PATH, "LANG": "C.UTF-8", "HOME": str(home / "home"), "TMPDIR": str(home / "tmp")}
        marks = {INSTANCE_VARIABLE: key.id, FILES_VARIABLE: str(home / "files")}
        if workload.writes_output:
            marks[OUTPUT_VARIABLE] = str(files.output_file(home))
        places = _port_variables(ports) | self._volume_variables(key, workload)
        # The marks come first, where they are searched for, and are merged again last, so that no other
        # variable overrides them.
        given = dict(workload.artifact.environment) | places | _variables(workload, ports)
        environment = marks | own | given | marks
        environment.pop(EXECUTED_BY, None)  # it marks executed commands, and this is the program itself
        return environment

    def _volume_variables(self, key: InstanceKey, workload: Workload) -> dict[str, str]:
        return {
            files.volume_variable(volume.name): str(
                files.volume_folder(self._records.volumes, key.service, volume.name)
            )
            for volume in workload.volumes
        }


def _port_variables(ports: Mapping[int, int]) -> dict[str, str]:
    variables = {f"WINDLASS_PORT_{internal}": str(port) for internal, port in ports.items()}
    return variables | ({"PORT": str(next(iter(ports.values())))} if ports else {})


def _variables(workload: Workload, ports: Mapping[int, int]) -> dict[str, str]:
    """Returns the variables with PORT translated to the outer port. Two generations of a program could not
    both listen on the internal port."""
    variables = dict(workload.variables)
    outer = {str(internal): str(port) for internal, port in ports.items()}
    if variables.get("PORT") in outer:
        variables["PORT"] = outer[variables["PORT"]]
    return variables
