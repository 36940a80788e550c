"""Package managers, Node and Pythons that a repository asks for, and that this machine may lack."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import time
from contextlib import nullcontext

import pytest

from tests.marks import nightly
from windlass.base.isolation.isolation import Isolation
from windlass.builders.builder import DISK_FULL_ERROR
from windlass.process.builds import NativeBuilder, tools
from windlass.process.builds.artifacts import COMPLETE_FILE, ArtifactStore, mark_complete
from windlass.process.builds.cache_limits import CacheLimits

pytestmark = pytest.mark.slow

NPM = """#!/bin/sh
case "$*" in *--prefix*) ;; *) exit 0 ;; esac
while [ "$1" != --prefix ]; do shift; done
mkdir -p "$2/node_modules/.bin"
cat > "$2/node_modules/.bin/pnpm" <<'END'
#!/bin/sh
echo "pnpm was told: $*"
touch "$(dirname "$0")/mark" 2>/dev/null
mkdir -p node_modules
END
chmod 755 "$2/node_modules/.bin/pnpm"
"""
PACKAGE = {
    "name": "shop",
    "scripts": {"start": "node server.js"},
    "dependencies": {"left-pad": "1"},
    "packageManager": "pnpm@9.1.0",
}
FILES = {"package.json": json.dumps(PACKAGE), "pnpm-lock.yaml": "lockfileVersion: '9.0'\n", "server.js": ""}


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Programs of a machine that has Node 20 with an npm of ours, and no other manager."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name, text in (("npm", NPM), ("node", "#!/bin/sh\necho v20.1.0\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr("windlass.process.builds.pip.find_uv", lambda tools: None)
    return folder


def mode_of(site, mode, **given):
    site.builder = NativeBuilder(site.kept, {}, Isolation(mode, site.kept), **given)


def toolchains(site):
    return [path for path in site.kept.glob("cache/toolchains/.deps/*") if path.is_dir()]


async def test_a_manager_that_the_machine_lacks_is_fetched_once_in_the_named_version(site, machine):
    mode_of(site, "off")
    await site.build(FILES, service="a")
    assert "Fetching pnpm-9.1.0 …" in site.log()
    assert "pnpm was told: install --frozen-lockfile --prod" in site.log()
    await site.build(FILES, service="b", org="another")
    assert "Fetching" not in site.log()
    assert "pnpm was told: install --frozen-lockfile --prod" in site.log()


MEETS = """#!/bin/sh
touch "MARKS/$$"
for _ in $(seq 600); do
    [ "$(ls MARKS | wc -l)" -ge BUILDS ] && mkdir -p node_modules && exit 0
    sleep 0.1
done
exit 1
"""
"""A manager that ends when so many builds are in it at once."""


@pytest.mark.parametrize("builds", [2, 3])
async def test_concurrent_builds_download_a_toolchain_once_and_share_it(site, machine, tmp_path, builds):
    """The first build still installs what the application needs when the others ask for the toolchain."""
    (tmp_path / "marks").mkdir()
    meets = MEETS.replace("MARKS", str(tmp_path / "marks")).replace("BUILDS", str(builds))
    waiting = NPM.replace(NPM[NPM.index("#!/bin/sh\necho") : NPM.index("END\nchmod")], meets)
    (machine / "npm").write_text(waiting)
    mode_of(site, "off")
    orders = [site.order(FILES, service=f"s{number}") for number in range(builds)]
    await asyncio.gather(*(site.builder.build(order, site.said.append) for order in orders))
    assert site.said.count("Fetching pnpm-9.1.0 …") == 1
    assert len(toolchains(site)) == 1


@pytest.mark.parametrize(("mode", "is_changed"), [("auto", False), *nightly(("off", True))])
async def test_with_isolation_a_build_cannot_modify_a_shared_toolchain(site, machine, mode, is_changed):
    mode_of(site, mode)
    if Isolation(mode, site.kept).mode != "off" and not Isolation(mode, site.kept).holds():
        pytest.skip("no isolation on this machine")
    await site.build(FILES)
    assert [*site.kept.glob("cache/toolchains/.deps/*/node_modules/.bin/mark")] != [] or not is_changed
    assert is_changed or [*site.kept.glob("cache/toolchains/.deps/*/node_modules/.bin/mark")] == []


@pytest.mark.parametrize(
    ("limits", "days", "stays"),
    [
        (CacheLimits(days=30), 29, True),
        (CacheLimits(days=30), 31, False),
        (CacheLimits(most_bytes=0), 0, False),
    ],
)
async def test_a_toolchain_that_no_build_has_used_for_long_or_has_no_room_is_erased(
    site, machine, limits, days, stays
):
    mode_of(site, "off", toolchain_limits=limits)
    await site.build(FILES, service="a")
    (made,) = toolchains(site)
    os.utime(made / COMPLETE_FILE, (0, time.time() - days * 24 * 3600))
    await site.builder.sweep([])
    assert (toolchains(site) == [made]) is stays
    assert stays or not [*made.parent.iterdir()]
    await site.build(FILES, service="b")
    assert ("Fetching" in site.log()) is not stays


async def test_a_build_that_uses_a_toolchain_again_keeps_it(site, machine):
    mode_of(site, "off", toolchain_limits=CacheLimits(days=30))
    await site.build(FILES, service="a")
    (made,) = toolchains(site)
    os.utime(made / COMPLETE_FILE, (0, 0))
    await site.build(FILES, service="b")
    await site.builder.sweep([])
    assert toolchains(site) == [made]


@pytest.mark.parametrize("is_held", [True, *nightly(False)])
async def test_a_toolchain_that_a_build_uses_is_not_erased_under_it(site, machine, is_held):
    """The control: without the build it is."""
    mode_of(site, "off", toolchain_limits=CacheLimits(most_bytes=0))
    await site.build(FILES, service="a")
    (made,) = toolchains(site)
    store = ArtifactStore(site.kept / "cache", "toolchains")
    with store.depending("pnpm-9.1.0") if is_held else nullcontext():
        await site.builder.sweep([])
        assert made.exists() is is_held


async def test_a_sweep_continues_while_toolchains_vanish(site, machine, monkeypatch):
    """An operator who needs room deletes the caches, and need not know when a sweep is under way."""
    mode_of(site, "off", toolchain_limits=CacheLimits(days=30))
    await site.build(FILES, service="a")

    def measure(path):
        shutil.rmtree(site.kept / "cache")
        return 0

    monkeypatch.setattr("windlass.process.builds.toolchains.size_of", measure)
    await site.builder.sweep([])
    monkeypatch.undo()
    monkeypatch.setenv("PATH", f"{machine}:/usr/bin:/bin")
    await site.build(FILES, service="b")
    assert "Fetching" in site.log()


async def test_leftovers_of_a_killed_fetch_or_sweep_are_erased(site, machine):
    mode_of(site, "off")
    await site.build(FILES, service="a")
    top = site.kept / "cache" / "toolchains"
    leftovers = [top / ".gone-0123", top / ".deps" / "node-20-0123456789ab"]
    for leftover in leftovers:
        leftover.mkdir()
    await site.builder.sweep([])
    assert len(toolchains(site)) == 1
    assert not any(leftover.exists() for leftover in leftovers)


async def test_without_toolchain_downloads_a_missing_toolchain_is_reported_at_once(site, machine):
    mode_of(site, "off", fetches=False)
    said = await site.refused(FILES)
    assert said.startswith(
        "Install pnpm 9.1.0 on the machine that runs Windlass: `npm install --global pnpm@9.1.0`. "
        "pnpm-lock.yaml asks for it"
    )
    assert "Installing" not in site.log()


async def test_a_failed_fetch_leaves_nothing_and_is_not_repeated_at_once(site, machine):
    (machine / "npm").write_text("#!/bin/sh\necho 'npm error no network' >&2\nexit 1\n")
    mode_of(site, "off")
    assert "no network" in await site.refused(FILES)
    assert toolchains(site) == []
    said = await site.refused(FILES)
    assert "no network" in said
    assert "Builds try that again in 10 min, or after a restart of Windlass." in said
    assert "Fetching" not in site.log()


@pytest.mark.parametrize(
    ("failing", "said"),
    [
        ("echo 'npm error ENOSPC: no space left on device' >&2; exit 1", f"^{DISK_FULL_ERROR}"),
        ("kill -9 $$", "was ended by signal 9"),
    ],
)
async def test_a_fetch_for_which_room_or_memory_was_missing_is_repeated_at_once(
    site, machine, failing, said, monkeypatch
):
    """The control is the test above: other failures are remembered."""
    monkeypatch.setattr(tools, "has_little", lambda _: True)
    (machine / "npm").write_text(f"#!/bin/sh\n{failing}\n")
    mode_of(site, "off")
    refused = await site.refused(FILES)
    assert re.search(said, refused)
    assert "Builds try that again" not in refused
    (machine / "npm").write_text(NPM)
    await site.build(FILES)
    assert "Fetching pnpm-9.1.0 …" in site.log()


async def test_an_unavailable_node_version_is_replaced_by_the_installed_one_with_a_notice(site, machine):
    mode_of(site, "off", fetches=False)
    files = {"package.json": json.dumps({"dependencies": {"x": "1"}}), "server.js": ""}
    await site.build({**files, ".nvmrc": "18\n"})
    assert "Install Node 18 with npm on the machine that runs Windlass: .nvmrc asks for Node 18" in site.log()
    await site.build({**files, ".nvmrc": "v20.11.1\n"}, service="other")
    assert "Install Node" not in site.log()


async def test_a_failure_with_another_node_begins_with_the_node_to_install(site, machine):
    mode_of(site, "off", fetches=False)
    said = await site.refused({**FILES, ".nvmrc": "18\n"})
    assert said.startswith("Install Node 18 with npm")
    assert "Install pnpm 9.1.0" in said


async def test_a_project_that_needs_another_python_is_refused_before_anything_is_installed(site):
    site.builder = NativeBuilder(site.kept, {"UV_PYTHON_DOWNLOADS": "never"})
    project = '[project]\nname = "shop"\nversion = "1"\nrequires-python = ">=3.99"\ndependencies = ["x"]\n'
    said = await site.refused({"pyproject.toml": project, "main.py": ""})
    assert said.startswith("Install Python >=3.99 on the machine that runs Windlass")
    assert "pyproject.toml asks for it" in said
    assert "UV_PYTHON_DOWNLOADS is never" in said
    assert "Installing" not in site.log()


@pytest.mark.nightly
async def test_a_failure_with_another_python_begins_with_the_python_to_install(site):
    site.builder = NativeBuilder(site.kept, {"UV_PYTHON_DOWNLOADS": "never", "PIP_NO_INDEX": "1"})
    said = await site.refused({"requirements.txt": "x\n", ".python-version": "3.99\n", "main.py": ""})
    assert said.startswith("Install Python 3.99 on the machine that runs Windlass (`uv python install 3.99`)")
    assert "Could not find a version that satisfies the requirement x" in said


async def test_a_build_without_the_requested_python_version_logs_advice_and_uses_an_available_one(site):
    site.builder = NativeBuilder(site.kept, {"UV_PYTHON_DOWNLOADS": "never"})
    artifact = await site.build({".python-version": "3.99\n", "main.py": "print('runs')"})
    assert "Install Python 3.99" in site.log()
    assert site.run(artifact) == "runs"


def python_at(folder, version, code='exec /usr/bin/python3 "$@"'):
    """Makes a Python that says it has this version, and runs code with another one."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / f"python{version.rpartition('.')[0]}"
    program.write_text(f'#!/bin/sh\ncase "$*" in *platform*) echo {version};; *) {code};; esac\n')
    program.chmod(0o755)


@pytest.mark.parametrize(
    "place", [".pyenv/versions/3.8.7", ".local/share/uv/python/cpython-3.8.7-linux-x86_64-gnu"]
)
@pytest.mark.nightly
async def test_a_python_that_the_operator_has_installed_with_uv_or_pyenv_is_used(site, tmp_path, place):
    python_at(tmp_path / "home" / place, "3.8.7")
    site.builder = NativeBuilder(site.kept, {"HOME": str(tmp_path / "home"), "UV_PYTHON_DOWNLOADS": "never"})
    artifact = await site.build({".python-version": "3.8\n", "main.py": "print('runs')"})
    assert "Install Python" not in site.log()
    assert site.run(artifact) == "runs"


async def test_a_python_that_pip_is_too_new_for_is_not_used(site, tmp_path):
    python_at(tmp_path / ".pyenv" / "versions" / "3.6.1", "3.6.1", code="exit 1")
    site.builder = NativeBuilder(site.kept, {"HOME": str(tmp_path), "UV_PYTHON_DOWNLOADS": "never"})
    artifact = await site.build({".python-version": "3.6\n", "main.py": "print('runs')"})
    assert "Install Python 3.6 " in site.log()
    assert site.run(artifact) == "runs"


@pytest.mark.nightly
async def test_the_nearest_python_is_used_where_the_named_one_is_absent(site, tmp_path):
    for version in ("3.8.7", "3.9.1"):
        python_at(tmp_path / ".pyenv" / "versions" / version, version)
    site.builder = NativeBuilder(site.kept, {"HOME": str(tmp_path), "UV_PYTHON_DOWNLOADS": "never"})
    said = await site.refused({**project_for("<3.8"), "main.py": ""})
    assert said.startswith("Install Python <3.8 "), "a range of the project is kept"
    await site.build({".python-version": "3.7\n", "main.py": ""})
    assert "Install Python 3.7 " in site.log()
    assert "and Python 3.9.1 is there" in site.log()


def test_a_toolchain_version_is_not_confused_with_a_prerelease_of_it(tmp_path):
    store = ArtifactStore(tmp_path, "toolchains")
    for name in ("pnpm-10.0.0-rc.1", "pnpm-10.0.0-rc"):
        with store.depending(name) as (folder, _):
            mark_complete(folder)
    with store.depending("pnpm-10.0.0") as (folder, is_present):
        assert not is_present
        mark_complete(folder)
    with store.depending("pnpm-10.0.0") as (found, is_present):
        assert (found, is_present) == (folder, True)


async def test_a_node_range_that_cannot_be_fetched_is_logged_and_the_installed_node_used(site, machine):
    mode_of(site, "off")
    package = {"dependencies": {"x": "1"}, "engines": {"node": "^16"}}
    await site.build({"package.json": json.dumps(package), "server.js": ""})
    assert "Install Node ^16 with npm" in site.log()
    assert "package.json (engines) asks for Node ^16, and Node 20.1.0 was used" in site.log()
    assert "Fetching node" not in site.log()


def project_for(range):
    return {"pyproject.toml": f'[project]\nname = "a"\nversion = "1"\nrequires-python = "{range}"\n'}


async def test_a_range_without_a_python_that_can_be_fetched_is_refused(site):
    site.builder = NativeBuilder(site.kept, {})
    said = await site.refused({**project_for("<3.9"), "main.py": ""})
    assert said.startswith("Install Python <3.9 on the machine that runs Windlass")
    assert "no Python from 3.9 to 3.14 is in this range" in said
    assert "Fetching" not in site.log()


async def test_python_3_9_on_the_machine_is_found(site, machine):
    (machine / "python3.9").write_text("#!/bin/sh\necho 3.9.18\n")
    (machine / "python3.9").chmod(0o755)
    site.builder = NativeBuilder(site.kept, {"UV_PYTHON_DOWNLOADS": "never"})
    await site.build({**project_for(">=3.8,<3.10"), "main.py": ""})
    assert "Install Python" not in site.log()
