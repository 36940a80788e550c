"""Python frameworks that are recognized in code, and the command that serves each framework."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, NamedTuple

from windlass.detect.python_code import PythonFile
from windlass.detect.python_views import module_with_views
from windlass.detect.recipe import Recipe

ENTRY: Final = ("main.py", "app.py")
_DASH_SERVER_PATTERN: Final = re.compile(r"^(\w{1,80}+)[ \t]*+=[ \t]*+\w++\.server\b", re.MULTILINE)
_DEPLOYED_FOLDER: Final = "app"
"""The name of the folder that is deployed, on every engine."""
_FROM_PARENT: Final = "env PYTHONPATH=.. "
_RELATIVE_IMPORT_PATTERN: Final = re.compile(r"^from[ \t]++\.\w*+[ \t]++import\b", re.MULTILINE)
_IMPORT_BELOW_PATTERN: Final = re.compile(
    rf"^[ \t]*+(?:from|import)[ \t]++{_DEPLOYED_FOLDER}\.(\w++)", re.MULTILINE
)
_ASGI_FRAMEWORKS: Final = ("FastAPI", "Starlette", "Litestar", "Quart", "Sanic")
_WSGI_FRAMEWORKS: Final = ("Flask", "Bottle", "Dash")
_FRAMEWORK_MODULES: Final = {
    "FastAPI": "fastapi",
    "Starlette": "starlette",
    "Litestar": "litestar",
    "Quart": "quart",
    "Sanic": "sanic",
    "Flask": "flask",
    "Bottle": "bottle",
    "Dash": "dash",
}


class ScriptFramework(NamedTuple):
    """A framework with its own program, which runs a file."""

    name: str
    module: str
    start: str
    """The part of the command before the file's path."""
    options: str
    port: int
    health_path: str = ""


_SCRIPT_FRAMEWORKS: Final = (
    ScriptFramework(
        name="Streamlit",
        module="streamlit",
        start="streamlit run",
        options=" --server.port ${PORT:-8501} --server.address 0.0.0.0 --server.headless true",
        port=8501,
        health_path="/_stcore/health",
    ),
    ScriptFramework(
        name="Chainlit",
        module="chainlit",
        start="chainlit run",
        options=" --host 0.0.0.0 --port ${PORT:-8000} --headless",
        port=8000,
    ),
    ScriptFramework(
        name="Gradio",
        module="gradio",
        start="env GRADIO_SERVER_NAME=0.0.0.0 GRADIO_SERVER_PORT=${PORT:-7860} python",
        options="",
        port=7860,
    ),
)
_BESIDE_A_SERVER: Final = "gradio"
"""A module that applications of server frameworks import, too."""


def choose_script_framework(recipe: Recipe, dependencies: dict[str, str], code: list[PythonFile]) -> bool:
    """Chooses a framework whose own program runs a file. Returns False if no file uses one."""
    for framework in _SCRIPT_FRAMEWORKS:
        for file in code if framework.module in dependencies or not dependencies else ():
            if file.imports(framework.module) and not _is_of_server(framework, file):
                _choose_script(recipe, dependencies, framework, file)
                return True
    return False


def _is_of_server(framework: ScriptFramework, file: PythonFile) -> bool:
    return framework.module == _BESIDE_A_SERVER and any(
        file.made_by(name) for name in (*_ASGI_FRAMEWORKS, *_WSGI_FRAMEWORKS)
    )


def _choose_script(
    recipe: Recipe, dependencies: dict[str, str], framework: ScriptFramework, file: PythonFile
) -> None:
    recipe.choose(
        f"{_reason_text(framework.name, framework.module, dependencies, file)} imports it.",
        framework=framework.name,
        start=f"{framework.start} {file.path}{framework.options}",
        port=framework.port,
    )
    if framework.health_path:
        reason = f"{framework.name} answers there when it is ready."
        recipe.choose(reason, health_path=framework.health_path)
    _add_unnamed(recipe, dependencies, framework.module, file)


def choose_server_framework(recipe: Recipe, dependencies: dict[str, str], code: list[PythonFile]) -> bool:
    """Chooses a framework whose application object a server loads. Declared frameworks come before frameworks
    that are only imported, as dependencies of other packages. Returns False if no file uses one."""
    named = [
        name
        for name in (*_ASGI_FRAMEWORKS, *_WSGI_FRAMEWORKS)
        if _file_naming(_FRAMEWORK_MODULES[name], dependencies)
    ]
    for name in named:
        makers = {maker.name for file in code for maker in file.makers(name)}
        for file in code:
            if _choose_object(recipe, dependencies, code, file, name, makers):
                return True
    if any(_choose_entry_object(recipe, dependencies, file, named) for file in code):
        return True
    return any(
        file.imports(_FRAMEWORK_MODULES[name])
        and _choose_object(recipe, dependencies, code, file, name, set())
        for name in (*_ASGI_FRAMEWORKS, *_WSGI_FRAMEWORKS)
        for file in code
    )


def _choose_object(
    recipe: Recipe,
    dependencies: dict[str, str],
    code: list[PythonFile],
    file: PythonFile,
    name: str,
    makers: Collection[str],
) -> bool:
    """Chooses a framework's application object in a file, or the function that creates it. Returns False if
    the file has neither."""
    variable = file.made_by(name, *makers)
    factory = file.factory(name) if not variable and file.imports(_FRAMEWORK_MODULES[name]) else ""
    if not variable and not factory:
        return False
    because = (
        f"{_reason_text(name, _FRAMEWORK_MODULES[name], dependencies, file)} defines `{variable or factory}`"
    )
    recipe.choose(f"{because}.", framework=name)
    if variable and (whole := module_with_views(code, file, variable)):
        file, because = whole, f"{because}, which {whole.path} imports along with other modules"
    before, package, why = _parent_package(code, file)
    because += why
    if entry := next((file for file in code if file.path in ENTRY and file.starts_a_server), None):
        recipe.choose(
            f"{entry.path} serves when it is run.", start=f"python {entry.path}", port=entry.served_port
        )
    elif name in _ASGI_FRAMEWORKS:
        more = (" --factory" if factory else "") + (f" --app-dir {file.base}" if file.base else "")
        target = f"{package}{file.module}:{variable or factory}"
        serve_asgi(recipe, dependencies, target, because, more, before)
    else:
        inner = _DASH_SERVER_PATTERN.search(file.text) if name == "Dash" else None
        target = inner[1] if inner else variable or f"'{factory}()'"
        more = f" --pythonpath {file.base}" if file.base else ""
        serve_wsgi(recipe, dependencies, f"{package}{file.module}:{target}", because, more, before)
    _add_unnamed(recipe, dependencies, _FRAMEWORK_MODULES[name], file)
    return True


def _parent_package(code: list[PythonFile], file: PythonFile) -> tuple[str, str, str]:
    """Returns what a command needs if the folder itself is a package that its modules import: the beginning
    of the command, the package of the served file, and the reason. All are empty for others."""
    own = {file.path.partition("/")[0].removesuffix(".py") for file in code}
    if _DEPLOYED_FOLDER in own:
        return "", "", ""
    if "/" not in file.path and _RELATIVE_IMPORT_PATTERN.search(file.text):
        return _FROM_PARENT, f"{_DEPLOYED_FOLDER}.", ", and imports its neighbours as parts of a package"
    for other in code:
        if any(match[1] in own for match in _IMPORT_BELOW_PATTERN.finditer(other.text)):
            why = f", and {other.path} imports modules below {_DEPLOYED_FOLDER}, which this folder is called"
            return _FROM_PARENT, "", why
    return "", "", ""


def _choose_entry_object(
    recipe: Recipe, dependencies: dict[str, str], file: PythonFile, named: Collection[str]
) -> bool:
    """Chooses the application object in wsgi.py or asgi.py, even if another file creates it. Returns False if
    there is none."""
    names = {"wsgi.py": _WSGI_FRAMEWORKS, "asgi.py": _ASGI_FRAMEWORKS}.get(file.path, ())
    name = next((name for name in names if name in named), "")
    if not name or not (variable := file.served_object):
        return False
    because = f"{_reason_text(name, _FRAMEWORK_MODULES[name], dependencies, file)} holds `{variable}`"
    recipe.choose(f"{because}.", framework=name)
    serve = serve_wsgi if names is _WSGI_FRAMEWORKS else serve_asgi
    serve(recipe, dependencies, f"{file.module}:{variable}", because, "")
    return True


def _reason_text(name: str, module: str, dependencies: dict[str, str], file: PythonFile) -> str:
    origin = _file_naming(module, dependencies)
    return f"{origin} names {name}; {file.path}" if origin else file.path


def _add_unnamed(recipe: Recipe, dependencies: dict[str, str], module: str, file: PythonFile) -> None:
    """Adds the framework's package if no file declares any dependency. Otherwise another package may depend
    on it."""
    if not dependencies:
        add_package(recipe, module, f"{file.path} imports it, and no file names any package.")


def _file_naming(module: str, dependencies: dict[str, str]) -> str:
    """Returns the file that declares a package or one of its extensions, such as flask-admin, which depends
    on the package."""
    extensions = (file for name, file in dependencies.items() if name.startswith(f"{module}-"))
    return dependencies.get(module) or next(extensions, "")


def serve_asgi(
    recipe: Recipe, dependencies: dict[str, str], target: str, reason: str, flags: str, run_before: str = ""
) -> None:
    if recipe.start:
        return
    if "hypercorn" in dependencies and "uvicorn" not in dependencies:
        start = f"hypercorn {target} --bind 0.0.0.0:${{PORT:-8000}}"
    elif "daphne" in dependencies and "uvicorn" not in dependencies:
        start = f"daphne --bind 0.0.0.0 --port ${{PORT:-8000}} {target}"
    else:
        start = f"uvicorn {target} --host 0.0.0.0 --port ${{PORT:-8000}}{flags}"
        _add_server(recipe, dependencies, "uvicorn")
    _choose_start(recipe, run_before + start, reason)


def serve_wsgi(
    recipe: Recipe, dependencies: dict[str, str], target: str, reason: str, flags: str, run_before: str = ""
) -> None:
    if recipe.start:
        return
    if "waitress" in dependencies and "gunicorn" not in dependencies:
        start = f"waitress-serve --listen=0.0.0.0:${{PORT:-8000}} {target}"
    else:
        start = f"gunicorn {target} --bind 0.0.0.0:${{PORT:-8000}} --workers ${{WEB_CONCURRENCY:-2}}{flags}"
        _add_server(recipe, dependencies, "gunicorn")
    _choose_start(recipe, run_before + start, reason)


def _choose_start(recipe: Recipe, start: str, reason: str) -> None:
    recipe.choose(f"{reason}.", start=start)
    recipe.choose("The start command listens there unless PORT names another.", port=8000)


def _add_server(recipe: Recipe, dependencies: dict[str, str], server: str) -> None:
    if server not in dependencies:
        add_package(recipe, server, "The start command needs it, and no file names a server.")


def add_package(recipe: Recipe, name: str, reason: str) -> None:
    if recipe.added_packages:
        recipe.added_packages.append(name)
    recipe.choose(reason, added_packages=[name])
