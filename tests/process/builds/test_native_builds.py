"""Native builds of Python and Node, between the installation and the artifact."""

from __future__ import annotations

import json

import pytest

from tests.needs import needs
from tests.process.builds.test_native_recipes import with_tool
from windlass.builders.builder import BuildSettings
from windlass.builders.remedies import failure
from windlass.process.builds import tools
from windlass.process.builds.tools import (
    MAX_KEPT_LINES,
    MAX_LINE_LENGTH,
    MAX_LOGGED_LINES,
    MAX_READ_LINES,
    OutputLines,
)

pytestmark = pytest.mark.slow

needs_node = needs("npm")
MANAGE = """
import os, sys
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
if sys.argv[1] == "collectstatic":
    {code}
"""
DJANGO = {
    "Procfile": "web: python -c \"print(open('static.txt').read())\"\n",
    "shop/settings.py": "STATIC_ROOT = 'x'\n",
    "shop/wsgi.py": "",
}


async def test_static_files_of_django_are_collected_at_the_build(site):
    collects = MANAGE.format(code="open('static.txt', 'w').write('collected')")
    artifact = await site.build({**DJANGO, "manage.py": collects})
    assert site.run(artifact) == "collected"


async def test_a_missing_variable_at_the_collection_of_static_files_does_not_end_the_build(site):
    fails = MANAGE.format(code="os.environ['SECRET_KEY']")
    await site.build({**DJANGO, "manage.py": fails})
    assert "Set the missing variables of this application, or build_command, and deploy again:" in site.log()
    assert "KeyError: 'SECRET_KEY'" in site.log()


async def test_a_failing_build_command_fails_the_build(site):
    said = await site.refused(
        {"requirements.txt": "", "main.py": ""}, settings=BuildSettings(build_command="python -c 1/0")
    )
    assert said.startswith("Fix what it reports, and deploy again: python -c 1/0 failed (exit code 1): Zero")


@pytest.mark.nightly
@needs_node
async def test_a_source_change_alone_does_not_reinstall_dependencies(site):
    code = "require('fs').writeFileSync('made', require('fs').readFileSync('source', 'utf8'))"
    scripts = {"build": "tool", "start": "node -p \"require('fs').readFileSync('made', 'utf8')\""}
    texts = []
    first = with_tool(site, "tool", code, scripts)
    archive = (first.source / "tool.tgz").read_bytes()
    for text in ("first", "second"):
        order = with_tool(site, "tool", code, scripts)
        (order.source / "tool.tgz").write_bytes(archive)
        (order.source / "source").write_text(text)
        artifact = await site.build(order=order)
        await site.builder.prune("service", [artifact.key])
        texts.append(site.run(artifact))
    assert texts == ["first", "second"]
    assert "The Node dependencies have not changed" in site.log()
    assert "Installing" not in site.log()


@needs_node
async def test_a_build_that_modifies_an_installed_package_affects_no_other_build(site):
    code = "require('fs').appendFileSync(__filename, '\\n// changed')"
    artifacts = []
    first = with_tool(site, "tool", code, {"build": "tool", "start": "node -p 1"})
    archive = (first.source / "tool.tgz").read_bytes()
    for _ in range(2):
        order = with_tool(site, "tool", code, {"build": "tool", "start": "node -p 1"})
        (order.source / "tool.tgz").write_bytes(archive)
        artifacts.append(await site.build(order=order))
    for artifact in artifacts:
        changed = site.kept / "service" / artifact.key / "node_modules" / "tool" / "run.js"
        assert changed.read_text().count("changed") == 2


@needs_node
async def test_scripts_of_the_package_run_beside_the_code_after_the_installation(site):
    scripts = {"postinstall": "node make.js", "start": "node server.js"}
    files = {
        "package.json": json.dumps({"name": "shop", "scripts": scripts}),
        "make.js": "require('fs').writeFileSync('made', 'yes')",
        "server.js": "console.log(require('fs').readFileSync('made', 'utf8'))",
    }
    assert site.run(await site.build(files)) == "yes"


@needs_node
async def test_an_application_of_a_workspace_is_built_with_the_packages_that_it_needs(site):
    words = {"name": "words", "version": "1.0.0", "main": "made.js", "scripts": {"build": "node make.js"}}
    web = {
        "name": "web",
        "dependencies": {"words": "*"},
        "scripts": {"start": "node server.js", "build": "node -p 2"},
    }
    files = {
        "package.json": json.dumps({"name": "all", "private": True, "workspaces": ["apps/*", "packages/*"]}),
        "packages/words/package.json": json.dumps(words),
        "packages/words/make.js": "require('fs').writeFileSync('made.js', 'module.exports = \"words\"')",
        "apps/web/package.json": json.dumps(web),
        "apps/web/server.js": "console.log(require('words'))",
    }
    artifact = await site.build(files, root="/apps/web")
    assert artifact.workdir == "apps/web"
    assert site.run(artifact) == "words"


@needs_node
async def test_caches_of_frameworks_stay_with_the_service_and_out_of_the_artifact(site):
    code = """
        const fs = require('fs');
        fs.mkdirSync('.next/cache', {recursive: true});
        fs.appendFileSync('.next/cache/seen', 'x');
        fs.copyFileSync('.next/cache/seen', 'seen');
    """
    scripts = {"build": "node make.js", "start": "node -p \"require('fs').readFileSync('seen', 'utf8')\""}
    files = {"package.json": json.dumps({"name": "shop", "scripts": scripts}), "make.js": code}
    artifacts = [await site.build(files), await site.build(files), await site.build(files, service="other")]
    assert [site.run(artifact) for artifact in artifacts] == ["x", "xx", "x"]
    assert not (site.kept / "service" / artifacts[0].key / "app" / ".next" / "cache").exists()


USAGE = "".join(
    f"npm error   --option-{number}\nnpm error     Sets option {number}.\n" for number in range(60)
)
OUT_OF_DATE = (
    "npm error code EUSAGE\nnpm error\nnpm error `npm ci` can only install packages when your "
    "package.json and package-lock.json or npm-shrinkwrap.json are in sync.\nnpm error\n"
)


@pytest.mark.parametrize("missing", [1, 500])
def test_an_outdated_lock_file_is_reported_even_if_npm_prints_its_usage_after_it(missing):
    packages = "".join(
        f"npm error Missing: package-{number}@1.0.0 from lock file\n" for number in range(missing)
    )
    message = _failure_of_npm(OUT_OF_DATE + packages + USAGE)
    assert message.startswith("Install the dependencies once on your machine, and commit the lock file"), (
        message
    )


def test_a_path_is_hidden_before_a_long_line_is_cut():
    said: list[str] = []
    lines = OutputLines(said.append, lambda line: line.replace("/srv/windlass", "…"))
    lines.feed(b"x" * (MAX_LINE_LENGTH - 6) + b"/srv/windlass/data\n")
    assert said == ["x" * (MAX_LINE_LENGTH - 6) + "…/data"]


@pytest.mark.parametrize("line", [b"\n", b"y\n"])
@pytest.mark.parametrize("is_control", [False, True], ids=["bounded", "unbounded"])
def test_only_the_first_and_last_lines_of_endless_step_output_are_processed(monkeypatch, line, is_control):
    """The event loop cuts the output into lines: all requests wait meanwhile."""
    if is_control:
        monkeypatch.setattr(tools, "MAX_LOGGED_LINES", 1 << 30)
        monkeypatch.setattr(tools, "MAX_READ_LINES", 1 << 30)
    looked_at = 0

    def count(text):
        nonlocal looked_at
        looked_at += 1
        return text

    said: list[str] = []
    lines = OutputLines(said.append, count)
    for _ in range(10):
        lines.feed(line * 10_000)
    lines.feed(b"the reason\n")
    lines.end()
    assert lines.last[-1] == "the reason"
    assert looked_at > 100_000 if is_control else looked_at <= MAX_READ_LINES + MAX_KEPT_LINES
    assert (
        len(said) > MAX_LOGGED_LINES + 2 if is_control and line.strip() else len(said) <= MAX_LOGGED_LINES + 2
    )


def test_the_reported_reason_of_an_npm_failure_is_its_first_error_line():
    assert "(exit code 1): `npm ci` can only install" in _failure_of_npm(OUT_OF_DATE + USAGE)
    # Negative control: another failure with the same usage is not taken for an old lock file.
    assert _failure_of_npm(f"npm error code EUSAGE\n{USAGE}").startswith("Fix what it reports")


def _failure_of_npm(output: str) -> str:
    lines = OutputLines(lambda _line: None)
    lines.feed(output.encode())
    return failure("npm ci", 1, lines.last)


async def test_a_missing_start_script_is_refused_without_mentioning_a_dockerfile(site):
    said = await site.refused({"Procfile": "web: ./start.sh\n", "main.py": ""})
    assert said == "Commit the file ./start.sh, or correct the start command: there is no file ./start.sh."


@pytest.mark.parametrize("program", ["gunicorn", "/usr/bin/gunicorn-x", "node_modules/.bin/next"])
async def test_a_missing_start_program_is_reported_with_advice_to_add_it_to_the_dependencies(site, program):
    said = await site.refused({"Procfile": f"web: {program} app:app\n", "main.py": ""})
    assert said.startswith(f"Add {program} to the dependencies, or correct the start command: "), said
    assert "Dockerfile" not in said


async def test_a_dockerfile_whose_program_is_missing_may_be_built_by_docker(site):
    said = await site.refused({"Dockerfile": 'FROM python:3.11\nCMD ["./start.sh"]\n'})
    assert said.endswith(
        " Or deploy to a cluster with the Docker engine, which builds the whole Dockerfile."
    ), said
