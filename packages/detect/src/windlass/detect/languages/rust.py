"""Rust: Cargo.toml, and the program that it builds."""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec import Struct

from windlass.detect.known_files import KnownFiles, table, text_in, texts
from windlass.detect.language import Language
from windlass.detect.program_names import server_rank
from windlass.detect.recipe import Recipe
from windlass.detect.toolchain import Toolchain
from windlass.detect.tree import Tree
from windlass.detect.versions import choose_version, choose_version_by_file

_FRAMEWORKS: Final = {
    "axum": ("Axum", 3000),
    "actix-web": ("Actix Web", 8080),
    "rocket": ("Rocket", 8000),
    "warp": ("Warp", 3030),
    "poem": ("Poem", 3000),
    "salvo": ("Salvo", 8080),
    "hyper": ("Hyper", 3000),
}
"""The title of each framework, and the port that its examples use."""
_READS_PORT_PATTERN: Final = re.compile(r"\bvar(?:_os)?\(\"PORT\"\)")
_ROCKET_VARIABLES: Final = "env ROCKET_ADDRESS=0.0.0.0 ROCKET_PORT=${PORT:-8000} "


def fill(files: KnownFiles, recipe: Recipe) -> None:
    content = files.toml("Cargo.toml")
    choose_version_by_file(files, recipe, "rust", "rust-toolchain")
    if files.has("rust-toolchain.toml"):
        channel = text_in(files.toml("rust-toolchain.toml"), "toolchain", "channel")
        choose_version(recipe, channel, "rust-toolchain.toml")
    choose_version(recipe, text_in(content, "package", "rust-version"), "Cargo.toml")
    recipe.choose("Cargo.toml is there.", package_manager="cargo")
    program = _program(files, content)
    manifest = f"{program.member}/Cargo.toml".strip("/")
    needed = table(files.toml(manifest), "dependencies")
    for name, (title, port) in _FRAMEWORKS.items():
        if name in needed:
            recipe.choose(f"{manifest} names {name}.", framework=title, port=port)
    if program.name:
        locked = " --locked" if files.has("Cargo.lock") else ""
        of = f" --package {program.name_of_package}" if program.member else ""
        place = _ROCKET_VARIABLES if recipe.framework == "Rocket" else ""
        recipe.choose(program.because, build=f"cargo build --release{locked}{of}")
        recipe.choose(program.because, start=f"{place}./target/release/{program.name}")
        if source := _source_with_port(files, program):
            recipe.choose(f"{source} reads the variable PORT.", port=8080)


class _CargoProgram(Struct, frozen=True, kw_only=True):
    name: str = ""
    member: str = ""
    """The folder of the workspace member that contains the program; empty for the top folder."""
    name_of_package: str = ""
    because: str = ""


def _program(files: KnownFiles, content: dict[str, Any]) -> _CargoProgram:
    if own := _program_of(files, "", content):
        return own
    members = [
        member for pattern in _workspace_members(content) for member in _member_folders(files.tree, pattern)
    ][:100]
    all_members = [_program_of(files, member, files.toml(f"{member}/Cargo.toml")) for member in members]
    programs = [program for program in all_members if program]
    return min(
        programs,
        key=lambda program: (not _names_framework(files, program), server_rank(program.name)),
        default=_CargoProgram(),
    )


def _program_of(files: KnownFiles, member: str, content: dict[str, Any]) -> _CargoProgram | None:
    """Returns the program of one package: the default program, or the most likely server of several
    programs."""
    listed = content.get("bin")
    named = [text_in(program, "name") for program in listed] if isinstance(listed, list) else []
    package = text_in(content, "package", "name")
    below = f"{member}/src/bin".strip("/")
    main = f"{member}/src/main.rs".strip("/")
    others = sorted(name.removesuffix(".rs") for name in files.tree.names(below) if name.endswith(".rs"))
    if default := text_in(content, "package", "default-run"):
        name, because = default, "Cargo.toml names the program."
    elif named := [name for name in named if name]:
        name, because = min(named, key=server_rank), "Cargo.toml names the program."
    elif package and files.has(main):
        name, because = package, f"{main} is there; the program is called like the package."
    elif package and others:
        name = min(others, key=server_rank)
        because = f"{below}/{name}.rs is there."
    else:
        return None
    return _CargoProgram(name=name, member=member, name_of_package=package, because=because)


def _workspace_members(content: dict[str, Any]) -> list[str]:
    defaults = texts(content, "workspace", "default-members")
    return [member.strip("/") for member in defaults or texts(content, "workspace", "members")][:100]


def _member_folders(tree: Tree, pattern: str) -> list[str]:
    """Returns the folders that a workspace member pattern such as `crates/*` matches, sorted."""
    if "*" not in pattern:
        return [pattern]
    parts = pattern.split("/")
    return sorted(
        folder
        for folder in tree.folders()
        if len(names := folder.split("/")) == len(parts)
        and all(part in ("*", name) for part, name in zip(parts, names, strict=True))
        and tree.has(f"{folder}/Cargo.toml")
    )


def _names_framework(files: KnownFiles, program: _CargoProgram) -> bool:
    manifest = files.toml(f"{program.member}/Cargo.toml".strip("/"))
    return bool(_FRAMEWORKS.keys() & table(manifest, "dependencies").keys())


def _source_with_port(files: KnownFiles, program: _CargoProgram) -> str:
    folder = f"{program.member}/src".strip("/")
    sources = [f"{folder}/main.rs", f"{folder}/bin/{program.name}.rs", f"{folder}/lib.rs"]
    return next((source for source in sources if _READS_PORT_PATTERN.search(files.text(source))), "")


rust = Language(
    name="Rust",
    manifests=("Cargo.toml",),
    rank=20,
    fill=fill,
    manifests_with_paths=("Cargo.toml",),
    inherited_value=r"\bworkspace[ \t]*+=[ \t]*+true\b",
    toolchain=Toolchain(
        title="Rust",
        program="cargo",
        package="cargo",
        version=("cargo", "--version"),
        version_files=("rust-toolchain", "rust-toolchain.toml"),
        newer="rustup toolchain install {version}",
        operator_files={"RUSTUP_HOME": ".rustup"},
        passed=("CARGO_REGISTRIES_", "CARGO_REGISTRY_", "CARGO_HTTP_", "CARGO_NET_", "CARGO_SOURCE_"),
        caches={"CARGO_HOME": "cargo"},
        variables={
            "CARGO_TARGET_DIR": "{app}/target",  # workspace members use the same folder
            "CARGO_TERM_COLOR": "never",
            "CARGO_TERM_PROGRESS_WHEN": "never",
            "RUSTUP_AUTO_INSTALL": "0",
        },
        kept=("target",),
        results=("target/release/*",),
    ),
)
