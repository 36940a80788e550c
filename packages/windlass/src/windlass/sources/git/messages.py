"""The output of git: cleaned for logs, and its errors explained for users."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from windlass.builders.builder import DISK_FULL_ERROR
from windlass.sources.git.source import GitError

MAX_LINE_LENGTH: Final = 300
MAX_SHOWN_LINES: Final = 500
MAX_READ_LINES: Final = 10_000
"""Number of lines that are all processed. After that, only the last lines of each chunk are processed."""
MAX_KEPT_LINES: Final = 30

_ESCAPES_PATTERN = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)?")
_SHOWN_LINES_PATTERN = re.compile(r"remote: |Receiving objects: |Resolving deltas: ")
_PATHS_PATTERN = re.compile(r"(?<![\w:/.%-])/[^\s'\":]+")


class Redirected(GitError):
    """Raised if the server redirects to another address."""


class NotByName(GitError):
    """Raised if the server does not serve a commit by its id."""


class GitOutput:
    """Output lines of git, including messages of the server, with secrets removed."""

    def __init__(self, report_progress: Callable[[str], None], hidden_values: Iterable[str]) -> None:
        self._tell = report_progress
        self._hidden = sorted(filter(None, hidden_values), key=len, reverse=True)
        self._rest = b""
        self._told = self._read = 0
        self._last: deque[str] = deque(maxlen=MAX_KEPT_LINES)

    def feed(self, piece: bytes) -> None:
        *lines, rest = (self._rest + piece).split(b"\n")
        self._rest = rest[-64 * 1024 :]
        self._read += len(lines)
        for line in lines if self._read <= MAX_READ_LINES else lines[-MAX_KEPT_LINES:]:
            self._line(line)

    def complaint(self) -> str:
        self._line(self._rest)
        return "\n".join(line for line in self._last if line and not line.startswith("remote:"))

    def _line(self, raw: bytes) -> None:
        # A progress line is overwritten repeatedly; only its last state matters.
        line = self.cleaned(raw.rstrip(b"\r").rpartition(b"\r")[2].decode(errors="replace"))
        self._last.append(line)
        if _SHOWN_LINES_PATTERN.match(line) and self._told < MAX_SHOWN_LINES:
            self._told += 1
            self._tell(line)

    def cleaned(self, text: str) -> str:
        for secret in self._hidden:
            text = text.replace(secret, "***")
        return printable(_ESCAPES_PATTERN.sub("", text))


def printable(text: str) -> str:
    """Returns a text as one line of at most 300 printable characters."""
    return "".join(filter(str.isprintable, text[: 4 * MAX_LINE_LENGTH])).strip()[:MAX_LINE_LENGTH]


def explain(problem: str, url: str, *, has_token: bool) -> GitError:
    """Returns a GitError that explains why git failed. Unknown errors are quoted, without paths of this
    machine."""
    plain = problem.replace(url, "it")  # an address may contain any of the patterns below
    for pattern, kind, words in _ERROR_MEANINGS:
        if match := re.search(pattern, plain, re.IGNORECASE):
            about_token = _ABOUT_TOKEN[has_token].format(url=url)
            return kind(words.format(url=url, token=about_token, **match.groupdict()))
    lines = [line for line in problem.splitlines() if line.startswith(("fatal:", "error:"))]
    reason = _PATHS_PATTERN.sub("…", lines[0].partition(": ")[2]) if lines else "it gave no reason"
    return GitError(f"git could not fetch {url}: {reason}")


_ABOUT_TOKEN: Final = {
    True: "Renew the git token, or let it read this repository: {url} refused it.",
    False: "Create a git token for a private repository, or check the address: {url} shows none without one.",
}
_ERROR_MEANINGS: Final[tuple[tuple[str, type[GitError], str], ...]] = (
    (
        r"dubious ownership",
        GitError,
        "Ask the operator to give the repository to the user that runs Windlass (`chown -R`): at {url}, it "
        "belongs to another user, and git reads none of those.",
    ),
    (
        r"couldn't find remote ref HEAD",
        GitError,
        "Push a commit first: {url} has no commits yet, or no default branch.",
    ),
    (
        r"couldn't find remote ref refs/heads/(?P<branch>.+)",
        GitError,
        "Choose another branch, or push this one: there is no branch {branch} in {url}.",
    ),
    (
        r"(not our ref|couldn't find remote ref) (?P<commit>[0-9a-f]+)",
        GitError,
        "Choose another commit, or push this one: there is no commit {commit} in {url}.",
    ),
    (r"unadvertised object", NotByName, "The server of {url} does not support fetching a commit by its id."),
    (r"could not read (user|pass)|authentication failed|returned error: 40[13]", GitError, "{token}"),
    (
        r"returned error: 3\d\d|redirect",
        Redirected,
        "Use the address where the repository is now: {url} answers with a redirect, which is not followed.",
    ),
    (
        r"repository .* not found|returned error: (404|410)|not appear to be a git repository|does not exist",
        GitError,
        "Check the address: there is no repository at {url}, or it is private and needs a git token.",
    ),
    (
        r"host key verification failed",
        GitError,
        "Ask the operator whether {url} is still the same server: it shows another key than before.",
    ),
    (
        r"permission denied \(",
        GitError,
        "Use its https:// address, with a git token: {url} asks for an ssh key, and Windlass has none.",
    ),
    (r"cannot run ssh", GitError, "Use https://: ssh is not installed on the machine that runs Windlass."),
    (
        r"SSL|certificate|TLS",
        GitError,
        "Check the address, or ask the operator to name the authority of its certificate with the setting "
        "outbound_ca_file: at {url}, the server's certificate is not valid.",
    ),
    (
        r"dumb http transport|is this a git repository|invalid server response|protocol error|"
        r"bad line length",
        GitError,
        "Check the address: {url} does not answer as a git server does.",
    ),
    (
        r"mismatched algorithms.*server (?P<names>\w+)",
        GitError,
        "{url} names its commits by {names}: deploy one by its full id.",
    ),
    (
        r"failed to connect|couldn't connect|connection (refused|timed out|reset|closed)|empty reply|"
        r"no route to host|network is unreachable|hung up unexpectedly|early EOF|transfer closed",
        GitError,
        "Check the address, or deploy again: {url} cannot be reached, or closed the connection.",
    ),
    (
        r"no space left",
        GitError,
        DISK_FULL_ERROR,
    ),
    (
        r"fsck error|is corrupt|bad object|unresolved deltas",
        GitError,
        "Run `git fsck`, and repair what it reports: {url} holds objects that git refuses.",
    ),
)
