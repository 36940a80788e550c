"""Each folder of the data directory belongs to one service or to Windlass alone, as the manual's table says,
and no program of a service may write what a program of another one sees."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import permutations
from pathlib import Path

import pytest

from tests.faults.inside import Inside, Service, inside
from tests.faults.programs import PYTHON
from tests.needs import needs_root
from tests.process.builds.test_builds_apart import crossings
from windlass.base.isolation.cell import Cell
from windlass.base.isolation.isolation import Isolation
from windlass.operate import disk

pytestmark = [pytest.mark.slow, needs_root]

MANUAL = Path(__file__).parents[2] / "docs" / "isolation.md"
ROW = re.compile(r"^\| (`[^|]+`) \| (a service|Windlass) \|", re.MULTILINE)
PLACES = {"<service>": r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<organization>": r"[0-9a-f-]{36}"}
BUILT = {
    "built/requirements.txt": "--no-index\n",
    "built/main.py": "import time\ntime.sleep(100000)\n",
    "built/Procfile": f"web: {PYTHON} -I -S main.py\n",
}
"""An application with build steps."""


def owners() -> Mapping[tuple[str, ...], str]:
    """Returns the owner of each folder of the table, by the parts of its path."""
    return {
        tuple(path.split("/")): owner
        for paths, owner in ROW.findall(MANUAL.read_text())
        for path in re.findall(r"`([^`]+)`", paths)
    }


def folders(data: Path) -> Iterator[tuple[Path, str]]:
    """Yields each folder with its owner: an empty text if the table does not name it."""
    table = owners()

    def below(folder: Path, depth: int) -> Iterator[tuple[Path, str]]:
        for path in sorted(child for child in folder.iterdir() if child.is_dir() and not child.is_symlink()):
            parts = path.relative_to(data).parts
            fit = [row for row in table if len(row) >= depth and all(map(_fits, row, parts))]
            whole = [row for row in fit if len(row) == depth]
            if whole or not fit:
                yield path, table[whole[0]] if whole else ""
            else:
                yield from below(path, depth + 1)

    return below(data, 1)


def _fits(word: str, name: str) -> bool:
    return re.fullmatch(PLACES.get(word, re.escape(word)), name) is not None


def test_the_folder_table_of_the_manual_covers_each_folder_that_doctor_measures():
    named = {"/".join(row[: part.count("/") + 1]) for row in owners() for part in disk._PARTS}
    assert set(disk._PARTS) <= named


async def deployed(there: Inside) -> list[Service]:
    """Two services of one environment, and one of another organization."""
    there.code.put({**BUILT})
    services: list[Service] = []
    for is_other in (False, False, True):
        if is_other:
            await there.make_organization()
        services.append(await there.application("built"))
        assert (await services[-1].do("deploy"))["status"] == "SUCCEEDED"
    return services


async def test_each_folder_belongs_to_one_service_or_to_windlass(tmp_path, monkeypatch):
    cells: dict[str, list[Cell]] = defaultdict(list)
    make = Isolation.cell

    def noted(self, name, **given):
        made = make(self, name, **given)
        assert made is not None
        cells[name.removeprefix("builds of ")].append(made)
        return made

    monkeypatch.setattr(Isolation, "cell", noted)
    async with inside(tmp_path) as there:
        services = await deployed(there)
        data = tmp_path / "data"
        assert [str(path.relative_to(data)) for path, owner in folders(data) if not owner] == []
        # Negative control: a folder that the table does not name.
        (data / "builds" / "cache" / "pip").mkdir()
        assert [path.name for path, owner in folders(data) if not owner] == ["pip"]
    for one, other in permutations([service.id for service in services], 2):
        assert crossings(cells[one], cells[other]) == set()
        assert not {cell["uid"] for cell in cells[one]} & {cell["uid"] for cell in cells[other]}
    for service in services:
        assert {cell["uid"] for cell in cells[service.id]} != {0}
        # Negative control: steps and instances of one service do.
        shared = {
            Path(path).relative_to(data).parts[0] for path in crossings(cells[service.id], cells[service.id])
        }
        assert {"builds", "run"} <= shared
