"""Perl: cpanfile or app.psgi; Mojolicious, Dancer2, Catalyst and other PSGI applications."""

from __future__ import annotations

import re
import shlex
from typing import Final

from windlass.detect.known_files import KnownFiles
from windlass.detect.language import Language, matching_files
from windlass.detect.program_names import server_rank
from windlass.detect.recipe import Recipe
from windlass.detect.toolchain import Toolchain
from windlass.detect.versions import choose_version, choose_version_by_file

_MODULE_PATTERN: Final = re.compile(r"^[ \t]*+requires[ \t(]++['\"]?+([\w:]++)", re.MULTILINE)
_PERL_VERSION_PATTERN: Final = re.compile(
    r"^[ \t]*+requires[ \t(]++['\"]?+perl['\"]?+[ \t]*+(?:,|=>)[ \t]*+['\"]?+v?+(5\.[\d.]{1,20}+)",
    re.MULTILINE,
)
_DECIMAL_PATTERN: Final = re.compile(r"5\.(\d{3})(\d{3})?")
"""Matches the older form of versions: 5.036001 is 5.36.1."""
_FRAMEWORK_NAMES: Final = {
    "Mojolicious": "Mojolicious",
    "Mojolicious::Lite": "Mojolicious",
    "Dancer2": "Dancer2",
    "Catalyst::Runtime": "Catalyst",
    "Kelp": "Kelp",
}
_SERVER_MODULES: Final = ("Starman", "Starlet", "Gazelle", "Twiggy", "Feersum")
"""PSGI servers that `plackup` can start by name."""
_SYSTEM_PACKAGES: Final = {
    "DBD::Pg": "libpq-dev",
    "DBD::mysql": "default-libmysqlclient-dev",
    "DBD::MariaDB": "libmariadb-dev",
    "XML::LibXML": "libxml2-dev",
}
_PSGI_FILES: Final = ("app.psgi", "bin/app.psgi", "script/app.psgi", "*.psgi")
_PROGRAM_FILES: Final = ("app.pl", "main.pl", "server.pl")
_CARTON_MIRROR: Final = '"${PERL_CARTON_MIRROR:-https://cpan.metacpan.org}"'
"""The package mirror. By default, both tools would download modules over plain HTTP without checksums."""


def fill(files: KnownFiles, recipe: Recipe) -> None:
    text = files.text("cpanfile")
    modules = set(_MODULE_PATTERN.findall(text))
    choose_version_by_file(files, recipe, "perl", ".perl-version")
    if version := _PERL_VERSION_PATTERN.search(text):
        choose_version(recipe, f">={_dotted_version(version[1])}", "cpanfile")
    if named := next((name for name in _FRAMEWORK_NAMES if name in modules), ""):
        recipe.choose(f"cpanfile names {named}.", framework=_FRAMEWORK_NAMES[named])
    needed = sorted(modules & _SYSTEM_PACKAGES.keys())
    recipe.choose(
        f"cpanfile names {', '.join(needed)}.", system_packages=[_SYSTEM_PACKAGES[name] for name in needed]
    )
    psgi = next(matching_files(files.tree, _PSGI_FILES), "")
    server = next((name for name in _SERVER_MODULES if name in modules), "")
    program = _find_program(files) if recipe.framework == "Mojolicious" else ""
    if psgi and not program:
        library = " -I lib" if files.tree.names("lib") else ""
        start = (
            f"./local/bin/plackup -E production -s {server or 'Starman'} --host 0.0.0.0"
            f" --port ${{PORT:-5000}}{library} {shlex.quote(psgi)}"
        )
        recipe.choose(f"{psgi} is there.", start=start, port=5000)
        if recipe.start == start and not server:
            recipe.choose("No file names a server of PSGI.", added_packages=["Starman"])
    if program:
        recipe.choose(
            f"{program} is there, and cpanfile names Mojolicious.",
            start=f"perl {shlex.quote(program)} prefork -m production -l http://0.0.0.0:${{PORT:-3000}}",
            port=3000,
        )
    if other := files.has(*_PROGRAM_FILES):
        recipe.choose(f"{other} is there.", start=f"perl {other}")
    _install(files, recipe)


def _install(files: KnownFiles, recipe: Recipe) -> None:
    cpanm = f"cpanm --from {_CARTON_MIRROR} -L local --notest"
    added = "".join(f" && {cpanm} {name}" for name in recipe.added_packages)
    if files.has("cpanfile.snapshot"):
        carton = f"env PERL_CARTON_MIRROR={_CARTON_MIRROR} carton install --deployment --without develop"
        recipe.choose("cpanfile.snapshot is there.", package_manager="carton", install=f"{carton}{added}")
    elif files.has("cpanfile"):
        install = f"{cpanm} --installdeps .{added}"
        recipe.choose("cpanfile is there.", package_manager="cpanm", install=install)
    elif added:
        recipe.choose("The start command needs it.", package_manager="cpanm", install=added[4:])


def _find_program(files: KnownFiles) -> str:
    """Returns the program of a Mojolicious application. Of several programs, returns the most likely
    server."""
    scripts = [
        f"script/{name}" for name in files.tree.names("script") if name.endswith(".pl") or "." not in name
    ]
    programs = [*scripts, *(name for name in files.tree.names() if name.endswith(".pl"))]
    return min(sorted(programs), key=lambda path: server_rank(path.removesuffix(".pl")), default="")


def _dotted_version(version: str) -> str:
    """Returns a Perl version in the form that image tags use."""
    if decimal := _DECIMAL_PATTERN.fullmatch(version):
        return ".".join(["5", *(str(int(part)) for part in decimal.groups() if part)])
    return version.rstrip(".")


perl = Language(
    name="Perl",
    manifests=("cpanfile", "app.psgi", "bin/app.psgi"),
    rank=10,
    fill=fill,
    toolchain=Toolchain(
        title="Perl",
        program="cpanm",
        package="cpanminus build-essential",
        others={"perl": "perl", "carton": "carton"},
        passed=("PERL_CARTON_MIRROR",),
        running={"PERL5LIB": "local/lib/perl5"},
        kept=("local",),
        results=("local/",),
    ),
)
