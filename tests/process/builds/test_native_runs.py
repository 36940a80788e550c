"""A native build installs dependencies once, happens whole or not at all, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import platform
import shutil
import signal
import subprocess
import sys
import uuid
from contextlib import suppress
from pathlib import Path

import pytest

from tests.home_processes import processes_of
from tests.marks import nightly
from tests.process.builds.native_sites import PYPROJECT, wheel, write
from windlass.base.isolation import isolation
from windlass.base.isolation.isolation import Isolation
from windlass.base.subprocesses import end_all_of
from windlass.builders.builder import BuildError
from windlass.builders.remedies import failure
from windlass.process.builds import NativeBuilder, tools
from windlass.process.builds.cells import Cells
from windlass.process.builds.pip import own_python
from windlass.process.builds.tools import Tools

pytestmark = pytest.mark.slow


async def test_dependencies_that_have_not_changed_are_not_installed_again(site):
    files = {
        "requirements.txt": "-r more.txt",
        "more.txt": "./wheels/tiny-1-py3-none-any.whl",
        "main.py": "import tiny; print(tiny.VALUE)",
    }
    first = site.order(files)
    wheel(first.source / "wheels")
    one = await site.build(order=first)
    second = site.order({**files, "other.py": ""})
    shutil.copytree(site.top / "built" / "service" / "key1" / "app" / "wheels", second.source / "wheels")
    two = await site.build(order=second)
    assert "used as they were installed before" in site.log()
    assert one.environment["VIRTUAL_ENV"] == two.environment["VIRTUAL_ENV"]

    third = site.order(files)
    wheel(third.source / "wheels", code="VALUE = 6\n")
    three = await site.build(order=third)
    assert [site.run(each) for each in (one, two, three)] == ["5", "5", "6"]

    await site.builder.prune("service", [second.key])
    assert site.run(two) == "5"
    assert len([path for path in site.kept.glob("service/.deps/*") if path.is_dir()]) == 1
    await site.builder.prune("service", [])
    assert site.left() == set()


def test_the_reason_of_a_failed_install_is_an_error_line_and_no_notice():
    notes = (
        "npm error gyp info using node@20.20.2 | linux | x64",
        "npm error gyp http GET https://nodejs.org/headers.tar.gz",
        "npm error node-pre-gyp WARN Pre-built binaries not installable",
        "npm error (Use `node --trace-warnings ...` to show where the warning was created)",
    )
    assert ": gyp ERR! configure error. " in failure(
        "npm ci", 1, [*notes, "npm error gyp ERR! configure error"]
    )
    assert ": gyp: no info. " in failure("npm ci", 1, ["npm error gyp: no info"])  # the other side of it


async def test_a_failed_install_shows_the_message_of_the_tool(site):
    said = await site.refused(
        {"requirements.txt": "./broken-1-py3-none-any.whl", "broken-1-py3-none-any.whl": "x", "main.py": ""}
    )
    assert "pip install failed (exit code 1)" in said
    assert "broken-1-py3-none-any.whl" in said
    assert str(site.kept) not in said


async def test_build_tools_see_no_environment_variables_of_the_server_except_registries(site):
    order = site.order({"Procfile": "web: true", "requirements.txt": "./it"})
    write(
        order.source / "it",
        {
            "pyproject.toml": PYPROJECT,
            "shop.py": "",
            "backend.py": "import os\nprint('KNOWN', sorted(os.environ.items()))\nraise SystemExit(3)\n",
        },
    )
    site.builder = NativeBuilder(
        site.kept,
        {
            "WINDLASS_KEY": "hidden",
            "AWS_SECRET": "hidden",
            "HTTPS_PROXY": "http://proxy:1",
            "PIP_RETRIES": "0",
        },
    )
    with pytest.raises(BuildError):
        await site.build(order=order)
    (known,) = (line for line in site.said if "KNOWN" in line)
    assert "hidden" not in known
    assert "HTTPS_PROXY" in known
    assert "PIP_RETRIES" in known


async def test_concurrent_builds_with_the_same_key_build_once(site):
    order = site.order({"main.py": "print(1)"})
    again = site.order({"main.py": "print(2)"}, key=order.key)
    one, two = await asyncio.gather(site.build(order=order), site.build(order=again))
    assert one == two == await site.builder.find("service", order.key)
    assert site.left() == {order.key}
    assert await site.builder.find("service", "other") is None
    assert await site.builder.find("other", order.key) is None


async def test_two_servers_may_build_the_same_artifact_at_once(site):
    one, two = site.order({"main.py": "print(1)"}), site.order({"main.py": "print(1)"}, key="key1")
    other = NativeBuilder(site.kept, {})
    first, second = await asyncio.gather(site.builder.build(one, print), other.build(two, print))
    assert first == second
    assert site.left() == {"key1"}


async def test_service_ids_and_keys_with_path_separators_stay_inside_the_artifact_folder(site):
    artifact = await site.build({"main.py": "print(1)"}, service="../../up", key="a/../../b:c")
    assert Path(artifact.ref).is_relative_to(site.kept)
    assert await site.builder.find("../../up", "a/../../b:c") == artifact
    await site.builder.prune("../../up", ["a/../../b:c"])
    assert site.run(artifact) == "1"


SLOW = "import os, time\nopen(os.environ['HOME'] + '/started', 'w').close()\ntime.sleep(60)\n"


def slow(site):
    """One whose dependencies take longer than anybody waits."""
    order = site.order({"main.py": "", "requirements.txt": "./it"})
    write(order.source / "it", {"pyproject.toml": PYPROJECT, "backend.py": SLOW, "shop.py": ""})
    return order


async def until(true, seconds=60.0):
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110 (it happens in another process)
            await asyncio.sleep(0.02)


def at_work(site):
    return list(site.kept.glob("service/.new-*/home/started"))


async def test_a_cancelled_build_leaves_neither_files_nor_programs(site):
    task = asyncio.create_task(site.build(order=slow(site)))
    await until(lambda: at_work(site))
    home = at_work(site)[0].parent
    await site.builder.sweep(())
    assert processes_of(home), "a sweep leaves alone what is being built"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert site.left() == set()
    assert processes_of(home) == []


ANOTHER = """
import asyncio, sys
from pathlib import Path
from windlass.base.isolation.isolation import Isolation
from windlass.builders.builder import Order
from windlass.process.builds import NativeBuilder
names = dict(service="service", org="o", name="n", deployment="d", key="k", commit="c")
order = Order(source=Path(sys.argv[2]), **names)
isolation = Isolation(sys.argv[3], Path(sys.argv[1]))
asyncio.run(NativeBuilder(Path(sys.argv[1]), {}, isolation).build(order, print))
"""


async def test_a_daemon_that_an_install_leaves_behind_is_ended(site):
    order = site.order({"main.py": "", "requirements.txt": "./it"})
    code = """
        import subprocess
        subprocess.Popen(["sleep", "60"], start_new_session=True, stdout=-3, stderr=-3)
        raise SystemExit(1)
        """
    write(order.source / "it", {"pyproject.toml": PYPROJECT, "backend.py": code, "shop.py": ""})
    with pytest.raises(BuildError):
        await site.build(order=order)
    await until(lambda: not sleepers(site))


@pytest.mark.parametrize("how", ["", "setsid "])
async def test_a_step_ends_even_if_a_background_process_holds_its_output(site, how):
    said: list[str] = []
    home = site.kept / "home"
    home.mkdir(parents=True)
    cells = Cells(Isolation("auto", site.kept), "org", home, home)
    tools = Tools({}, home, site.kept / "cache" / "org", said.append, {}, cells)
    await tools.run(["/bin/sh", "-c", f"{how}sleep 60 & echo done"], cwd=home, title="sh")
    assert said == ["done"]
    await until(lambda: not sleepers(site))


async def test_the_version_of_a_program_is_cached_until_its_file_changes(site):
    home = site.kept / "home"
    home.mkdir(parents=True)
    cells = Cells(Isolation("auto", site.kept), "org", home, home)
    facts: dict[tuple[str, ...], str] = {}
    program = home / "program"

    async def version() -> str | None:
        tools = Tools({}, home, site.kept / "cache" / "org", print, facts, cells)
        return await tools.ask_once([program, "--version"], program)

    def write_program(text: str) -> None:
        (home / "next").write_text(f"#!/bin/sh\n{text}\n")
        (home / "next").chmod(0o755)
        (home / "next").rename(program)

    asked = f"echo >> {home}/asked"
    write_program(f"{asked}; exit 1")
    assert [await version(), await version()] == [None, None]
    write_program(f"{asked}; echo 1.0")
    assert [await version(), await version()] == ["1.0", "1.0"]
    write_program(f"{asked}; echo 2.0")
    assert await version() == "2.0"
    assert (home / "asked").read_text() == "\n" * 4


async def test_no_file_of_a_build_changes_what_an_installed_python_tells_all_builds(site):
    """The install command of an organization could otherwise choose the Python of all others."""
    home = site.kept / "home"
    home.mkdir(parents=True)
    cells = Cells(Isolation("auto", site.kept), "org", home, home)
    tools = Tools({}, home, site.kept / "cache" / "org", print, {}, cells)
    (home / "platform.py").write_text("def python_version():\n    return 'forged'\n")
    hostile = home / ".local" / "lib" / f"python3.{sys.version_info[1]}" / "site-packages"
    hostile.mkdir(parents=True)
    (hostile / "usercustomize.py").write_text("print('forged')\n")
    words = [own_python(), "-c", "import platform; print(platform.python_version())"]
    told = await tools.ask(words, cwd=home)
    assert told is not None
    assert "forged" in told  # the files have an effect where they are seen
    assert await tools.ask_once(words, words[0]) == platform.python_version()


async def test_a_long_answer_of_a_program_is_not_remembered(site):
    home = site.kept / "home"
    home.mkdir(parents=True)
    cells = Cells(Isolation("auto", site.kept), "org", home, home)
    facts: dict[tuple[str, ...], str] = {}
    tools = Tools({}, home, site.kept / "cache" / "org", print, facts, cells)
    words = ["/bin/sh", "-c", "seq 5000"]
    assert len(await tools.ask_once(words, words[0]) or "") > 5000
    assert facts == {}


@pytest.mark.parametrize("sees_all", [True, False])
async def test_background_processes_are_killed_before_results_of_a_step_are_read(site, monkeypatch, sees_all):
    """It could put a link in the place of a folder between our look and our copy."""
    present = isolation.findings
    monkeypatch.setattr(
        isolation, "findings", lambda *ids: {**present(*ids), **({"processes": False} if sees_all else {})}
    )
    assert await daemons_left(site) == []


async def daemons_left(site):
    """Runs a step that leaves a daemon in a session of its own, without variables, whose parent has ended."""
    mark = f"6{uuid.uuid4().int % 10**12}"
    home = site.kept / "home"
    home.mkdir(parents=True)
    cells = Cells(Isolation("auto", site.kept), "org", home, home)
    tools = Tools({}, home, site.kept / "cache" / "org", print, {}, cells)
    daemon = f"(setsid env -i /bin/sh -c 'echo up > up; exec sleep {mark}' >/dev/null 2>&1 &)"
    script = f"{daemon}; until test -e up; do :; done"
    await tools.run(["/bin/sh", "-c", script], cwd=home, title="sh")
    return [
        int(folder.name)
        for folder in Path("/proc").glob("[0-9]*")
        if mark.encode() in command_of(folder).split(b"\0")
    ]


def command_of(folder):
    with suppress(OSError):
        return (folder / "cmdline").read_bytes()
    return b""


def sleepers(site):
    """Processes that still run with a home below this folder."""
    wanted = b"HOME=" + bytes(site.kept)
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if any(word.startswith(wanted) for word in (each / "environ").read_bytes().split(b"\0")):
                found.append(each)
    return found


@pytest.mark.parametrize("mode", ["auto", *nightly("off")])
async def test_a_build_that_was_killed_is_no_artifact_and_leaves_no_programs(site, mode):
    """Programs in a cell end with their server; a sweep ends the others."""
    order = slow(site)
    killed = subprocess.Popen(
        [sys.executable, "-c", ANOTHER, str(site.kept), str(order.source), mode], stdout=subprocess.DEVNULL
    )
    home = None
    try:
        await until(lambda: at_work(site))
        home = at_work(site)[0].parent
        await site.builder.sweep(())
        assert processes_of(home), "a sweep leaves alone what another process builds"
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert await site.builder.find("service", "k") is None
        if mode != "off":
            await until(lambda: not processes_of(home))
        else:
            assert processes_of(home)

        await site.builder.sweep(())
        assert site.left() == set()
        await until(lambda: not processes_of(home))
    finally:
        killed.kill()
        killed.wait()
        if home:
            end_all_of(home)


async def test_an_incomplete_build_is_not_found_and_is_repeated(site):
    order = site.order({"main.py": "print(1)"})
    artifact = await site.build(order=order)
    (Path(artifact.ref) / "artifact.json").write_text("{")
    assert await site.builder.find("service", order.key) is None
    again = await site.build({"main.py": "print(2)"}, key=order.key)
    assert site.run(again) == "2"
    assert site.left() == {order.key}


async def test_an_artifact_that_another_version_recorded_is_not_replaced(site):
    order = site.order({"main.py": "print(1)"})
    artifact = await site.build(order=order)
    record = Path(artifact.ref) / "artifact.json"
    record.write_text('{"form": 2}')
    for deed in (site.builder.find("service", order.key), site.build({"main.py": "print(2)"}, key=order.key)):
        with pytest.raises(BuildError, match="another version of Windlass"):
            await deed
    assert record.read_text() == '{"form": 2}'
    assert (Path(artifact.ref) / "app" / "main.py").read_text() == "print(1)"


async def test_sweep_prune_and_discard_delete_only_what_they_are_given(site):
    kept = await site.build({"main.py": "print(1)"}, key="kept")
    await site.build({"main.py": ""}, key="old")
    await site.build({"main.py": ""}, key="kept", service="gone")
    await site.builder.sweep(())
    assert await site.services() == {"service", "gone"}
    await site.builder.sweep(["gone"])
    assert site.left() == {"kept", "old"}
    assert not (site.kept / "gone").exists()
    await site.builder.prune("service", ["kept"])
    assert site.left() == {"kept"}
    assert site.run(kept) == "1"
    await site.builder.discard("service")
    await site.builder.discard("service")
    assert {path.name for path in site.kept.iterdir()} - {"etc"} == {"cache"}


async def test_builds_that_were_set_aside_are_restored_unchanged(site, tmp_path):
    kept = await site.build({"main.py": "print(1)"}, key="kept")
    await site.builder.set_aside("service", tmp_path / "aside")
    assert await site.services() == set()
    assert await site.builder.find("service", "kept") is None
    await site.builder.put_back("service", tmp_path / "aside")
    assert await site.builder.find("service", "kept") == kept
    assert site.run(kept) == "1"


async def test_a_full_disk_is_reported_in_plain_words(site, monkeypatch):
    monkeypatch.setattr(tools, "has_little", lambda _: True)
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    said = await site.refused(
        {
            "requirements.txt": "./it",
            "main.py": "",
            "it/pyproject.toml": PYPROJECT,
            "it/shop.py": "",
            "it/backend.py": "with open('/dev/full', 'w') as full: full.write('x')",
        }
    )
    assert "the disk of the machine that runs Windlass is full" in said


@pytest.mark.parametrize("count", [1500, 30])
async def test_a_symlink_chain_that_is_too_long_fails_the_build_with_advice(site, count):
    order = site.order({"Procfile": "web: cat l0\n", f"l{count}": "end"})
    for number in range(count):
        (order.source / f"l{number}").symlink_to(f"l{number + 1}")
    if count < 40:
        assert await site.build(order=order)
        return
    with pytest.raises(BuildError, match="shorten paths and chains of symbolic links"):
        await site.build(order=order)
    assert site.left() == set()
