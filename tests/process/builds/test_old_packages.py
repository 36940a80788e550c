"""Old packages that need pkg_resources get a setuptools that has it."""

from __future__ import annotations

import pytest

from tests.marks import nightly
from tests.process.builds.native_sites import Site, wheel
from tests.tables import rows
from windlass.detect import Tree, detect
from windlass.detect.dockerfile import DockerfileOptions, dockerfile
from windlass.detect.python_pins import companions_in, old_package_in
from windlass.process.builds import NativeBuilder
from windlass.process.builds.python import declaration_of, dependencies_of

LOCK = '[[package]]\nname = "gunicorn"\nversion = "20.1.0"\n'


@rows(
    ("text", "old"),
    [
        ("Django==4.0\ngunicorn==20.1.0\n", "gunicorn 20.1.0"),
        ("Gunicorn[gevent] == 19.9 # x\n", "Gunicorn 19.9"),
        ("APScheduler==3.10.4 ; python_version > '3'\n", "APScheduler 3.10.4"),
        (LOCK, "gunicorn 20.1.0"),
        ("gunicorn==21.2.0\n", ""),
        ("gunicorn\n", ""),
        ("gunicorn>=20\n", ""),
        ("gunicorn==20.1.0\nsetuptools==65.0\n", ""),
        (LOCK.replace("20.1.0", "23.0.0"), ""),
    ],
)
def test_an_old_package_is_recognized_by_its_version(text, old):
    assert old_package_in(text) == old


@pytest.mark.parametrize(("version", "is_added"), [("20.1.0", True), ("23.0.0", False)])
def test_the_generated_dockerfile_also_installs_the_older_setuptools(version, is_added):
    files = {"requirements.txt": f"flask\ngunicorn=={version}\n", "app.py": "app = Flask(__name__)\n"}
    tree = Tree(list(files), lambda path, most: files[path].encode())
    recipe = detect(tree)
    assert recipe.added_packages == ["setuptools<81"] * is_added
    text = dockerfile(recipe, tree, DockerfileOptions())
    assert ("install 'setuptools<81'" in text) == is_added


@pytest.mark.parametrize(("version", "is_added"), [("20.1.0", True), *nightly(("23.0.0", False))])
async def test_an_old_server_runs_with_the_setuptools_that_it_needs(site: Site, version, is_added):
    folder = site.top / "wheels"
    for number in ("80.9.0", "82.0.0"):
        wheel(folder, "setuptools", number, code=f"VERSION = '{number}'\n")
    wheel(folder, "gunicorn", version)
    site.builder = NativeBuilder(site.kept, {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)})
    code = "import importlib.util; print(bool(importlib.util.find_spec('setuptools')))"
    artifact = await site.build(
        {"requirements.txt": f"gunicorn=={version}\n", "Procfile": f'web: python -c "{code}"\n'}
    )
    assert site.run(artifact) == str(is_added)
    assert (f"setuptools<81 is installed as well: gunicorn {version} needs" in site.log()) == is_added
    assert "82.0.0" not in site.log()


@rows(
    ("text", "companions"),
    [
        ("Flask==1.1.2\nWerkzeug==1.0.1\n", ["itsdangerous<2.1", "jinja2<3.1", "markupsafe<2.1"]),
        ("flask==2.2.5\nflask_sqlalchemy==2.5.1\n", ["werkzeug<3", "sqlalchemy<2"]),
        ("Flask==2.3.0\n", []),
        ("flask\nflask-sqlalchemy>=2\n", []),
        ("Flask==2.2.5\nwerkzeug\n", []),
        ("pandas==1.5.3\nopencv-python==4.8.0\n", ["numpy<2"]),
    ],
)
def test_packages_that_fail_with_newer_ones_are_recognized(text, companions):
    assert list(companions_in(text)) == companions


@pytest.mark.nightly
async def test_an_old_package_is_installed_with_the_versions_that_it_works_with(site: Site):
    folder = site.top / "wheels"
    for number in ("2.3.8", "3.0.0"):
        wheel(folder, "werkzeug", number, code=f"VERSION = '{number}'\n")
    wheel(folder, "flask", "2.2.5", requires="werkzeug")
    site.builder = NativeBuilder(site.kept, {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)})
    code = "import werkzeug; print(werkzeug.VERSION)"
    artifact = await site.build(
        {"requirements.txt": "flask==2.2.5\n", "Procfile": f'web: python -c "{code}"\n'}
    )
    assert site.run(artifact) == "2.3.8"
    assert "werkzeug<3 is installed as well: flask 2.2.5 does not work with newer versions." in site.log()


def test_a_poetry_project_without_a_lock_file_is_accepted(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.poetry]\nname = "shop"\npackage-mode = false\n')
    declaration = declaration_of(tmp_path)
    assert declaration
    assert dependencies_of(declaration, print).added == ""
    (tmp_path / "poetry.lock").write_text(LOCK)
    assert dependencies_of(declaration, print).added == "setuptools<81\n"
