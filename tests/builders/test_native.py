"""A commit becomes a folder that the process engine can start, with nothing but what this machine has."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from tests.builders.conftest import processes_of
from windlass.base.isolation.isolation import Isolation
from windlass.base.subprocesses import end_all_with
from windlass.builders.builder import BuildError, Order
from windlass.builders.native import NativeBuilder
from windlass.builders.native.cells import Cells
from windlass.builders.native.tools import Tools, failure

needs_node = pytest.mark.skipif(
    not (shutil.which("node") and shutil.which("npm")), reason="Node is not installed"
)

# A build system that needs nothing from anywhere: it writes the wheel itself.
BACKEND = """
import zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "shop-1-py3-none-any.whl"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        wheel.write("shop.py")
        for file, text in {
            "METADATA": "Metadata-Version: 2.1\\nName: shop\\nVersion: 1\\n",
            "WHEEL": "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
            "entry_points.txt": "[console_scripts]\\nserve = shop:main\\n",
            "RECORD": "",
        }.items():
            wheel.writestr(f"shop-1.dist-info/{file}", text)
    return name
"""
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "shop"
version = "1"
[project.scripts]
serve = "shop:main"
"""


def write(top, files):
    for name, content in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(content).lstrip("\n"))


def wheel(path, name="tiny", version="1", code="VALUE = 5\n"):
    """A package that is there already, so that nothing has to be fetched or built."""
    info = f"{name}-{version}.dist-info"
    path.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path / f"{name}-{version}-py3-none-any.whl", "w") as made:
        made.writestr(f"{name}.py", code)
        made.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        made.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        made.writestr(f"{info}/RECORD", "")


class Site:
    """A builder, trees to build, and what came of them."""

    def __init__(self, top):
        self.top = top
        top.mkdir(exist_ok=True)
        self.kept = top / "built"
        self.builder = NativeBuilder(self.kept, {})
        self.said = []
        self.count = 0

    def order(self, files, **given):
        self.count += 1
        source = self.top / f"source{self.count}"
        source.mkdir()
        write(source, files)
        made = {"service": "service", "org": "org", "name": "shop", "deployment": "d", "commit": "c"}
        return Order(**{**made, "key": f"key{self.count}", "source": source, **given})

    async def build(self, files=None, order=None, **given):
        self.said.clear()
        return await self.builder.build(order or self.order(files, **given), self.said.append)

    async def refused(self, files, **given):
        with pytest.raises(BuildError) as caught:
            await self.build(files, **given)
        assert self.left() == set(), "nothing half-made stays"
        return str(caught.value)

    def left(self):
        found = (path for path in self.kept.glob("*/*") if path.parent.name != "cache")
        return {path.name for path in found if path.name != ".deps"} | {
            path.name for path in self.kept.glob("*/.deps/*")
        }

    def run(self, artifact, **more):
        """As an engine would: in a copy of the code, with the artifact's environment and nothing else."""
        copy = self.top / "instances" / str(len(list(self.top.glob("instances/*"))))
        shutil.copytree(Path(artifact.ref) / "app", copy, symlinks=True)
        env = {**artifact.environment, **more}
        ended = subprocess.run(
            artifact.command, cwd=copy / artifact.workdir, env=env, capture_output=True, text=True, timeout=30
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.strip()

    def log(self):
        return "\n".join(self.said)


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


# What people deploy.


async def test_a_procfile_says_what_runs(site):
    artifact = await site.build(
        {
            "Procfile": "# what runs\nrelease: python migrate.py\nweb: python main.py --port $PORT\n",
            "main.py": "import sys; print(sys.argv[1:])",
        }
    )
    assert site.run(artifact, PORT="1234") == "['--port', '1234']"
    assert artifact.command[:2] == ("/bin/sh", "-c")
    assert "the process web of the Procfile" in site.log()


async def test_a_static_site_needs_no_more_than_a_line(site):
    artifact = await site.build({"Procfile": "web: python -m http.server $PORT", "index.html": "hello"})
    assert artifact.command[2].startswith("exec /")
    assert artifact.command[2].endswith("python -m http.server $PORT")
    python = artifact.command[2].split()[1]
    assert (
        subprocess.run([python, "-c", "print(1)"], env=artifact.environment, capture_output=True).stdout
        == b"1\n"
    )


async def test_a_dockerfile_with_requirements_runs_in_an_environment_of_its_own(site):
    order = site.order(
        {
            "Dockerfile": """
                FROM python:3-slim
                ENV GREETING="hello ${NAME:-you}" SETTINGS=/app/conf/settings.ini
                WORKDIR /app
                RUN apt-get update && apt-get install -y libpq5
                COPY requirements.txt .
                RUN pip install --no-cache-dir -r requirements.txt
                COPY . .
                USER nobody
                EXPOSE 8000
                CMD ["python3", "/app/main.py", "--conf=/app/conf/settings.ini"]
                """,
            "requirements.txt": "# what it needs\n./wheels/tiny-1-py3-none-any.whl\n",
            "conf/settings.ini": "from the file",
            "main.py": """
                import os, sys, tiny
                conf = open(sys.argv[1].partition("=")[2]).read()
                own = os.path.samefile(os.environ["VIRTUAL_ENV"], sys.prefix)
                print(tiny.VALUE, os.environ["GREETING"], conf, own)
                """,
        }
    )
    wheel(order.source / "wheels")
    artifact = await site.build(order=order)

    assert site.run(artifact) == "5 hello you from the file True"
    assert artifact.ports == (8000,)
    assert "Dockerfile line 4: RUN apt-get update && apt-get install -y libpq5: not executed" in site.log()
    assert "Dockerfile line 6: RUN pip install --no-cache-dir -r requirements.txt: not executed" in site.log()
    assert "Dockerfile line 8: USER nobody: not executed" in site.log()
    assert "Successfully installed tiny-1" in site.log()
    assert str(site.kept) not in site.log()


async def test_a_project_is_installed_and_its_script_runs(site):
    artifact = await site.build(
        {"pyproject.toml": PYPROJECT, "backend.py": BACKEND, "shop.py": "def main(): print('serving')"}
    )
    assert site.run(artifact) == "serving"
    assert not (Path(artifact.ref) / "app" / "build").exists()


@needs_node
async def test_package_json_says_what_runs_and_what_it_needs(site):
    artifact = await site.build(
        {
            "package.json": """{"name": "shop", "version": "1.0.0", "scripts": {"start": "node server.js"},
                "dependencies": {"price": "file:./price"}}""",
            "price/package.json": '{"name": "price", "version": "1.0.0"}',
            "price/index.js": "module.exports = 7",
            "server.js": "console.log(require('price'), process.env.NODE_ENV)",
        }
    )
    assert site.run(artifact) == "7 production"
    assert "npm" not in " ".join(artifact.command)


@needs_node
async def test_scripts_of_the_package_run_where_its_code_is(site):
    artifact = await site.build(
        {
            "package.json": """{"name": "shop", "version": "1.0.0", "main": "made.js",
                "scripts": {"start": "node made.js", "postinstall": "node make.js"},
                "dependencies": {"price": "file:./price"}}""",
            "price/package.json": '{"name": "price", "version": "1.0.0"}',
            "price/index.js": "module.exports = 7",
            "make.js": "require('fs').writeFileSync('made.js', 'console.log(require(\"price\"))')",
        }
    )
    assert site.run(artifact) == "7"


async def test_a_script_runs_where_the_image_would_have_it(site):
    artifact = await site.build(
        {
            "Dockerfile": """
                FROM debian
                WORKDIR /srv/shop
                COPY . .
                WORKDIR data
                ENTRYPOINT ["/srv/shop/start.sh"]
                CMD ["/srv/shop/data/greeting"]
                """,
            "start.sh": '#!/bin/sh\nexec cat "$1"\n',
            "data/greeting": "hello",
        }
    )
    assert site.run(artifact) == "hello"
    assert artifact.workdir == "data"


@pytest.mark.parametrize("last", ["/elsewhere", "missing", "../..", "leads", "main.py"])
async def test_a_later_workdir_counts_only_if_it_is_a_folder_of_the_repository(site, last):
    order = site.order(
        {"Dockerfile": f"FROM x\nWORKDIR /app\nWORKDIR {last}\nCMD python main.py\n", "main.py": "print(1)"}
    )
    (order.source / "leads").symlink_to("/etc")
    artifact = await site.build(order=order)
    assert artifact.workdir == ""
    assert site.run(artifact) == "1"


@pytest.mark.parametrize("copies", ["COPY . /app", 'ADD ["./", "/app/"]', "WORKDIR /tmp\nCOPY . ../app"])
async def test_a_copy_of_everything_says_where_the_code_would_be(site, copies):
    dockerfile = f"FROM x\n{copies}\nRUN make /app\nCMD python /app/main.py\n"
    artifact = await site.build({"Dockerfile": dockerfile, "main.py": "print(1)"})
    assert site.run(artifact) == "1"


async def test_a_program_of_a_run_that_is_missing_is_said_with_its_line(site):
    dockerfile = "FROM python\nRUN pip install no-such-server\nCMD no-such-server --port $PORT\n"
    said = await site.refused({"Dockerfile": dockerfile})
    assert "line 2: RUN pip install no-such-server" in said


async def test_a_dependency_that_needs_compiling_is_refused_with_a_way_out(site):
    said = await site.refused(
        {
            "Dockerfile": """
                FROM golang:1.22 AS build
                WORKDIR /src
                COPY . .
                RUN go build -o /out/server .
                FROM scratch
                COPY --from=build /out/server /server
                CMD ["/server"]
                """,
            "main.go": "package main",
        }
    )
    assert "/server" in said
    assert "line 4: RUN go build -o /out/server" in said
    assert "engine docker" in said
    assert "Dockerfile line 6: COPY --from=build /out/server /server: not executed" in site.log()


async def test_where_nothing_says_how_to_start_it_is_said_what_to_add(site):
    said = await site.refused({"notes.txt": "x"})
    assert "Procfile" in said
    assert "web: python main.py" in said
    assert "notes.txt" in said


@pytest.mark.parametrize(
    ("files", "printed"),
    [
        ({"main.py": "print('main')", "app.py": ""}, "main"),
        ({"app.py": "print('app')"}, "app"),
        ({"manage.py": "import sys; print(sys.argv[1:])"}, "['runserver', '--noreload', '0.0.0.0:8000']"),
    ],
)
async def test_a_usual_name_is_enough(site, files, printed):
    assert site.run(await site.build(files)) == printed


async def test_the_folder_named_is_the_one_that_is_built(site):
    files = {"shop/main.py": "print('shop')", "main.py": "print('top')"}
    assert site.run(await site.build(files, root="/shop/")) == "shop"
    assert "root_path" in await Site(site.top / "other").refused({"main.py": ""}, root="../..")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('CMD ["python", "dist/main.py"]', "there is no file dist/main.py"),
        ('COPY one.py /srv/\nCMD ["python", "/srv/one.py"]', "there is no file /srv/one.py"),
        ("COPY src/ .\nCMD python main.py", "made by what is not executed here: line 2: COPY src/ ."),
        ("CMD no-such-runtime app.jar", "no-such-runtime is neither"),
        ("USER x", "neither CMD nor ENTRYPOINT"),
        ("CMD [1]", "Dockerfile line 2: "),
    ],
)
async def test_an_unavailable_step_of_a_dockerfile_is_named_with_its_line(site, text, why):
    assert why in await site.refused({"Dockerfile": f"FROM x\n{text}\n", "one.py": ""})


async def test_a_stage_or_dockerfile_that_is_not_there_is_said_with_the_name_of_its_field(site):
    files = {"Dockerfile": "FROM x AS one\nCMD true\n"}
    assert "docker_target_build_stage" in await site.refused(files, stage="two")
    assert "dockerfile_path" in await site.refused(files, dockerfile="docker/Dockerfile")
    assert "dockerfile_path" in await site.refused(files, dockerfile="../../Dockerfile")
    assert "dockerfile_path" in await site.refused(files, dockerfile="a" * 1000)


async def test_build_arguments_and_stages_are_followed(site):
    files = {
        "docker/shop.dockerfile": """
            FROM x AS base
            ARG GREETING=hello
            ENV SAID=$GREETING
            FROM base AS one
            CMD echo one $SAID $PORT
            FROM base AS two
            CMD echo two
            """
    }
    order = {"dockerfile": "docker/shop.dockerfile", "stage": "one", "arguments": {"GREETING": "welcome"}}
    artifact = await site.build(files, **order)
    assert site.run(artifact, PORT="80") == "one welcome 80"


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside", "way/../../../outside"])
@pytest.mark.parametrize("dockerfile", ["", "FROM x\nWORKDIR /app\nCOPY . .\nCMD python main.py\n"])
async def test_nothing_outside_of_the_tree_comes_in_by_a_link(site, target, dockerfile):
    (site.top / "outside").write_text("secret")
    files = {"main.py": "print('fine')", "way/x": ""} | ({"Dockerfile": dockerfile} if dockerfile else {})
    order = site.order(files)
    (order.source / "leads").symlink_to(target)
    (order.source / "inside").symlink_to("main.py")
    artifact = await site.build(order=order)
    app = Path(artifact.ref) / "app"
    assert not os.path.lexists(app / "leads")
    assert (app / "inside").read_text() == "print('fine')"
    assert "leads is a symbolic link that leads out of the folder" in site.log()
    assert site.run(artifact) == "fine"


async def test_a_file_that_says_what_to_do_is_not_read_through_a_link(site):
    (site.top / "Procfile").write_text("web: echo secret")
    order = site.order({"main.py": "print('fine')"})
    (order.source / "Procfile").symlink_to("../Procfile")
    assert site.run(await site.build(order=order)) == "fine"


@pytest.mark.parametrize("line", ["../outside", "/etc", "-r ../more.txt", "-c /etc/hosts", "x @ file:///etc"])
async def test_requirements_from_outside_of_the_tree_are_refused(site, line):
    said = await site.refused({"requirements.txt": line, "main.py": ""})
    assert "outside of the folder" in said


async def test_a_path_means_the_machine_where_there_is_no_image(site):
    artifact = await site.build({"Procfile": "web: echo /etc/hosts", "etc/hosts": ""})
    assert site.run(artifact) == "/etc/hosts"


async def test_a_path_of_the_image_means_the_same_file_here(site):
    artifact = await site.build(
        {
            "Dockerfile": """
                FROM x
                WORKDIR /app
                COPY . /app
                ENV LIBRARY=/app/lib:/usr/lib PATH=/app/tools:$PATH
                CMD greet /app/lib/name && echo $LIBRARY http://host/app/x
                """,
            "lib/name": "Ada",
            "tools/greet": '#!/bin/sh\necho hello $(cat "$1")\n',
        }
    )
    (Path(artifact.ref) / "app" / "tools" / "greet").chmod(0o755)
    assert site.run(artifact).split("\n") == ["hello Ada", "lib:/usr/lib http://host/app/x"]
    assert "ENV LIBRARY: /app/lib:/usr/lib is lib:/usr/lib here" in site.log()


async def test_settings_of_tools_are_no_dependencies(site):
    files = {
        "pyproject.toml": "[tool.ruff]\nline-length = 100\n",
        "package.json": '{"devDependencies": {"prettier": "3"}}',
        "main.py": "print(1)",
    }
    artifact = await site.build(files)
    assert site.run(artifact) == "1"
    assert "VIRTUAL_ENV" not in artifact.environment


@needs_node
async def test_npm_is_only_between_where_there_is_more_to_a_script(site):
    package = (
        '{"name": "shop", "version": "1.0.0", "scripts": {"prestart": "echo before", "start": "echo now"}}'
    )
    assert site.run(await site.build({"package.json": package})) == "before\nnow"
    docker = {"Dockerfile": 'FROM node\nWORKDIR /app\nCOPY . .\nCMD ["npm", "run", "serve"]\n'}
    serving = '{"scripts": {"serve": "echo $PORT"}}'
    artifact = await site.build({"package.json": serving, **docker})
    assert "npm" not in " ".join(artifact.command)
    assert site.run(artifact, PORT="80") == "80"


# Dependencies.


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


def test_the_reason_of_a_failed_install_is_an_error_and_no_note_beside_it():
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


async def test_a_failed_install_says_what_the_tool_said(site):
    said = await site.refused(
        {"requirements.txt": "./broken-1-py3-none-any.whl", "broken-1-py3-none-any.whl": "x", "main.py": ""}
    )
    assert "pip install failed (exit code 1)" in said
    assert "broken-1-py3-none-any.whl" in said
    assert str(site.kept) not in said


async def test_tools_know_nothing_of_our_environment_but_the_registries(site):
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


# Once, whole, or not at all.


async def test_the_same_key_is_never_built_twice(site):
    order = site.order({"main.py": "print(1)"})
    again = site.order({"main.py": "print(2)"}, key=order.key)
    one, two = await asyncio.gather(site.build(order=order), site.build(order=again))
    assert one == two == await site.builder.find("service", order.key)
    assert site.left() == {order.key}
    assert await site.builder.find("service", "other") is None
    assert await site.builder.find("other", order.key) is None


async def test_two_that_know_nothing_of_each_other_may_build_the_same(site):
    one, two = site.order({"main.py": "print(1)"}), site.order({"main.py": "print(1)"}, key="key1")
    other = NativeBuilder(site.kept, {})
    first, second = await asyncio.gather(site.builder.build(one, print), other.build(two, print))
    assert first == second
    assert site.left() == {"key1"}


async def test_ids_of_any_form_stay_within_the_folder(site):
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


async def until(true, seconds=20.0):
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
from windlass.builders.builder import Order
from windlass.builders.native import NativeBuilder
names = dict(service="service", org="o", name="n", deployment="d", key="k", commit="c")
order = Order(source=Path(sys.argv[2]), **names)
asyncio.run(NativeBuilder(Path(sys.argv[1]), {}).build(order, print))
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
async def test_a_tool_has_ended_although_what_it_left_holds_its_output(site, how):
    said: list[str] = []
    home = site.kept / "home"
    home.mkdir(parents=True)
    cells = Cells(Isolation("auto", site.kept), "org", home, home)
    tools = Tools({}, home, site.kept / "cache" / "org", said.append, set(), cells)
    await tools.run(["/bin/sh", "-c", f"{how}sleep 60 & echo done"], cwd=home, what="sh")
    assert said == ["done"]
    await until(lambda: not sleepers(site))


def sleepers(site):
    """Whatever still runs with a home below this folder."""
    wanted = b"HOME=" + bytes(site.kept)
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if any(word.startswith(wanted) for word in (each / "environ").read_bytes().split(b"\0")):
                found.append(each)
    return found


async def test_a_build_that_was_killed_is_no_artifact_and_is_swept_with_its_programs(site):
    order = slow(site)
    killed = subprocess.Popen(
        [sys.executable, "-c", ANOTHER, str(site.kept), str(order.source)], stdout=subprocess.DEVNULL
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
        assert processes_of(home)

        await site.builder.sweep(())
        assert site.left() == set()
        await until(lambda: not processes_of(home))
    finally:
        killed.kill()
        killed.wait()
        if home:
            end_all_with("HOME", str(home))


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


async def test_sweep_and_discard_erase_what_they_are_told_and_nothing_else(site):
    kept = await site.build({"main.py": "print(1)"}, key="kept")
    await site.build({"main.py": ""}, key="old")
    await site.build({"main.py": ""}, key="kept", service="gone")
    await site.builder.sweep(())
    assert set(await site.builder.services()) == {"service", "gone"}
    await site.builder.sweep(["gone"])
    assert site.left() == {"kept", "old"}
    assert not (site.kept / "gone").exists()
    await site.builder.prune("service", ["kept"])
    assert site.left() == {"kept"}
    assert site.run(kept) == "1"
    await site.builder.discard("service")
    await site.builder.discard("service")
    assert {path.name for path in site.kept.iterdir()} == {"cache"}


async def test_the_cache_of_versions_that_had_one_for_all_is_swept_and_no_other(site):
    await site.build({"main.py": ""})
    own = {path.name for path in (site.kept / "cache").iterdir()}
    assert own
    for name in ("pip", "uv", "npm"):
        (site.kept / "cache" / name / "wheels").mkdir(parents=True)
        (site.kept / "cache" / name / "wheels" / "a").touch()
    await site.builder.sweep(())
    assert {path.name for path in (site.kept / "cache").iterdir()} == own
    assert list(site.kept.glob(".gone-*")) == []


async def test_a_service_that_is_set_aside_comes_back_as_it_was(site, tmp_path):
    kept = await site.build({"main.py": "print(1)"}, key="kept")
    await site.builder.set_aside("service", tmp_path / "aside")
    assert set(await site.builder.services()) == set()
    assert await site.builder.find("service", "kept") is None
    await site.builder.put_back("service", tmp_path / "aside")
    assert await site.builder.find("service", "kept") == kept
    assert site.run(kept) == "1"


async def test_a_full_disk_is_said_in_plain_words(site):
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
