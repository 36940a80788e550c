"""A command that is copied from a page does in a shell what it says, also if others chose the names in it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.servers import Repository, Server
from tests.marks import either

pytestmark = pytest.mark.slow

HOSTILE = ("a'; touch HIT; '$(touch HIT)`touch HIT`", "-rf")
TABS = {
    "application": ("", "/deployments", "/settings?section=declaration"),
    "job": ("", "/runs", "/settings?section=declaration"),
    "terraform": ("", "/plan", "/settings?section=declaration"),
}
KINDS = either(["application"], [*TABS])
"""The commands of all pages are made by the same words."""
SHELLS = [shell for shell in ("sh", "bash", "zsh") if shutil.which(shell)]
TELLS_ITS_WORDS = """#!/bin/sh\nprintf '%s\\0' "$@"\n"""


def words_of(command: str, shell: str, folder: Path) -> list[str]:
    """Runs a command in a shell without our program, and returns the words that the program gets."""
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "WINDLASS_TOKEN": "t"}
    ran = subprocess.run(
        [shell, "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=20
    )
    assert not (folder / "HIT").exists(), f"{shell} ran a part of a name: {command}"
    return ran.stdout.split("\0")[:-1]


def copied_commands(page: Page) -> list[str]:
    """Returns what the buttons of a page copy, as far as it is for a shell."""
    labels = page.locator("button.copy").evaluate_all("(all) => all.map((one) => one.ariaLabel)")
    texts = [label.partition(": ")[2] for label in labels]
    return [text for text in texts if text.startswith(("windlass ", "curl "))]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("windlass", "curl"):
        (tmp_path / name).write_text(TELLS_ITS_WORDS)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def test_a_hostile_resource_name_in_a_copied_command_is_a_single_shell_word(
    server: Server, new_page: Callable[..., Page], repository: Repository, folder: Path
) -> None:
    environment = server.environment(project="Commands")
    page = new_page("/")
    for name in HOSTILE:
        for kind, path in [(kind, server.example(environment, kind)) for kind in KINDS]:
            server.call("PATCH", path, {"name": name})
            named = 0
            for tab in TABS[kind]:
                page.goto(f"{server.url}/console{path}{tab}")
                page.wait_for_selector("button.copy", state="attached")
                for command in copied_commands(page):
                    for shell in SHELLS:
                        words = words_of(command, shell, folder)
                        assert words, f"{shell} cannot run {command}"
                        named += words[-1] == name and (not name.startswith("-") or words[-2] == "--")
            assert named >= 2 * len(SHELLS), f"commands about the {kind} {name}"
            page.goto("about:blank")  # It would go on reading what is deleted.
            server.call("DELETE", path)
