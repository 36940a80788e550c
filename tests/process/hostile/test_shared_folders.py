"""Windlass works in a volume while the program that it belongs to changes it at every moment."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from msgspec import structs

from tests.engines.stations import wanted
from tests.needs import needs_root
from windlass.engines.engine import EngineError
from windlass.engines.workload import Artifact, Volume
from windlass.process import files, open_folders

pytestmark = needs_root

OWNER = 1_900_000_123
_MOST = 400
_CALLS = {
    "open",
    "os.chmod",
    "os.chown",
    "os.link",
    "os.listdir",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.scandir",
    "os.symlink",
    "os.truncate",
    "os.utime",
}


class Moment:
    """Runs a function of the test just before one of the calls."""

    def __init__(self) -> None:
        self._left = -1
        self.came = False
        """True if there was such a call."""
        self._act: Callable[[], None] = lambda: None
        sys.addaudithook(self._hear)

    def _hear(self, event: str, _: object) -> None:
        if self._left < 0 or event not in _CALLS:
            return
        self._left -= 1
        if self._left < 0:
            self.came = True
            self._act()

    @contextmanager
    def before_call(self, number: int, act: Callable[[], None]) -> Iterator[None]:
        self._left, self._act, self.came = number, act, False
        try:
            yield
        finally:
            self._left = -1


MOMENT = Moment()


class Place:
    """A volume with a service that may change it, and a folder of the machine beside."""

    def __init__(self, folder: Path) -> None:
        self.volumes, self.home, self.cache = (folder / name for name in ("volumes", "home", "cache"))
        self.outside, self.built = folder / "outside", folder / "built"
        for each in (self.volumes, self.home, self.cache, self.outside, self.built / "app"):
            each.mkdir(parents=True)
        (self.outside / "canary").write_text("as it was")
        self.wanted = structs.replace(
            wanted(Artifact(kind="native", ref=str(self.built), command=("x",))),
            volumes=(Volume(name="data", mount="/app/data"),),
        )
        self.volume = files.volume_folder(self.volumes, self.wanted.service, "data")

    def make(self) -> None:
        files.make(self.home, self.wanted, self.volumes, self.cache, OWNER)

    def turn(self) -> None:
        """The attack: everything in the volume leads out of it from now on."""
        if not self.volume.is_dir():
            return
        for name in ("deep", "canary"):
            path = self.volume / name
            if path.is_symlink():
                continue
            if path.is_dir():
                path.rename(self.volume / "moved")
            else:
                path.unlink(missing_ok=True)
            path.symlink_to(self.outside if name == "deep" else self.outside / "canary")

    def seen(self) -> list[tuple[str, int, int, bytes]]:
        paths = sorted([self.outside, *self.outside.rglob("*")])
        facts = [(path, path.lstat()) for path in paths]
        return [(p.name, s.st_uid, s.st_mode, p.read_bytes() if p.is_file() else b"") for p, s in facts]


def brings_content(place: Place) -> None:
    (place.built / "app" / "data" / "deep").mkdir(parents=True)
    for name in ("canary", "deep/new"):
        (place.built / "app" / "data" / name).write_text("of the attacker")


def brings_files(place: Place) -> None:
    (place.volume / "deep").mkdir(parents=True)
    (place.volume / "deep" / "canary").write_text("of the service")
    paths = ("/app/data/deep/canary", "/app/data/canary", "/app/data/deep/new/x")
    place.wanted = structs.replace(place.wanted, files=dict.fromkeys(paths, b"of the attacker"))


def led_out(folder: Path, bring: Callable[[Place], None]) -> int | None:
    """The number of the first call before which the attack works."""
    for number in range(_MOST):
        place = Place(folder / str(number))
        bring(place)
        before = place.seen()
        with MOMENT.before_call(number, place.turn), suppress(EngineError, OSError):
            place.make()
        if place.seen() != before:
            return number
        shutil.rmtree(folder / str(number))
        if not MOMENT.came:
            assert number > 10
            return None
    raise AssertionError("it makes more calls than were tried")


@pytest.mark.parametrize("bring", [brings_content, brings_files])
def test_measuring_a_volume_that_changes_concurrently_never_leaves_the_volume(tmp_path, bring):
    assert led_out(tmp_path, bring) is None


@pytest.mark.parametrize("bring", [brings_content, brings_files])
def test_following_symlinks_would_lead_out_of_a_volume(tmp_path, bring, monkeypatch):
    monkeypatch.setattr(open_folders, "FOLDER_FLAGS", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    assert led_out(tmp_path, bring) is not None


def test_each_volume_belongs_to_the_user_of_its_service_also_a_later_one(tmp_path):
    place = Place(tmp_path)
    brings_content(place)
    place.make()
    later = Volume(name="later", mount="/app/later")
    place.wanted = structs.replace(place.wanted, volumes=(*place.wanted.volumes, later))
    place.make()
    for folder in place.volume.parent.iterdir():
        assert {path.lstat().st_uid for path in (folder, *folder.rglob("*"))} == {OWNER}


def test_symlinks_in_an_application_that_lead_to_each_other_are_refused(tmp_path):
    place = Place(tmp_path)
    (place.built / "app" / "loop").symlink_to("loop")
    place.wanted = structs.replace(place.wanted, files={"/app/loop/config": b"x"})
    with pytest.raises(EngineError, match="it leads out of its folder"):
        place.make()


def test_a_symlink_in_an_application_cannot_overwrite_the_engines_records(tmp_path):
    place = Place(tmp_path)
    app = place.built / "app"
    (app / "deep").mkdir()
    (app / "deep" / "up").symlink_to("..")
    (app / "out").symlink_to("deep/up/..")
    (place.home / "record.json").write_text("of the engine")
    place.wanted = structs.replace(place.wanted, files={"/app/out/record.json": b"of the attacker"})
    with pytest.raises(EngineError, match="it leads out of its folder"):
        place.make()
    assert (place.home / "record.json").read_text() == "of the engine"
