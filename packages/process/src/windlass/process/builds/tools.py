"""Runs the programs that install dependencies and passes their output to the build log.

Each build has its own home folder for its programs, by which they are found and ended.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from windlass.base import subprocesses
from windlass.base.child_process import ChildProcess
from windlass.base.disk_reserve import has_little
from windlass.builders.builder import BuildError, Say
from windlass.builders.remedies import failure
from windlass.process.builds.cells import BuildStep, Cells

MAX_LINE_LENGTH: Final = 2000
MAX_LOGGED_LINES: Final = 5000
"""Maximum number of lines that one program may write to the log. The last lines are kept beyond that."""
MAX_READ_LINES: Final = 10_000
"""Maximum number of output lines that are processed as they arrive, including empty lines. After that, only
the end of the output is kept."""
_MAX_KEPT_BYTES: Final = 64 * 1024
MAX_KEPT_LINES: Final = 200
"""Number of last lines that are kept to explain a failure. npm prints about a hundred lines of usage after
the reason."""
END_CHECK_INTERVAL: Final = 0.2

# Variables of the operator for proxies and certificates. Tools get no other variables of the operator, except
# for registries.
PASSED_VARIABLES: Final = frozenset(
    {
        "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "LANG", "LC_ALL", "TZ",
    }
)  # fmt: skip
PASSED_BEGINNINGS: Final = ("PIP_", "UV_", "NPM_CONFIG_")
# Variables that determine where a tool writes its files. Windlass sets them itself.
WINDLASS_VARIABLES: Final = frozenset(
    {
        "PIP_CACHE_DIR", "PIP_NO_CACHE_DIR", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_PYTHON",
        "PIP_REQUIRE_VIRTUALENV", "PIP_LOG", "PIP_LOG_FILE", "PIP_REPORT", "PIP_DRY_RUN", "UV_CACHE_DIR",
        "UV_NO_CACHE", "UV_PYTHON", "UV_PROJECT_ENVIRONMENT", "UV_SYSTEM_PYTHON", "UV_TARGET",
        "NPM_CONFIG_CACHE", "NPM_CONFIG_PREFIX", "NPM_CONFIG_GLOBAL", "NPM_CONFIG_OMIT", "NPM_CONFIG_ONLY",
        "NPM_CONFIG_PRODUCTION", "NPM_CONFIG_INCLUDE", "NPM_CONFIG_LOCATION",
    }
)  # fmt: skip

OF_NODE: Final = frozenset({"npm", "npx", "pnpm", "yarn", "bun"})
"""Programs that read npm's settings."""

_ESCAPES_PATTERN = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.")
_MISSING_FOLDER = "/nonexistent"
_CREDENTIALS_PATTERN = re.compile(r"(?<=://)[^\s/@]+@")


def about_registries(names: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables for pip, uv and npm, without those that determine where the tools write."""
    return {
        name: value
        for name, value in names.items()
        if name.upper().startswith(PASSED_BEGINNINGS) and name.upper() not in WINDLASS_VARIABLES
    }


def environment_for(program: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of one tool, without the registries and credentials of other tools."""
    own = ("NPM_CONFIG_",) if program in OF_NODE else ("PIP_", "UV_")
    others = tuple(beginning for beginning in PASSED_BEGINNINGS if beginning not in own)
    return {name: value for name, value in environment.items() if not name.upper().startswith(others)}


def machine_path() -> list[str]:
    """Returns the PATH of this machine, without the virtual environment of Windlass."""
    own = os.path.realpath(Path(sys.prefix) / "bin") if sys.prefix != sys.base_prefix else ""
    return [
        folder for folder in os.get_exec_path() if folder.startswith("/") and os.path.realpath(folder) != own
    ]


def find_program(name: str, path: Sequence[str]) -> str | None:
    return shutil.which(name, path=os.pathsep.join(path))


class ToolFailed(BuildError):
    """Raised if a program of a build ended with an error."""

    def __init__(self, message: str, lines: Sequence[str] = (), *, was_killed: bool = False) -> None:
        super().__init__(message)
        self.lines = lines
        """The last lines of the program's output."""
        self.was_killed = was_killed
        """Whether the program was killed and may therefore have left incomplete files in a cache."""


class Tools:
    def __init__(
        self,
        surroundings: Mapping[str, str],
        home: Path,
        cache: Path,
        write_line: Say,
        facts: dict[tuple[str, ...], str],
        cells: Cells,
    ) -> None:
        """`home` identifies the programs of this build. A sweep finds and ends them by it. `facts` are the
        answers that installed programs gave earlier builds."""
        self.cells = cells
        self.say = write_line
        self.surroundings = surroundings
        self.cache = cache
        self._facts = facts
        self._hidden = {str(home): "~", str(cache.parent.parent): "…"}
        """Paths of this machine and their replacements in the build log, because readers of the log should
        not see the paths."""
        self._may_run = 0
        """Number of programs that may have left processes behind."""
        self.home = home
        self.check: Callable[[], None] = lambda: None
        """Called after each program. Raises BuildError if the program changed a folder that Windlass reads
        with its own permissions."""
        self.path = machine_path()
        passed = {name: value for name, value in surroundings.items() if name.upper() in PASSED_VARIABLES}
        self._environment = {
            **passed,
            **about_registries(surroundings),
            "PATH": os.pathsep.join(self.path),
            "HOME": str(home),
            "TMPDIR": str(home),
            "PIP_CACHE_DIR": str(cache / "pip"),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_INPUT": "1",
            "PIP_PROGRESS_BAR": "off",
            "PIP_NO_COLOR": "1",
            "PIP_ROOT_USER_ACTION": "ignore",
            "UV_CACHE_DIR": str(cache / "uv"),
            "UV_NO_PROGRESS": "1",
            "NO_COLOR": "1",
            "npm_config_cache": str(cache / "npm"),
            "npm_config_update_notifier": "false",
            "npm_config_audit": "false",
            "npm_config_fund": "false",
            "npm_config_progress": "false",
            "npm_config_color": "false",
            "CI": "1",
            "TERM": "dumb",
        }

    def elsewhere(self, home: Path, cache: Path, cells: Cells) -> Tools:
        """Returns tools with the same programs and another home and cache, to make toolchains that do not
        belong to a build."""
        tools = Tools(self.surroundings, home, cache, self.say, self._facts, cells)
        tools.path = [*self.path]
        tools._environment["PATH"] = os.pathsep.join(tools.path)
        cells.readable += self.cells.readable
        return tools

    def put_first(self, folder: Path) -> None:
        """Puts a folder at the beginning of the PATH."""
        self.path.insert(0, str(folder))
        self._environment["PATH"] = os.pathsep.join(self.path)

    def find(self, name: str) -> str | None:
        return find_program(name, self.path)

    async def run(
        self,
        argv: Sequence[str | Path],
        *,
        cwd: Path,
        extra_variables: Mapping[str, str] | None = None,
        title: str,
    ) -> None:
        """Runs a program and passes its output to the build log. Raises ToolFailed with the relevant output
        if the program fails."""
        heard = OutputLines(self.say, self._plain)
        code = await self._run(argv, cwd, extra_variables or {}, heard, title)
        if code:
            has_room = not await subprocesses.in_thread(has_little, self.home)
            message = self._plain(failure(title, code, heard.last, has_room=has_room))
            raise ToolFailed(message, list(heard.last), was_killed=code < 0 or code > 128)

    def hide(self, folder: Path, stand_in: str) -> None:
        hidden = {**self._hidden, str(folder): stand_in}
        self._hidden = {path: hidden[path] for path in sorted(hidden, key=len, reverse=True)}

    def _plain(self, line: str) -> str:
        for path, stand_in in self._hidden.items():
            line = line.replace(path, stand_in)
        return line

    async def ask_once(self, argv: Sequence[str | Path], program: str | Path) -> str | None:
        """Returns the output of a program that tells a fact about `program`, such as its version. It is asked
        again once the file of `program` has changed; a failure or a long output is not remembered.

        Builds of all organizations use the answers. So the program finds no files of this build: Python
        would import modules from the folder in which it starts and from HOME, and pip reads its settings
        there.
        """
        try:
            facts = await subprocesses.in_thread(os.stat, program)
        except OSError:
            return await self._ask_apart(argv)
        key = (*map(str, argv), f"{facts.st_dev}:{facts.st_ino}:{facts.st_mtime_ns}")
        if key not in self._facts:
            answer = await self._ask_apart(argv)
            if answer is None or len(answer) > MAX_LINE_LENGTH:
                return answer
            self._facts[key] = answer
        return self._facts[key]

    async def _ask_apart(self, argv: Sequence[str | Path]) -> str | None:
        return await self.ask(
            argv, cwd=Path("/"), extra_variables={"HOME": _MISSING_FOLDER, "TMPDIR": _MISSING_FOLDER}
        )

    async def ask(
        self, argv: Sequence[str | Path], *, cwd: Path, extra_variables: Mapping[str, str] | None = None
    ) -> str | None:
        """Returns the output of a program, or None if it fails."""
        answer: list[str] = []
        heard = OutputLines(answer.append)
        try:
            code = await self._run(argv, cwd, extra_variables or {}, heard, str(argv[0]))
        except BuildError:
            return None
        return None if code else "\n".join(answer)

    async def _run(
        self,
        argv: Sequence[str | Path],
        cwd: Path,
        extra_variables: Mapping[str, str],
        heard: OutputLines,
        title: str,
    ) -> int:
        own = environment_for(Path(argv[0]).name, self._environment)
        # Some programs read PWD without a shell that would set it.
        env = {**own, **extra_variables, "PWD": str(cwd)}
        self._may_run += 1
        try:
            words = [self._resolve_program(argv[0], env), *map(str, argv[1:])]
            async with self.cells.running(BuildStep(words, cwd, env, own)) as (process, ends_all):
                errors = heard.other()
                ending = asyncio.ensure_future(self._kill_leftovers(process))
                try:
                    await subprocesses.run_together(
                        subprocesses.pump(process.stdout, heard.feed),
                        subprocesses.pump(process.stderr, errors.feed),
                    )
                finally:
                    ending.cancel()
                code = await process.wait()
                self._may_run -= ends_all
                heard.end()
                errors.end()
                await subprocesses.in_thread(self.check)
                return code
        except FileNotFoundError as error:
            raise BuildError(
                f"Ask the operator to install {Path(argv[0]).name}, which {title} needs: the machine has "
                "none."
            ) from error

    def _resolve_program(self, name: str | Path, env: Mapping[str, str]) -> str:
        program = find_program(str(name), env["PATH"].split(os.pathsep))
        if program is None:
            raise FileNotFoundError(name)
        return program

    async def _kill_leftovers(self, process: ChildProcess) -> None:
        """Ends processes that a program left behind. They may keep its output open, so that the end of the
        output would not be noticed."""
        while process.returncode is None:  # noqa: ASYNC110 (process.wait() also waits for its output)
            await asyncio.sleep(END_CHECK_INTERVAL)
        await asyncio.sleep(END_CHECK_INTERVAL)
        process.kill()
        await subprocesses.in_thread(self.end_all)

    def end_all(self) -> None:
        """Ends all programs of this build, including daemons that left their process group."""
        if self._may_run:
            subprocesses.end_all_of(self.home)


class OutputLines:
    """Splits the output of a program into readable lines."""

    def __init__(
        self, write_line: Say, remove_paths: Callable[[str], str] = str, last_lines: deque[str] | None = None
    ) -> None:
        """`remove_paths` removes paths from a line. It is applied before a long line is cut, which could cut
        a path."""
        self._say, self._plain = write_line, remove_paths
        self._rest = b""
        self._said = self._read = 0
        self._is_full = False
        """Whether the limit is reached: only the end of the output is kept, and no line is logged."""
        self.last: deque[str] = deque(maxlen=MAX_KEPT_LINES) if last_lines is None else last_lines

    def other(self) -> OutputLines:
        """Returns a splitter for another output stream of the same program. Both share the last lines."""
        return OutputLines(self._say, self._plain, self.last)

    def feed(self, piece: bytes) -> None:
        data, self._rest = self._rest + piece, b""
        at = 0
        while not self._is_full and (end := data.find(b"\n", at)) >= 0:
            self._line(data[at:end])
            at = end + 1
            self._is_full = self._said > MAX_LOGGED_LINES or self._read >= MAX_READ_LINES
            if self._is_full:
                self._say("(it prints more than can be kept; the rest is left out)")
        self._rest = data[at:][-_MAX_KEPT_BYTES:]

    def end(self) -> None:
        for line in self._rest.split(b"\n")[-MAX_KEPT_LINES:]:
            self._line(line)
        self._rest = b""

    def _line(self, raw: bytes) -> None:
        # Carriage returns within a line overwrite progress messages. Only the last message is kept.
        self._read += 1
        text = raw.rstrip(b"\r").rpartition(b"\r")[2].decode(errors="replace").replace("\t", "    ")
        plain = self._plain(_CREDENTIALS_PATTERN.sub("***@", _ESCAPES_PATTERN.sub("", text)))
        line = "".join(filter(str.isprintable, plain))[:MAX_LINE_LENGTH].rstrip()
        if not line:
            return
        self.last.append(line)
        self._said += 1
        if self._said <= MAX_LOGGED_LINES and not self._is_full:
            self._say(line)


@contextmanager
def step(write_line: Say, title: str) -> Iterator[None]:
    """Logs the title of a step, and afterwards its duration."""
    write_line(f"{title} …")
    start = time.monotonic()
    yield
    write_line(f"{title}: done in {time.monotonic() - start:.1f} s.")
