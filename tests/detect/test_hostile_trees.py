"""Untrusted trees: malformed, huge and deep files give a recipe or a clear problem, at once."""

from __future__ import annotations

import json
import os
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.detect.rows import ROWS
from tests.detect.trees import DJANGO, FLASK, package, tree_of
from tests.tables import rows
from windlass.base.file_names import file_names, read_beginning
from windlass.detect import Tree, detect
from windlass.detect.detect import MAX_READ_BYTES
from windlass.detect.known_files import MAX_FILE_BYTES
from windlass.detect.procfile import MAX_PROCESSES
from windlass.detect.recipe import MAX_LENGTH, Recipe

NAMES = sorted({path for row in ROWS for path in row.files})
CONTENTS = sorted({text for row in ROWS for text in row.files.values() if isinstance(text, str)})
PIECES = st.one_of(st.binary(max_size=60), st.sampled_from(CONTENTS).map(str.encode))
TREES = st.dictionaries(st.sampled_from(NAMES), st.lists(PIECES, max_size=3).map(b"".join), max_size=8)


@settings(max_examples=60)
@given(TREES)
def test_no_file_content_makes_detection_raise(files):
    recipe = detect(tree_of(files))
    assert isinstance(recipe, Recipe)
    assert recipe.is_runnable or recipe.problems
    for name, value, reason in recipe.values:
        assert value, name
        assert value.isprintable(), name
        assert reason.isprintable(), name


def test_a_procfile_of_many_lines_names_few_processes():
    lines = [f"p{number}: run" for number in range(50_000)]
    named = detect(tree_of({"Procfile": "\n".join(["n" * 61 + ": run", *lines])})).processes
    assert len(named) == MAX_PROCESSES
    assert {process.name for process in named} == {f"p{number}" for number in range(MAX_PROCESSES)}


MANY = [f"p{number}" for number in range(MAX_PROCESSES + 1)]


@pytest.mark.parametrize(
    ("file", "lines"),
    [
        ("Procfile", [f"{name}: run" for name in MANY]),
        ("fly.toml", ["[processes]", *(f"{name} = 'run'" for name in MANY)]),
    ],
)
def test_too_many_processes_are_a_problem(file, lines):
    assert f"Name at most {MAX_PROCESSES} processes in " in " ".join(
        detect(tree_of({file: "\n".join(lines)})).problems
    )
    fewer = detect(tree_of({file: "\n".join(lines[:-1])}))
    assert "Name at most" not in " ".join(fewer.problems)  # negative control


KEYS = [
    "scripts",
    "start",
    "build",
    "dependencies",
    "engines",
    "node",
    "next",
    "main",
    "tasks",
    "require",
    "projects",
    "architect",
    "healthchecks",
    "web",
    "path",
    "packageManager",
    "imports",
    "options",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)
MAIN = 'if __name__ == "__main__":\n'
PRINTS = "print(1)\n" * 90_000
DOCUMENTS = ["package.json", "angular.json", "composer.json", "deno.json", "app.json"]


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from(DOCUMENTS), JSON, min_size=1))
def test_detection_raises_no_error_for_any_json_value_in_a_json_file(documents):
    assert detect(tree_of({name: json.dumps(value) for name, value in documents.items()})) is not None


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        ("package.json", '{\n "scripts": {\n', "Fix package.json, line 3: "),
        ("package.json", "[" * 100_000, "Fix package.json: it is nested too deep."),
        ("package.json", "[]", "Fix package.json: it must hold an object."),
        ("package.json", "1" * 5000, "Fix package.json: "),
        ("pyproject.toml", "[project]\nname=\n", "Fix pyproject.toml, line 2: "),
        ("pyproject.toml", "a=" + "[" * 100_000, "Fix pyproject.toml"),
        ("Cargo.toml", "x", "Fix Cargo.toml"),
    ],
)
def test_a_malformed_file_is_a_problem_with_its_name_and_line(file, text, problem):
    recipe = detect(tree_of({file: text}))
    assert recipe.problems[0].startswith(problem)
    assert recipe.language


def test_a_huge_file_is_read_only_at_its_beginning(tmp_path):
    with (tmp_path / "package.json").open("wb") as file:
        file.truncate(2 << 30)
    asked = []

    def read(path, most):
        asked.append(most)
        return read_beginning(tmp_path, path, most)

    recipe = detect(Tree(file_names(tmp_path), read))
    assert recipe.problems[0] == "Shorten package.json: it is larger than 1 MiB, and was not read."
    assert max(asked) == MAX_FILE_BYTES + 1


def test_lock_files_are_not_read_by_detection():
    def read(path, most):
        assert "lock" not in path
        return package("express", start="node .").encode()

    for lock in ("package-lock.json", "yarn.lock", "pnpm-lock.yaml", "bun.lockb", "npm-shrinkwrap.json"):
        assert detect(Tree(["package.json", lock], read)).install


@rows(
    ("file", "text"),
    [
        ("app.py", "x" * MAX_FILE_BYTES),
        ("app.py", "app" + " " * (MAX_FILE_BYTES - 10) + "="),
        ("app.py", "app = " + "a." * 400_000),
        ("app.py", "a = b(\n" * 100_000),
        ("app.py", "app: " + "x" * 900_000),
        ("app.py", f"{MAIN}app.run({'(()' * 300_000}port=1"),
        ("app.py", f"{MAIN}{'port' * 200_000}\napp.run(port=1)"),
        ("app.py", f"{MAIN}{PRINTS}x\napp.run(port=1)"),
        ("Procfile", "web" + " " * 900_000),
        ("Procfile", "a" * 900_000),
        ("render.yaml", " " * 900_000 + "x"),
        ("render.yaml", "- " * 400_000),
        ("Dockerfile", "EXPOSE " * 100_000),
        ("Gemfile", "gem " * 200_000),
        ("Gemfile", "ruby '" + "1" * 900_000),
        ("pom.xml", "sourceCompatibility" * 50_000),
        ("build.gradle", "\n" * 900_000),
        ("build.gradle.kts", "application\n " * 90_000),
        ("pyproject.toml", 'a = "' + "x" * 900_000 + '"'),
        ("Cargo.toml", "# " + "x" * 900_000),
        ("fly.toml", "x-" * 450_000 + " = 1"),
        ("Pipfile", "a = '" + "x" * 900_000 + "'"),
        ("pom.xml", "languageVersion" + " " * 900_000),
        ("mix.exs", "elixir:" + " " * 900_000),
        ("cpanfile", "requires " * 100_000),
        ("cpanfile", "requires perl => '5" + "." * 900_000),
        ("Shop.csproj", "<TargetFramework>" * 50_000),
        ("go.mod", "module " * 100_000),
        ("vite.config.js", "outDir:" + "'" * 900_000),
        ("next.config.js", "output" + " " * 900_000),
        ("nuxt.config.js", "nitro preset:" + " " * 900_000),
        ("nuxt.config.js", "nitro preset: '" + "a" * 900_000),
        ("astro.config.js", "output:" + " " * 900_000),
        ("server.js", "client" * 150_000),
        ("server.js", "client" + " " * 900_000),
        ("shop/settings.py", "SECURE_SSL_REDIRECT = x" * 40_000),
        ("shop/settings.py", "SECURE_SSL_REDIRECT =\n" * 40_000),
        (".python-version", "3" * 900_000),
        (".tool-versions", "python " * 100_000),
        ("requirements.txt", "-r " * 300_000),
        ("requirements.txt", "-e" + " " * 900_000),
        ("requirements.txt", ".[" + "a, " * 300_000),
        ("requirements.txt", "-r requirements.txt\n" * 50_000),
        ("requirements.txt", "-r a.txt\n" * 1000),
    ],
)
@pytest.mark.timeout(20)
def test_no_expression_backtracks_over_a_long_file(file, text):
    """The limit of time is the negative control: an expression that backtracks takes hours."""
    included = {"a.txt": "-r b.txt\n" * 1000, "b.txt": "-r c.txt\n" * 1000, "c.txt": "-r a.txt\n" * 1000}
    files = {"requirements.txt": "flask\n", "app.py": FLASK, **included}
    if file.endswith(".config.js"):
        files = {"package.json": package(file.partition(".")[0], "@astrojs/vercel")}
    elif file == "server.js":
        pages = {"client/package.json": package(build="x")}
        files = {"package.json": package("express", start="node server.js"), **pages}
    elif file == "shop/settings.py":
        files = {"requirements.txt": "django\n", **DJANGO}
    elif file in (
        "pom.xml",
        "build.gradle",
        "build.gradle.kts",
        "Cargo.toml",
        "mix.exs",
        "cpanfile",
        "Shop.csproj",
        "go.mod",
        "Gemfile",
    ):
        files = {}
    assert detect(tree_of({**files, file: text})) is not None


def test_detection_stops_reading_code_at_its_byte_limit():
    large = {f"part{number}.py": "x = 1\n" * 170_000 for number in range(60)}
    files = {"requirements.txt": "flask\n", **large}
    tree = tree_of(files)
    detect(tree)
    assert tree.bytes_read < 8 << 20
    assert detect(tree_of({**files, "app.py": FLASK})).framework == "Flask"  # negative control


def test_commands_of_a_repository_are_stripped_of_control_characters():
    recipe = detect(tree_of({"Procfile": "web: run \x1b[31m\u202e  'a  b'", "main.py": ""}))
    assert recipe.start == "run  [31m   'a  b'"


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"Procfile": "web: " + "x" * 2001}, "the process web"),
        ({"Procfile": "web: run\nrelease: " + "x" * 2001}, "release"),
        ({"fly.toml": f"[processes]\napp='{'x' * 2001}'"}, "the process app"),
        ({"render.yaml": "services:\n- type: web\n  buildCommand: " + "x" * 2001}, "build"),
        ({"render.yaml": "services:\n- type: web\n  startCommand: " + "x" * 2001}, "start"),
    ],
)
def test_a_command_that_is_too_long_is_a_problem_and_not_a_part_of_itself(files, named):
    """The first part of a command may do anything."""
    recipe = detect(tree_of({**files, "main.py": ""}))
    assert (
        f"Shorten {named} to {MAX_LENGTH} characters, such as by a script in the repository"
        in recipe.problems[0]
    )
    assert not any("x" * 100 in value for _, value, _ in recipe.values)
    shorter = {name: text.replace("xx", "x", 1) for name, text in files.items()}
    values = detect(tree_of({**shorter, "main.py": ""})).values
    assert any("x" * MAX_LENGTH in value for _, value, _ in values)  # negative control


def test_detection_follows_no_symlink_and_opens_no_fifo(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("web: secret\n")
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "Procfile").symlink_to(secret)
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "requirements.txt")
    (folder / "main.py").write_text("")
    names = list(file_names(folder))
    assert names == ["main.py"]
    for name in ("Procfile", "requirements.txt"):  # put there after the names were read
        with pytest.raises(OSError, match=r"link|file"):
            read_beginning(folder, name, 10)
    recipe = detect(Tree([*names, "Procfile", "requirements.txt"], partial(read_beginning, folder)))
    assert recipe.start == "python main.py"
    assert len(recipe.problems) == 2


def test_a_file_removed_during_detection_is_reported_as_a_problem(tmp_path):
    recipe = detect(Tree(["package.json"], partial(read_beginning, tmp_path)))
    assert recipe.problems[0] == "Make package.json a file that can be read: No such file or directory."


def test_folders_of_tools_are_not_entered(tmp_path):
    for name in ("node_modules/x", ".git/x", "a/.venv/x", "a/b/c"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    assert list(file_names(tmp_path)) == ["a/b/c"]


@pytest.mark.parametrize("name", ["pyproject.toml", "Cargo.toml", "package.json", "go.mod"])
def test_folders_of_large_files_are_not_all_read(name):
    """Counts the work instead of the time: to parse a megabyte takes a second, and a commit can name the same
    one in a thousand folders."""
    large, small, read = (b"#" + b"x" * 998 + b"\n") * 1000, b"# \n", [0]

    def contents_of(content):
        def reading(path, most):
            read[0] += len(content[:most])
            return content[:most]

        return reading

    folders = [f"f{number:04}/{name}" for number in range(1000)]
    detect(Tree(folders, contents_of(large)))
    assert read[0] < MAX_READ_BYTES + 4 * MAX_FILE_BYTES
    read[0] = 0
    detect(Tree(folders, contents_of(small)))  # the control: those of an ordinary size are all looked at
    assert read[0] >= 1000 * len(small)


def test_a_tree_of_fifty_thousand_files_is_read_once_by_folder():
    """Counts the work instead of the time: the files that are opened do not grow with the tree."""
    opened = []

    def read(path, most):
        opened.append(path)
        return b""

    paths = [f"p{number % 10}/a{number % 500}/f{number}.py" for number in range(50_000)]
    detect(Tree(["requirements.txt", "app.py", *paths], read))
    assert len(opened) < 1000
