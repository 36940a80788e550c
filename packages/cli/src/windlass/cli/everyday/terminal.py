"""`windlass exec` and `shell`: run a command in an instance, connected to this terminal or to pipes."""

from __future__ import annotations

import os
import selectors
import shlex
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from typing import Any, Final

import click

from windlass.cli.deployments import say
from windlass.cli.everyday.call import EverydayCall, everyday, service_argument, service_option
from windlass.cli.websocket import CloseFrame, CommandSocket
from windlass.terminal.command_errors import CommandFailed, in_sentence
from windlass.terminal.sections import Command, Option
from windlass.terminal.tables import plain

NOT_FOUND: Final = (126, 127)
"""The exit codes of a shell if the program is missing or not executable."""
_CHUNK_BYTES: Final = 32_768
_MAX_WAITING_BYTES: Final = 262_144
"""Maximum bytes of input waiting to be sent. Above this limit, standard input is not read."""


class CommandLineOfService(Command):
    """A command whose words after `--` are a command line. One word before `--` is the name of the service:
    `windlass exec web -- ls -l`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        before, after = _split_at_dashes(args)
        if self._names_service(ctx, before, after):
            ctx.allow_interspersed_args = True
            rest = super().parse_args(ctx, args)
            ctx.params["name"], ctx.params["command"] = ctx.params["command"][0], tuple(after)
            return rest
        return super().parse_args(ctx, args)

    def _names_service(self, ctx: click.Context, words_before: list[str], words_after: list[str]) -> bool:
        if not words_before or not words_after:
            return False
        parser = self.make_parser(ctx)
        parser.allow_interspersed_args = True
        try:
            found, _, _ = parser.parse_args([*words_before, "--", *words_after])
        except click.UsageError:
            return False
        return len(found["command"]) == len(words_after) + 1 and not found.get("name")


def _split_at_dashes(args: list[str]) -> tuple[list[str], list[str]]:
    """Returns the words before and after the first `--`. Without it, both lists are empty."""
    if "--" not in args:
        return [], []
    place = args.index("--")
    return args[:place], args[place + 1 :]


def instance_option() -> Option:
    return Option(
        ["instance", "--instance"], metavar="NAME", help="An instance, as `logs` names it.  [the first]"
    )


@everyday(
    "exec",
    click.Argument(["command"], nargs=-1, required=True, metavar="COMMAND…", type=click.UNPROCESSED),
    service_option(),
    instance_option(),
    Option(["no_tty", "-T", "--no-tty"], is_flag=True, help="Give the command no terminal."),
    kind=CommandLineOfService,
)
def exec_command(
    command: Sequence[str], name: str | None, instance: str | None, no_tty: bool, **options: Any
) -> None:
    """Run a command in an instance of the service: windlass exec web -- ls -l

    It has the variables of the service. The exit code is that of the command. With a terminal here, the
    command gets one, too.
    """
    _run(options, name, instance, command, with_terminal=not no_tty and _is_terminal())


exec_command.context_settings = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@everyday("shell", service_argument(), instance_option())
def shell(name: str | None, instance: str | None, **options: Any) -> None:
    """Open a shell in an instance of the service."""
    _run(options, name, instance, (), with_terminal=_is_terminal())


def _run(
    options: dict[str, Any],
    name: str | None,
    instance: str | None,
    command: Sequence[str],
    *,
    with_terminal: bool,
) -> None:
    call = EverydayCall(options)
    service = call.service(name)
    size = _terminal_size()
    query: dict[str, Any] = {"command": [*command], "tty": "true" if with_terminal else "false"}
    query |= {"columns": size.columns or 80, "rows": size.lines or 24} if with_terminal else {}
    query |= {"instance": instance} if instance else {}
    with (
        closing(CommandSocket(call.api, f"{service.path}/exec", query)) as connection,
        _raw_terminal() if with_terminal else nullcontext(),
    ):
        code = TerminalRelay(connection).until_end()
    if code in NOT_FOUND:
        explain_name(call, command, "exec")
    click.get_current_context().exit(code)


def explain_name(call: EverydayCall, command: Sequence[str], verb: str) -> None:
    """Prints how to name a service if the first word of a failed command is the name of one."""
    first, *rest = command or ("",)
    if rest[:1] == ["--"] or (rest and call.has_service(first)):
        line = shlex.join(["windlass", verb, first, "--", *(word for word in rest if word != "--")])
        say(f"If {plain(first)} is the service, write `{plain(line)}`.")


class TerminalRelay:
    """Forwards standard input to a command, and the command's output to standard output, until the command
    ends."""

    def __init__(self, connection: CommandSocket) -> None:
        self._connection = connection
        self._code: int | None = None
        self._reads_input = True
        self._waker, self._wakes = os.pipe()

    def until_end(self) -> int:
        """Returns the exit code of the command. Raises CommandFailed if the connection was lost before."""
        with _resizing(self._wakes):
            try:
                ready: list[Any] = [self._connection]  # data may have arrived together with the handshake
                while True:
                    for key in ready:
                        if (end := self._serve(key)) is not None:
                            return self._exit_code(end)
                    ready = self._wait_until_ready()
            finally:
                os.close(self._waker)
                os.close(self._wakes)

    def _wait_until_ready(self) -> list[Any]:
        with selectors.SelectSelector() as selector:
            waits = selectors.EVENT_WRITE if self._connection.waiting else 0
            selector.register(self._connection, selectors.EVENT_READ | waits)
            selector.register(self._waker, selectors.EVENT_READ)
            if self._reads_input and self._connection.waiting < _MAX_WAITING_BYTES:
                selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
            return [key.fileobj for key, _ in selector.select()]

    def _serve(self, source: Any) -> CloseFrame | None:
        """Handles available input or output. Returns the close frame if the connection was closed."""
        if source == self._waker:
            os.read(self._waker, _CHUNK_BYTES)
            size = _terminal_size()
            self._connection.send_json({"columns": size.columns, "rows": size.lines})
        elif source is not self._connection:
            self._pass_input()
        else:
            for message in self._connection.receive():
                if isinstance(message, CloseFrame):
                    return message
                self._handle_message(message)
        self._connection.flush()
        return None

    def _pass_input(self) -> None:
        data = os.read(sys.stdin.fileno(), _CHUNK_BYTES)
        if data:
            self._connection.send_bytes(data)
        else:
            self._reads_input = False
            self._connection.send_json({"end_of_input": True})

    def _handle_message(self, message: bytes | dict[str, Any]) -> None:
        if isinstance(message, dict):
            self._code = message.get("exit_code", self._code)
            return
        while message:
            message = message[os.write(sys.stdout.fileno(), message) :]

    def _exit_code(self, close_frame: CloseFrame) -> int:
        if self._code is not None:
            return self._code
        reason = plain(close_frame.reason) or "the connection was lost"
        raise CommandFailed(f"run it again if you still need it: {in_sentence(reason)}")


def _terminal_size() -> os.terminal_size:
    """Returns the actual size of the terminal. The environment variables may contain another terminal's
    size."""
    return os.get_terminal_size(sys.stdout.fileno()) if sys.stdout.isatty() else os.terminal_size((80, 24))


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


@contextmanager
def _raw_terminal() -> Iterator[None]:
    """Puts the terminal into raw mode, in which Ctrl-C is forwarded, too. Restores the terminal at the
    end."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    ends = {number: signal.signal(number, _exit_on_signal) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        tty.setraw(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        for number, handler in ends.items():
            signal.signal(number, handler)


def _exit_on_signal(number: int, _frame: Any) -> None:
    sys.exit(128 + number)  # the terminal is restored during the exit


@contextmanager
def _resizing(wakes: int) -> Iterator[None]:
    """Wakes the event loop when the terminal is resized."""
    before = signal.signal(signal.SIGWINCH, lambda *_: os.write(wakes, b"."))
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
