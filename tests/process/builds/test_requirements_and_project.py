"""Requirements that do not name all that pyproject.toml does are installed with the rest."""

from __future__ import annotations

import pytest

from windlass.process.builds.python import declaration_of, dependencies_of

PROJECT = '[project]\nname = "shop"\ndependencies = ["Fast_API[standard]>=1", "gunicorn", "uvicorn; x"]\n'


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
