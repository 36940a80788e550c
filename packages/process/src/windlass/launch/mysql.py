"""Starts MariaDB or MySQL with the variables of their official images: MYSQL_ROOT_PASSWORD, MYSQL_USER,
MYSQL_PASSWORD, MYSQL_DATABASE, PORT.

The server replaces the launcher. On SIGTERM it disconnects clients and shuts down without data loss.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple, NoReturn

from windlass.launch.instance import (
    become,
    find_server,
    finish,
    lock_data,
    make_whole,
    select_passed_on,
    server_of,
)
from windlass.launch.launch_variables import (
    INSTALLER_VARIABLE,
    data_of,
    host_of,
    memory_of,
    name_of,
    password_of,
    port_of,
)
from windlass.launch.launcher import Variables, launch, say


class MysqlAccount(NamedTuple):
    root: str
    user: str
    password: str
    database: str


def start(variables: Variables) -> NoReturn:
    variables = find_server("MYSQL", variables)
    server, data = server_of(variables), data_of(variables, "mysql")
    account, settings = account_of(variables), settings_of(variables)
    held, passed = lock_data(data), select_passed_on(variables)
    installer = variables.get(INSTALLER_VARIABLE, "")

    def make(folder: Path) -> None:
        finish(_install_command(server, installer, folder), held, passed, doing="making the data folder")

    if make_whole(data, make):
        say("the data folder was empty: made a new one")
    os.chdir(data)
    where = [f"--datadir={data}", *_root_option(), *(f"--{name}={value}" for name, value in settings.items())]
    become(
        [server, "--no-defaults", *where, f"--init-file={_write_memory_file(statements(account))}"], passed
    )


def account_of(variables: Variables) -> MysqlAccount:
    root = password_of(variables, "MYSQL_ROOT_PASSWORD", "MYSQL_PASSWORD")
    user = name_of(variables, "MYSQL_USER", "root")
    password = root if user == "root" else password_of(variables, "MYSQL_PASSWORD")
    database = name_of(variables, "MYSQL_DATABASE", "mysql" if user == "root" else user)
    return MysqlAccount(root, user, password, database)


def settings_of(variables: Variables) -> dict[str, str]:
    memory = memory_of(variables, 512)
    return {
        "bind-address": host_of(variables),
        "port": str(port_of(variables)),
        # A relative name lies in the data folder. An absolute path could exceed the length limit of socket
        # paths.
        "socket": "server.sock",
        "pid-file": "server.pid",
        # As in the official images. Otherwise, MariaDB stores only the letters of Western European languages.
        "character-set-server": "utf8mb4",
        "skip-name-resolve": "ON",
        "performance-schema": "OFF",
        "skip-log-bin": "ON",
        "innodb-buffer-pool-size": f"{max(memory // 4, 8)}M",
        "key-buffer-size": f"{max(memory // 32, 1)}M",
        "loose-aria-pagecache-buffer-size": f"{max(memory // 32, 2)}M",
        "max-connections": str(min(max(memory // 4, 50), 500)),
        # Closes the second port that MySQL would open. MariaDB does not know the option.
        **({} if variables.get(INSTALLER_VARIABLE) else {"mysqlx": "OFF"}),
    }


def statements(account: MysqlAccount) -> list[str]:
    """Returns the SQL statements that set users, passwords and the database. The server executes them at each
    start, before clients can connect."""
    everywhere = [
        *_login_statements("root", "localhost", account.root),
        *_login_statements("root", "%", account.root),
        "GRANT ALL PRIVILEGES ON *.* TO 'root'@'%' WITH GRANT OPTION",
        f"CREATE DATABASE IF NOT EXISTS {quote(account.database)}",
    ]
    if account.user == "root":
        return everywhere
    rights = f"GRANT ALL PRIVILEGES ON {quote(account.database)}.* TO {text(account.user)}@'%'"
    return [*everywhere, *_login_statements(account.user, "%", account.password), rights]


def _login_statements(user: str, host: str, password: str) -> list[str]:
    who = f"{text(user)}@{text(host)}"
    return [
        f"CREATE USER IF NOT EXISTS {who} IDENTIFIED BY {text(password)}",
        f"ALTER USER {who} IDENTIFIED BY {text(password)}",
    ]


def quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"


def _install_command(server: Path, installer: str, folder: Path) -> list[str | Path]:
    if installer:
        ways = ("--auth-root-authentication-method=socket", "--skip-test-db")
        return [installer, "--no-defaults", f"--datadir={folder}", *_root_option(), *ways]
    return [server, "--no-defaults", "--initialize-insecure", f"--datadir={folder}", *_root_option()]


def _root_option() -> list[str]:
    """Returns the option that allows the server to run as root, if this process runs as root."""
    return ["--user=root"] if os.geteuid() == 0 else []


def _write_memory_file(lines: list[str]) -> str:
    """Writes the lines into an anonymous file in memory and returns its path. They contain passwords, which
    must not reach the disk."""
    descriptor = os.memfd_create("statements", 0)
    os.set_inheritable(descriptor, True)
    os.write(descriptor, "".join(f"{line};\n" for line in lines).encode())
    return f"/proc/self/fd/{descriptor}"


if __name__ == "__main__":
    launch(start)
