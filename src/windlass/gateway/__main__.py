"""Runs a gateway: `python -m windlass.gateway FOLDER`. Servers start it so."""

from __future__ import annotations

import sys
from pathlib import Path

import uvloop

from windlass.base.log import start_logging
from windlass.gateway.program import GatewayProgram


async def _run(folder: Path) -> None:
    await GatewayProgram(folder).run()


if __name__ == "__main__":
    start_logging("info", "json")
    uvloop.run(_run(Path(sys.argv[1])))
