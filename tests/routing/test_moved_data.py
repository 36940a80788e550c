"""A data directory can be moved or copied: what was built in another folder is built again, and never run."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.gateway.gateway_town import processes_of
from tests.marks import nightly
from tests.repositories import Repository
from tests.routing.test_restarting import APP, ServerProcess, deploy
from tests.whole import Place, Processes, page, place, until
from windlass.engines.workload import Artifact
from windlass.process.builds.artifacts import ArtifactStore, is_complete, mark_complete

PORTS = [{"internal_port": 8000, "publicly_accessible": True, "protocol": "HTTP"}]


def test_a_build_in_a_moved_data_directory_is_not_used(tmp_path: Path):
    store = ArtifactStore(tmp_path / "here", "s")
    with store.making() as fresh:
        (fresh / "artifact/app").mkdir(parents=True)
        artifact = Artifact(kind="native", ref=str(store.at("k")), key="k")
        store.complete(fresh / "artifact", artifact)
        store.put(fresh / "artifact", artifact)
    assert store.find("k")
    (tmp_path / "here").rename(tmp_path / "there")
    assert ArtifactStore(tmp_path / "there", "s").find("k") is None


def test_installed_dependencies_in_a_moved_data_directory_count_as_incomplete(tmp_path: Path):
    folder = tmp_path / "here/s/.deps/later-1"
    folder.mkdir(parents=True)
    mark_complete(folder)
    assert is_complete(folder)
    (tmp_path / "here").rename(tmp_path / "there")
    moved = tmp_path / "there/s/.deps"
    assert [is_complete(one) for one in moved.iterdir()] == [False]


@pytest.mark.slow
@pytest.mark.parametrize("is_copy", [False, *nightly(True)])
async def test_after_moving_a_data_directory_its_services_are_rebuilt(is_copy: bool):
    """Visitors are served without anybody doing something. A copy runs nothing out of the other folder."""
    async with AsyncExitStack() as stack:
        before, after = [await stack.enter_async_context(place("process")) for _ in range(2)]
        repository = Repository(before.beside / "repository")
        repository.put({"requirements.txt": "", "app.py": APP, "Procfile": "web: python app.py"}).commit()
        first = ServerProcess(before)
        await first.start()
        git = {"url": repository.url, "branch": "main"}
        app = await deploy(first, {"name": "web", "git_repository": git, "ports": PORTS})
        await first.end(signal.SIGTERM)
        await before.machine.clear()
        for process in processes_of(before.folder / "gateway"):
            os.kill(process, signal.SIGKILL)

        _move(before, after, is_copy=is_copy)
        second = ServerProcess(after)
        await second.start()
        stack.push_async_callback(second.end, signal.SIGTERM)

        async def runs() -> bool:
            status = await second.call("GET", f"/application/{app}/status")
            links = (await second.call("GET", f"/application/{app}/link"))["results"]
            return status["state"] == "RUNNING" and (await page(links[0]["url"])).text == "me"

        await until(runs)
        machine = after.machine
        assert isinstance(machine, Processes)
        running = machine._numbers()
        assert running
        for process in running:
            assert str(before.folder).encode() not in Path(f"/proc/{process}/environ").read_bytes()


def _move(before: Place, after: Place, *, is_copy: bool) -> None:
    after.folder.rmdir()
    if is_copy:
        shutil.copytree(before.folder, after.folder, symlinks=True, ignore=_sockets)
        shutil.rmtree(before.folder)  # a copy beside it is refused
    else:
        before.folder.rename(after.folder)
    before.folder.mkdir()  # the end of the test removes it
    after.settings = replace(after.settings, data_dir=str(after.folder))


def _sockets(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if Path(folder, name).is_socket()]
