"""Layouts that detection does not serve by itself: what it says, and the neighbours that it must not mistake
for them."""

from __future__ import annotations

import pytest

from tests.detect.trees import DJANGO, GUNICORN, package, tree_of
from windlass.detect import Candidate, detect
from windlass.detect.recipe import ProcessType


def test_each_of_several_django_projects_below_their_packages_is_a_process_to_choose():
    files = {f"{folder}/{path}": text for path, text in DJANGO.items() for folder in ("back", "front")}
    recipe = detect(tree_of({"requirements.txt": "django\ngunicorn\n", **files}))
    assert recipe.start == ""
    assert recipe.processes == [
        ProcessType(
            folder,
            f"cd {folder} && python manage.py migrate --noinput && gunicorn shop.wsgi:application {GUNICORN}",
        )
        for folder in ("back", "front")
    ]
    assert recipe.problems[0].startswith("Set process to one of back, front")


def test_a_django_project_with_packages_of_its_own_is_a_candidate():
    files = {f"src/{path}": text for path, text in DJANGO.items()}
    recipe = detect(tree_of({"requirements.txt": "django\n", "src/requirements.txt": "django\n", **files}))
    assert (recipe.start, recipe.candidates) == ("", [Candidate("/src", "Python", "Django")])


@pytest.mark.parametrize(
    "files",
    [
        {"package.json": package("express", scripts={"dev": "nodemon src/index.ts"}), "src/index.ts": ""},
        {"package.json": package("esbuild", scripts={"dev": "node make.js"}), "make.js": ""},
        {"package.json": package("express", scripts={"dev": "node ../other/run.js"}), "run.js": ""},
    ],
    ids=["nothing runs TypeScript", "a library", "a file outside"],
)
def test_a_script_for_development_is_no_start_command_if_it_starts_no_server_here(files):
    assert detect(tree_of(files)).start == ""


def test_an_application_beside_a_site_of_hugo_is_no_tool_of_the_site():
    files = {"hugo.toml": "title = 'x'\n", "content/_index.md": "#", "api/package.json": package("express")}
    assert detect(tree_of(files)).static_folder == ""
