"""Runs a gateway: `python -m windlass.gateway FOLDER`. Servers start a gateway with this command."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

gc.disable()  # while modules load: their objects live as long as the process

import uvloop  # noqa: E402

from windlass.base.log import start_logging  # noqa: E402
from windlass.base.oom_score import SERVER_SCORE, set_oom_score  # noqa: E402
from windlass.base.priority import prefer_session  # noqa: E402
from windlass.gateway.program import GatewayProgram  # noqa: E402


async def _run(folder: Path) -> None:
    await GatewayProgram(folder).run()


if __name__ == "__main__":
    gc.freeze()
    gc.enable()
    set_oom_score(SERVER_SCORE)
    prefer_session()
    start_logging("info", "json")
    uvloop.run(_run(Path(sys.argv[1])))
