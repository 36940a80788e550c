"""The package manager of Node that follows from the files of a repository."""

from __future__ import annotations

import pytest

from tests.process.builds.native_sites import write
from windlass.builders.node_managers import is_matched, manager_of, workspace_patterns

ROWS = [
    ("nothing", {}, "", "npm", "npm install --no-package-lock --omit=dev"),
    ("a lock of npm", {"package-lock.json": "{}"}, "", "npm", "npm ci --omit=dev"),
    (
        "a lock of pnpm 8",
        {"pnpm-lock.yaml": "lockfileVersion: '6.0'\n"},
        "",
        "pnpm 8",
        "pnpm install --frozen-lockfile --prod",
    ),
    (
        "a named pnpm",
        {"pnpm-lock.yaml": "lockfileVersion: '9.0'\n", "package-lock.json": "{}"},
        "pnpm@9.1.0+sha512.abc",
        "pnpm 9.1.0",
        "pnpm install --frozen-lockfile --prod",
    ),
    (
        "a lock of Yarn 1",
        {"yarn.lock": "# yarn lockfile v1\n"},
        "",
        "yarn 1",
        "yarn install --frozen-lockfile --production=true",
    ),
    (
        "a lock of Yarn 4",
        {"yarn.lock": "# x\n\n__metadata:\n  version: 8\n"},
        "",
        "yarn 4",
        "yarn install --immutable",
    ),
    (
        "a lock of Yarn 3",
        {"yarn.lock": "__metadata:\n  version: 6\n"},
        "",
        "yarn 3",
        "yarn install --immutable",
    ),
    ("a lock of Bun", {"bun.lock": ""}, "", "bun", "bun install --frozen-lockfile --production"),
    ("a name without a lock", {}, "bun@1.2.0", "bun 1.2.0", "bun install --production"),
    (
        "a lock of another manager than the named one",
        {"yarn.lock": ""},
        "pnpm@9.0.0",
        "pnpm 9.0.0",
        "pnpm install --no-frozen-lockfile --prod",
    ),
    ("a name that is none", {}, "pnpm@file:x", "npm", "npm install --no-package-lock --omit=dev"),
]


@pytest.mark.parametrize(("name", "files", "named", "wanted", "install"), ROWS, ids=[row[0] for row in ROWS])
def test_the_lock_file_and_the_manifest_choose_the_package_manager(
    tmp_path, name, files, named, wanted, install
):
    write(tmp_path, files)
    manager = manager_of(tmp_path, named)
    assert manager.wanted == wanted
    assert " ".join(manager.install(development=False)) == install


def test_packages_for_development_are_installed_for_a_build(tmp_path):
    write(tmp_path, {"yarn.lock": ""})
    assert manager_of(tmp_path, "").install(development=True)[-1] == "--production=false"


def test_a_package_manager_of_another_major_version_than_the_lock_file_is_not_used(tmp_path):
    write(tmp_path, {"yarn.lock": ""})
    manager = manager_of(tmp_path, "")
    assert manager.accepts("1.22.22")
    assert not manager.accepts("4.1.0")


@pytest.mark.parametrize(
    ("path", "patterns", "is_member"),
    [
        ("packages/web", ["packages/*"], True),
        ("packages/web/inner", ["packages/*"], False),
        ("packages/web/inner", ["packages/**"], True),
        ("web", ["./web/"], True),
        ("packages/web", ["packages/*", "!packages/web"], False),
        ("packages/docs-site", ["packages/docs-*"], True),
    ],
)
def test_patterns_of_a_workspace_name_its_folders(path, patterns, is_member):
    assert is_matched(path, patterns) == is_member


def test_the_workspace_packages_of_pnpm_are_read_from_pnpm_workspace_yaml(tmp_path):
    write(tmp_path, {"pnpm-workspace.yaml": "packages:\n  - 'apps/*'  # all\n  - libs/*\ncatalog:\n  a: 1\n"})
    assert workspace_patterns(tmp_path, None) == ["apps/*", "libs/*"]
    assert workspace_patterns(tmp_path, {"packages": ["x"]}) == ["x"]
