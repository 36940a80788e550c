"""A command of the operator, for all other providers: it gets `add` or `remove`, the name and the text."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from windlass.base.environment import for_tools
from windlass.base.subprocesses import pump, running
from windlass.base.zones.provider import BadZoneSetting, ZoneAccess, ZoneFailure, ZoneProvider, shown

CALL_TIMEOUT: Final = 60.0
"""Time limit of one call. It is killed then, with all that it has started."""
_PASSED_VARIABLES: Final = ("HOME", "LANG", "PATH")
"""The variables of the server that the command gets."""
_CREDENTIALS_VARIABLE: Final = "DNS_CREDENTIALS"


class Hook:
    title: Final = "The command of dns_hook"

    def __init__(self, command: Sequence[str], domain: str, credentials: str = "") -> None:
        self._command, self._domain, self._credentials = command, domain, credentials

    async def zone_of(self, name: str) -> str:
        return self._domain if f".{name}".endswith(f".{self._domain}") else ""

    async def check(self, name: str) -> str:
        """Nothing is called: a command may know no other words than `add` and `remove`."""
        if not os.access(self._command[0], os.X_OK):
            raise ZoneFailure(
                f"The command of dns_hook cannot be started: {self._command[0]} is no executable file"
            )
        if zone := await self.zone_of(name):
            return zone
        raise ZoneFailure(
            f"The command of dns_hook is called only for names of public_domain, not for {name}"
        )

    async def add(self, name: str, value: str) -> None:
        await self._run("add", name, value)

    async def remove(self, name: str, value: str) -> None:
        await self._run("remove", name, value)

    async def _run(self, *words: str) -> None:
        environment = {name: value for name, value in for_tools().items() if name in _PASSED_VARIABLES}
        if self._credentials:
            environment[_CREDENTIALS_VARIABLE] = self._credentials
        said: deque[bytes] = deque(maxlen=1)
        try:
            async with (
                asyncio.timeout(CALL_TIMEOUT),
                running([*self._command, *words], cwd=Path("/"), env=environment) as process,
            ):
                await asyncio.gather(
                    pump(process.stdout, lambda piece: None), pump(process.stderr, said.append)
                )
                code = await process.wait()
        except TimeoutError as error:
            raise ZoneFailure(
                f"The command of dns_hook does not end within {CALL_TIMEOUT:.0f} seconds"
            ) from error
        except OSError as error:
            raise ZoneFailure(f"The command of dns_hook cannot be started: {error.strerror}") from error
        if code:
            text = shown(b"".join(said).decode(errors="replace"))
            raise ZoneFailure(f"The command of dns_hook fails with {code}: {text or 'it says nothing'}")


def open_zones(access: ZoneAccess) -> ZoneProvider:
    try:
        command = shlex.split(access.command)
    except ValueError as error:
        raise BadZoneSetting(f"dns_hook: write a command as in a shell: {error}") from error
    if not command or not Path(command[0]).is_absolute():
        raise BadZoneSetting("dns_hook: name a command by its whole path, such as /usr/local/bin/set-record")
    return Hook(command, access.domain, access.credentials)
