"""Ignored files, and secrets of this machine, are not uploaded; git itself agrees about its rules."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from windlass.cli.folder_archive import archive_folder, uploaded_files
from windlass.cli.uploading import packed
from windlass.terminal.command_errors import CommandFailed

TREE = [
    "app.py", "debug.log", "logs/a.txt", "logs/keep.txt", "src/debug.log", "src/build/x.js", "build/y.js",
    "doc/a.txt", "doc/deep/b.txt", "a b.txt", "ünicode.txt", "x1.tmp", "x2.tmp", "src/gen/code.py",
    "deep/src/gen/code.py", "star*.txt", "weird[1].txt", "#hash", "!bang", "sub/only.log", "sub/own.dat",
]  # fmt: skip
RULES = [
    "*.log", "*.log\n!debug.log", "/build", "build/", "logs/*\n!logs/keep.txt", "logs/\n!logs/keep.txt",
    "doc/**/b.txt", "doc/**", "**/gen", "src/gen", "/src/gen/", "x[12].tmp", "x[!1].tmp", "x?.tmp",
    "a\\ b.txt", "a b.txt   ", "\\#hash", "\\!bang", "# a remark", "*\n!app.py", "*\n!*/\n!**/*.py",
    "star\\*.txt", "weird\\[1].txt", "ünicode.txt", "**", "doc/*.txt", "", "!", "/", "a/**/b\n**/debug.log",
    "s*/**/x.js", "*e*u*.l*g", "**/b*/**/*.js", "**/**/x.js", "x**.tmp", "d*/**/*e*/**", "**/d*/**/b.t?t",
    "[sx]*[c1]*", "*\\*.txt", "s*\n!src/g*n", "**/src/**/c*e.py", "*[!a]*.t*t",
]  # fmt: skip


def make(folder: Path, *files: str) -> Path:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


@pytest.mark.parametrize("rules", RULES)
def test_gitignore_rules_exclude_the_same_files_as_git(tmp_path, rules):
    make(tmp_path, *TREE)
    (tmp_path / ".gitignore").write_text(rules)
    (tmp_path / "sub/.gitignore").write_text("*.dat\n/only.log\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    command = ["git", "-C", str(tmp_path), "ls-files", "-z", "--others", "--exclude-standard"]
    kept = subprocess.run(command, check=True, capture_output=True).stdout.decode().split("\0")
    assert sorted(uploaded_files(tmp_path)) == sorted(name for name in kept if name)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("file", [".gitignore", ".dockerignore", ".windlassignore"])
@pytest.mark.parametrize("rule", ["*a" * 40 + "b", "**/" * 40 + "b", "**/a*/" * 20 + "b", "a**" * 40 + "b"])
def test_ignore_rules_with_many_stars_are_matched_in_linear_time(tmp_path, file, rule):
    """The limit of time is the negative control: an expression that backtracks takes years."""
    name = "a/" * 40 + "a" * 150 + "c"
    make(tmp_path, name)
    (tmp_path / file).write_text(rule)
    assert name in {*uploaded_files(tmp_path)}


def test_gitignore_rules_of_parent_folders_apply_to_a_linked_subfolder(tmp_path):
    make(tmp_path, "api/a.log", "api/out/x", "api/app.py", "api/tmp/y", ".git/info/none")
    (tmp_path / ".gitignore").write_text("*.log\n/api/out\n/tmp\n")
    assert [*uploaded_files(tmp_path / "api")] == ["app.py", "tmp/y"]


def test_secrets_and_fetched_packages_are_never_uploaded(tmp_path):
    make(tmp_path, ".env", ".env.local", ".env.production.local", "api/.env", "node_modules/a/b.js")
    make(
        tmp_path,
        ".git/config",
        ".venv/x",
        "other/pyvenv.cfg",
        "other/bin/python",
        ".env.production",
        "app.py",
    )
    (tmp_path / ".windlassignore").write_text("!.env\n!node_modules\n!.git\n")
    assert [*uploaded_files(tmp_path)] == [".env.production", ".windlassignore", "app.py"]


def test_a_rule_of_windlassignore_wins_over_git(tmp_path):
    make(tmp_path, "dist/app.js", "notes.txt", "app.py")
    (tmp_path / ".gitignore").write_text("dist/\n")
    (tmp_path / ".windlassignore").write_text("!dist/\nnotes.txt\n")
    assert {*uploaded_files(tmp_path)} == {".gitignore", ".windlassignore", "app.py", "dist/app.js"}


@pytest.mark.parametrize(
    ("rules", "left_out"),
    [
        ("*.md", {"a.md"}),
        ("**/*.md", {"a.md", "doc/a.md"}),
        ("doc", {"doc/a.md", "doc/b.txt"}),
        ("doc\n!doc/a.md", {"doc/b.txt"}),
        ("*\n!app.py", {"a.md", "doc/a.md", "doc/b.txt"}),
        ("Dockerfile\n.dockerignore", set()),
        ("./doc/", {"doc/a.md", "doc/b.txt"}),
    ],
)
def test_dockerignore_rules_are_rooted_and_never_exclude_the_dockerfile_or_themselves(
    tmp_path, rules, left_out
):
    files = {"a.md", "doc/a.md", "doc/b.txt", "app.py", "Dockerfile", ".dockerignore"}
    make(tmp_path, *files)
    (tmp_path / ".dockerignore").write_text(rules)
    assert files - {*uploaded_files(tmp_path)} == left_out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x\n" * 1001, "shorten .dockerignore to 1000 patterns: it has 1001"),
        ("#" * (256 * 1024 + 1), "shorten .dockerignore to 256 KiB: it is longer"),
    ],
)
def test_a_long_dockerignore_stops_the_upload(tmp_path, text, told):
    """A part of it would send what the rest leaves out."""
    make(tmp_path, "app.py")
    (tmp_path / ".dockerignore").write_text(text)
    with pytest.raises(CommandFailed, match=told), packed(tmp_path):
        pass


def test_a_dockerignore_within_the_size_limits_is_applied_completely(tmp_path):
    """Negative control."""
    make(tmp_path, "app.py", "last")
    (tmp_path / ".dockerignore").write_text("x\n" * 999 + "last\n#" + "c" * 200_000)
    assert [*uploaded_files(tmp_path)] == [".dockerignore", "app.py"]


def archived(folder: Path) -> bytes:
    into = io.BytesIO()
    archive_folder(folder, into)
    return into.getvalue()


def test_equal_folders_give_equal_archives(tmp_path):
    first, second = (make(tmp_path / name, "b.py", "a/c.py") for name in ("one", "two"))
    (second / "b.py").chmod(0o600)
    assert archived(first) == archived(second)
    (second / "b.py").chmod(0o755)
    assert archived(first) != archived(second)


def test_an_archive_has_files_and_links_and_no_owner(tmp_path):
    make(tmp_path, "app.py")
    (tmp_path / "link").symlink_to("app.py")
    with tarfile.open(fileobj=io.BytesIO(archived(tmp_path))) as tar:
        assert [(one.name, one.uid, one.mtime, one.linkname) for one in tar.getmembers()] == [
            ("app.py", 0, 0, ""),
            ("link", 0, 0, "app.py"),
        ]
