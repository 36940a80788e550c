"""The machine replaces files and folders while a service runs, and new ones appear. A service sees nothing
of them that it did not see before."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.needs import needs_root
from windlass.base.isolation import calls, mounts
from windlass.base.isolation import settings_copy as module
from windlass.base.isolation.cell import Cell
from windlass.base.isolation.settings_copy import settings_copies

pytestmark = needs_root


def cell(folder: Path, private: list[str]) -> Cell:
    hosts = folder / "hosts"
    hosts.write_text("10.0.0.1 neighbour\n")
    (folder / "tmp").mkdir()
    return Cell(
        identity="user",
        uid=1_900_000_000,
        inner=0,
        name="windlass-test",
        mounts=True,
        processes=False,
        landlock=0,
        readable=[],
        writable=[],
        temporary=str(folder / "tmp"),
        hidden=[],
        most_processes=0,
        most_memory=0,
        largest_file=0,
        private=private,
        network={"kind": "cell", "hosts": str(hosts), "resolvers": ["10.0.0.2"]},  # type: ignore[typeddict-item]
    )


def inside(cell: Cell, settings: Path, replace: Callable[[], None], read: str) -> str:
    """Returns what a program in a cell reads after the machine has replaced a file. `settings`: its /etc."""
    hear, tell = os.pipe()
    ready, go = os.pipe(), os.pipe()

    def work() -> None:
        calls.unshare(calls.CLONE_NEWNS)
        calls.set_attributes("/", 0, private=True)
        subprocess.run(["mount", "--rbind", str(settings), "/etc"], check=True)
        calls.unshare(calls.CLONE_NEWNS)
        mounts.arrange(cell)
        os.write(ready[1], b"+")
        os.read(go[0], 1)
        os.write(tell, Path(read).read_bytes() or b"(nothing)")

    child = os.fork()
    if not child:
        calls.run_to_exit(work, lambda error: os.write(tell, repr(error).encode()), 0)
    for end in (tell, ready[1]):
        os.close(end)
    os.read(ready[0], 1)
    replace()
    os.write(go[1], b"+")
    with open(hear) as said:  # noqa: PTH123
        text = said.read()
    os.waitpid(child, 0)
    for end in (ready[0], *go):
        os.close(end)
    return text


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder that stands for /etc of a machine."""
    etc = tmp_path / "etc"
    etc.mkdir()
    for name in ("hosts", "resolv.conf", "passwd", "group", "windlass.toml"):
        (etc / name).write_text("as before\n")
    return etc


def replaced(path: Path) -> None:
    new = path.with_suffix(".new")
    new.write_text("replaced")
    new.rename(path)


def copied(folder: Path, machine: Path) -> dict[str, str]:
    return {"/etc": settings_copies(str(folder / "copy"), [str(machine)])[str(machine)]}


OWN = {"hosts": "10.0.0.1 neighbour", "resolv.conf": "nameserver 10.0.0.2", "windlass.toml": "Error"}
"""What a program reads: names and servers of its environment; a private file cannot be opened."""


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("stays", [True, False])
def test_a_covered_settings_file_stays_covered_when_the_machine_replaces_it(tmp_path, machine, name, stays):
    (machine / "windlass.toml").chmod(0o600)
    it = cell(tmp_path, ["/etc/windlass.toml"])
    if stays:
        it["settings"] = copied(tmp_path, machine)
    text = inside(it, machine, lambda: replaced(machine / name), f"/etc/{name}")
    assert (OWN[name] in text) is stays
    assert ("replaced" in text) is not stays


@pytest.fixture
def top() -> Iterator[Path]:
    """A folder at the top of the machine."""
    folder = Path(tempfile.mkdtemp(dir="/"))
    yield folder
    for made in folder.parent.glob(f"{folder.name}*"):
        shutil.rmtree(made)


def appear(folder: Path) -> None:
    folder.mkdir()
    (folder / "secret").write_text("secret")


def replace_folder(folder: Path) -> None:
    folder.rename(f"{folder}.before")
    appear(folder)


@pytest.mark.parametrize("what", ["appears", "is replaced"])
@pytest.mark.parametrize("is_ordinary", [True, False])
def test_a_service_in_a_user_namespace_sees_no_new_top_level_folder_of_the_machine(
    tmp_path, machine, top, what, is_ordinary
):
    it = cell(tmp_path, [])
    if is_ordinary:
        it |= {"identity": "namespace", "uid": 1000, "name": ""}
    changed = {"appears": Path(f"{top}.new"), "is replaced": top}[what]
    change = {"appears": appear, "is replaced": replace_folder}[what]
    text = inside(it, machine, lambda: change(changed), f"{changed}/secret")
    assert text.partition("Error")[0] == ("FileNotFound" if is_ordinary else "secret")


@pytest.mark.parametrize("is_copy", [True, False])
def test_a_copy_of_etc_contains_no_private_file_that_appears_later(tmp_path, machine, is_copy):
    it = cell(tmp_path, [])
    (machine / "folder").mkdir()
    (machine / "folder" / "for all").write_text("for all")
    (machine / "link").symlink_to("folder/for all")
    (machine / "folder" / "closed").write_text("closed")
    (machine / "folder" / "closed").chmod(0o600)
    if is_copy:
        it["settings"] = copied(tmp_path, machine)
    seen = [
        inside(it, machine, lambda: (machine / "later").write_text("later"), f"/etc/{name}")
        for name in ("link", "folder/closed", "later")
    ]
    assert [text.partition("Error")[0] in {"FileNotFound", "Permission"} for text in seen] == [
        False,
        is_copy,
        is_copy,
    ]


def test_a_copy_of_etc_is_updated_when_files_of_the_machine_change(tmp_path, machine, monkeypatch):
    monkeypatch.setattr(module, "_CACHE_SECONDS", -1)
    copy = Path(copied(tmp_path, machine)["/etc"])
    before = (copy / "hosts").stat().st_ino
    (machine / "hosts").write_text("changed")
    (machine / "group").unlink()
    (machine / "passwd").chmod(0o640)
    (machine / "resolv.conf").unlink()
    (machine / "resolv.conf").symlink_to("/run/resolv.conf")
    copied(tmp_path, machine)
    assert sorted(entry.name for entry in copy.iterdir()) == ["hosts", "resolv.conf", "windlass.toml"]
    assert (copy / "hosts").read_text() == "changed"
    assert (copy / "hosts").stat().st_ino == before, "what covers a file in a running service stays"
    assert (copy / "resolv.conf").readlink() == Path("/run/resolv.conf")


def test_a_file_system_mounted_below_etc_is_visible_to_services(tmp_path, machine):
    (machine / "certificates").mkdir()
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    (mounted / "one").write_text("of a mount")
    subprocess.run(["mount", "--bind", str(mounted), str(machine / "certificates")], check=True)
    try:
        it = cell(tmp_path, [])
        it["settings"] = copied(tmp_path, machine)
        text = inside(it, machine, lambda: None, "/etc/certificates/one")
    finally:
        subprocess.run(["umount", str(machine / "certificates")], check=True)
    assert text == "of a mount"
