"""A Windlass whose builds have a disk of their own, and a small one. Says as JSON what came of deployments.

Run in a mount namespace of its own, with a folder where nothing is yet: the disk is gone with the process.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.faults.inside import inside

SIZES = {"work": 16, "builds": 4}
"""Megabytes."""
TOO_MUCH = {"fetched": 20, "checked out": 10, "built": 5}
"""To be fetched; to be there twice, as git has it; to be kept. Megabytes."""


async def main(folder: Path) -> None:
    for name, size in SIZES.items():
        place = folder / "data" / name
        place.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}m", "none", place], check=True)
    async with inside(folder) as there:
        shop = await there.application("sleeps")
        told: dict[str, Any] = {"before": (await shop.do("deploy"))["status"]}
        for what, megabytes in TOO_MUCH.items():
            there.code.grow("sleeps", megabytes)
            failed = await shop.do("deploy")
            told[what] = [failed["status"], failed["message"], await shop.running(), left(folder)]
        there.code.grow("sleeps", 0)
        after = await shop.do("deploy")
        told["after"] = [after["status"], after["message"], await shop.running()]
        await shop.do("stop")
    print(json.dumps(told))


def left(folder: Path) -> list[str]:
    """Returns remains of failed builds."""
    work = [str(path) for path in (folder / "data" / "work").glob("*")]
    return work + [str(path) for path in (folder / "data" / "builds").glob("*/.new-*")]


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
