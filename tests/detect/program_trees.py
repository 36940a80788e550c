"""Trees with several programs, and the one that must be started: the server comes before its tools."""

from __future__ import annotations

from tests.detect.trees import Row

_MODULE = "module example.com/shop\n\ngo 1.22\n"
_TOOL = "package main\nfunc main() {}\n"
_WORKSPACE = '[workspace]\nmembers = ["admin", "server", "core"]\n'
_GLOBS = '[workspace]\nmembers = ["crates/*"]\n'


def _crate(name: str, more: str = "") -> str:
    return f'[package]\nname="{name}"\n{more}'


ROWS = [
    Row(
        "Go with a server called so",
        {"go.mod": _MODULE, "cmd/migrate/main.go": _TOOL, "cmd/server/main.go": _TOOL},
        {"build": "go build -o bin/ ./cmd/server", "start": "./bin/server"},
    ),
    Row(
        "Go with a server called like the module",
        {"go.mod": _MODULE, "cmd/admin/main.go": _TOOL, "cmd/shop/main.go": _TOOL},
        {"start": "./bin/shop"},
    ),
    Row(
        "Go with a program that serves",
        {
            "go.mod": _MODULE,
            "cmd/admin/main.go": _TOOL,
            "cmd/orders/main.go": "package main\nfunc main() { http.ListenAndServe(a, nil) }\n",
        },
        {"start": "./bin/orders", "port": 8080},
    ),
    Row(
        "Go with its only program, whose server is another package",
        {
            "go.mod": _MODULE,
            "cmd/tracker/main.go": _TOOL,
            "internal/rest/rest.go": "package rest\nfunc Run() { s := http.Server{}; s.ListenAndServe() }\n",
        },
        {"start": "./bin/tracker", "port": 8080},
    ),
    Row(
        "Go with programs in deep folders",
        {
            "go.mod": _MODULE,
            "internal/cmd/rest/main.go": _TOOL,
            "internal/cmd/sync/main.go": _TOOL,
            "internal/store/store.go": "package store\n",
        },
        {"build": "go build -o bin/ ./internal/cmd/rest", "start": "./bin/rest"},
    ),
    Row(
        "Go with two programs, of which either may use the server of another package",
        {
            "go.mod": _MODULE,
            "cmd/tracker/main.go": _TOOL,
            "cmd/worker/main.go": _TOOL,
            "internal/rest/rest.go": "package rest\nfunc Run() { http.ListenAndServe(a, nil) }\n",
        },
        {"port": 0},
    ),
    Row(
        "Go with an example that is called like a server",
        {"go.mod": _MODULE, "examples/server/main.go": _TOOL, "tracker/main.go": _TOOL},
        {"start": "./bin/tracker"},
    ),
    Row(
        "Go with tools alone",
        {"go.mod": _MODULE, "cmd/seed/main.go": _TOOL, "cmd/migrate/main.go": _TOOL},
        {"start": "./bin/migrate", "port": 0},
    ),
    Row(
        "Go that reads PORT",
        {
            "go.mod": _MODULE,
            "main.go": 'package main\nfunc main() { shop.Run(os.Getenv("PORT")) }\n',
        },
        {"port": 8080},
    ),
    Row(
        "Go with a module of its go.work",
        {"go.mod": f"{_MODULE}require example.com/greet v0.0.0\n", "main.go": _TOOL},
        {"install": "", "build": "go build -o bin/ ."},
    ),
    Row(
        "Go with a module in a folder beside it",
        {
            "go.mod": f"{_MODULE}require example.com/greet v0.0.0\nreplace example.com/greet => ../greet\n",
            "main.go": _TOOL,
        },
        {"install": "go mod download"},
    ),
    Row(
        "Go with a commit of a module without releases",
        {
            "go.mod": f"{_MODULE}require example.com/greet v0.0.0-20240102030405-abcdefabcdef\n",
            "main.go": _TOOL,
        },
        {"install": "go mod download"},
    ),
    Row(
        "Rust with a server in a workspace",
        {
            "Cargo.toml": _WORKSPACE,
            "admin/Cargo.toml": _crate("shop-admin"),
            "admin/src/main.rs": "",
            "server/Cargo.toml": _crate("shop-server"),
            "server/src/main.rs": 'fn main() { std::env::var("PORT"); }',
        },
        {
            "build": "cargo build --release --package shop-server",
            "start": "./target/release/shop-server",
            "port": 8080,
        },
    ),
    Row(
        "Rust with a framework in one crate of a pattern",
        {
            "Cargo.toml": _GLOBS,
            "crates/admin/Cargo.toml": _crate("admin"),
            "crates/admin/src/main.rs": "",
            "crates/orders/Cargo.toml": _crate("orders", "[dependencies]\naxum.workspace = true\n"),
            "crates/orders/src/main.rs": "",
        },
        {"framework": "Axum", "start": "./target/release/orders", "port": 3000},
    ),
    Row(
        "Rust with a default member",
        {
            "Cargo.toml": f'{_WORKSPACE}default-members = ["admin"]\n',
            "admin/Cargo.toml": _crate("admin"),
            "admin/src/main.rs": "",
            "server/Cargo.toml": _crate("server"),
            "server/src/main.rs": "",
        },
        {"start": "./target/release/admin", "port": 0},
    ),
    Row(
        "Rust with programs in src/bin",
        {"Cargo.toml": _crate("shop"), "src/lib.rs": "", "src/bin/migrate.rs": "", "src/bin/web.rs": ""},
        {"build": "cargo build --release", "start": "./target/release/web", "port": 0},
    ),
    Row(
        "Rust with several programs in Cargo.toml",
        {"Cargo.toml": _crate("shop", '[[bin]]\nname="cli"\n[[bin]]\nname="shop-api"\n')},
        {"start": "./target/release/shop-api"},
    ),
]
