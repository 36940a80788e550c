"""The console's files together with those of packages, as they are served."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.console.files import sources


@pytest.fixture(scope="session")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with all modules."""
    folder = tmp_path_factory.mktemp("console")
    for name, content in sources().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder / "js"
