"""Native builds of applications that say nothing themselves: they run as their recipe says."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile

import pytest

from tests.needs import needs
from tests.process.builds.native_sites import wheel
from windlass.builders.builder import BuildError, BuildSettings
from windlass.engines.workload import StaticSite
from windlass.process.builds import NativeBuilder

pytestmark = pytest.mark.nightly

needs_node = needs("npm")

SERVER = "import sys\nsys.path.insert(0, '')\nfrom {module} import app\nprint(app, *sys.argv[1:])\n"


def with_wheels(site, *names, module):
    """A registry in a folder: the named packages, those of servers with a program of their name."""
    folder = site.top / "wheels"
    code = "class Flask:\n    def __init__(self, name): pass\n    def __str__(self): return 'it'\n"
    code += "FastAPI = Flask\n"
    for name in names:
        script = SERVER.format(module=module) if name in ("gunicorn", "uvicorn") else ""
        wheel(folder, name, code=code, script=script)
    site.builder = NativeBuilder(site.kept, {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)})


@pytest.mark.parametrize(
    ("framework", "class_name", "server", "shown"),
    [
        ("flask", "Flask", "gunicorn", "it app:app --bind 0.0.0.0:81 --workers 2"),
        ("fastapi", "FastAPI", "uvicorn", "it app:app --host 0.0.0.0 --port 81"),
    ],
)
async def test_an_application_of_a_web_framework_is_built_and_started_by_its_recipe(
    site, framework, class_name, server, shown
):
    with_wheels(site, framework, server, module="app")
    code = f"from {framework} import {class_name}\napp = {class_name}('x')\n"
    files = {"requirements.txt": f"{framework}\n", "app.py": code}
    artifact = await site.build(files)
    because = f"requirements.txt names {class_name}; app.py defines `app`"
    assert site.log().index(f"Detected framework: {class_name} ({because}).") < site.log().index("Installing")
    assert f"Detected added packages: {server} (The start command needs it" in site.log()
    assert site.run(artifact, PORT="81") == shown
    # Negative control: with a Procfile, nothing is detected and nothing is added.
    assert site.run(await site.build({**files, "Procfile": "web: python app.py"})) == ""
    assert "Detected" not in site.log()


async def test_with_a_pipfile_lock_only_locked_packages_are_installed(site):
    wheels = site.top / "wheels"
    wheel(wheels, "tiny", requires="absent")
    site.builder = NativeBuilder(site.kept, {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)})
    digest = hashlib.sha256(next(wheels.iterdir()).read_bytes()).hexdigest()
    lock = {"default": {"tiny": {"version": "==1", "hashes": [f"sha256:{digest}"]}}}
    files = {"main.py": "import tiny\nprint(tiny.VALUE)\n", "Pipfile": '[packages]\ntiny = "*"\n'}
    assert site.run(await site.build({**files, "Pipfile.lock": json.dumps(lock)})) == "5"
    # Negative control: without a lock, the packages that others need are looked for.
    with pytest.raises(BuildError, match="absent"):
        await site.build(files)


async def test_a_uv_run_command_starts_the_program_without_uv(site):
    files = {"requirements.txt": "", "tell.py": "print('told')\n", "Procfile": "web: uv run tell.py\n"}
    assert site.run(await site.build(files)) == "told"


async def test_a_script_that_calls_a_package_manager_runs_its_command_without_it(site):
    wheel(site.top / "wheels", "tiny")
    site.builder = NativeBuilder(site.kept, {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(site.top / "wheels")})
    files = {
        "requirements.txt": "tiny\n",
        "tell.py": "import sys, tiny\nprint(tiny.VALUE, *sys.argv[1:])\n",
        "Procfile": "web: ./run.sh\n",
        "run.sh": "#!/bin/sh\nexec uv run --frozen -- tell.py 'a b'\n",
    }
    assert site.run(await site.build(files)) == "5 a b"
    # Negative control: what the manager would change is refused.
    refused = await site.build({**files, "run.sh": "#!/bin/sh\nuv sync 2>&1\necho $?\n"})
    assert site.run(refused).splitlines()[-1] == "64"


async def test_a_static_site_is_served_without_a_process(site):
    artifact = await site.build({"index.html": "hello"})
    assert (artifact.static, artifact.command) == (StaticSite(folder="."), ())
    assert "It is served by the gateway, from its own folder." in site.log()


PROCFILE = {"Procfile": "web: python main.py\nworker: python work.py\n"}


@pytest.mark.parametrize(
    "more", [{}, PROCFILE, {"render.yaml": "services:\n- type: web\n  startCommand: x\n"}]
)
async def test_a_static_folder_setting_takes_precedence_over_start_commands(site, more):
    settings = BuildSettings(static_folder="site")
    artifact = await site.build({"site/index.html": "hello", "main.py": "", **more}, settings=settings)
    assert (artifact.static, artifact.command) == (StaticSite(folder="site"), ())


async def test_without_a_static_folder_setting_the_procfile_is_used(site):
    """Negative control."""
    artifact = await site.build({"site/index.html": "hello", "main.py": "print('main')", **PROCFILE})
    assert artifact.static is None
    assert site.run(artifact) == "main"


async def test_a_heroku_only_procfile_command_is_replaced(site, monkeypatch):
    php = site.top / "programs" / "php"
    php.parent.mkdir()
    php.write_text("#!/bin/sh\necho php $*\n")
    php.chmod(0o755)
    monkeypatch.setenv("PATH", f"{php.parent}:{os.environ['PATH']}")
    files = {"composer.json": "{}", "web/index.php": "", "Procfile": "web: heroku-php-nginx web/\n"}
    assert site.run(await site.build(files), PORT="81") == "php -S 0.0.0.0:81 -t web"
    # Negative control: another command of a Procfile stays.
    kept = await site.build({**files, "Procfile": "web: php -S 0.0.0.0:$PORT web/router.php\n"})
    assert site.run(kept, PORT="81") == "php -S 0.0.0.0:81 web/router.php"


def with_tool(site, name, code, scripts, kind="devDependencies"):
    """An order whose package.json names a package with a program, which comes as an archive."""
    named = {name: f"file:./{name}.tgz"}
    manifest = {"name": "shop", "version": "1.0.0", "scripts": scripts, kind: named}
    order = site.order({"package.json": json.dumps(manifest)})
    inner = {"name": name, "version": "1.0.0", "bin": {name: "run.js"}}
    with tarfile.open(order.source / f"{name}.tgz", "w:gz") as archive:
        for path, text in (("package.json", json.dumps(inner)), ("run.js", f"#!/usr/bin/env node\n{code}")):
            entry = tarfile.TarInfo(f"package/{path}")
            entry.size, entry.mode = len(text), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))
    return order


@needs_node
async def test_a_program_of_a_package_can_be_the_start_command(site):
    code = "console.log('serving', process.argv[2])"
    order = with_tool(site, "serve", code, {"start": "serve $PORT"}, "dependencies")
    assert site.run(await site.build(order=order), PORT="80") == "serving 80"


@needs_node
async def test_a_start_command_finds_its_program_among_packages_for_development(site):
    code = "console.log('runs', process.argv[2])"
    order = with_tool(site, "tsx", code, {"start": "tsx server.ts"})
    (order.source / "server.ts").write_text("export {}")
    assert site.run(await site.build(order=order)) == "runs server.ts"
    # Negative control: packages for development that no command names are left out.
    site.said.clear()
    await site.build(order=with_tool(site, "tsx", code, {"start": "node -p 0"}))
    assert "Installing" not in site.log()


@needs_node
async def test_a_framework_of_node_is_built_with_its_packages_for_development(site):
    makes = "require('fs').mkdirSync('dist'); require('fs').writeFileSync('dist/a', process.argv[2])"
    order = with_tool(site, "vite", makes, {"build": "vite build", "start": "vite"})
    artifact = await site.build(order=order)
    assert "Detected static folder: dist (package.json names vite" in site.log()
    assert "Building (npm run build)" in site.log()
    assert artifact.static == StaticSite(folder="dist")
    assert (site.kept / "service" / artifact.key / "app" / "dist" / "a").read_text() == "build"


@needs_node
async def test_a_build_that_makes_no_static_folder_says_which_one_is_missing(site):
    order = with_tool(site, "vite", "", {"build": "vite build"})
    with pytest.raises(BuildError, match=r"^Make the build write to the folder dist: it is not there"):
        await site.build(order=order)


@needs_node
async def test_a_framework_of_node_starts_its_server_after_its_build(site):
    code = """
        const fs = require('fs'), [verb] = process.argv.slice(2);
        if (verb == 'build') fs.writeFileSync('built', 'yes');
        else console.log(fs.readFileSync('built', 'utf8'), verb);
    """
    order = with_tool(site, "next", code, {"build": "next build", "start": "next start"})
    assert site.run(await site.build(order=order)) == "yes start"


async def test_a_missing_toolchain_is_reported_with_its_installation_before_any_step_runs(site, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    site.builder = NativeBuilder(site.kept, {}, fetches=False)
    said = await site.refused({"go.mod": "module shop\ngo 1.22\n", "main.go": "package main"})
    assert said.startswith(
        "Install Go 1.22 or newer on this machine: `apt-get install golang`. This is Go (go.mod is there), "
    )
    assert "It could not be fetched: The setting toolchain_downloads does not allow that." in said
    assert "…" not in site.log(), "no step was begun"
    said = await site.refused({"Gemfile": "", "config.ru": ""})
    assert said.startswith("Install Ruby on this machine: `apt-get install ruby-full ruby-bundler`. This is")


async def test_a_python_file_next_to_a_pom_needs_no_java_toolchain(site, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert site.run(await site.build({"pom.xml": "<a/>", "main.py": "print('main')"})) == "main"


RENDER = "services:\n  - type: web\n    startCommand: python serve.py\n"
FLY = '[processes]\napp = "python serve.py"\n'
BESIDE = [
    {"main.py": "print('main')"},
    {"app.py": "print('app')", "requirements.txt": ""},
    {"pyproject.toml": "[project]\nname='shop'\nversion='1'\nscripts={shop='shop:main'}\n", "shop.py": ""},
    pytest.param({"package.json": '{"scripts": {"start": "echo npm"}}'}, marks=needs_node),
    pytest.param({"package.json": "{}", "server.js": ""}, marks=needs_node),
]


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("named", [{"render.yaml": RENDER}, {"fly.toml": FLY}])
async def test_a_command_in_a_platform_configuration_file_takes_precedence_over_detection(
    site, named, beside
):
    files = {"serve.py": "print('served')\n", **beside}
    assert site.run(await site.build({**files, **named})) == "served"


@pytest.mark.parametrize(
    "named", [{"render.yaml": RENDER.replace("web", "pserv")}, {"fly.toml": "primary_region = 'ams'\n"}]
)
async def test_a_platform_configuration_file_without_a_command_changes_nothing(site, named):
    """Negative control."""
    assert site.run(await site.build({"main.py": "print('main')", **named})) == "main"


async def test_an_overlong_command_is_refused_and_not_truncated(site):
    said = await site.refused({"fly.toml": f'[processes]\napp = "run {"x" * 2000}"\n'})
    assert said.startswith(
        "Shorten the process app to 2000 characters, such as by a script in the repository"
    )


async def test_a_monorepo_is_refused_with_the_folders_to_choose_from(site):
    said = await site.refused({"api/main.py": "", "api/requirements.txt": "", "web/index.html": "x"})
    assert said == "Set root_path to the folder of one application, such as /api, /web."


async def test_django_is_served_by_a_server_for_production(site):
    with_wheels(site, "django", "gunicorn", module="shop.wsgi")
    manage = 'import os\nos.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")\n'
    files = {"requirements.txt": "django\n", "manage.py": manage, "shop/wsgi.py": "app = 'django'\n"}
    artifact = await site.build(files)
    assert artifact.release[-1].endswith("python manage.py migrate --noinput")
    assert site.run(artifact) == "django shop.wsgi:application --bind 0.0.0.0:8000 --workers 2"


@pytest.mark.parametrize("more", [{}, {"Procfile": "web: gunicorn shop.wsgi\n"}])
async def test_the_build_log_says_what_django_needs_to_answer_at_its_public_host(site, more):
    with_wheels(site, "django", "gunicorn", module="shop.wsgi")
    manage = 'import os\nos.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")\n'
    files = {"requirements.txt": "django\ngunicorn\n", "manage.py": manage, "shop/wsgi.py": ""}
    files |= {**more, "shop/settings.py": "ALLOWED_HOSTS = os.environ['HOSTS'].split()\n"}
    await site.build(files)
    advice = "Set the variable HOSTS to the public host of the application, or to *"
    assert advice in site.log()
    await site.build({**files, "a.txt": "another build"}, variables=frozenset({"HOSTS"}))
    assert advice not in site.log(), "the variable is set"
