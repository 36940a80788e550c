"""Layouts that detection does not serve by itself: what it says, and the neighbours that it must not mistake
for them."""

from __future__ import annotations

import pytest

from tests.detect.trees import DJANGO, FASTAPI, FLASK, GUNICORN, package, tree_of
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
        ({"next-env.d.ts": "", "LICENSE": "", "web/main.py": "print(1)"}, "/web"),
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


@pytest.mark.parametrize(
    ("files", "start"),
    [
        ({"shop.py": FLASK}, "gunicorn shop:app"),
        ({"required.txt": "flask\n", "shop.py": FLASK}, "gunicorn shop:app"),
        ({"requirements.txt": "fastapi\n", "backend/shop.py": FASTAPI}, "uvicorn backend.shop:app"),
        # Negative controls: another language shows how it is started, and a file that serves nothing.
        ({"package.json": package("express", start="node x.js"), "shop.py": FLASK}, "npm run start"),
        ({"shop.py": "print(1)\n"}, ""),
    ],
)
def test_an_application_of_python_is_found_in_a_file_of_any_name(files, start):
    assert detect(tree_of(files)).start.startswith(start)
    assert bool(start) == bool(detect(tree_of(files)).start)


@pytest.mark.parametrize(
    ("files", "start"),
    [
        (
            {"main.py": f"{FASTAPI}from . import models\n", "models.py": ""},
            "env PYTHONPATH=.. uvicorn app.main:app ",
        ),
        (
            {"main.py": f"{FASTAPI}from app.models import a\n", "models.py": "a = 1\n"},
            "env PYTHONPATH=.. uvicorn main:app ",
        ),
        # Negative controls
        ({"main.py": f"{FASTAPI}from app.models import a\n", "app/models.py": ""}, "uvicorn main:app "),
        ({"main.py": f"{FASTAPI}from app.other import a\n", "models.py": ""}, "uvicorn main:app "),
        (
            {"shop/main.py": f"{FASTAPI}from . import models\n", "shop/models.py": ""},
            "uvicorn shop.main:app ",
        ),
    ],
)
def test_a_folder_that_is_itself_a_package_is_served_from_its_parent(files, start):
    assert detect(tree_of({"requirements.txt": "fastapi\n", **files})).start.startswith(start)


def test_imports_that_differ_from_a_file_by_case_are_named():
    files = {
        "package.json": package("react-scripts", build="react-scripts build"),
        "src/App.js": "import a from './components/Header';\nimport b from './components/Menu'\n"
        "import './App.css'",
        "src/app.css": "",
        "src/components/header.jsx": "",
        "src/components/Menu/index.tsx": "",
    }
    assert detect(tree_of(files)).problems == [
        f"Write {named} in src/App.js as the file {file} is called: they differ by case, which Linux tells "
        "apart."
        for named, file in (("./components/Header", "src/components/header"), ("./App.css", "src/app.css"))
    ]


@pytest.mark.parametrize(
    ("package_json", "is_old"),
    [
        (package(devDependencies={"react-scripts": "^4.0.3"}, build="react-scripts build"), True),
        (package("express", devDependencies={"webpack": "4.46.0"}, start="node x.js", build="webpack"), True),
        (package(devDependencies={"react-scripts": "5.0.1"}, build="react-scripts build"), False),
        (
            package(
                devDependencies={"react-scripts": "4.0.3"},
                build="NODE_OPTIONS=--openssl-legacy-provider react-scripts build",
            ),
            False,
        ),
    ],
)
def test_builds_with_webpack_4_allow_its_hashes(package_json, is_old):
    build = detect(tree_of({"package.json": package_json, "x.js": ""})).build
    assert build.endswith("npm run build")
    assert ("--openssl-legacy-provider" in build) is is_old


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("<java.version>1.8</java.version>", "8"),
        ("<plugin><source>11</source></plugin>", "11"),
        ("<maven.compiler.release> 17 </maven.compiler.release>", "17"),
        ("<artifactId>spring-boot-starter-parent</artifactId>\n<version>2.7.1</version>", "8"),
        ("<artifactId>spring-boot-starter-parent</artifactId>\n<version>3.1.0</version>", "17"),
        ("<a/>", ""),
    ],
)
def test_the_version_of_java_is_that_of_the_compiler(text, version):
    assert detect(tree_of({"pom.xml": text})).language_version == version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("sourceCompatibility = '1.8'", "8"),
        ("sourceCompatibility = JavaVersion.VERSION_1_8", "8"),
        ("sourceCompatibility = JavaVersion.VERSION_17", "17"),
        ("java { toolchain { languageVersion = JavaLanguageVersion.of(21) } }", "21"),
    ],
)
def test_the_version_of_java_is_that_of_the_gradle_build(text, version):
    assert detect(tree_of({"build.gradle": text})).language_version == version


@pytest.mark.parametrize(
    ("files", "build"),
    [
        ({"pom.xml": "<a/>", "mvnw": ""}, "mvn -B -DskipTests package"),
        (
            {"build.gradle": "", "gradlew": "", "gradle/wrapper/gradle-wrapper.properties": ""},
            "gradle --no-daemon",
        ),
    ],
)
def test_a_wrapper_without_its_files_is_not_run(files, build):
    recipe = detect(tree_of(files))
    assert recipe.build.startswith(build)
    assert "cannot run: the files in" in recipe.reasons["build"]


BOOT = (
    "<artifactId>spring-boot-starter-parent</artifactId><version>{}</version>"
    "<artifactId>lombok</artifactId>{}"
)


@pytest.mark.parametrize(
    ("text", "is_replaced"),
    [
        (BOOT.format("2.3.1.RELEASE", ""), True),
        (BOOT.format("3.4.1", ""), True),
        (BOOT.format("4.0.0", ""), False),
        (BOOT.format("2.3.1", "<version>1.18.30</version>"), False),
        (BOOT.format("2.3.1", "").replace("lombok", "other"), False),
        (BOOT.format("3.4.0", "<version>${lombok.version}</version><lombok.version>1.18.36<"), True),
        (BOOT.format("3.4.0", "<version>${lombok.version}</version><lombok.version>1.18.42<"), False),
    ],
)
def test_a_lombok_that_fails_with_usual_jdks_is_replaced(text, is_replaced):
    assert ("-Dlombok.version=" in detect(tree_of({"pom.xml": text})).build) is is_replaced


@pytest.mark.parametrize("kind", ["war", "jar"])
def test_the_archive_that_maven_makes_is_started(kind):
    text = f"<packaging>{kind}</packaging><artifactId>spring-boot-starter-web</artifactId>"
    assert f"ls target/*.{kind} " in detect(tree_of({"pom.xml": text})).start
