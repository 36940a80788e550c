"""Starts PostgreSQL with the variables of its official image: POSTGRES_USER, POSTGRES_PASSWORD and
POSTGRES_DB.

The launcher remains the server's parent process in order to translate signals. On SIGTERM, PostgreSQL waits
for its clients without a time limit. On SIGINT, it disconnects them, writes its data to disk and ends.
"""

from __future__ import annotations

import ctypes
import locale
import os
import secrets
import signal
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from windlass.base.isolation import calls
from windlass.launch.instance import (
    accompany,
    find_server,
    finish,
    lock_data,
    make_whole,
    select_passed_on,
    server_of,
)
from windlass.launch.launch_variables import (
    LISTEN_VARIABLE,
    VERSION_VARIABLE,
    data_of,
    host_of,
    memory_of,
    name_of,
    password_of,
    port_of,
)
from windlass.launch.launcher import LaunchRefused, Variables, launch, say
from windlass.launch.unprivileged import leave_root

SIGNAL_TRANSLATION: Final = {
    signal.SIGTERM: signal.SIGINT,
    signal.SIGINT: signal.SIGINT,
    signal.SIGHUP: signal.SIGHUP,
    signal.SIGQUIT: signal.SIGQUIT,
}
_FROM_EVERYWHERE: Final = "host all all all scram-sha-256"
_ABSENT_MARKER: Final = "windlass-database-is-absent"
# PostgreSQL must not log a failed statement, because the statement may contain a password.
_MEMORY_IN_FILES: Final = "dynamic_shared_memory_type=mmap"
"""The setting for a cell without shared memory, as where only Landlock isolates services."""
_MEMORY_LINE: Final = 6
"""The line of `postmaster.pid`, counted from 0, with the key and the id of the server's System V memory."""
_REMOVE: Final = 0
"""The command IPC_RMID of `shmctl`."""
_FIRST_WITH_SETTINGS: Final = 16
"""The first major version whose `initdb` takes settings."""
_QUIET_OPTIONS: Final = ("exit_on_error=on", "log_min_error_statement=panic", "log_min_messages=error")


class PostgresAccount(NamedTuple):
    user: str
    password: str
    database: str


def start(variables: Variables) -> NoReturn:
    variables = find_server("POSTGRESQL", variables)
    server, data = server_of(variables), data_of(variables, "postgresql", "PGDATA")
    account, settings = account_of(variables), settings_of(variables)
    held = lock_data(data)  # before the owner changes: an earlier server may still use it
    leave_root(data, server)
    if data.is_dir():  # PostgreSQL refuses a folder that others may enter, as after `chmod -R`
        data.chmod(0o700)
    version = variables.get(VERSION_VARIABLE, "")
    major = version.partition(".")[0]
    cluster = PostgresServer(server, data, held, select_passed_on(variables), int(major or 0))
    cluster.check_major(version)
    if make_whole(data, lambda folder: cluster.at(folder).make(account)):
        say("the data folder was empty: made a new cluster")
    else:
        forget_earlier_server(data)
        cluster.settle(account)
    if variables.get(LISTEN_VARIABLE):
        admit_others(data / "pg_hba.conf")
    os.chdir(data)
    accompany([server, "-D", data, *_server_options(settings)], cluster.variables, SIGNAL_TRANSLATION)


def forget_earlier_server(data: Path) -> None:
    """Removes the file and the System V memory by which PostgreSQL recognizes that a server uses the data.

    That server has ended, because this process holds the lock. The process id in the file may now belong to
    another program. Where the cell has no IPC namespace, another program may be attached to the memory, and
    PostgreSQL would refuse to start until that program ends.
    """
    left = data / "postmaster.pid"
    try:
        lines = left.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return
    match [int(word) for word in "".join(lines[_MEMORY_LINE : _MEMORY_LINE + 1]).split() if word.isdecimal()]:
        # After a reboot, both numbers may belong to other memory, but hardly together.
        case [key, segment] if calls.libc.shmget(ctypes.c_int(key), ctypes.c_size_t(0), 0) == segment:
            calls.libc.shmctl(segment, _REMOVE, None)
    left.unlink()


def admit_others(rules: Path) -> None:
    """Allows clients from all addresses to log in with the password."""
    lines = rules.read_text().splitlines()
    if _FROM_EVERYWHERE not in lines:
        rules.write_text("\n".join([*lines, _FROM_EVERYWHERE, ""]))


def account_of(variables: Variables) -> PostgresAccount:
    user = name_of(variables, "POSTGRES_USER", "postgres")
    if user.startswith("pg_"):
        raise LaunchRefused(
            f"POSTGRES_USER: PostgreSQL keeps names that begin with pg_ to itself; {user!r} is one"
        )
    password = password_of(variables, "POSTGRES_PASSWORD")
    return PostgresAccount(user, password, name_of(variables, "POSTGRES_DB", user))


def settings_of(variables: Variables) -> dict[str, str]:
    """Returns server settings for the memory limit. The number of connections is limited because each one
    needs memory."""
    memory = memory_of(variables, 256)
    return {
        "listen_addresses": host_of(variables),
        "port": str(port_of(variables)),
        "unix_socket_directories": "",
        "shared_buffers": f"{min(max(memory // 4, 16), 8192)}MB",
        "effective_cache_size": f"{max(memory // 2, 32)}MB",
        "work_mem": f"{min(max(memory // 64, 1), 64)}MB",
        "maintenance_work_mem": f"{min(max(memory // 16, 8), 1024)}MB",
        "max_connections": str(min(max(memory // 4, 50), 400)),
        "password_encryption": "scram-sha-256",
        **({} if has_shared_memory() else dict([_MEMORY_IN_FILES.split("=")])),
    }


def has_shared_memory(folder: str = "/dev/shm") -> bool:  # noqa: S108 (the memory of the cell)
    """Returns whether programs can make POSIX shared memory here. PostgreSQL would use System V memory
    instead, of which a cell may have too little."""
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600))
    except OSError:
        return False
    return True


class PostgresServer(NamedTuple):
    """A data folder and the server program that uses it."""

    server: Path
    data: Path
    held: int
    variables: dict[str, str]
    major: int

    def at(self, folder: Path) -> PostgresServer:
        return self._replace(data=folder)

    def check_major(self, version: str) -> None:
        """Refuses a data folder that another major version of PostgreSQL has written."""
        written, major = self.data / "PG_VERSION", version.partition(".")[0]
        if not written.exists() or not major:
            return
        present = written.read_text().strip()
        if present != major:
            raise LaunchRefused(
                f"the data is of PostgreSQL {present}, and this is PostgreSQL {major}, which cannot read it. "
                f"Nothing was changed. Set the version back to {present} and deploy, dump the data with "
                f"pg_dump, make a new database of version {major}, and restore the dump there"
            )

    def make(self, account: PostgresAccount) -> None:
        where = ("-D", self.data, "--encoding=UTF8", f"--locale={_available_locale()}")
        # A random password, until `settle` sets the configured one.
        words = [f"--username={account.user}", "--auth=scram-sha-256", "--pwfile=/dev/stdin"]
        if not has_shared_memory() and self.major >= _FIRST_WITH_SETTINGS:
            words += ["-c", _MEMORY_IN_FILES]
        program = self.server.with_name("initdb")
        secret = secrets.token_hex() + "\n"
        finish([program, *where, *words], self.held, self.variables, secret, doing="making the data folder")
        self.settle(account)

    def settle(self, account: PostgresAccount) -> None:
        """Sets the user, the password and the database while the server is not running."""
        name, user, database = quote(account.user), text(account.user), text(account.database)
        role = f"IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = {user}) THEN CREATE ROLE {name}; END IF;"
        absent = f"NOT EXISTS (SELECT FROM pg_database WHERE datname = {database})"
        answer = self.execute(
            f"DO $made$ BEGIN {role} END $made$",
            f"ALTER ROLE {name} WITH LOGIN SUPERUSER PASSWORD {text(account.password)}",
            f"SELECT '{_ABSENT_MARKER}' WHERE {absent}",
        )
        if f'= "{_ABSENT_MARKER}"' in answer:
            self.execute(f"CREATE DATABASE {quote(account.database)} OWNER {name}")

    def execute(self, *statements: str) -> str:
        """Executes SQL statements in PostgreSQL's single-user mode, which reads one statement from each
        line."""
        files = () if has_shared_memory() else (_MEMORY_IN_FILES,)
        settings = [word for setting in (*_QUIET_OPTIONS, *files) for word in ("-c", setting)]
        words: list[str | Path] = [self.server, "--single", "-D", self.data, *settings, "postgres"]
        lines = "".join(f"{statement};\n" for statement in statements)
        return finish(words, self.held, self.variables, lines, doing="setting up user and database")


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n").replace("\r", "\\r")
    return f"E'{escaped}'"


def _server_options(settings: dict[str, str]) -> list[str]:
    return [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]


def _available_locale() -> str:
    try:
        locale.setlocale(locale.LC_ALL, "C.UTF-8")
    except locale.Error:
        return "C"
    return "C.UTF-8"


if __name__ == "__main__":
    launch(start)
