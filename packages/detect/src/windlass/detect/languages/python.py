"""Python: requirements, pyproject.toml or Pipfile; Django, FastAPI, Flask and other frameworks."""

from __future__ import annotations

import re
import shlex
from typing import Any, Final

from windlass.detect.known_files import KnownFiles, table, text_in, texts
from windlass.detect.language import Language
from windlass.detect.python_code import PythonFile, module_file, python_file, python_files
from windlass.detect.python_django import choose_django
from windlass.detect.python_frameworks import (
    ENTRY,
    add_package,
    choose_script_framework,
    choose_server_framework,
)
from windlass.detect.python_modules import known_package_of
from windlass.detect.python_pins import (
    LOCKS,
    REQUIREMENTS,
    SETUPTOOLS,
    companions_in,
    missing_requirements,
    old_package_in,
    package_name,
    python_of_pins,
    requirements_files,
)
from windlass.detect.python_projects import has_to_be_installed
from windlass.detect.python_runners import without_runner
from windlass.detect.python_served_modules import problem_of_served_module
from windlass.detect.python_servers import program_file, server_of
from windlass.detect.recipe import WEB_PROCESS, ProcessType, Recipe
from windlass.detect.site_generators import SITE_FILES, choose_site
from windlass.detect.versions import choose_version, choose_version_by_file

_SYSTEM_PACKAGES: Final = {
    "cairosvg": ("libcairo2",),
    "ffmpeg-python": ("ffmpeg",),
    "gdal": ("gcc", "libgdal-dev"),
    "graphviz": ("graphviz",),
    "moviepy": ("ffmpeg",),
    "mysqlclient": ("default-libmysqlclient-dev", "gcc", "pkg-config"),
    "openai-whisper": ("ffmpeg",),
    "opencv-contrib-python": ("libgl1", "libglib2.0-0"),
    "opencv-python": ("libgl1", "libglib2.0-0"),
    "pdf2image": ("poppler-utils",),
    "pdfkit": ("wkhtmltopdf",),
    "psycopg2": ("gcc", "libpq-dev"),
    "pyaudio": ("gcc", "portaudio19-dev"),
    "pycairo": ("gcc", "libcairo2-dev", "pkg-config"),
    "pycurl": ("gcc", "libcurl4-openssl-dev", "libssl-dev"),
    "pydub": ("ffmpeg",),
    "pygraphviz": ("gcc", "graphviz", "libgraphviz-dev"),
    "pyodbc": ("unixodbc",),
    "pytesseract": ("tesseract-ocr",),
    "python-ldap": ("gcc", "libldap2-dev", "libsasl2-dev"),
    "python-magic": ("libmagic1",),
    "python-snappy": ("gcc", "libsnappy-dev"),
    "pyzbar": ("libzbar0",),
    "soundfile": ("libsndfile1",),
    "weasyprint": ("libpango-1.0-0", "libpangoft2-1.0-0"),
    "xmlsec": ("gcc", "libxml2-dev", "libxmlsec1-dev", "libxmlsec1-openssl", "pkg-config"),
}
"""Debian packages that Python packages need to be built, or that they use."""

_SERVER_PROGRAMS: Final = ("daphne", "granian", "gunicorn", "hypercorn", "uvicorn")
"""Servers of Python whose package has the name of their program."""


def fill(files: KnownFiles, recipe: Recipe) -> None:
    recipe.start, recipe.release = without_runner(recipe.start), without_runner(recipe.release)
    recipe.processes = [
        ProcessType(process.name, without_runner(process.command)) for process in recipe.processes
    ]
    if problem := problem_of_served_module(files, recipe.start):
        recipe.problems.append(problem)
    choose_version_by_file(files, recipe, "python", ".python-version", "runtime.txt")
    _choose_packages(files, recipe)
    needed = dependencies(files)
    system = sorted(
        {package for name, packages in _SYSTEM_PACKAGES.items() if name in needed for package in packages}
    )
    names = ", ".join(name for name in _SYSTEM_PACKAGES if name in needed)
    recipe.choose(f"The dependencies name {names}.", system_packages=system)
    if choose_django(files, recipe, needed):
        _celery(files, recipe, needed)
    else:
        _choose_script(files, recipe, needed)
        _choose_by_code(files, recipe, needed)
        choose_site(files, recipe, needed)
    if not needed and recipe.is_application and not recipe.static_folder:
        _add_imported(files, recipe)
    _add_setuptools(files, recipe)


def _add_imported(files: KnownFiles, recipe: Recipe) -> None:
    """Adds the server of the start command, and the well-known packages that the code of an application
    imports which declares none."""
    program = next(iter(recipe.start.split()), "")
    if program in _SERVER_PROGRAMS and program not in recipe.added_packages:
        add_package(recipe, program, "The start command needs it, and no file names any package.")
    for file in python_files(files, ()):
        for module in file.foreign_modules:
            package = known_package_of(module)
            named = {name.lower() for name in recipe.added_packages}
            if package and package.lower() not in named and not _is_own(files, module, file.base):
                add_package(recipe, package, f"{file.path} imports it, and no file names any package.")


def _is_own(files: KnownFiles, module: str, base: str) -> bool:
    return any(module_file(files, f"{folder}.{module}".strip(".")) for folder in ("", "src", base))


def _add_setuptools(files: KnownFiles, recipe: Recipe) -> None:
    requirements = "\n".join(files.text(name) for name in requirements_files(files))
    for companion, pin in companions_in(requirements).items():
        if files.has(*LOCKS):
            break  # it names all packages
        add_package(recipe, companion, f"{pin} does not work with newer versions.")
    names = [*requirements_files(files), *(name for name in LOCKS if files.has(name))]
    if old := old_package_in("\n".join(files.text(name) for name in names)):
        add_package(recipe, SETUPTOOLS, f"{old} needs its module pkg_resources.")


def dependencies(files: KnownFiles) -> dict[str, str]:
    """Returns the packages that the application depends on, each with the file that declares it."""
    names: dict[str, str] = {}
    for file in requirements_files(files):
        for line in files.text(file).splitlines():
            _add(names, line.strip(), file)
    content = files.toml("pyproject.toml") if files.has("pyproject.toml") else {}
    for line in texts(content, "project", "dependencies"):
        _add(names, line, "pyproject.toml")
    for name in table(content, "tool", "poetry", "dependencies"):
        _add(names, name, "pyproject.toml")
    for name in table(files.toml("Pipfile") if files.has("Pipfile") else {}, "packages"):
        _add(names, name, "Pipfile")
    return names


def _add(names: dict[str, str], line: str, file: str) -> None:
    if name := package_name(line):
        names.setdefault(name, file)
        if "[" in line[:200] and ("standard" in line or "all" in line) and name == "fastapi":
            names.setdefault("uvicorn", file)


def _choose_packages(files: KnownFiles, recipe: Recipe) -> None:
    content: dict[str, Any] = files.toml("pyproject.toml") if files.has("pyproject.toml") else {}
    if files.has("Pipfile"):  # takes precedence over pyproject.toml, as on the process engine
        required = table(files.toml("Pipfile"), "requires")
        for field in ("python_version", "python_full_version"):
            choose_version(recipe, text_in(required, field), "Pipfile")
    choose_version(recipe, text_in(content, "project", "requires-python"), "pyproject.toml")
    choose_version(recipe, text_in(content, "tool", "poetry", "dependencies", "python"), "pyproject.toml")
    if not recipe.language_version and (pinned := python_of_pins(files)):
        recipe.choose(pinned.reason, language_version=pinned.version)
    manager, install, reason = _package_manager(files, content)
    recipe.choose(reason, package_manager=manager, install=install)


def _package_manager(files: KnownFiles, content: dict[str, Any]) -> tuple[str, str, str]:
    backend = text_in(content, "build-system", "build-backend")
    if files.has("uv.lock"):
        return "uv", "uv sync --frozen --no-dev", "uv.lock is there."
    if files.has("poetry.lock"):
        return "poetry", "poetry install --only main --no-interaction", "poetry.lock is there."
    if files.has("pdm.lock"):
        return "pdm", "pdm install --prod --frozen-lockfile", "pdm.lock is there."
    if files.has("requirements.txt"):
        return _requirements_and_project(files, content)
    if files.has("Pipfile.lock"):
        return "pipenv", "pipenv install --deploy", "Pipfile.lock is there."
    if files.has("Pipfile"):
        return "pipenv", "pipenv install", "Pipfile is there."
    if backend.startswith("poetry") or table(content, "tool", "poetry"):
        return (
            "poetry",
            "poetry install --only main --no-interaction",
            "pyproject.toml has a table of Poetry.",
        )
    if table(content, "project") or table(content, "build-system"):
        return "pip", "pip install .", f"pyproject.toml is built by {backend or 'setuptools'}."
    if files.has("setup.py"):
        return "pip", "pip install .", "setup.py is there."
    if file := files.has(*REQUIREMENTS):
        return "pip", f"pip install -r {file}", f"{file} is there."
    return "", "", ""


def _requirements_and_project(files: KnownFiles, content: dict[str, Any]) -> tuple[str, str, str]:
    install, reason = "pip install -r requirements.txt", "requirements.txt is there."
    text = "\n".join(files.text(file) for file in requirements_files(files))
    if missing := missing_requirements(text, texts(content, "project", "dependencies")):
        install = shlex.join([*install.split(), *missing])
        reason = f"requirements.txt is there, and pyproject.toml names {package_name(missing[0])} besides."
    if has_to_be_installed(files, text):
        install = f"{install} && pip install --no-deps ."
        reason = f"{reason.rstrip('.')}; the packages of the project are below src."
    return "pip", install, reason


def _choose_by_code(files: KnownFiles, recipe: Recipe, dependencies: dict[str, str]) -> None:
    code = python_files(files, dependencies)
    if not (
        _choose_framework(recipe, dependencies, code)
        or _choose_framework(recipe, dependencies, python_files(files, dependencies, of_any_name=True))
    ):
        _choose_entry(recipe, code, files)
    _celery(files, recipe, dependencies, code)


def _choose_framework(recipe: Recipe, dependencies: dict[str, str], code: list[PythonFile]) -> bool:
    return choose_script_framework(recipe, dependencies, code) or choose_server_framework(
        recipe, dependencies, code
    )


def _celery(
    files: KnownFiles, recipe: Recipe, dependencies: dict[str, str], code: list[PythonFile] | None = None
) -> None:
    """Adds a Celery worker process next to the web process, or as the only process."""
    if "celery" not in dependencies or recipe.processes:
        return
    code = python_files(files, dependencies) if code is None else code
    named = [*code, *(python_file(files, path, dependencies) for path in _celery_paths(files))]
    file = next((file for file in named if file.made_by("Celery")), None)
    if file is None:
        return
    because = f"{dependencies['celery']} names Celery; {file.path} defines `{file.made_by('Celery')}`."
    folder = f" --workdir {file.base}" if file.base else ""
    worker = ProcessType("worker", f"celery{folder} -A {file.module} worker --loglevel INFO")
    web = [ProcessType(WEB_PROCESS, recipe.start)] if recipe.start else []
    recipe.choose(because, processes=[*web, worker], start=worker.command, framework="Celery")


def _celery_paths(files: KnownFiles) -> list[str]:
    folders = ["", *(folder for folder in files.tree.folders() if folder.count("/") <= 1)]
    names = ("celery.py", "celery_app.py", "tasks.py", "worker.py")
    paths = [f"{folder}/{name}".strip("/") for folder in folders[:200] for name in names]
    return [path for path in paths if files.has(path)]


def _choose_script(files: KnownFiles, recipe: Recipe, dependencies: dict[str, str]) -> None:
    """Chooses the start command if the project declares exactly one script. A script that only runs a
    dependency's program does not count."""
    content = files.toml("pyproject.toml") if files.has("pyproject.toml") else {}
    scripts = table(content, "project", "scripts")
    modules = [re.split(r"[.:]", target)[0] for target in scripts.values() if isinstance(target, str)]
    if len(scripts) == 1 and not dependencies.keys() & {
        module.lower().replace("_", "-") for module in modules
    }:
        recipe.choose("It is the one script of pyproject.toml.", start=next(iter(scripts)))
        if modules and recipe.start == next(iter(scripts)):
            _choose_port(files, recipe, program_file(files, next(iter(scripts.values())).partition(":")[0]))


def _choose_entry(recipe: Recipe, code: list[PythonFile], files: KnownFiles) -> None:
    """Chooses a file to run. Files that only define tasks of a worker are skipped."""
    workers = {file.path for file in code if file.made_by("Celery")}
    for name in ENTRY:
        if files.has(name) and name not in workers:
            recipe.choose(f"{name} is there.", start=f"python {name}")
            if recipe.start == f"python {name}":
                _choose_port(files, recipe, name)


def _choose_port(files: KnownFiles, recipe: Recipe, path: str) -> None:
    """Chooses the port of a program without a framework if it serves HTTP. If the recipe has processes, their
    names show which process listens."""
    if path and not recipe.processes and (server := server_of(files, path)):
        recipe.choose(server.reason, port=server.port)


python = Language(
    name="Python",
    manifests=(*REQUIREMENTS, "pyproject.toml", "Pipfile", "setup.py"),
    code=("manage.py", *ENTRY, *SITE_FILES, "streamlit_app.py"),
    lone_code=("*.py",),
    rank=40,
    fill=fill,
    manifests_with_paths=("requirements.txt", "pyproject.toml"),
)
