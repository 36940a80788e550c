"""A start command that serves a module which is not in the repository is a problem of the plan."""

from __future__ import annotations

import pytest

from tests.detect.trees import FLASK, tree_of
from windlass.detect import detect

SERVES_SHOP = "Correct the start command `gunicorn shop:app`: it serves shop, and shop.py is not here"


def problems_of(command: str, **files: str) -> list[str]:
    named = {name.replace("__", "/") + ".py": text for name, text in files.items()}
    return detect(tree_of({"requirements.txt": "flask\n", "Procfile": f"web: {command}\n", **named})).problems


@pytest.mark.parametrize(
    ("command", "files", "problems"),
    [
        ("gunicorn shop:app", {"app": FLASK}, [f"{SERVES_SHOP}."]),
        (
            "gunicorn shop:app",
            {"app": "", "backend__shop": FLASK},
            [f"{SERVES_SHOP}: it is in backend/. Set root_path to /backend."],
        ),
        ("gunicorn shop:app", {"shop": FLASK}, []),
        ("gunicorn -w 4 shop.wsgi:app", {"shop__wsgi": FLASK}, []),
        ("uvicorn shop:app --host 0.0.0.0", {"src__shop": FLASK}, []),
        ("gunicorn --chdir backend shop:app", {"backend__shop": FLASK}, []),
        ("gunicorn flask:Flask", {"app": FLASK}, []),
        ("gunicorn -k uvicorn.workers.UvicornWorker shop:app", {"shop": FLASK}, []),
        ("gunicorn --bind=0.0.0.0:$PORT shop:app", {"shop": FLASK}, []),
        ("python app.py", {"app": FLASK}, []),
    ],
)
def test_a_served_module_that_is_missing_is_named_with_what_to_correct(command, files, problems):
    assert problems_of(command, **files) == problems
