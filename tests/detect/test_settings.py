"""Settings of an application win over its recipe: one row each."""

from __future__ import annotations

from typing import Any

from tests.detect.trees import FLASK, package, tree_of
from tests.tables import rows
from windlass.detect import ProcessType, RecipeSettings, apply_settings, detect

PROCFILE = "web: old\nworker: work\nrelease: r\n"
FLASK_FILES = {"requirements.txt": "flask\n", "app.py": FLASK, "Procfile": PROCFILE}
SITE = {"index.html": "hello"}
NODE = {"package.json": package("express", start="node a.js", build="make"), "package-lock.json": "{}"}
NOTHING = {"README.md": "x"}

ROWS: list[tuple[dict[str, str], dict[str, Any], dict[str, Any]]] = [
    (NODE, {"install_command": "pnpm i"}, {"install": "pnpm i", "build": "npm run build"}),
    (NODE, {"build_command": "make all"}, {"build": "make all", "install": "npm ci"}),
    (NODE, {"language_version": "22"}, {"language_version": "22"}),
    (FLASK_FILES, {"release_command": "migrate"}, {"release": "migrate", "start": "old"}),
    (
        FLASK_FILES,
        {"start_command": "new  --flag"},
        {
            "start": "new  --flag",
            "processes": [ProcessType("web", "new  --flag"), ProcessType("worker", "work")],
        },
    ),
    (SITE, {"start_command": "serve ."}, {"start": "serve .", "static_folder": ""}),
    (
        FLASK_FILES,
        {"static_folder": "./public/"},
        {"static_folder": "public", "start": "", "port": 0, "processes": [ProcessType("worker", "work")]},
    ),
    (FLASK_FILES, {"system_packages": ("ffmpeg",)}, {"system_packages": ["ffmpeg"]}),
    (NOTHING, {"start_command": "./run"}, {"start": "./run", "problems": []}),
    (NOTHING, {}, {"start": ""}),
]


@rows(("files", "settings", "values"), ROWS, ids=lambda value: ",".join(value) or "none")
def test_an_application_setting_overrides_the_detected_value(files, settings, values):
    recipe = apply_settings(detect(tree_of(files)), RecipeSettings(**settings))
    assert {name: getattr(recipe, name) for name in values} == values


def test_an_overridden_value_gives_the_setting_as_its_reason():
    found = detect(tree_of(NODE))
    recipe = apply_settings(found, RecipeSettings(build_command="make all"))
    assert recipe.reasons == {**found.reasons, "build": "It is set in the application."}
    assert found.build == "npm run build"


def test_packages_are_added_to_those_that_dependencies_need():
    found = detect(tree_of({"requirements.txt": "psycopg2\n", "main.py": ""}))
    assert found.system_packages
    recipe = apply_settings(found, RecipeSettings(system_packages=("ffmpeg", found.system_packages[0])))
    assert recipe.system_packages == [*found.system_packages, "ffmpeg"]


def test_empty_settings_leave_the_recipe_unchanged():
    found = detect(tree_of(FLASK_FILES))
    assert apply_settings(found, RecipeSettings()) == found
