"""Lines of git, among which are messages of the git server."""

from __future__ import annotations

import pytest

from windlass.sources.git import messages
from windlass.sources.git.messages import GitOutput
from windlass.sources.git.remote import silent


@pytest.mark.parametrize("is_control", [False, True], ids=["bounded", "unbounded"])
def test_only_the_first_and_last_lines_of_endless_git_output_are_processed(monkeypatch, is_control):
    """The event loop looks at the lines: all requests wait meanwhile."""
    if is_control:
        monkeypatch.setattr(messages, "MAX_READ_LINES", 1 << 30)
    looked_at: list[str] = []
    cleaned = GitOutput.cleaned

    def count(output: GitOutput, text: str) -> str:
        looked_at.append(text)
        return cleaned(output, text)

    monkeypatch.setattr(GitOutput, "cleaned", count)
    output = GitOutput(silent, ())
    for _ in range(20):
        output.feed(b"remote: a\n" * 5000)
    output.feed(b"fatal: the reason\n")
    assert output.complaint().strip() == "fatal: the reason"
    assert len(looked_at) > 100_000 if is_control else len(looked_at) < 15_000
