"""A deletion that the engine refuses for good can be repeated, taken back and forced."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.inside import Inside, Service, inside, until

STORAGE = {"size": 1, "type": "FAST_SSD", "mount_point": "/app/data"}


@contextmanager
def kept(file: Path) -> Iterator[None]:
    """A file that not even root can erase."""
    refused = subprocess.run(["chattr", "+i", file], capture_output=True, text=True, check=False)
    if refused.returncode:
        pytest.skip(f"this file system keeps no file from root: {refused.stderr}")
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", file], check=False)


async def delete(service: Service, query: str = "") -> None:
    assert (await service.inside.call("DELETE", service.path + query)).status == 204


async def deletions(service: Service) -> list[tuple[str, str]]:
    """Status and message of all of them, once none is under way."""

    async def ended() -> bool:
        return bool((await service.status())["deployment_state"] == "DELETE_ERROR")

    await until(ended)
    rows = (await service.inside.call("GET", f"{service.path}/deployment"))["results"]
    return [(row["status"], row["message"]) for row in rows if row["action"] == "DELETE"]


async def is_gone(there: Inside, service: Service) -> bool:
    return (await there.call("GET", service.path)).status == 404


async def test_a_deletion_that_fails_can_be_retried_reverted_and_forced(tmp_path: Path):
    async with inside(tmp_path) as there:
        shop = await there.application("sleeps", storage=[STORAGE])
        assert (await shop.do("deploy"))["status"] == "SUCCEEDED"
        (volume,) = (tmp_path / "data" / "run" / "volumes" / shop.id).iterdir()
        file = volume / "kept"
        file.write_text("x")
        with kept(file):
            failed = (
                "FAILED",
                "Ask the operator to check the data directory: a file of the service cannot be erased",
            )
            for times in (1, 2):
                await delete(shop)
                told = [(status, message.partition(" (")[0]) for status, message in await deletions(shop)]
                assert told == [failed] * times
                assert await shop.running() == []
            assert (await shop.do("deploy"))["status"] == "SUCCEEDED"
            assert file.read_text() == "x"
            await delete(shop)
            assert len(await deletions(shop)) == 3
            await delete(shop, "?skipReconcile=true")
            assert await is_gone(there, shop)
            assert file.exists()

        async def erased() -> bool:
            return not volume.exists()

        await until(erased)


async def test_a_deletion_that_is_repeated_once_its_cause_is_mended_succeeds(tmp_path: Path):
    async with inside(tmp_path) as there:
        shop = await there.application("sleeps", storage=[STORAGE])
        await shop.do("deploy")
        (volume,) = (tmp_path / "data" / "run" / "volumes" / shop.id).iterdir()
        file = volume / "kept"
        file.write_text("x")
        with kept(file):
            await delete(shop)
            await deletions(shop)
        await delete(shop)
        await until(lambda: is_gone(there, shop))
        assert not volume.exists()
