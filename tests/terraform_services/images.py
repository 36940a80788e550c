"""An image with the program of this machine, for engines that reach no registry.

Like the official ones, it has a shell and the program; the Python that Windlass adds to those is there."""

from __future__ import annotations

import asyncio
import io
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.engines.dockers import PYTHON, give_python
from tests.terraform_services.modules import ENGINE, program
from windlass.docker.client import Docker
from windlass.docker.client.images import image
from windlass.terraform.programs import PROGRAM_NAMES

DOCKERFILE = f"FROM {PYTHON}\nCOPY {PROGRAM_NAMES.get(ENGINE, 'terraform')} /bin/\n"


def program_image(host: str) -> str:
    """Returns the name of the image, which is made once for a machine."""
    path = Path(program()).resolve()
    about = path.stat()
    ref = f"windlass-test/{PROGRAM_NAMES[ENGINE]}:{about.st_size}-{int(about.st_mtime)}"
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _give(host, ref, path)).result()
    return ref


async def _give(host: str, ref: str, path: Path) -> None:
    docker = Docker(host)
    try:
        if not await image(docker, ref):
            await give_python(docker)
            await _build(docker, ref, path)
    finally:
        await docker.close()


async def _build(docker: Docker, ref: str, path: Path) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(DOCKERFILE)
        tar.addfile(entry, io.BytesIO(DOCKERFILE.encode()))
        tar.add(path, PROGRAM_NAMES[ENGINE])
    params = {"t": ref, "rm": True, "forcerm": True}
    async with docker.stream("POST", "/build", params=params, data=made.getvalue()) as answer:
        async for said in answer.objects():
            assert "error" not in said, said
