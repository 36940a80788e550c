"""A native build finds out what to install and what to run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import needs
from tests.process.builds.native_sites import PYPROJECT, Site, wheel
from windlass.builders.builder import BuildSettings

needs_node = needs("node", "npm")

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


async def test_the_web_process_of_a_procfile_is_the_start_command(site):
    artifact = await site.build(
        {
            "Procfile": "# what runs\nrelease: python migrate.py\nweb: python main.py --port $PORT\n",
            "main.py": "import sys; print(sys.argv[1:])",
        }
    )
    assert site.run(artifact, PORT="1234") == "['--port', '1234']"
    assert artifact.command[:2] == ("/bin/sh", "-c")
    assert "the process web of the Procfile" in site.log()


@needs_node
async def test_the_build_script_of_a_package_is_run_after_its_installation(site):
    makes = "require('fs').writeFileSync('made', 'yes')"
    reads = "console.log(require('fs').readFileSync('made', 'utf8'))"
    scripts = _package(start="node server.js", build="node make.js")
    artifact = await site.build({"package.json": scripts, "server.js": reads, "make.js": makes})
    assert site.run(artifact) == "yes"


@needs_node
@pytest.mark.parametrize(
    "scripts",
    [
        {"start": "node server.js"},
        {"start": "npm run build && node server.js", "build": "node make.js"},
        {"prestart": "npm run build", "start": "node server.js", "build": "node make.js"},
        {"start": "node server.js", "build": "node make.js", "postinstall": "npm run build"},
    ],
)
async def test_a_build_script_that_postinstall_or_start_already_runs_is_not_run_again(site, scripts):
    await site.build({"package.json": _package(**scripts), "make.js": "", "server.js": ""})
    assert "Building" not in site.log()


def _package(**scripts):
    return json.dumps({"name": "shop", "version": "1.0.0", "scripts": scripts})


async def test_a_folder_with_only_static_files_and_a_procfile_is_built_and_runs_the_procfile_command(site):
    artifact = await site.build({"Procfile": "web: python -m http.server $PORT", "index.html": "hello"})
    assert artifact.command[2].startswith("exec /")
    assert artifact.command[2].endswith("python -m http.server $PORT")
    python = artifact.command[2].split()[1]
    assert (
        subprocess.run([python, "-c", "print(1)"], env=artifact.environment, capture_output=True).stdout
        == b"1\n"
    )


async def test_a_dockerfile_with_requirements_is_built_natively_with_its_own_virtual_environment(site):
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


async def test_an_application_without_requirements_sees_no_packages_of_the_machine(site):
    code = "import sys; print([path for path in sys.path if path.endswith('-packages')])"
    own = [os.path.realpath(sys.executable), "-c", code]
    assert subprocess.run(own, capture_output=True, text=True, check=True).stdout.strip() != "[]"
    assert site.run(await site.build({"main.py": code})) == "[]"


async def test_a_python_project_is_installed_and_its_console_script_is_the_start_command(site):
    artifact = await site.build(
        {"pyproject.toml": PYPROJECT, "backend.py": BACKEND, "shop.py": "def main(): print('serving')"}
    )
    assert site.run(artifact) == "serving"
    assert not (Path(artifact.ref) / "app" / "build").exists()


@needs_node
async def test_package_json_determines_dependencies_and_the_start_command(site):
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
async def test_package_scripts_run_in_the_folder_of_the_package(site):
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


async def test_the_working_directory_of_a_dockerfile_is_mapped_into_the_build(site):
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
async def test_a_copy_instruction_maps_image_paths_to_the_build(site, copies):
    dockerfile = f"FROM x\n{copies}\nRUN make /app\nCMD python /app/main.py\n"
    artifact = await site.build({"Dockerfile": dockerfile, "main.py": "print(1)"})
    assert site.run(artifact) == "1"


async def test_a_missing_program_of_a_run_is_reported_with_its_line(site):
    dockerfile = "FROM python\nRUN pip install no-such-server\nCMD no-such-server --port $PORT\n"
    said = await site.refused({"Dockerfile": dockerfile})
    assert said.startswith("Add no-such-server to requirements.txt, or deploy")
    assert "in line 2 (RUN pip install no-such-server)" in said


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
        },
        settings=BuildSettings(builder="DOCKERFILE"),
    )
    assert "Dockerfile makes /server in line 4 (RUN go build -o /out/server .)" in said
    assert "Docker engine" in said


async def test_without_a_start_command_the_message_names_what_to_add(site):
    said = await site.refused({"notes.txt": "x"})
    assert "Procfile" in said
    assert "web: command" in said
    assert "notes.txt" in said


@pytest.mark.parametrize(
    ("files", "printed"),
    [
        ({"main.py": "print('main')", "app.py": ""}, "main"),
        ({"app.py": "print('app')"}, "app"),
        ({"manage.py": "import sys; print(sys.argv[1:])"}, "['runserver', '--noreload', '0.0.0.0:8000']"),
    ],
)
async def test_a_conventional_main_file_needs_no_start_command(site, files, printed):
    assert site.run(await site.build(files)) == printed


async def test_root_path_selects_the_folder_that_is_built(site):
    files = {"shop/main.py": "print('shop')", "main.py": "print('top')"}
    assert site.run(await site.build(files, root="/shop/")) == "shop"
    assert "root_path" in await Site(site.top / "other").refused({"main.py": ""}, root="../..")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('CMD ["python", "dist/main.py"]', "there is no file dist/main.py"),
        ('CMD ["perl", "dist/main.pl"]', "there is no file dist/main.pl"),
        ('COPY one.py /srv/\nCMD ["python", "/srv/one.py"]', "there is no file /srv/one.py"),
        ("COPY src/ .\nCMD python main.py", "made by what is not executed here: line 2: COPY src/ ."),
        ("CMD no-such-runtime app.jar", "no-such-runtime is neither"),
        ("USER x", "neither CMD nor ENTRYPOINT"),
        ("CMD [1]", "Dockerfile line 2: "),
    ],
)
async def test_an_unavailable_step_of_a_dockerfile_is_named_with_its_line(site, text, why):
    assert why in await site.refused({"Dockerfile": f"FROM x\n{text}\n", "one.py": ""})


async def test_a_missing_stage_or_dockerfile_is_reported_with_the_name_of_its_field(site):
    files = {"Dockerfile": "FROM x AS one\nCMD true\n"}
    assert "docker_target_build_stage" in await site.refused(files, stage="two")
    assert "dockerfile_path" in await site.refused(files, dockerfile="docker/Dockerfile")
    assert "dockerfile_path" in await site.refused(files, dockerfile="../../Dockerfile")
    assert "dockerfile_path" in await site.refused(files, dockerfile="a" * 1000)


async def test_build_arguments_and_the_target_stage_of_a_dockerfile_are_applied(site):
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
async def test_symlinks_out_of_the_source_tree_are_not_copied(site, target, dockerfile):
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


async def test_a_procfile_that_is_a_symlink_out_of_the_tree_is_not_read(site):
    (site.top / "Procfile").write_text("web: echo secret")
    order = site.order({"main.py": "print('fine')"})
    (order.source / "Procfile").symlink_to("../Procfile")
    assert site.run(await site.build(order=order)) == "fine"


@pytest.mark.parametrize("line", ["../outside", "/etc", "-r ../more.txt", "-c /etc/hosts", "x @ file:///etc"])
async def test_requirements_outside_the_source_tree_are_refused(site, line):
    said = await site.refused({"requirements.txt": line, "main.py": ""})
    assert "outside of the folder" in said


async def test_absolute_paths_in_a_procfile_are_not_mapped_into_the_build(site):
    artifact = await site.build({"Procfile": "web: echo /etc/hosts", "etc/hosts": ""})
    assert site.run(artifact) == "/etc/hosts"


async def test_absolute_image_paths_in_a_dockerfile_are_mapped_into_the_build(site):
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


async def test_tool_settings_in_manifests_are_not_dependencies(site):
    files = {
        "pyproject.toml": "[tool.ruff]\nline-length = 100\n",
        "package.json": '{"devDependencies": {"prettier": "3"}}',
        "main.py": "print(1)",
    }
    artifact = await site.build(files)
    assert site.run(artifact) == "1"
    assert "VIRTUAL_ENV" not in artifact.environment


@needs_node
async def test_npm_runs_the_start_script_only_if_it_has_hooks(site):
    package = (
        '{"name": "shop", "version": "1.0.0", "scripts": {"prestart": "echo before", "start": "echo now"}}'
    )
    assert site.run(await site.build({"package.json": package})) == "before\nnow"
    docker = {"Dockerfile": 'FROM node\nWORKDIR /app\nCOPY . .\nCMD ["npm", "run", "serve"]\n'}
    serving = '{"scripts": {"serve": "echo $PORT"}}'
    artifact = await site.build({"package.json": serving, **docker})
    assert "npm" not in " ".join(artifact.command)
    assert site.run(artifact, PORT="80") == "80"
