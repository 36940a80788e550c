"""Trees of files and the recipes that follow from them: one row each."""

from __future__ import annotations

import importlib
import subprocess
from pathlib import Path

import pytest

from tests.detect.rows import ROWS
from tests.detect.trees import DJANGO, FLASK, MANAGE, package, tree_of
from tests.tables import rows
from windlass.detect import Candidate, detect, language_named
from windlass.detect.languages import languages
from windlass.detect.node_frameworks import FRAMEWORKS
from windlass.detect.recipe import Recipe


def values_of(recipe: Recipe, names) -> dict[str, object]:
    found = {name: getattr(recipe, name) for name in names}
    if "processes" in found:
        found["processes"] = [process.name for process in recipe.processes]
    return found


@rows("row", ROWS, ids=lambda row: row.name)
def test_a_file_tree_is_detected_as_the_expected_recipe(row):
    recipe = detect(tree_of(row.files))
    assert values_of(recipe, row.values) == row.values
    assert {name: recipe.reasons[name] for name in row.reasons} == row.reasons
    assert recipe.problems == []


@rows("row", ROWS, ids=lambda row: row.name)
def test_each_value_has_a_reason_in_a_sentence(row):
    recipe = detect(tree_of(row.files))
    named = {name for name, _, _ in recipe.values}
    empty = Recipe()
    own = [
        name
        for name in empty.__struct_fields__
        if name not in ("reasons", "problems", "remarks", "candidates")
    ]
    assert named == {name for name in own if getattr(recipe, name) != getattr(empty, name)}
    assert all(reason.endswith(".") and len(reason) > 10 for _, _, reason in recipe.values)


def test_an_html_file_in_a_templates_folder_is_not_an_application():
    files = {"shop/templates/index.html": "", "shop/templates/mail/package.json": package(start="node .")}
    assert detect(tree_of(files)).candidates == [Candidate("/shop/templates/mail", "Node")]
    # Negative control: elsewhere, a page is one.
    assert detect(tree_of({"shop/pages/index.html": ""})).candidates == [Candidate("/shop/pages", "HTML")]


def test_every_language_has_a_detection_test():
    shown = {row.values.get("language") for row in ROWS}
    assert {language.name for language in languages()} <= shown, "add a row to tests/detect/other_trees.py"


def test_each_module_of_languages_declares_one_language():
    folder = Path(str(importlib.import_module("windlass.detect.languages").__file__)).parent
    files = {file.stem for file in folder.glob("*.py")} - {"__init__"}
    declared = sorted(language.fill.__module__.rpartition(".")[2] for language in languages())
    assert declared == sorted(files), "a file declares one Language, whose `fill` it defines"


def test_each_detected_node_framework_is_in_the_test_table():
    shown = {row.values.get("framework") or detect(tree_of(row.files)).framework for row in ROWS}
    assert {framework.name for framework in FRAMEWORKS} <= shown


def test_each_language_but_those_that_need_no_program_names_its_toolchain():
    assert [language.name for language in languages() if language.toolchain is None] == [
        "Python",
        "HTML",
        "Shell",
    ]
    go = language_named("Go")
    assert go
    assert go.toolchain
    assert go.toolchain.package == "golang"


@pytest.mark.parametrize(
    ("language", "wanted", "command"),
    [
        (".NET", "10.0", "apt-get install dotnet-sdk-10.0"),
        (".NET", "", "apt-get install dotnet-sdk-8.0"),
        ("Java", "21", "apt-get install openjdk-21-jdk"),
        ("Ruby", "3.4", "apt-get install ruby-full ruby-bundler"),
    ],
)
def test_a_missing_toolchain_is_installed_in_the_wanted_version(language, wanted, command):
    declared = language_named(language)
    assert declared
    assert declared.toolchain
    assert declared.toolchain.installation(wanted) == command


@pytest.mark.parametrize(
    ("names", "started"),
    [
        (["shop-1.jar", "original-shop-1.jar"], "shop-1.jar"),
        (["shop-1.jar", "shop-1-plain.jar", "shop-1-sources.jar", "shop-1-javadoc.jar"], "shop-1.jar"),
        (["explain-1.jar"], "explain-1.jar"),
    ],
)
def test_java_starts_the_archive_of_the_application(tmp_path, names, started):
    start = detect(tree_of({"pom.xml": "<project/>"})).start
    (tmp_path / "target").mkdir()
    for name in names:
        (tmp_path / "target" / name).touch()
    shown = subprocess.run(
        ["sh", "-c", start.replace("java -jar", "echo")], cwd=tmp_path, check=True, capture_output=True
    )
    assert shown.stdout.decode().strip() == f"target/{started}"


def test_detection_without_a_recognized_language_gives_advice():
    recipe = detect(tree_of({"README.md": "x"}))
    assert not recipe.is_runnable
    assert recipe.problems == [
        "Set start_command, or add a Procfile with a line such as `web: command`, or a Dockerfile: no "
        "language was recognized."
    ]


def test_a_known_language_without_a_start_says_what_to_add():
    recipe = detect(tree_of({"Cargo.toml": '[package]\nname="shop"\n', "src/lib.rs": ""}))
    assert recipe.language == "Rust"
    assert recipe.problems == [
        "Set start_command, or add a Procfile with a line such as `web: command`: this is Rust, and no file "
        "shows how it is started."
    ]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("Procfile", "api: gunicorn app:app\nworker: work\n"),  # the first is what a language suggests
        ("fly.toml", '[processes]\napi="serve"\nworker="work"\n'),
    ],
)
def test_without_a_web_process_the_application_must_choose_a_process(file, text):
    named = {"requirements.txt": "flask\n", "app.py": FLASK, file: text}
    recipe = detect(tree_of(named))
    assert (recipe.framework, recipe.start, recipe.added_packages) == ("Flask", "", [])
    assert [process.name for process in recipe.processes] == ["api", "worker"]
    assert recipe.problems == [
        "Set process to one of api, worker: the repository names these, and no process type web."
    ]
    nested = detect(tree_of({f"shop/{path}": text for path, text in named.items()}))
    assert [candidate.root_path for candidate in nested.candidates] == ["/shop"]


def test_a_malformed_procfile_line_is_reported_with_its_number():
    recipe = detect(tree_of({"Procfile": "# types\nweb: serve\n\nno line\n- x: y\n"}))
    assert recipe.start == "serve"
    assert recipe.problems == ["Write line 4 of the Procfile as `web: command`: it has another form."]


def test_svelte_without_an_adapter_says_which_one_to_add():
    recipe = detect(tree_of({"package.json": package("@sveltejs/kit", build="vite build")}))
    assert recipe.problems[0].startswith("Add the package @sveltejs/adapter-node")


def test_an_astro_that_makes_a_server_for_another_platform_says_which_adapter_to_use():
    config = "export default defineConfig({ output: 'server', adapter: vercel() })"
    named = package("astro", "@astrojs/vercel", build="astro build")
    recipe = detect(tree_of({"package.json": named, "astro.config.mjs": config}))
    assert not recipe.is_runnable
    assert recipe.problems[0].startswith("Add the package @astrojs/node")
    assert detect(tree_of({"package.json": named, "astro.config.mjs": ""})).static_folder == "dist"


SET = "to the public host of the application, or to *: Django answers 400 to other hosts"


@rows(
    ("settings", "problem"),
    [
        (
            "ALLOWED_HOSTS = []\n",
            "Add the public host of the application, or '*', to ALLOWED_HOSTS of the settings",
        ),
        ("ALLOWED_HOSTS = os.getenv('HOSTS', 'localhost').split(',')\n", f"Set the variable HOSTS {SET}"),
        ("ALLOWED_HOSTS = env.list('HOSTS', default=[])\n", f"Set the variable HOSTS {SET}"),
        ("ALLOWED_HOSTS = [os.environ['HOST_NAME']]\n", f"Set the variable HOST_NAME {SET}"),
        (
            "ALLOWED_HOSTS = []\nif OWN_HOST:\n    ALLOWED_HOSTS.append(OWN_HOST)\n",
            f"Set the variable OWN_HOST {SET}",
        ),
        ("ALLOWED_HOSTS = ['*']\n", ""),
        ("if X:\n    ALLOWED_HOSTS = ['*']\nelse:\n    ALLOWED_HOSTS = ['localhost']\n", ""),
        ("DEBUG = False\n", ""),
        ("INSTALLED_APPS = []\n", "Add the public host of the application, or '*', to ALLOWED_HOSTS"),
        ("INSTALLED_APPS = []\nconfigure(locals())\n", ""),
        ("from .common import *\nINSTALLED_APPS = []\n", ""),
    ],
)
def test_a_django_that_refuses_its_public_host_gets_advice_what_to_set(settings, problem):
    files = {"shop/common.py": "ALLOWED_HOSTS = ['*']\n", "shop/settings.py": settings}
    recipe = detect(tree_of({"requirements.txt": "Django\n", **DJANGO, **files}))
    assert [text.startswith(problem) for text in recipe.problems] == ([True] if problem else [])


@pytest.mark.parametrize(
    ("settings", "variable"),
    [
        ("SECRET_KEY = os.getenv('KEY_OF_SHOP')  # keep it\n", "KEY_OF_SHOP"),
        ('SECRET_KEY = os.environ.get("SECRET_KEY")\n', "SECRET_KEY"),
        ("SECRET_KEY = os.environ.get('SECRET_KEY', 'other')\n", ""),
        ("SECRET_KEY = os.environ['SECRET_KEY']\n", ""),  # it does not start without
        ("SECRET_KEY = os.getenv('SECRET_KEY') or 'other'\n", ""),
        ("SECRET_KEY = os.getenv('SECRET_KEY')\nif not SECRET_KEY:\n    SECRET_KEY = 'other'\n", ""),
    ],
)
def test_django_without_its_secret_key_says_which_variable_to_set(settings, variable):
    recipe = detect(tree_of({"requirements.txt": "Django\n", **DJANGO, "shop/settings.py": settings}))
    said = f"Set the variable {variable} to a long random text, such as with `windlass secrets set {variable}"
    assert [text.partition("=…`")[0] for text in recipe.problems] == ([said] if variable else [])


@pytest.mark.parametrize(
    ("value", "variable"),
    [
        ("os.environ.get('SSL_REDIRECT', 'True').lower() == 'true'", "SSL_REDIRECT"),
        ("env.bool('SECURE_SSL_REDIRECT', default=True)", "SECURE_SSL_REDIRECT"),
        ("os.environ.get('SSL_REDIRECT', 'False') == 'yes'", ""),
        ("True", ""),
    ],
)
def test_a_django_that_redirects_to_https_says_which_variable_stops_it(value, variable):
    settings = f"ALLOWED_HOSTS = ['*']\nif not DEBUG:\n    SECURE_SSL_REDIRECT = {value}\n"
    recipe = detect(tree_of({"requirements.txt": "Django\n", **DJANGO, "shop/settings.py": settings}))
    said = f"Set the variable {variable} to False until visitors come by HTTPS"
    assert [text.partition(":")[0] for text in recipe.problems] == ([said] if variable else [])


def test_the_django_settings_module_that_the_server_loads_is_read():
    files = {
        "requirements.txt": "Django\n",
        "manage.py": MANAGE.replace("shop.settings", "shop.development"),
        "shop/development.py": "ALLOWED_HOSTS = ['*']\n",
        "shop/common.py": "SECRET_KEY = os.getenv('SECRET_KEY')\n",
        "shop/settings.py": "from .common import *\nINSTALLED_APPS = []\nALLOWED_HOSTS = ['shop.test']\n",
    }
    chosen = "name = 'shop.live' if 'LIVE' in os.environ else 'shop.settings'\n"
    loads = f"{chosen}os.environ.setdefault('DJANGO_SETTINGS_MODULE', name)\n"
    recipe = detect(tree_of({**files, "shop/wsgi.py": loads}))
    assert [text.partition(":")[0] for text in recipe.problems] == [
        "Set the variable SECRET_KEY to a long random text, such as with `windlass secrets set SECRET_KEY=…`",
        "Add the public host of the application, or '*', to ALLOWED_HOSTS of the settings",
    ]
    named = {"shop/development.py": "ALLOWED_HOSTS = [os.environ['LIVE']]\n"}
    hosts = detect(tree_of({**files, **named, "shop/wsgi.py": loads})).problems[1]
    assert hosts.startswith(f"Set the variable LIVE {SET}")  # which chooses these settings, too
    # Negative control: settings of development, if the server loads those.
    assert detect(tree_of({**files, "shop/wsgi.py": "application = 1\n"})).problems == []


MONOREPO = {
    "README.md": "x",
    "apps/api/requirements.txt": "flask\n",
    "apps/api/app.py": FLASK,
    "apps/api/templates/index.html": "x",
    "apps/web/package.json": package("next", start="next start"),
    "packages/tools/package.json": package("left-pad"),
    "docs/index.html": "x",
    "site/index.html": "x",
    "tests/fixtures/package.json": package("next", start="next start"),
}


def test_the_applications_of_a_monorepo_are_listed_by_folder():
    recipe = detect(tree_of({name: text for name, text in MONOREPO.items() if not name.startswith("site/")}))
    assert recipe.candidates == [
        Candidate("/apps/api", "Python", "Flask"),
        Candidate("/apps/web", "Node", "Next.js"),
    ]
    assert recipe.problems == [
        "Set root_path to the folder of one application, such as /apps/api, /apps/web."
    ]


def test_a_folder_of_a_monorepo_is_detected_by_itself():
    recipe = detect(tree_of(MONOREPO).below("/apps/api/"))
    assert (recipe.framework, recipe.candidates) == ("Flask", [])


def test_an_application_lists_only_the_folders_below_it_that_have_a_manifest():
    files = {"requirements.txt": "flask\n", "app.py": FLASK, "templates/index.html": "x", "jobs/main.py": ""}
    assert detect(tree_of(files)).candidates == []
    recipe = detect(tree_of({**files, "web/package.json": package("next", start="next start")}))
    assert recipe.candidates == [Candidate("/web", "Node", "Next.js")]


def test_a_documentation_site_beside_applications_does_not_hide_them():
    recipe = detect(
        tree_of(
            {"mkdocs.yml": "", "api/requirements.txt": "flask\n", "api/app.py": "app = Flask(__name__)\n"}
        )
    )
    assert not recipe.is_runnable
    assert [candidate.root_path for candidate in recipe.candidates] == ["/api"]


@pytest.mark.parametrize(
    ("folder", "candidates"), [("layouts", []), ("_layouts", []), ("templates", []), ("pages", ["/pages"])]
)
def test_an_html_file_with_template_placeholders_is_not_an_application(folder, candidates):
    recipe = detect(tree_of({f"{folder}/index.html": "{{ title }}", "notes.txt": ""}))
    assert [candidate.root_path for candidate in recipe.candidates] == candidates


COMPOSE = "Deploy each service of docker-compose.yml by itself: "


@pytest.mark.parametrize(
    "files", [{}, {"api/package.json": package("express", start="node x"), "db/schema.sql": ""}]
)
def test_detection_explains_a_compose_file_if_no_other_file_starts_an_application(files):
    problems = detect(tree_of({"docker-compose.yml": "services:\n", **files})).problems
    assert problems[-1].startswith(COMPOSE)
    assert len(problems) == 2


def test_a_compose_file_next_to_an_application_is_ignored():
    """Negative control: most of them start its database on the machine of a developer."""
    recipe = detect(tree_of({"docker-compose.yml": "services:\n", "app.py": FLASK}))
    assert recipe.problems == []
