"""A Windlass whose builds have a small disk. Prints the first sentence about a build that fills it.

Run in a mount namespace of its own: the disk is gone with the process.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.engines.newcomers import advice_for
from tests.whole import place

FILES = {
    "app.py": "",
    "requirements.txt": "",
    "build.py": "open('large', 'wb').write(bytes(40 << 20))",
    "Procfile": "web: python3 app.py",
}


async def main() -> None:
    async with place("process", git_allow_local=True) as there:
        with small_disk(there.folder / "work"), small_disk(there.folder / "builds"):
            print(await advice_for(there, FILES, build_command="python3 build.py"))


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


if __name__ == "__main__":
    asyncio.run(main())
