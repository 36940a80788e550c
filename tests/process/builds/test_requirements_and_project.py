"""Requirements that do not name all that pyproject.toml does are installed with the rest."""

from __future__ import annotations

import pytest

from windlass.builders.builder import BuildError
from windlass.process.builds.python import declaration_of, dependencies_of
from windlass.process.builds.requirements import local_paths

PROJECT = '[project]\nname = "shop"\ndependencies = ["Fast_API[standard]>=1", "gunicorn", "uvicorn; x"]\n'


BUILT = f"{PROJECT}[build-system]\nrequires = ['setuptools']\n"


@pytest.mark.parametrize(
    ("requirements", "pyproject", "package", "is_installed"),
    [
        ("gunicorn\n", BUILT, "src/shop/__init__.py", True),
        (".\n", BUILT, "src/shop/__init__.py", False),
        ("-e .[web]  # itself\n", BUILT, "src/shop/__init__.py", False),
        ("gunicorn\n", BUILT, "shop/__init__.py", False),
        ("gunicorn\n", "[tool.black]\n", "src/shop/__init__.py", False),
    ],
)
def test_a_project_with_its_packages_below_src_is_installed_besides_requirements_txt(
    tmp_path, requirements, pyproject, package, is_installed
):
    for name, text in {"requirements.txt": requirements, "pyproject.toml": pyproject, package: ""}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    lines = list[str]()
    declaration = declaration_of(tmp_path)
    assert declaration
    assert (dependencies_of(declaration, lines.append).project == tmp_path) is is_installed
    assert ("The project is installed as well: its packages are below src." in lines) is is_installed


@pytest.mark.parametrize(
    ("requirements", "more"),
    [
        ("gunicorn==22.0.0\n", ["Fast_API[standard]>=1", "uvicorn; x"]),
        ("fast-api==2\ngunicorn\nUvicorn[standard]\n", []),
        ("-e .\n", []),
        (".\ngunicorn\n", []),
        ("gunicorn==22.0.0 \\\n    --hash=sha256:00\n", []),
        ("shop @ https://host.test/shop.whl\n", []),
    ],
)
def test_dependencies_only_in_pyproject_toml_are_installed_besides_requirements_txt(
    tmp_path, requirements, more
):
    (tmp_path / "requirements.txt").write_text(requirements)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    declaration, lines = declaration_of(tmp_path), list[str]()
    assert declaration
    needed = dependencies_of(declaration, lines.append)
    added = needed.requirements.splitlines()[len(requirements.splitlines()) :]
    assert added == more
    assert any(line.startswith("Installed as well, because only") for line in lines) is bool(more)


@pytest.mark.parametrize("line", ["flask==3.0.3  # pages (shop/server.py)", "flask # https://shop.example/a"])
def test_a_path_in_a_comment_of_requirements_is_no_file_to_install(tmp_path, line):
    assert list(local_paths(line, tmp_path)) == []
    with pytest.raises(BuildError, match="Commit shop/flask, or take it out"):
        list(local_paths(line.replace("flask", "shop/flask").replace("==3.0.3", ""), tmp_path))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_requirements_that_powershell_wrote_are_installed(tmp_path, encoding):
    (tmp_path / "requirements.txt").write_bytes("flask==3.0.0\r\ngunicorn\r\n".encode(encoding))
    declaration = declaration_of(tmp_path)
    assert declaration
    assert dependencies_of(declaration, print).requirements.split() == ["flask==3.0.0", "gunicorn"]
