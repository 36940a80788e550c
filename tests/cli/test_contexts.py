"""Tokens are kept for this user alone, and go to no other address than the one that they were saved with."""

from __future__ import annotations

import stat
import threading

import pytest

from tests.tables import rows
from windlass.cli.client import Api
from windlass.cli.connection import DEFAULT_URL, ServerAccess, choose_access
from windlass.cli.contexts import CONTEXTS_FILE, ContextFile, Contexts, SavedContext, normal_url
from windlass.cli.everyday.login import _with_scheme
from windlass.terminal.command_errors import CommandFailed, InvalidUsage

PROD = SavedContext("https://windlass.example.com", "token-of-prod")
HERE = SavedContext("http://127.0.0.1:8080", "token-of-here")
STRANGE = "https://strange.example.com"
NONE = ServerAccess()


def saved(current: str = "prod") -> Contexts:
    return Contexts(current, {"prod": PROD, "here": HERE})


TABLE = [
    ("nothing is given", NONE, NONE, "", "", Contexts(), ServerAccess(DEFAULT_URL)),
    ("the current context", NONE, NONE, "", "", saved(), ServerAccess(PROD.url, PROD.token)),
    ("a named context", NONE, NONE, "here", "", saved(), ServerAccess(HERE.url, HERE.token)),
    ("a linked folder", NONE, NONE, "", HERE.url, saved(), ServerAccess(HERE.url, HERE.token)),
    ("a folder of a stranger", NONE, NONE, "", STRANGE, saved(), ServerAccess(STRANGE)),
    (
        "variables win over contexts",
        NONE,
        ServerAccess(STRANGE, "t"),
        "",
        HERE.url,
        saved(),
        ServerAccess(STRANGE, "t"),
    ),
    (
        "an address of a variable",
        NONE,
        ServerAccess(HERE.url),
        "",
        "",
        saved(),
        ServerAccess(HERE.url, HERE.token),
    ),
    ("an address that was not saved", NONE, ServerAccess(STRANGE), "", "", saved(), ServerAccess(STRANGE)),
    (
        "a token of a variable",
        NONE,
        ServerAccess("", "t"),
        "",
        STRANGE,
        saved(),
        ServerAccess(DEFAULT_URL, "t"),
    ),
    (
        "options win",
        ServerAccess(STRANGE, "o"),
        ServerAccess(HERE.url, "t"),
        "",
        "",
        saved(),
        ServerAccess(STRANGE, "o"),
    ),
    ("a token as an option", ServerAccess("", "o"), NONE, "", STRANGE, saved(), ServerAccess(PROD.url, "o")),
    (
        "a named context wins",
        NONE,
        ServerAccess(STRANGE, "t"),
        "here",
        "",
        saved(),
        ServerAccess(HERE.url, HERE.token),
    ),
    (
        "slashes at the end",
        NONE,
        ServerAccess(HERE.url + "/"),
        "",
        "",
        saved(),
        ServerAccess(HERE.url + "/", HERE.token),
    ),
]


@rows(
    ("options", "environment", "context", "linked", "contexts", "chosen"),
    [row[1:] for row in TABLE],
    ids=[row[0] for row in TABLE],
)
def test_a_command_calls_the_nearest_address_with_the_token_of_that_address(
    options, environment, context, linked, contexts, chosen
):
    assert choose_access(options, environment, lambda: contexts, context=context, linked=linked) == chosen


def test_an_address_with_two_saved_tokens_requires_a_context():
    contexts = Contexts("", {"a": PROD, "b": SavedContext(PROD.url, "another")})
    with pytest.raises(InvalidUsage, match="--context: a, b"):
        choose_access(ServerAccess(PROD.url), NONE, lambda: contexts)
    contexts.current = "b"
    assert choose_access(ServerAccess(PROD.url), NONE, lambda: contexts).token == "another"


def test_an_address_and_a_context_together_are_refused():
    with pytest.raises(InvalidUsage, match="not both"):
        choose_access(ServerAccess(PROD.url), NONE, saved, context="prod")


@pytest.mark.parametrize(
    ("typed", "address"),
    [
        ("HTTPS://Windlass.Example.com:443/", "https://windlass.example.com"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("https://example.com/windlass/", "https://example.com/windlass"),
    ],
)
def test_server_addresses_are_normalized(typed, address):
    assert normal_url(typed) == address


@rows(
    "typed",
    [
        *("ftp://example.com", "https://", "http://u:p@example.com", "https://example.com?a=1"),
        *("http://a:99999", "http://a:port", "http://[", "http://[::1", "http://a]"),
    ],
)
def test_a_malformed_server_address_is_refused(typed):
    with pytest.raises(InvalidUsage):
        normal_url(typed)


@pytest.mark.parametrize("typed", ["http://[", "http://a:port", "http://a:99999", "//a", "[::1"])
def test_a_call_to_a_malformed_server_address_is_refused(typed):
    with pytest.raises(InvalidUsage):
        Api(typed, "")


@pytest.mark.parametrize("typed", ["[", "a]", "[::1"])
def test_a_malformed_address_without_a_scheme_is_refused(typed):
    with pytest.raises(InvalidUsage):
        normal_url(_with_scheme(typed))


@pytest.fixture
def file(tmp_path):
    file = ContextFile(tmp_path / "config/windlass")
    with file.changing() as contexts:
        contexts.save("prod", PROD)
    return file


def test_saved_contexts_are_read_again(file):
    assert file.read() == Contexts("prod", {"prod": PROD})


def test_only_the_user_can_read_file_and_folder(file):
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_context_file_readable_by_others_is_refused(file, mode):
    file.path.chmod(mode)
    with pytest.raises(CommandFailed, match=r"^run `chmod 600 "):
        file.read()


def test_a_context_folder_writable_by_others_is_refused(file):
    file.path.parent.chmod(0o777)
    with pytest.raises(CommandFailed, match=r"^run `chmod 700 "):
        file.read()


def test_a_context_file_of_another_user_is_refused(file, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: file.path.stat().st_uid + 1)
    with pytest.raises(CommandFailed, match="belongs to another user"):
        file.read()


def test_a_malformed_context_file_is_reported_with_its_path(file):
    file.path.write_text("{")
    with pytest.raises(CommandFailed, match=rf"move .*{CONTEXTS_FILE} away"):
        file.read()


def test_a_context_folder_that_cannot_be_created_is_reported_with_its_path(tmp_path):
    (tmp_path / "config").write_text("a file in its place")
    with (
        pytest.raises(CommandFailed, match=r"^let this user write .*/config/windlass: "),
        _changing(tmp_path),
    ):
        pass


def _changing(folder):
    return ContextFile(folder / "config/windlass").changing()


def test_concurrent_saves_of_contexts_lose_none(file):
    def save(name: str) -> None:
        with file.changing() as contexts:
            contexts.save(name, HERE)

    threads = [threading.Thread(target=save, args=(f"c{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(file.read().contexts) == 9


def test_a_write_that_fails_leaves_the_file_as_it_was(file):
    def fail() -> None:
        with file.changing() as contexts:
            contexts.remove("prod")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert "prod" in file.read().contexts
