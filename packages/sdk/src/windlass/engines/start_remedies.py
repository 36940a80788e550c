"""Derives a remedy for a program that ended during its start, from its last output lines. Pure.

Each rule matches a common error of languages, frameworks and shells. The first matching rule wins. Its
message begins with the remedy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from windlass.base.all_patterns import AllPatterns, TextSearch, as_search
from windlass.base.lazy import lazy_pattern
from windlass.detect import python_modules
from windlass.detect.node_scripts import package_of_program
from windlass.engines.debian_packages import library_to_install, tool_to_install
from windlass.engines.missing_variables import (
    OF_PROGRAMS,
    database_words,
    missing_settings,
    remedy_for_variables,
    variables_named,
)

LOG_HINT: Final = "Look at the log: "
"""Prefix of a failure message that has no remedy yet, because the output was not examined."""
LOOKED_AT: Final = 60
"""Number of the last output lines that are examined."""
_MAX_QUOTE_LENGTH: Final = 300
_MAX_LINE_LENGTH: Final = 2000
"""Maximum length of an examined line, in characters."""
_MAX_EXAMINED_LENGTH: Final = 64 * 1024
"""Maximum length of the examined output, in characters. A program chooses it, and nothing else runs in the
server while it is examined."""
_FILE: Final = r"[\w./@+-]+"
_SCRIPT: Final = r"\./[\w./@+-]+|[\w./@+-]+\.sh"
_AT_LINE: Final = r"(?:exec: )?(?:line )?(?:\d+: )?(?:exec: )?"
"""Matches the text between the shell's name and the program's name in a shell's error message. Busybox prints
the line number after `exec`."""
_QUOTE: Final = r"[\"'`‘’“”]?"

_VARIABLE: Final = "variables"
"""Stands for the advice of `missing_variables`."""
_LINE_ENDINGS: Final = (
    "Save the script with the line endings of Unix (LF), and commit it: it has those of Windows "
    "(CRLF), which "
    "no shell here reads. The line `*.sh text eol=lf` in .gitattributes keeps them so"
)
_NOT_EXECUTABLE: Final = (
    "Make {0} executable with `git update-index --chmod=+x {0}`, and commit "
    "that: {name} is not allowed to run it"
)
_NO_PROGRAM: Final = (
    "Install {program} with the dependencies, or correct the start command: there is no "
    "program {0} where {name} runs"
)
_NO_SCRIPT: Final = (
    "Commit the script {0} with a first line such as `#!/bin/sh` and the line endings of Unix (LF), or "
    "correct the start command: the script, or the program of its first line, is not where {name} runs"
)
_NO_MODULE: Final = "Add {package} to the dependencies, or correct the name: {name} has no module {0}"
_NO_OWN_MODULE: Final = (
    "Commit the file of the module {0}, or name a version of its package that has it: {name} imports the "
    "module, and its package is there without it"
)
_NAMESPACES: Final = r"(?:azure|backports|google|jaraco|ruamel|zope)\b"
"""Packages of Python whose modules belong to other packages."""
_NO_GEM: Final = (
    "Run `bundle add {0}` on your machine, and commit Gemfile and Gemfile.lock: {name} needs the gem {0}, "
    "which they do not name"
)
_SETUPTOOLS: Final = f"{python_modules.ADD_SETUPTOOLS}: {{name}} needs its module {{0}}"
_NO_FILE: Final = "Commit the file {0}, or correct the start command: it is not there"
_OWN_PORT: Final = (
    "Make {name} listen on the port in the variable PORT: the port of its own choice is taken already"
)
_ELSEWHERE: Final = (
    "{create}, and set the variable that {name} reads, such as {address}, to {{{{MAIN_DB_URL}}}} (if it "
    "reads none, let it): it looks for the database on localhost, where there is none"
)
_OLDER_PYTHON: Final = (
    "Set language_version to an older Python, such as {version}, or update the dependencies: {name} needs "
    "{what}, which this Python no longer has"
)
_MEMORY: Final = "Give {name} more `memory`: it has used all that it has"
_KILLED: Final = (
    "Ask the operator for more memory on the machine, or let {name} need less: the kernel ends programs in "
    "this way where the machine has none left"
)
_PROCESSES: Final = (
    "Let {name} start fewer programs at once, such as fewer workers: it has as many processes and threads as "
    "it may"
)
TOO_MANY_PROCESSES: Final = (
    r"\bfork: (?:retry: )?Resource temporarily unavailable|[Cc](?:annot|an't|ould not) fork\b"
    r"|\b(?:vfork|fork): Resource temporarily unavailable|spawn \S{1,200} EAGAIN"
    r"|fork[^\n]{0,200}\n[^\n]{0,200}\n?BlockingIOError: \[Errno 11\]|can't start new thread"
    r"|unable to create (?:new )?native thread|pthread_create failed|failed to create new OS thread"
)
"""Error messages of programs that have reached their limit of processes or threads."""
_DISK: Final = "Ask the operator to free disk space: a disk that {name} writes to is full"
_STANDARD: Final = "collections|inspect|asyncio|fractions|base64|pkgutil|ast|configparser|time|gettext"
"""Python modules from which parts were removed after 3.9."""
_NO_ADDRESS: Final = (
    "{create}, and set the variable that {name} reads, such as {address}, to {{{{MAIN_DB_URL}}}}: it has no "
    "address of a database that it can use"
)
_OF_SPRING: Final = (
    "Create a PostgreSQL database, such as main-db, and set SPRING_DATASOURCE_URL with `windlass env set "
    "'SPRING_DATASOURCE_URL=jdbc:postgresql://{{{{MAIN_DB_HOST}}}}:{{{{MAIN_DB_PORT}}}}/{{{{MAIN_DB_NAME}}}}'"
    "`, SPRING_DATASOURCE_USERNAME to {{{{MAIN_DB_USER}}}} and SPRING_DATASOURCE_PASSWORD to "
    "{{{{MAIN_DB_PASSWORD}}}}: {name} looks for the database on localhost, where there is none"
)
_OF_COMPOSE: Final = (
    "Create the database or service, such as main-db, and set the variable from which {name} takes its host "
    "or address to {{{{MAIN_DB_HOST}}}} or {{{{MAIN_DB_URL}}}}: {0}, a name of Docker Compose or of another "
    "network, is not known here"
)
_ENV_FILE: Final = (
    "Set the variables of {0}, such as with `windlass env import {0}`, and make the file itself in "
    "start_command, as in `touch {0} && …`: {name} does not start without the file, although Windlass gives "
    "it the variables"
)
_OF_LINE: Final = (
    "Set the variable that {0} reads, such as with `windlass env set NAME=…`: {name} needs it to start"
)
_CLIENT: Final = (
    "Set build_command to `npx prisma generate && …` and the build: the client of Prisma was not generated "
    "for {name}"
)
_SPRING_MYSQL: Final = _OF_SPRING.replace("PostgreSQL", "MySQL").replace("postgresql", "mysql")
_SPRING_UNSET: Final = f"{_OF_SPRING.partition(': {name}')[0]}: {{name}} has no address of a database"
_FROM_VARIABLE: Final = (
    "Set the variable from which {{name}} takes {0}, such as {1} with `windlass env set {1}=…`: it is not set"
)
_UNSET: Final = tuple(
    (pattern, _FROM_VARIABLE.format(what, variable))
    for pattern, what, variable in (
        (r"supabaseUrl is required", "the address of Supabase", "SUPABASE_URL"),
        (r"supabaseKey is required", "the key of Supabase", "SUPABASE_KEY"),
        (r"requires a clientID option", "the client id of its sign-in", "GOOGLE_CLIENT_ID"),
        (
            r"JwtStrategy requires a secret or key|secretOrPrivateKey must have a value",
            "the secret of its tokens",
            "JWT_SECRET",
        ),
        (r"secret option required for sessions", "the secret of its sessions", "SESSION_SECRET"),
        (r"Neither apiKey nor config\.authenticator provided", "the key of Stripe", "STRIPE_SECRET_KEY"),
        (r"Missing API key\. Pass it to the constructor `new Resend", "the key of Resend", "RESEND_API_KEY"),
        (r"\bMissingSecret\b|\bNO_SECRET\b", "the secret of its sign-in", "AUTH_SECRET"),
        (
            r"Bot Token is required|^Error: Empty token!$"
            r"|Telegram Bot Token not provided|\bInvalidToken\b|TokenInvalid"
            r"|An invalid token was provided|Improper token has been passed",
            "the token of its bot",
            "BOT_TOKEN",
        ),
    )
)
"""Errors of clients whose address, key or secret comes from a variable with a name that they do not know."""
_HOST: Final = r"((?!localhost\b)[a-z][a-z0-9_-]{0,60})"
"""Matches a host name without a domain."""
_JDBC_REFUSED: Final = r"PSQLException: Connection to (?:localhost|127\.0\.0\.1):\d+ refused"
_MYSQL_REFUSED: Final = (
    r"(?:CommunicationsException: Communications link failure|Socket fail to connect to host)"
)
_DOTENV: Final = r"((?:[\w-]{1,60}/){0,4}\.env(?:\.[\w-]{1,40})?)"
_TABLES: Final = (
    "Make the tables with release_command, such as `python manage.py migrate`: the database of {name} has no "
    "table {0}"
)
_TABLES_OF_FILE: Final = (
    "Make the tables in start_command before the server, such as by `python manage.py migrate && gunicorn …` "
    "or `flask --app … init-db && gunicorn …`: the database of {name}, a file of its own, has no table {0}"
)
_NO_KEY: Final = (
    "Set the variable from which the settings take SECRET_KEY to a long random text, such as with "
    "`windlass secrets set SECRET_KEY=…`: {name} has none"
)
_HOSTS: Final = (
    "Add {0} to ALLOWED_HOSTS of the settings, or to the variable from which they take it: {name} refuses "
    "this host"
)
_TEMPLATE: Final = (
    "Pass the request first, as in `TemplateResponse(request, 'index.html')`, or name older versions of "
    "starlette and fastapi in the dependencies: {name} is written for those"
)
_DRIVER: Final = (
    "Ask the operator to install the extension of PHP for the database, such as php-mysql, php-pgsql or "
    "php-sqlite3: {name} finds none"
)
_DATABASE_FILE: Final = (
    "Add a volume (`storage`) at the folder of the database file, or name a file in the folder of the "
    "application: {name} cannot open its database file, whose folder is missing or cannot be written"
)
_NO_PATH: Final = (
    "Commit {0}, make its folder in start_command, or add a volume (`storage`) for it: it is not where "
    "{name} looks for it"
)
_NO_TOOL: Final = (
    "Install {tool}, or add it to system_packages on the Docker "
    "engine: {name} runs the program {0}, which is not there"
)
_NO_LIBRARY: Final = (
    "Install {library}, or add it to system_packages on the "
    "Docker engine: {name} needs the library {0}, which is not there"
)
_NO_TLS: Final = (
    "Turn off TLS for the connection to the database: add `?sslmode=disable` to its address, as in "
    "`windlass env set 'DATABASE_URL={{{{MAIN_DB_URL}}}}?sslmode=disable'`, or remove `ssl` from the code: "
    "{name} asks for TLS, which this database does not offer"
)
_NO_URL: Final = (
    "Set the variable from which {name} takes an address, or correct its name: the address is undefined"
)
_OBJECT: Final = (
    "Name the application object in the start command, as in `gunicorn main:app`: the module {1} has no {0}"
)

_RULES: Final[tuple[tuple[TextSearch, str], ...]] = tuple(
    (as_search(pattern, re.MULTILINE), words)
    for pattern, words in (
        # Must precede the rules about variables, which "SSL was required" resembles.
        (
            r"pq: SSL is not enabled on the server|server does not support SSL, but SSL was required"
            r"|rejected SSL upgrade$|The server does not support SSL connections"
            r"|server refused TLS connection",
            _NO_TLS,
        ),
        # Must precede the rules about variables, one of whose names it mentions.
        (r"'SQLALCHEMY_DATABASE_URI' or 'SQLALCHEMY_BINDS' must be set", _NO_ADDRESS),
        # Variables that are missing
        *((pattern, _VARIABLE) for pattern in OF_PROGRAMS),
        (
            r"panicked at (\S+?:\d+):\d+:\n[^\n]*`Err` value: NotPresent"
            r"|`Err` value: NotPresent', (\S+?:\d+):\d+",
            _OF_LINE,
        ),
        (r"^TypeError: Invalid URL\n[\s\S]{0,3000}?\binput: 'undefined'", _NO_URL),
        (r"URL_INVALID: The URL '(?:undefined|null)'", _NO_URL),
        *_UNSET,
        # Files with variables, which repositories do not have
        (
            rf"\bopen (?:/(?:[^/\s]+/)*(?=\.env)|\./)?{_DOTENV}: no such file"
            rf"|(?i:\b(?:error|failed|unable|cannot|could not)\b[^\n]{{0,30}}\bload(?:ing)?\b)"
            rf"[^\n]{{0,20}}[ '\"]{_DOTENV}"
            rf"|^node: {_DOTENV}: not found"
            rf"|No such file or directory: '(?:[^'\n]*/)?(\.env[\w.]*)'"
            rf"|ENOENT: no such file or directory, \w+ '(?:[^'\n]*/)?(\.env[\w.]*)'",
            _ENV_FILE,
        ),
        (r"@prisma/client did not initialize yet|Cannot find module '\.prisma/client", _CLIENT),
        (r"bundler: command not found: ([\w.-]{1,60})", _NO_GEM),
        (r"Couldn't find handler for: [^\n]{0,40}(puma)|Add them with:\s+bundle add rackup (puma)", _NO_GEM),
        # Scripts and programs that cannot be run
        (
            r"\^M: bad interpreter|\\r['’]?: |\$'\\r'|\r: not found|^: not found|: \r?: not found",
            _LINE_ENDINGS,
        ),
        (
            r"EACCES: permission denied \S+:\d+|PermissionError: \[Errno 13\] [^:\n]*$"
            r"|connection to \('[\d.:]+', \d{1,5}\) failed: .{0,20}Permission denied"
            r"|listen tcp \S{0,60}:\d{1,5}: bind: permission denied",
            "Make {name} listen on the port in the variable PORT: it may not listen on the one of its choice",
        ),
        (rf"(?:exec:? |: ){_QUOTE}({_FILE}){_QUOTE}(?: failed)?: [Pp]ermission denied", _NOT_EXECUTABLE),
        (
            r"[Ee]xec format error",
            "Begin the script with a line such as `#!/bin/sh`, or build the program for the "
            "processor of this "
            "machine: {name} cannot be executed here",
        ),
        (rf"sh: {_AT_LINE}({_SCRIPT}): not found", _NO_SCRIPT),
        (rf"exec ({_SCRIPT}) failed: No such file or directory", _NO_SCRIPT),
        (rf"exec: \"({_FILE})\": executable file not found", _NO_PROGRAM),
        (rf"sh: {_AT_LINE}({_FILE}): (?:command )?not found", _NO_PROGRAM),
        (rf"^({_FILE}): (?:command )?not found", _NO_PROGRAM),
        (rf"exec ({_FILE}) failed: No such file or directory", _NO_PROGRAM),
        (rf"exec:? {_QUOTE}({_FILE}){_QUOTE}: (?:stat \S+: )?[Nn]o such file or directory", _NO_PROGRAM),
        # Modules that are missing
        (r"Failed to find attribute '(\w+)' in '([\w.]+)'", _OBJECT),
        (r"Attribute \"(\w+)\" not found in module \"([\w.]+)\"", _OBJECT),
        (rf"^ModuleNotFoundError: No module named '?({python_modules.SETUPTOOLS_MODULES})'?", _SETUPTOOLS),
        (
            rf"^ModuleNotFoundError: No module named '({python_modules.REMOVED_MODULES})'",
            _OLDER_PYTHON.replace("{version}", python_modules.LAST_WITH_REMOVED).replace(
                "{what}", "the module {0}"
            ),
        ),
        (rf"^ModuleNotFoundError: No module named '((?!{_NAMESPACES})\w+\.[\w.]+)'", _NO_OWN_MODULE),
        (r"^(?:ModuleNotFoundError|ImportError): No module named '?([\w.]+)'?", _NO_MODULE),
        (
            r"^[\w.]{1,100}Error: Could not find backend '[\w.]{1,100}': No module named '([\w.]+)'",
            _NO_MODULE,
        ),
        (
            r"^ValueError: Incorrect timezone setting: ([\w/+-]{1,60})",
            "Correct TIME_ZONE of the settings: there is no {0}. Time zones have upper-case letters, as in "
            "Asia/Tokyo",
        ),
        (
            r"^ImportError: cannot import name '(\w+)' from '(\w+)[\w.]*' \([^)\n]*-packages/",
            "Name an older version of {1} in the dependencies: the installed one has no {0}, which {name} "
            "imports",
        ),
        (
            rf"^(?:ImportError: cannot import name '\w+' from|AttributeError: module) '({_STANDARD})'",
            _OLDER_PYTHON.replace("{version}", "3.9").replace("{what}", "an old part of the module {0}"),
        ),
        (r"can't open file '(?:[^']*/)?([^'/]+)'", _NO_FILE),
        (r"Cannot find module '(?:/[^']*/)?(\.{0,2}/?[^'/]+\.[cm]?[jt]s)'", _NO_FILE),
        (r"Cannot find (?:module|package) '([^'./][^']*)'", _NO_MODULE),
        (r"cannot load such file -- (\S+)", _NO_MODULE),
        (
            r"Missing script: \"?([\w:.-]+)",
            "Add the script {0} to package.json, or correct the start command: there is none of this name",
        ),
        # Missing resources of the machine and other services
        (r"(lib[\w.+-]{1,60}\.so[\w.]{0,20}): cannot open shared object file", _NO_LIBRARY),
        (r"cannot load library '(lib[\w.+-]{1,60})'", _NO_LIBRARY),
        (r"ImportError: failed to find (libmagic)", _NO_LIBRARY),
        (r"Unable to find (zbar) shared library", _NO_LIBRARY),
        (r"EADDRINUSE|[Aa]ddress (?:is )?already in use|[Aa]ddress in use", _OWN_PORT),
        (AllPatterns(r"org\.springframework", _JDBC_REFUSED), _OF_SPRING),
        (AllPatterns(r"org\.springframework", _MYSQL_REFUSED), _SPRING_MYSQL),
        (r"Failed to configure a DataSource: 'url' attribute is not specified", _SPRING_UNSET),
        (
            rf"could not translate host name \"{_HOST}\""
            rf"|getaddrinfo (?:ENOTFOUND|EAI_AGAIN) {_HOST}(?![\w.-])"
            rf"|\blookup {_HOST}(?: on \S{{1,100}})?: no such host"
            rf"|connecting to {_HOST}:\d+\. (?:Name or service not known|Temporary failure)"
            rf"|server on '{_HOST}' \([^\n]{{0,40}}(?:Name or service not known|Temporary failure)"
            rf"|Unknown (?:MySQL |MariaDB )?server host '{_HOST}'",
            _OF_COMPOSE,
        ),
        (
            r"(?:localhost|127\.0\.0\.1|::1)\"?[^\n]{0,40}(?:5432|6432|3306|6379|27017)[^\n]{0,60}(?:refu"
            r"sed|ECONNREFUSED)"
            r"|ECONNREFUSED (?:127\.0\.0\.1|::1):(?:5432|6432|3306|6379|27017)"
            r"|connection refused[^\n]{0,80}(?:localhost|127\.0\.0\.1)[^\n]{0,20}"
            r"(?:5432|6432|3306|6379|27017)"
            r"|Can't connect to (?:local )?(?:MySQL|MariaDB) server"
            r"|PDOException: SQLSTATE\[\w+\] \[(?:2002|7)\]",
            _ELSEWHERE,
        ),
        (
            r"settings\.DATABASES is improperly configured"
            r"|Could not parse SQLAlchemy URL from |Expected string or URL object, got None"
            r"|MongoParseError: Invalid scheme, expected connection string"
            r"|`?uri`? parameter to `?openUri\(\)`? must be a string"
            r"|connection to server on socket \"[^\"\n]{1,200}\.PGSQL"
            r"|failed to connect to `[^`\n]{0,100}\bdatabase=`: /[^\n]{1,100}\.PGSQL"
            r"|\bhost= ?(?:user|port|password|dbname|sslmode)=",
            _NO_ADDRESS,
        ),
        (r"no such table: ([\w.]+)", _TABLES_OF_FILE),
        (r"relation \"([\w.]+)\" does not exist|Table '([\w.]+)' doesn't exist", _TABLES),
        (
            r"SECRET_KEY setting must not be empty|session is unavailable because no secret key was set"
            r"|A secret key is required to use CSRF",
            _NO_KEY,
        ),
        (r"Invalid HTTP_HOST header: '([\w.:-]+)'", _HOSTS),
        (AllPatterns(r"TemplateResponse\(", r"TypeError: unhashable type: 'dict'"), _TEMPLATE),
        (r"PDOException: could not find driver", _DRIVER),
        (
            r"[Uu]nable to open (?:the )?database file|SQLITE_CANTOPEN"
            r"|Cannot open database because the directory does not exist",
            _DATABASE_FILE,
        ),
        (
            r"in _execute_child\n[\s\S]{0,500}?FileNotFoundError: \[Errno 2\] [^:\n]*: "
            r"'(?:[^'\n]*/)?([^'/\n]+)'"
            r"|Error: spawn (?:[^\s/]*/)*([^\s/]+) ENOENT",
            _NO_TOOL,
        ),
        (
            r"^FileNotFoundError: \[Errno 2\] [^:\n]*: "
            r"'(?:[^'\n]*/)?([^'/\n]+)'(?: -> '[^'\n]*')?$"
            r"|ENOENT: no such file or directory, \w+ '(?:[^'\n]*/)?([^'/\n]+)'",
            _NO_PATH,
        ),
        (TOO_MANY_PROCESSES, _PROCESSES),
        (r"heap out of memory|java\.lang\.OutOfMemoryError|^MemoryError\b|Cannot allocate memory", _MEMORY),
        (r"No space left on device|ENOSPC|Disk quota exceeded", _DISK),
        (
            r"PermissionError: \[Errno 13\] Permission denied: '([^'\n]+)'|EACCES: permission "
            r"denied, \w+ '([^'\n]+)'"
            r"|Read-only file system",
            (
                "Write to a volume of `storage`, or to the folder of the application: {name} may not "
                "write elsewhere"
            ),
        ),
    )
)
_FIX_PREFIX: Final = "Fix what "
_KILLED_FOR_MEMORY_PATTERN: Final = lazy_pattern(r"out of memory|used more than its memory")
_ENDED_FOR: Final = (
    (
        lazy_pattern(r"the command was not found"),
        "Correct the start command, or install its program with the dependencies: it was not found",
    ),
    (
        lazy_pattern(r"the command cannot be (?:run|executed)"),
        "Make the program of the start command executable: with `git update-index --chmod=+x FILE` "
        "and a commit, or with `chmod +x FILE` in the build command if the build makes it",
    ),
    (lazy_pattern(r"\bport \d[^:]* of this machine is taken"), _OWN_PORT),
    (lazy_pattern(r"\bwas killed by SIGKILL"), _KILLED),
)
"""Remedies by the engine's description of the end. They are used if the program's output does not match a
more specific rule."""
_EXCEPTION_PATTERN: Final = lazy_pattern(
    r"^(?:\S+ )?(?:Caused by: |Uncaught |Exception in thread \S+ |Unhandled exception[.:] )?"
    r"(?:[\w$]+[.:]+)*[A-Z]\w*(?:Error|Exception|Exit|Missing|NotFound|Failure|Misconfigured|Configured)\b"
    r"(?: \[\w+\])?(?:: .*)?$"
    r"|^(?i:panic|fatal error|fatal|error|PHP Fatal error|thread '[^']*' panicked)\b.*$"
    r"|^\S+:\d+:in .*\(\w+\)$"
)


def with_remedy(failure: str, name: str, output: Sequence[str], previous_reasons: Sequence[str] = ()) -> str:
    """Returns the failure message of a deployment, with the remedy first if the program's last lines reveal
    it.

    `previous_reasons`: the messages of the deployments before. A remedy in one of them did not help, so what
    the program reports takes its place.
    """
    if not failure.startswith(LOG_HINT):
        return failure
    end = failure.removeprefix(LOG_HINT)
    remedy = remedy_of(end, name, output)
    if (
        remedy
        and not remedy.startswith(_FIX_PREFIX)
        and any(message.startswith(f"{remedy}. ") for message in previous_reasons)
    ):
        line = next(_exceptions(output), "") or next(map(_short_line, reversed(output)), "")
        repeated = "the usual advice was given for an earlier deployment"
        remedy = f"{_FIX_PREFIX}{name} reports: `{line}` ({repeated})" if line else ""
    return f"{remedy}. {end}" if remedy else failure


def remedy_of(end_description: str, name: str, output: Sequence[str]) -> str:
    """Returns the remedy for a program, from the engine's description of its end and its last lines; empty if
    unknown."""
    if _KILLED_FOR_MEMORY_PATTERN.search(end_description):
        return _MEMORY.format(name=name)
    text = _examined_text(output)
    if settings := missing_settings(text):
        return remedy_for_variables(settings, name, text)
    for pattern, words in _RULES:
        if match := pattern.search(text):
            if words == _VARIABLE:
                return remedy_for_variables(variables_named(text, match), name, text)
            parts = [_short_line(group) for group in match.groups() if group is not None] or [""]
            first = "".join(parts[:1])
            package, program = python_modules.package_of(first), package_of_program(first)
            named = {"name": name, "package": package, "program": program}
            to_install = {"tool": tool_to_install(first), "library": library_to_install(first)}
            return words.format(*parts, **named, **to_install, **database_words(match[0], text))
    for pattern, words in _ENDED_FOR:
        if pattern.search(end_description):
            return words.format(name=name)
    if line := next(_exceptions(output), ""):
        return f"{_FIX_PREFIX}{name} reports: `{line}`"
    return ""


def database_remedy(name: str, output: Sequence[str]) -> str:
    """Returns the remedy for a running program that reports that its database is not reachable."""
    text = _examined_text(output)
    rules = (rule for rule in _RULES if rule[1] in (_ELSEWHERE, _NO_ADDRESS, _NO_TLS))
    found = ((words, match) for pattern, words in rules if (match := pattern.search(text)))
    return next((words.format(name=name, **database_words(match[0], text)) for words, match in found), "")


def _examined_text(output: Sequence[str]) -> str:
    return "\n".join(line[:_MAX_LINE_LENGTH] for line in output[-LOOKED_AT:])[-_MAX_EXAMINED_LENGTH:]


def _exceptions(output: Sequence[str]) -> Iterator[str]:
    """Yields the lines that contain an exception, the last line first."""
    for line in reversed(output[-LOOKED_AT:]):
        if _EXCEPTION_PATTERN.match(line[:_MAX_LINE_LENGTH].strip()):
            yield _short_line(line)


def _short_line(text: str) -> str:
    """Returns untrusted output as one short, printable line."""
    return "".join(filter(str.isprintable, text[:_MAX_QUOTE_LENGTH].replace("`", "'"))).strip()
