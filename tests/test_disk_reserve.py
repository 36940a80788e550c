"""The room of the disk, what an instance holds of it, and which instance is ended when it is short."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.fakes.engine import FakeEngine
from tests.needs import needs_root
from tests.world import make_world
from windlass.base import disk_reserve, process_memory, unnamed_files
from windlass.base.disk_reserve import Amount, DiskShare, DiskSpace, DiskWatch, unlinked
from windlass.process import files

MIB = 1 << 20
ONE = Amount(MIB, 1, new_bytes=MIB, new_files=1)


def room(
    free: int = 100 * MIB, lost: int = 0, unit: str = "bytes", *, hour: int = 0, reserve: int = 100 * MIB
) -> DiskSpace:
    whole = 10_000 * MIB
    return DiskSpace(unit, free, whole, reserve=reserve, lost=lost, hour_lost=max(lost, hour))


def use(
    own: int = 0, changed: int = 0, *, files: int = 0, is_hidden: bool = False, new: int = 0
) -> DiskShare:
    return DiskShare(
        Amount(own, files, is_hidden, new_bytes=new), Amount(changed, new_bytes=changed, new_files=0)
    )


def old_and(filler: DiskShare) -> dict[str, DiskShare]:
    return {**{name: use(300 * MIB) for name in ("old", "older")}, "filler": filler}


@pytest.mark.parametrize(
    ("seen", "uses", "ended"),
    [
        (room(), {"small": use(20 * MIB), "large": use(90 * MIB)}, "large"),
        (room(), {"small": use(15 * MIB)}, None),
        (room(free=10_000 * MIB), {"large": use(600 * MIB)}, None),
        (room(), {"database": use(0, 9_000 * MIB), "small": use(20 * MIB)}, "small"),
        (room(lost=90 * MIB), {"database": use(0, 9_000 * MIB), "small": use(20 * MIB)}, "database"),
        (room(lost=90 * MIB), {"database": use(0, 9_000 * MIB), "filler": use(90 * MIB)}, "filler"),
        (room(), {"large": use(90 * MIB), "hides": use(is_hidden=True)}, "hides"),
        (room(100, unit="files", reserve=9000), {"large": use(90 * MIB), "many": use(files=2000)}, "many"),
        (room(), {}, None),
        (room(reserve=500 * MIB), {"small": use(40 * MIB)}, None),
        (room(reserve=500 * MIB), {str(number): use(40 * MIB) for number in range(12)}, "0"),
        (room(hour=3000 * MIB), {"old": use(300 * MIB), "older": use(300 * MIB)}, None),
        (room(hour=3000 * MIB), old_and(use(200 * MIB, new=200 * MIB)), None),
        (room(hour=3000 * MIB), old_and(use(400 * MIB, new=400 * MIB)), "filler"),
        (room(hour=200 * MIB), old_and(use(200 * MIB, new=200 * MIB)), "old"),
        (room(hour=3000 * MIB), {str(number): use(200 * MIB, new=200 * MIB) for number in range(14)}, "0"),
        (room(hour=3000 * MIB, lost=90 * MIB), old_and(use(0, 3000 * MIB)), "filler"),
        (room(hour=3000 * MIB), old_and(use(is_hidden=True)), "filler"),
    ],
    ids=[
        "the heaviest",
        "none whose files would not help",
        "none while much more is free than it holds",
        "a database that has always been large counts nothing",
        "a volume counts for what the disk lost meanwhile",
        "own folders count more than a volume",
        "an instance that hides files counts as the heaviest",
        "files count where files are short",
        "none if there is none",
        "none that holds little of the reserve",
        "one of many that hold the reserve together",
        "none for what went where no instance is known to have it",
        "none for a small part of what went",
        "the one that has a considerable part of what went, though others hold as much",
        "the one that holds most, if all that went is known",
        "one of many that have together what went",
        "a volume for what the disk lost in the hour",
        "the one that hides files, whatever went",
    ],
)
def test_the_instance_that_uses_most_disk_is_ended_if_that_helps(seen, uses, ended):
    assert disk_reserve.heaviest(seen, uses) == ended


MANY_SMALL = {f"a{number}": use(40 * MIB) for number in range(5)} | {"b": use(90 * MIB)}
ORGS = {key: key[0] for key in MANY_SMALL}


def test_the_heaviest_instance_of_the_organization_that_uses_most_disk_is_ended_first():
    seen = room(reserve=500 * MIB)
    heavier = MANY_SMALL | {"a3": use(60 * MIB)}
    assert disk_reserve.heaviest(seen, heavier, ORGS) == "a3"
    assert disk_reserve.heaviest(seen, heavier) == "b", "without organizations, the neighbour is ended"


def test_small_instances_of_one_organization_are_added_up():
    seen, small = room(), {key: use(15 * MIB) for key in MANY_SMALL} | {"b": use(20 * MIB)}
    assert disk_reserve.heaviest(seen, small, ORGS) == "a0"
    assert disk_reserve.heaviest(seen, small, dict.fromkeys(ORGS, "one")) == "b"


PLACES = {key: "prod" if key == "b" else "play" for key in MANY_SMALL}
OWNER = dict.fromkeys(MANY_SMALL, "one")


@pytest.mark.parametrize("size", [40, 15])
@pytest.mark.parametrize("others", [{}, {"c": use(30 * MIB)}], ids=["alone", "beside another"])
def test_an_environment_with_many_small_instances_is_ended_before_one_larger_instance_of_another(
    size, others
):
    seen = room(reserve=500 * MIB if size > 15 else 100 * MIB)
    uses = {**{key: use(size * MIB) for key in OWNER}, "b": use((2 * size + 10) * MIB), **others}
    orgs, places = OWNER | dict.fromkeys(others, "two"), PLACES | dict.fromkeys(others, "elsewhere")
    assert disk_reserve.heaviest(seen, uses, orgs, environments=places) == "a0"
    assert disk_reserve.heaviest(seen, uses, orgs) == "b", "without environments, the larger one is ended"


def test_an_environment_that_did_not_cause_the_shortage_keeps_its_instances():
    seen, uses = (
        room(hour=300 * MIB),
        {key: use(40 * MIB) for key in OWNER} | {"b": use(90 * MIB, new=90 * MIB)},
    )
    assert disk_reserve.heaviest(seen, uses, OWNER, environments=PLACES) == "b"


def test_an_organization_that_did_not_cause_the_shortage_keeps_its_instances():
    seen = room(hour=3000 * MIB)
    assert disk_reserve.heaviest(seen, MANY_SMALL, ORGS) is None


def test_an_organization_with_large_growing_volumes_is_ended_before_one_with_larger_files():
    seen, uses = room(lost=90 * MIB), {"a": use(0, 90 * MIB), "b": use(80 * MIB, new=80 * MIB)}
    orgs, held = {"a": "a", "b": "b"}, {"a": 5000 * MIB, "b": 80 * MIB}
    assert disk_reserve.heaviest(seen, uses, orgs, held) == "a"
    assert disk_reserve.heaviest(seen, uses, orgs) == "b", "unless it is known what each holds"


def test_a_large_database_that_does_not_grow_is_not_ended_for_a_neighbour_that_fills_the_disk():
    seen, orgs, held = room(lost=90 * MIB), {"a": "a", "b": "b"}, {"a": 9000 * MIB, "b": 80 * MIB}
    database = DiskShare(Amount(), Amount(9000 * MIB, new_bytes=9000 * MIB), stored=9000 * MIB)
    uses = {"a": database.grown_from(9000 * MIB), "b": use(90 * MIB, new=90 * MIB)}
    assert disk_reserve.heaviest(seen, uses, orgs, held) == "b"
    assert disk_reserve.heaviest(seen, uses | {"a": database}, orgs, held) == "a", "it changes large files"


def test_near_the_disk_reserve_only_organizations_above_their_share_are_chosen():
    seen, uses = room(free=150 * MIB), {"a": use(90 * MIB), "b": use(80 * MIB)}
    orgs = {"a": "a", "b": "b"}
    assert disk_reserve.heaviest(seen, uses, orgs, payers={"b"}) == "b"
    assert disk_reserve.heaviest(seen, uses, orgs, payers=()) is None
    assert disk_reserve.heaviest(seen, {"b": use(80 * MIB)}, orgs, payers={"a"}) is None


def test_files_are_measured_in_any_subfolder(tmp_path: Path):
    deep = tmp_path / "home" / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "zeros").write_bytes(bytes(MIB))
    assert MIB <= disk_reserve.measure([tmp_path]).bytes < 2 * MIB
    assert disk_reserve.measure([tmp_path]).files == 4
    later = time.time() + 9
    assert disk_reserve.measure([tmp_path], later, later) == Amount()
    assert disk_reserve.measure([tmp_path], 0, later).new_bytes == 0
    assert disk_reserve.measure([tmp_path / "none"]) == Amount()


def test_an_open_unlinked_file_is_measured(tmp_path: Path):
    """In a process of its own: this one may have other such files."""
    with (tmp_path / "zeros").open("wb") as file:
        file.write(bytes(MIB))
        file.flush()
        holder = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=file)
    with holder:
        assert disk_reserve.unlinked(lambda: [holder.pid], tmp_path) == Amount()
        (tmp_path / "zeros").unlink()
        assert disk_reserve.unlinked(lambda: [holder.pid], tmp_path) == ONE


MAPS = """
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.write(file, bytes(1 << 20))
held = mmap.mmap(file, 1 << 20) if sys.argv[2] == "maps" else None
os.unlink(sys.argv[1])
os.close(file) if held is None else os.closerange(3, 64)
print("done", flush=True)
sys.stdin.read()
"""


OF_A_THREAD = """
import ctypes, os, sys, threading, time
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.write(file, bytes(1 << 20))
os.unlink(sys.argv[1])
def tell():
    while sys.argv[2] == "alone" and " Z " not in open("/proc/self/stat").read():
        time.sleep(0.01)
    print("done", flush=True)
    sys.stdin.read()
    os._exit(0)
threading.Thread(target=tell).start()
if sys.argv[2] == "alone":
    ctypes.CDLL(None).syscall({"x86_64": 60}.get(os.uname().machine, 93), 0)
"""


@pytest.mark.parametrize("how", ["alone", "with the first thread"])
def test_an_unlinked_file_is_measured_after_the_main_thread_ended(tmp_path: Path, how: str):
    command = [sys.executable, "-c", OF_A_THREAD, str(tmp_path / "zeros"), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"done\n"
        assert is_empty(Path(f"/proc/{holder.pid}/fd")) is (how == "alone")
        assert disk_reserve.unlinked(lambda: [holder.pid], tmp_path) == ONE


def is_empty(folder: Path) -> bool:
    """Returns whether the kernel shows nothing in a folder of a process."""
    try:
        return not [*folder.iterdir()]
    except OSError:
        return True


@pytest.mark.parametrize(("is_unlinked", "files"), [(True, 1), (False, 0)])
def test_an_unlinked_program_file_is_measured(tmp_path: Path, *, is_unlinked: bool, files: int):
    program = tmp_path / "program"
    shutil.copy("/bin/sleep", program)
    with subprocess.Popen([program, "100"]) as holder:
        while not (path := Path(f"/proc/{holder.pid}/exe").readlink()).is_relative_to(tmp_path):
            time.sleep(0.01)
        assert path == program
        if is_unlinked:
            program.unlink()
        assert disk_reserve.unlinked(lambda: [holder.pid], tmp_path).files == files
        holder.kill()


@needs_root
@pytest.mark.parametrize(("how", "held"), [("maps", ONE), ("closes", Amount())])
def test_a_file_without_a_name_that_is_only_in_memory_is_measured(tmp_path: Path, how: str, held: Amount):
    command = [sys.executable, "-c", MAPS, str(tmp_path / "zeros"), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"done\n"
        assert disk_reserve.unlinked(lambda: [holder.pid], tmp_path) == held


@pytest.mark.parametrize(("how", "is_unmeasured"), [("maps", True), ("closes", False)])
def test_an_unlinked_file_that_only_root_could_measure_is_reported_as_unmeasured(
    tmp_path, monkeypatch, how, is_unmeasured
):
    monkeypatch.setattr(unnamed_files, "_open_file_paths", _without_memory(unnamed_files._open_file_paths))
    command = [sys.executable, "-c", MAPS, str(tmp_path / "zeros"), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"done\n"
        seen = disk_reserve.unlinked(lambda: [holder.pid], tmp_path)
        assert seen == Amount(has_unmeasured=is_unmeasured)


def _without_memory(paths: Callable[[int], Iterable[str]]) -> Callable[[int], list[str]]:
    """Leaves out what the kernel shows to root alone."""
    return lambda pid: [path for path in paths(pid) if "/map_files/" not in path]


SENDS = """
import os, socket, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.write(file, bytes(1 << 20))
ends, others = socket.socketpair(type=getattr(socket, sys.argv[3])), socket.socketpair()
if sys.argv[2] != "keeps its name":
    os.unlink(sys.argv[1])
if sys.argv[2] != "closes":
    for number in range(3):
        ends[0].send(b"some text")
        socket.send_fds(ends[0], [b"x"], [file])
if sys.argv[2] == "nests":
    socket.send_fds(others[0], [b"x"], [ends[1].fileno()])
    ends[1].close()
os.close(file)
print("done", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("kind", ["SOCK_STREAM", "SOCK_DGRAM", "SOCK_SEQPACKET"])
@pytest.mark.parametrize(
    ("how", "held"),
    [("sends", ONE), ("nests", ONE), ("keeps its name", Amount()), ("closes", Amount())],
)
def test_unlinked_files_held_only_in_socket_messages_are_measured(tmp_path, how, held, kind):
    command = [sys.executable, "-c", SENDS, str(tmp_path / "zeros"), how, kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"done\n"
        assert disk_reserve.unlinked(lambda: [holder.pid], tmp_path) == held
        assert disk_reserve.unlinked(lambda: [holder.pid], tmp_path) == held, "the messages are still there"


def test_disk_loss_is_measured_from_the_most_free_space_of_the_last_hour(tmp_path: Path, monkeypatch):
    watch, free = DiskWatch(tmp_path, 0), iter([900, 950, 400, 300])
    now = iter(range(0, 120, 30))
    monkeypatch.setattr(disk_reserve, "disk_spaces", lambda *_: [DiskSpace("bytes", next(free), 1000, 350)])
    monkeypatch.setattr(time, "time", lambda: next(now))
    assert [watch.shortage() for _ in range(3)] == [None] * 3
    seen = watch.shortage()
    assert seen is not None
    assert (seen.hour_lost, seen.most_at) == (650, 30)


def test_a_folder_too_deep_to_measure_is_reported_as_hidden(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(25):
        os.mkdir("d" * 200)  # noqa: PTH102 (longer than a path may be)
        os.chdir("d" * 200)
    assert disk_reserve.measure([tmp_path]).is_hidden


def test_the_reserve_of_a_small_disk_is_a_twentieth_of_its_bytes_and_inodes(tmp_path: Path):
    for seen in disk_reserve.disk_spaces(tmp_path, 1 << 50):
        assert seen.reserve == pytest.approx(seen.whole / 20, abs=1)
    assert not any(seen.reserve for seen in disk_reserve.disk_spaces(tmp_path, 0))


def test_fruitless_disk_measurements_are_postponed_until_more_is_written(tmp_path: Path):
    watch = DiskWatch(tmp_path, 0)
    assert watch.is_due(room())
    watch.postpone(room(), duration=60)
    assert not watch.is_due(room())
    assert watch.is_due(room(free=90 * MIB))


def test_discarding_an_instance_keeps_only_its_record_and_follows_no_symlink(tmp_path: Path):
    home, cache, other = tmp_path / "home", tmp_path / "cache", tmp_path / "other"
    for folder in (home / "app", home / "tmp", home / "files", cache / "go", other):
        folder.mkdir(parents=True)
    (other / "kept").touch()
    (home / "record.json").touch()
    (cache / ".npm").symlink_to(other)
    files.discard(home, cache)
    assert sorted(path.name for path in tmp_path.rglob("*")) == [
        "cache",
        "home",
        "kept",
        "other",
        "record.json",
    ]


def test_discarding_a_run_keeps_only_the_mark_that_it_began(tmp_path: Path):
    once, other = tmp_path / "home" / "once", tmp_path / "other"
    (once / "deep").mkdir(parents=True)
    other.touch()
    for name in ("began", "ended", "zeros", "deep/zeros"):
        (once / name).write_bytes(bytes(MIB))
    (once / "link").symlink_to(other)
    files.discard(tmp_path / "home", tmp_path / "cache")
    assert [(path.name, path.stat().st_size) for path in once.iterdir()] == [("began", 0)]
    assert other.exists()


def test_discarding_a_run_keeps_its_recorded_result(tmp_path: Path):
    once = tmp_path / "home" / "once"
    once.mkdir(parents=True)
    (once / "ended").write_text("0 1 2")
    files.discard(tmp_path / "home", tmp_path / "cache")
    assert [path.read_text() for path in once.iterdir()] == ["0 1 2"]


@pytest.mark.parametrize(("free", "disk"), [(600 * MIB, "enough"), (400 * MIB, "short")])
async def test_readyz_tells_whether_the_disk_is_short(monkeypatch, free: int, disk: str):
    seen = DiskSpace("bytes", free, whole=10_000 * MIB, reserve=500 * MIB)
    monkeypatch.setattr(disk_reserve, "disk_spaces", lambda *_: [seen])
    async with make_world() as world:
        answer = await world.get("/readyz")
    assert (answer.status, answer["status"], answer["disk"]) == (200, "ready", disk)


@pytest.mark.parametrize(("most", "is_hidden"), [(2, True), (100_000, False)])
def test_too_many_open_files_to_check_are_reported_as_hidden(tmp_path, monkeypatch, most, is_hidden):
    monkeypatch.setattr(process_memory, "MAX_OPEN_FILES", most)
    assert unlinked(lambda: [os.getpid()], tmp_path).is_hidden is is_hidden


@pytest.mark.parametrize("is_measured", [True, False])
async def test_a_server_tells_whether_memory_is_measured(monkeypatch, is_measured: bool):
    monkeypatch.setattr(FakeEngine, "measures_memory", is_measured)
    async with make_world() as world:
        answer = await world.get("/readyz")
    assert answer["memory"] == ("measured" if is_measured else "not measured")
