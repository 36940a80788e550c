"""Layouts that detection does not serve by itself: what it says, and the neighbours that it must not mistake
for them."""

from __future__ import annotations

import pytest

from tests.detect.trees import DJANGO, FLASK, GUNICORN, package, tree_of
from windlass.detect import Candidate, Tree, detect
from windlass.detect.known_files import KnownFiles
from windlass.detect.languages.python import dependencies
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


FLASK_BELOW = {"src/requirements.txt": "flask\n", "src/app.py": FLASK}


@pytest.mark.parametrize(
    ("files", "folder"),
    [
        (FLASK_BELOW, "/src"),
        (
            {"package.json": package("husky"), "server/package.json": package("express", start="node x")},
            "/server",
        ),
        ({"web/main.py": "print(1)"}, "/web"),
        # Not certain: packages that the outer folder names, a folder of files, several, a broken file.
        ({"requirements.txt": "flask\n", "src/main.py": "import flask"}, ""),
        ({**FLASK_BELOW, "myflask.py": ""}, ""),
        ({"static/box/package.json": package("express", start="node x")}, ""),
        ({"main.swift": "", "public/index.html": "<p>"}, ""),
        ({**FLASK_BELOW, "other/main.py": ""}, ""),
        ({**FLASK_BELOW, "Procfile": "release: " + "x" * 3000}, ""),
        # Not needed.
        ({**FLASK_BELOW, "app.py": FLASK, "requirements.txt": "flask\n"}, ""),
    ],
)
def test_the_folder_of_the_only_application_is_named_if_it_is_certain(files, folder):
    recipe = detect(tree_of({"README.md": "", **files}))
    assert recipe.only_folder == folder
    assert not folder or recipe.problems[0].startswith(
        f"Set root_path to the folder of one application, such as {folder}"
    )


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_requirements_that_powershell_wrote_are_read(encoding):
    files = {"requirements.txt": "flask==3.0.0\r\n".encode(encoding), "main.py": b"import flask"}
    tree = Tree(files, lambda path, most: files[path][:most])
    assert dependencies(KnownFiles(tree)) == {"flask": "requirements.txt"}


DOTENV = {
    "go.mod": "module example.com/shop\nrequire github.com/joho/godotenv v1.5.1\n",
    "main.go": "package main\n",
    "config/read.go": "package config\nfunc Read() { if godotenv.Load() != nil { panic(1) } }\n",
}


def test_a_program_of_go_that_reads_the_file_of_variables_finds_an_empty_one():
    recipe = detect(tree_of(DOTENV))
    assert recipe.build == "go build -o bin/ . && touch .env"
    assert "config/read.go reads .env, which is not committed" in recipe.reasons["build"]
    # Negative controls: a file of the repository, and one that is read only if it is there.
    for files in ({".env": "A=1\n"}, {"config/read.go": "package config\n"}):
        assert detect(tree_of({**DOTENV, **files})).build == "go build -o bin/ ."


def test_the_server_of_a_procfile_is_installed_if_no_file_names_packages():
    files = {"Procfile": "web: gunicorn app:app\n", "app.py": FLASK}
    assert "gunicorn" in detect(tree_of(files)).added_packages
    # Negative control: a file that names packages is the word of its author.
    assert "gunicorn" not in detect(tree_of({**files, "requirements.txt": "flask\n"})).added_packages
