"""Runs the server process of `windlass serve`."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import socket
import sys
from contextlib import AsyncExitStack, closing, suppress
from pathlib import Path
from typing import Final

import click
import msgspec
import uvloop

from windlass.base.allocator import share_arena
from windlass.base.errors import Unauthorized, Unavailable
from windlass.base.hardening import refuse_dumps, wipe_variables
from windlass.base.log import log, start_logging
from windlass.base.oom_score import SERVER_SCORE, set_oom_score
from windlass.base.priority import prefer_session
from windlass.base.private import private_file
from windlass.base.sd_notify import SystemdNotifier
from windlass.base.version import VERSION
from windlass.base.worker_threads import use_worker_threads
from windlass.config import Settings, take_secrets, to_type
from windlass.gateway.api_sockets import ApiSockets, PortInUse, take_sockets
from windlass.gateway.files import folder_of
from windlass.install.database import reading_snapshot
from windlass.install.engines import kept_engine, own_settings, provider_in_use
from windlass.install.installation import Installation, install
from windlass.operate.explain import cannot_listen
from windlass.operate.place_owners import examine_sharing
from windlass.operate.settings import DEFAULT_URL
from windlass.operate.start_wait import begin_when_possible
from windlass.serve.server import listen, serve
from windlass.store import Reads
from windlass.store.archive import Snapshot
from windlass.terminal.command_errors import CommandRefused

_log = log("main")


def run(settings: Settings, manager: SystemdNotifier, *, adopt: bool = False, gateway: int = 0) -> None:
    """Runs the server until it stops. `gateway` is the process id of the gateway started for this server, or
    0."""
    share_arena()
    start_logging(settings.log_level, settings.log_format)
    set_oom_score(SERVER_SCORE)
    prefer_session()
    keep_secrets()
    uvloop.run(_serve(settings, manager, adopt, gateway))


def keep_secrets() -> None:
    """Hides the secrets of the settings from other processes, in the environment and in memory."""
    wipe_variables(take_secrets())
    refuse_dumps()


async def _serve(settings: Settings, manager: SystemdNotifier, adopt: bool, gateway: int) -> None:
    use_worker_threads(settings.parallel_deployments)
    sockets = take_systemd_port(settings, manager) or take_port(settings)
    # A port that was chosen by the system is known now. It is part of the built-in issuer's name.
    host, port = sockets.listening.getsockname()[:2]
    settings = msgspec.structs.replace(settings, port=port, host=host if manager.sockets else settings.host)
    living = asyncio.create_task(manager.keep_alive())
    # A new socket is handed to the gateway only after the start has succeeded, because the start may be
    # refused.
    keeping = asyncio.create_task(sockets.keep()) if sockets.were_kept else None

    async def begin() -> Installation:
        await check_engine(settings)
        installation = await install(settings, adopt=adopt, gateway=gateway)
        async with AsyncExitStack() as undo:
            undo.push_async_callback(installation.stop)
            await keep_first_token(installation)
            await installation.start()
            undo.pop_all()
        return installation

    def wait_for(reason: str) -> None:
        manager.tell("READY=1", f"STATUS={reason}")

    installation = await begin_when_possible(begin, settings, sockets.listening, wait_for)
    keeping = keeping or asyncio.create_task(sockets.keep())
    reporting: list[asyncio.Task[None]] = []

    def announce(port: int) -> None:
        manager.tell("READY=1", "STATUS=Serving")
        first = installation.first_token
        click.echo(heading(settings.host, port), err=True)
        installation.ctx.calls.prepare()
        if first:
            print_first_steps(settings, first_steps(settings.host, port, first, installation.first_code))
            _first_token_file(settings).unlink(missing_ok=True)
        reads = installation.ctx.store.reads
        reporting.append(asyncio.create_task(_report(settings, reads, is_first=bool(first))))

    with closing(sockets):
        await serve(installation, sockets.listening, announce, lambda: manager.tell("STOPPING=1"))
        keeping.cancel()
        living.cancel()
    await asyncio.gather(*reporting)
    if message := closing_line(settings, installation.left_running):
        click.echo(message, err=True)


def take_systemd_port(settings: Settings, manager: SystemdNotifier) -> ApiSockets | None:
    """Returns the listening socket that systemd has passed, or None. Its address overrides the settings."""
    if not manager.sockets:
        return None
    if len(manager.sockets) > 1:
        raise CommandRefused("name one address in the unit windlass.socket: Windlass accepts at one only")
    listening = socket.socket(fileno=manager.sockets[0].file)
    if listening.family not in {socket.AF_INET, socket.AF_INET6} or listening.type != socket.SOCK_STREAM:
        raise CommandRefused("name an address and a port in ListenStream of the unit windlass.socket")
    host, port = listening.getsockname()[:2]
    return ApiSockets(folder_of(settings.data_dir), host, {(host, port): listening})


def take_port(settings: Settings) -> ApiSockets:
    """Returns a listening socket at the address of the settings.

    Uses the socket that the gateway has kept since the last server, or creates a new one.
    """
    folder, has_others = folder_of(settings.data_dir), bool(settings.database_url)
    try:
        kept = take_sockets(folder, settings.host, settings.port)
        if kept:
            return ApiSockets(folder, settings.host, kept, were_kept=True, has_others=has_others)
        listening = listen(settings.host, settings.port)
    except (OSError, PortInUse) as error:
        raise cannot_listen(settings, error) from error
    sockets = {(settings.host, listening.getsockname()[1]): listening}
    return ApiSockets(folder, settings.host, sockets, has_others=has_others)


async def _report(settings: Settings, reads: Reads, *, is_first: bool) -> None:
    """Logs warnings about the isolation of services.

    This runs in the background after the start, because trying out the isolation takes a moment.
    """
    provider = await provider_in_use(settings)
    report = await provider.start_report(own_settings(provider, settings))
    for warning in report.warnings:
        _log.warning(warning)
    with suppress(Unavailable):  # other loops log that the database is unavailable
        for finding in await examine_sharing(reads, settings):
            _log.warning(f"The {finding.found}: {finding.advice}")
    if is_first and report.protection:
        click.echo(f"To keep services apart, each has {', '.join(report.protection)}.", err=True)


def closing_line(settings: Settings, services: int) -> str:
    """Returns the last message of a stopping server: the number of services that keep running."""
    stop = to_type(settings, "stop --all")
    match services:
        case 0:
            return ""
        case 1:
            return f"1 service keeps running; `{stop}` ends it"
        case _:
            return f"{services} services keep running; `{stop}` ends them"


async def check_engine(settings: Settings) -> None:
    """Raises CommandRefused for another engine while services run. They would start there a second time, with
    empty volumes."""
    ran_on = kept_engine(settings)
    if settings.engine in {"auto", ran_on} or not ran_on:
        return
    count = 0
    with suppress(CommandRefused):  # without a database, a later check reports the problem
        async with reading_snapshot(settings) as line:
            count = len(await Reads(line).statuses.serving()) if await Snapshot(line).applied() else 0
    if count:
        raise CommandRefused(
            f"start with the engine {ran_on} (WINDLASS_ENGINE={ran_on}), on which services of this "
            f"installation run ({count}), or stop them first: `{to_type(settings, 'stop --all')}`. Volumes "
            "stay with the engine that they were made on"
        )


def _first_token_file(settings: Settings) -> Path:
    """Returns the path of the file that stores the first start's Admin token until it is shown."""
    return Path(settings.data_dir) / "first-token"


async def keep_first_token(installation: Installation) -> None:
    """Stores the first start's Admin token in a file until it is shown, because the rest of the start may
    fail.

    The next start shows a stored token if it is still valid.
    """
    file = _first_token_file(installation.ctx.settings)
    if token := installation.first_token:
        private_file(file)
        file.write_text(token)
    elif file.exists():
        with suppress(Unauthorized):
            await installation.take_first_token(file.read_text())


FIRST_STEPS: Final = "first-steps"
"""Name of the file with the first start's text, in the data directory."""
_FIRST_COMMANDS: Final = (
    ("login", "first: keeps the token, so that later terminals do not need these lines"),
    ("demo", "deploys a small application with a database"),
    ("init", "in the folder of an application of yours: finds out how it runs"),
    ("up", "there: deploys it, and prints its address"),
)
"""The commands for a new installation, in the order in which they are needed."""


def heading(host: str, port: int) -> str:
    """Returns the message of a server that has started to listen."""
    url = _url(host, port)
    return f"Windlass {VERSION} listens on {url}  (console: {url}/console, reference: /docs, stop: Ctrl-C)"


def first_steps(host: str, port: int, token: str, code: str = "") -> str:
    """Returns the text of a first start: the Admin token, and a link that signs a browser in."""
    url = _url(host, port)
    is_file = sys.argv[0].endswith("/windlass") and not shutil.which("windlass")
    program = shlex.quote(str(Path(sys.argv[0]).absolute())) if is_file else "windlass"
    lines = [
        "",
        "This is the first start. Open this in a browser within ten minutes; it works once, and later",
        f"`{program} console` prints another:",
        "",
        f"  {url}/console/#code={code}",
        "",
        "For the command line: the Admin token below is shown this once. Keep it.",
        "",
        *([] if url == DEFAULT_URL else [f"  export WINDLASS_URL={url}"]),
        f"  export WINDLASS_TOKEN={token}",
        "",
        "Paste the lines with `export` into another terminal, and continue there:",
        "",
        *(f"  {program} {words:<8}{what}" for words, what in _FIRST_COMMANDS),
        "",
    ]
    return "\n".join(lines)


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def print_first_steps(settings: Settings, text: str) -> None:
    """Prints the first start's text to a terminal, or writes it to a file that only this user can read.

    Without a terminal, printed secrets would end up in a log that others may read.
    """
    if sys.stderr.isatty():
        click.echo(text, err=True)
        return
    path = Path(settings.data_dir).absolute() / FIRST_STEPS
    try:
        private_file(path)
        path.write_text(text)
    except OSError as error:
        extra = {"file": str(path), "reason": error.strerror}
        _log.error("start once with admin_token set: the first token could not be written", extra=extra)
        return
    click.echo(
        f"This is the first start. Read {path}: it has an Admin token, and a link that signs a browser in "
        "within ten minutes. Remove it then.",
        err=True,
    )
