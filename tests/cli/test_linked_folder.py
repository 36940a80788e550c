"""A folder is linked by a file that this user wrote; those of other users are not believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.cli.linked_folder import LINK_FILE, FolderLink, find_linked_folder, remove_link, write_link
from windlass.terminal.command_errors import CommandFailed, InvalidUsage

LINK = FolderLink(url="http://127.0.0.1:8080", project="shop", environment="production", application="web")


@pytest.fixture
def repository(tmp_path):
    top = tmp_path / "shop"
    (top / ".git").mkdir(parents=True)
    (top / "src/deep").mkdir(parents=True)
    return top


def link_of(folder: Path) -> FolderLink | None:
    linked = find_linked_folder(folder)
    return linked.link if linked else None


@pytest.mark.parametrize("inner", ["", "src", "src/deep"])
def test_a_folder_link_applies_to_the_folder_and_its_subfolders(repository, inner):
    write_link(repository, LINK)
    linked = find_linked_folder(repository / inner)
    assert linked is not None
    assert (linked.folder, linked.link, linked.link.path) == (repository, LINK, "shop/production/web")


def test_the_nearest_folder_link_applies(repository):
    write_link(repository, LINK)
    other = FolderLink(project="shop", environment="production", application="worker")
    write_link(repository / "src", other)
    assert link_of(repository / "src/deep") == other
    remove_link(repository / "src")
    assert link_of(repository / "src/deep") == LINK


def test_a_folder_link_above_the_repository_root_is_ignored(repository):
    write_link(repository.parent, LINK)
    assert link_of(repository) is None
    (repository / ".git").rmdir()
    assert link_of(repository) == LINK


def owned_by_another(monkeypatch, *others: Path) -> None:
    """Lets these files and folders seem to be another user's."""
    import os

    stat, fstat = Path.stat, os.fstat
    numbers = {other.stat().st_ino for other in others}

    def foreign(status):
        fields = list(status)
        fields[4] += 1000
        return os.stat_result(fields) if status.st_ino in numbers else status

    monkeypatch.setattr(Path, "stat", lambda path, **options: foreign(stat(path, **options)))
    monkeypatch.setattr("os.fstat", lambda opened: foreign(fstat(opened)))


def test_a_folder_link_of_another_user_is_ignored_with_a_warning(repository, monkeypatch, capsys):
    file = write_link(repository, LINK)
    owned_by_another(monkeypatch, file)
    assert link_of(repository / "src") is None
    assert "is ignored: it belongs to the user" in capsys.readouterr().err


def test_a_folder_link_inside_a_folder_of_another_user_is_ignored(repository, monkeypatch):
    (repository / ".git").rmdir()
    write_link(repository, LINK)
    assert link_of(repository / "src") == LINK
    owned_by_another(monkeypatch, repository)
    assert link_of(repository / "src") is None


@pytest.mark.parametrize(
    "text",
    [
        "project = ",
        'project = "shop"',
        'project = "shop"\nenvironment = "production"\napplication = "web"\ntoken = "t"',
        'project = 1\nenvironment = "production"\napplication = "web"',
    ],
)
def test_a_malformed_folder_link_is_reported_with_its_path(repository, text):
    (repository / LINK_FILE).write_text(text)
    with pytest.raises(CommandFailed, match=LINK_FILE):
        find_linked_folder(repository)


def test_an_address_with_a_password_is_refused(repository):
    write_link(
        repository, FolderLink(url="http://u:p@a.example", project="a", environment="b", application="c")
    )
    with pytest.raises(InvalidUsage):
        find_linked_folder(repository)


def test_a_folder_link_preserves_names_with_quotes_and_control_characters(repository):
    link = FolderLink(project='a "b" \\', environment="ü\u007f", application="c")
    write_link(repository, link)
    assert link_of(repository) == link
