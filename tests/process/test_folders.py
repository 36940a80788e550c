"""Instances of the engine of processes have folders, volumes and ports of their own."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec import structs

from tests.engines import programs
from tests.engines.stations import Station, wanted
from tests.process.helpers import KEY, SERVICE
from windlass.base.folder_removal import erase
from windlass.engines.engine import EngineError
from windlass.engines.workload import Volume
from windlass.process import files
from windlass.process.records import RecordStore

READS = """
import os, time
for path in os.environ["READ"].split():
    print(path, open(os.path.expandvars(path)).read(), flush=True)
time.sleep(1000)
"""


# Its folder.


async def test_each_instance_has_its_own_copy_of_the_application_and_shares_its_dependencies(rig, station):
    art = rig.made(READS.replace("print", "open('mine', 'w').write(os.environ['HOME']); print"))
    app = rig.artifact_folder(art) / "app"
    (rig.artifact_folder(art) / "venv").mkdir()
    (rig.artifact_folder(art) / "venv" / "shared").write_text("is shared")
    (app / "sub").mkdir()
    (app / "sub" / "own").write_text("is own")
    (app / "absolute").symlink_to(rig.artifact_folder(art) / "venv")
    (app / "relative").symlink_to("../venv")
    (app / "sub" / "up").symlink_to("../sub/own")
    (app / "itself").symlink_to(app / "sub")
    read = "absolute/shared relative/shared sub/up itself/own"
    await station.apply(wanted(art, variables={"READ": read}))
    await station.hears("itself/own is own")
    assert station.said == [
        "absolute/shared is shared",
        "relative/shared is shared",
        "sub/up is own",
        "itself/own is own",
    ]
    copy = rig.folder / "services" / SERVICE / "1-0" / "app"
    assert (copy / "itself").resolve() == copy / "sub"
    assert (copy / "mine").exists()
    assert not (app / "mine").exists()
    assert (copy / "main.py").stat().st_mtime_ns == (app / "main.py").stat().st_mtime_ns


async def test_caches_of_tools_last_until_the_service_is_discarded(rig, station):
    program = """
import os, pathlib, time
for name in (".cache", ".m2", ".gradle", ".npm", "go"):
    (pathlib.Path(os.environ["HOME"]) / name / "fetched").open("a").write("x")
    print(len((pathlib.Path(os.environ["HOME"]) / name / "fetched").read_text()), flush=True)
time.sleep(1000)
"""
    it = wanted(rig.made(program))
    await station.apply(it)
    await station.hears("1", times=5)
    await station.engine.remove(SERVICE)
    await station.apply(structs.replace(it, generation=2))
    await station.hears("2", times=5)
    await station.engine.discard(SERVICE)
    assert list((rig.folder / "caches").iterdir()) == []


async def test_variables_contain_the_paths_of_files_and_volumes_outside_the_application(rig, station):
    it = wanted(
        rig.made(READS),
        files={"/etc/app/config.yml": b"a secret"},
        volumes=(Volume(name="my-data", mount="/var/lib/data"),),
        variables={"READ": "$WINDLASS_FILES/etc/app/config.yml $WINDLASS_VOLUME_MY_DATA/first"},
    )
    volume = rig.folder / "volumes" / SERVICE / "my-data"
    volume.mkdir(parents=True)
    (volume / "first").write_text("was kept")
    await station.apply(it)
    await station.hears("$WINDLASS_FILES/etc/app/config.yml a secret")
    await station.hears("$WINDLASS_VOLUME_MY_DATA/first was kept")
    written = rig.folder / "services" / SERVICE / "1-0" / "files" / "etc" / "app" / "config.yml"
    assert written.stat().st_mode & 0o777 == 0o600


async def test_an_empty_volume_is_filled_with_the_applications_files_at_its_mount_path(rig, station):
    art = rig.made(programs.SLEEPS)
    (rig.artifact_folder(art) / "app" / "data").mkdir()
    (rig.artifact_folder(art) / "app" / "data" / "seed").write_text("first")
    it = wanted(art, volumes=(Volume(name="data", mount="/app/data"),))
    await station.apply(it)
    seed = rig.folder / "volumes" / SERVICE / "data" / "seed"
    assert seed.read_text() == "first"
    seed.write_text("changed")
    await station.apply(structs.replace(it, generation=2))
    assert seed.read_text() == "changed"


@pytest.mark.parametrize("path", ["/app/conf/passwd", "/app/deep/conf/passwd"])
async def test_a_symlink_in_an_application_cannot_redirect_a_written_file(rig, station, tmp_path, path):
    (tmp_path / "etc").mkdir()
    art = rig.made(programs.SLEEPS)
    (rig.artifact_folder(art) / "app" / "conf").symlink_to(tmp_path / "etc")
    (rig.artifact_folder(art) / "app" / "deep").symlink_to(".")
    with pytest.raises(EngineError, match="it leads out of its folder"):
        await station.apply(wanted(art, files={path: b"root::0:0"}))
    assert list((tmp_path / "etc").iterdir()) == []
    assert await rig.traces(SERVICE) == []


async def test_a_path_cannot_climb_out_of_the_folder_of_its_instance(rig, station):
    it = wanted(rig.made(programs.SLEEPS), files={"/app/../../../climbed": b"", "../../../climbed": b""})
    await station.apply(it)
    found = {str(path.relative_to(rig.folder)) for path in rig.folder.rglob("climbed")}
    assert found == {f"services/{SERVICE}/1-0/files/climbed"}


# Addresses.


async def test_two_replicas_never_give_the_same_address(rig, station):
    async with Station(rig) as other:
        asked = [(each, f"service-{number}") for number in range(20) for each in (station, other)]
        found = await asyncio.gather(
            *(each.engine.neighbour_address("environment", name, "", 80) for each, name in asked)
        )
    assert found[::2] == found[1::2]
    assert len(set(found)) == 20


@pytest.mark.parametrize(("name", "deep"), [("d", 1500), ("d" * 200, 30)])
def test_folders_nested_too_deeply_to_copy_are_reported_with_advice(tmp_path, name, deep):
    top = tmp_path / "built" / "app"
    top.mkdir(parents=True)
    (top / "page").write_text("hello")
    files.copy(top.parent, tmp_path / "before")  # the control
    here = os.open(top, os.O_RDONLY)
    for _ in range(deep):  # no path is as long as the whole of them
        os.mkdir(name, dir_fd=here)
        inner = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    with pytest.raises(EngineError, match="too deep to be copied"):
        files.copy(top.parent, tmp_path / "copy")
    for folder in (top, tmp_path / "copy"):
        erase(folder)
    assert (tmp_path / "before" / "page").read_text() == "hello"


def test_a_folder_to_which_a_program_still_writes_is_erased(tmp_path):
    def write(folder: Path) -> None:
        with suppress(OSError):
            for number in range(5000):
                (folder / f"{number}").write_text("")

    for attempt in range(25):  # each alone may be lucky
        folder = tmp_path / f"{attempt}" / "inner"
        folder.mkdir(parents=True)
        writing = threading.Thread(target=write, args=(folder,))
        writing.start()
        while not (folder / "20").exists():
            pass
        erase(folder.parent)
        writing.join()
        assert not folder.parent.exists()


def test_engines_notify_each_other_even_after_the_notification_file_was_deleted(tmp_path):
    first, second = RecordStore(tmp_path / "run"), RecordStore(tmp_path / "run")
    first.prepare()
    (tmp_path / "run" / "bell").unlink()
    before = second.last_notification()
    first.notify_engines()
    after = second.last_notification()
    assert after > before
    assert second.last_notification() == after  # negative control


@pytest.mark.parametrize(
    "is_made_with_parents", [False, True], ids=["parents not created", "parents created"]
)
async def test_a_moved_data_directory_is_not_recreated(tmp_path, monkeypatch, is_made_with_parents):
    """The operator could not move it back to its place then."""
    data, aside = tmp_path / "data", tmp_path / "aside"
    store = RecordStore(data / "run")
    store.prepare()
    data.rename(aside)
    if is_made_with_parents:
        monkeypatch.setattr(store, "_make_home", lambda home: home.mkdir(parents=True, exist_ok=True))
        async with store.held(KEY, may_create=True):
            assert data.exists()
        return
    with pytest.raises(FileNotFoundError):
        async with store.held(KEY, may_create=True):
            pass
    assert not data.exists()
    aside.rename(data)
    async with store.held(KEY, may_create=True) as home:
        assert home == store.home(KEY)


WRITES_BESIDE_ITS_RECORD = """
import time
with open("../once/zeros", "wb") as file:
    file.write(bytes(8 << 20))
print("has written", flush=True)
time.sleep(100)
"""


async def test_files_that_a_run_writes_beside_its_record_count_as_its_disk_use(rig, station):
    it = wanted(rig.made(WRITES_BESIDE_ITS_RECORD))
    running = asyncio.create_task(station.engine.once(it))
    await station.hears("has written")
    patrol, record = station.engine._resource_monitor, RecordStore(rig.folder).read(KEY)
    share = await patrol._disk_share(await patrol._counting.now(), KEY, record, 0.0)
    assert share.own.bytes >= 8 << 20
    await station.engine.remove(it.service, grace=0)
    with suppress(EngineError):
        await running
