"""Rust: Cargo.toml, and the program that it builds."""

from __future__ import annotations

from typing import Any, Final

from windlass.core.detect.known_files import KnownFiles, table, texts, word
from windlass.core.detect.language import Language
from windlass.core.detect.recipe import Recipe
from windlass.core.detect.toolchain import Toolchain
from windlass.core.detect.versions import choose_version, choose_version_by_file

_FRAMEWORKS: Final = {
    "axum": ("Axum", 3000),
    "actix-web": ("Actix Web", 8080),
    "rocket": ("Rocket", 8000),
    "warp": ("Warp", 3030),
    "poem": ("Poem", 3000),
    "salvo": ("Salvo", 8080),
    "hyper": ("Hyper", 3000),
}
"""The name of each framework, and the port of its examples."""
_ROCKET: Final = "env ROCKET_ADDRESS=0.0.0.0 ROCKET_PORT=${PORT:-8000} "


def fill(files: KnownFiles, recipe: Recipe) -> None:
    content = files.toml("Cargo.toml")
    choose_version_by_file(files, recipe, "rust", "rust-toolchain")
    if files.has("rust-toolchain.toml"):
        channel = word(files.toml("rust-toolchain.toml"), "toolchain", "channel")
        choose_version(recipe, channel, "rust-toolchain.toml")
    choose_version(recipe, word(content, "package", "rust-version"), "Cargo.toml")
    for name, (title, port) in _FRAMEWORKS.items():
        if name in table(content, "dependencies"):
            recipe.choose(f"Cargo.toml names {name}.", framework=title, port=port)
    recipe.choose("Cargo.toml is there.", package_manager="cargo")
    program, package, because = _program(files, content)
    if program:
        locked = " --locked" if files.has("Cargo.lock") else ""
        of = f" --package {package}" if package else ""
        place = _ROCKET if recipe.framework == "Rocket" else ""
        recipe.choose(because, build=f"cargo build --release{locked}{of}")
        recipe.choose(because, start=f"{place}./target/release/{program}")


def _program(files: KnownFiles, content: dict[str, Any]) -> tuple[str, str, str]:
    """Returns the program, the package of a workspace that builds it, and the reason."""
    listed = content.get("bin")
    named = [word(program, "name") for program in listed] if isinstance(listed, list) else []
    default = word(content, "package", "default-run")
    if named or default:
        return default or named[0], "", "Cargo.toml names the program."
    if (name := word(content, "package", "name")) and files.has("src/main.rs"):
        return name, "", "src/main.rs is there; the program is called like the package."
    for member in texts(content, "workspace", "members")[:100]:
        if files.has(f"{member}/src/main.rs"):
            inner = word(files.toml(f"{member}/Cargo.toml"), "package", "name")
            return inner, inner, f"{member}/src/main.rs is the first program of the workspace."
    return "", "", ""


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
            "CARGO_TARGET_DIR": "{app}/target",  # also for a member of a workspace
            "CARGO_TERM_COLOR": "never",
            "CARGO_TERM_PROGRESS_WHEN": "never",
            "RUSTUP_AUTO_INSTALL": "0",
        },
        kept=("target",),
        results=("target/release/*",),
    ),
)
