"""Derives a remedy for a failed build step from its last output lines. Pure.

Used for builds with and without containers, because pip, uv, npm and compilers report the same errors in
both. The first matching rule wins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import Final

from windlass.base.all_patterns import AllPatterns, TextSearch, as_search
from windlass.base.lazy import lazy_pattern
from windlass.builders.builder import DISK_FULL_ERROR
from windlass.detect import python_modules
from windlass.detect.node_scripts import package_of_program
from windlass.engines.missing_variables import MISSING_VARIABLE
from windlass.engines.start_remedies import TOO_MANY_PROCESSES

_MAX_QUOTE_LENGTH: Final = 300
_MAX_LINE_LENGTH: Final = 1000
"""Maximum length of an examined line, in characters."""
_MAX_EXAMINED_LENGTH: Final = 64 * 1024
"""Maximum length of the examined end of the output, in characters. Build steps choose the output, and nothing
else runs in the server while it is examined."""
_NPM_GUESSES: Final = ("npm warn old lockfile", "npm WARN old lockfile")
"""Beginnings of lines in which npm says what it could not add to an old lock file. They are not errors."""
_MAX_NAMED_VERSIONS: Final = 5
_MEMORY: Final = (
    "Ask the operator for more memory for builds, or make this one need less: it used all that it had."
)
_PROCESSES: Final = (
    "Start fewer programs at once, such as by fewer parallel jobs: the build has as many processes and "
    "threads as it may."
)
_NETWORK: Final = (
    "Deploy again, or ask the operator to let builds reach their registries: {0} could not be reached."
)
_HOST: Final = (
    r"(?:getaddrinfo for|[Cc]ould not resolve host(?:name)?:?|ENOTFOUND|EAI_AGAIN|dial tcp: lookup"
    r"|UnknownHostException:|Failed to resolve|\bhost=) ?'?([\w.-]{0,200}\w)"
)
"""Error texts that precede the name of an unreachable host."""
_VARIABLE: Final = "Set the variable {0}, such as with `windlass env set {0}=…`: the build needs it."
_VERSION: Final = "Correct {0} in the dependencies: the registry has no such version for this Python."
_PACKAGE: Final = "Correct {0} in package.json: the registry has no such package or version."
_LIBRARIES: Final = {
    r"(pg_config)(?: executable)? not found": "libpq-dev",
    r"Package (libav\w+) was not found": "libavdevice-dev libavfilter-dev pkg-config",
    r"(mysql_config)(?: executable)? not found": "default-libmysqlclient-dev",
    r"Can not find valid (pkg-config) name": "default-libmysqlclient-dev pkg-config",
    r"No such file or directory: '(curl-config)'": "libcurl4-openssl-dev libssl-dev",
    r"No such file or directory: '(gdal-config)'": "libgdal-dev",
    r"Please make sure the (libxml2) and libxslt development packages": "libxml2-dev libxslt1-dev",
    **{
        rf"(?:Package|Dependency|system library) [\"'`]?({library})[\"'`]?(?: was)? "
        "(?:not found|required by crate)"
        rf"|Dependency ({library}) found: NO": f"{package} pkg-config"
        for library, package in (
            ("cairo", "libcairo2-dev"),
            ("pixman-1", "libpixman-1-dev"),
            ("pangocairo", "libpango1.0-dev"),
            ("openssl", "libssl-dev"),
            ("libpq", "libpq-dev"),
            ("libffi", "libffi-dev"),
            ("sqlite3", "libsqlite3-dev"),
            ("xmlsec1", "libxmlsec1-dev"),
            ("girepository-2.0", "libgirepository-2.0-dev"),
            ("vips(?:-cpp)?", "libvips-dev"),
        )
    },
    **{
        rf"fatal error: ({header}): No such file": package
        for header, package in (
            (r"Python\.h", "python3-dev"),
            (r"libpq-fe\.h", "libpq-dev"),
            (r"mysql(?:/\w+)?\.h", "default-libmysqlclient-dev"),
            (r"(?:ldap|lber|sasl)(?:/\w+)?\.h", "libldap2-dev libsasl2-dev"),
            (r"ffi\.h", "libffi-dev"),
            (r"libxml/\w+\.h|libxslt/\w+\.h", "libxml2-dev libxslt1-dev"),
            (r"openssl/\w+\.h", "libssl-dev"),
            (r"zlib\.h", "zlib1g-dev"),
            (r"jpeglib\.h", "libjpeg-dev"),
            (r"sqlite3\.h", "libsqlite3-dev"),
            (r"curl/curl\.h", "libcurl4-openssl-dev"),
            (r"portaudio\.h", "portaudio19-dev"),
            (r"librdkafka/rdkafka\.h", "librdkafka-dev"),
            (r"sql(?:ext)?\.h", "unixodbc-dev"),
            (r"(?:graphviz/)?(?:cgraph|gvc)\.h", "libgraphviz-dev"),
            (r"sndfile\.h", "libsndfile1-dev"),
            (r"magic\.h", "libmagic-dev"),
            (r"snappy-c\.h", "libsnappy-dev"),
            (r"(?:sybfront|sybdb)\.h", "freetds-dev"),
            (r"gmp\.h", "libgmp-dev"),
            (r"mpfr\.h", "libmpfr-dev"),
            (r"krb5\.h|gssapi/\w+\.h", "libkrb5-dev"),
            (r"yaml\.h", "libyaml-dev"),
            (r"cups/\w+\.h", "libcups2-dev"),
            (r"lmdb\.h", "liblmdb-dev"),
            (r"pcap(?:/\w+)?\.h", "libpcap-dev"),
            (r"memcached\.h|libmemcached/\w+\.h", "libmemcached-dev"),
        )
    },
    r"fatal error: ([\w./-]+\.h): No such file": "the Debian package that has it",
    **{
        rf"(?:command|unable to execute) '?({program})'?(?: failed)?: (?:No such file|not found)": package
        for program, package in (
            (r"(?:[\w-]+-)?(?:gcc|g\+\+|cc|clang|make)", "build-essential"),
            ("cargo|rustc", "cargo"),
            ("cmake", "cmake"),
        )
    },
}
"""Error messages about a missing program or header, each with the Debian package that contains it."""


def _installation_of(package: str) -> str:
    return f" (`apt-get install {package}`)" if " the " not in f" {package}" else ""


_LIBRARY: Final = {
    package: f"Install {package} on this machine{_installation_of(package)}: {{0}} is missing. Or deploy to "
    "a cluster with the Docker engine, with it in system_packages. Or depend on a package that comes built."
    for package in _LIBRARIES.values()
}
_EXTENSION: Final = r"requires (?:PHP extension )?ext-({}) \S+ (?:->|but) .{{0,40}}missing"
_NEEDS_EXTENSION: Final = "composer.json needs the extension {0}."
_EXTENSIONS: Final = (
    ("pdo_sqlite|sqlite3", "sqlite3"),
    ("pdo_mysql|mysqli|mysqlnd", "mysql"),
    ("pdo_pgsql|pgsql", "pgsql"),
    ("dom|simplexml|xml|xmlreader|xmlwriter|xsl", "xml"),
    (r"\w+", ""),
)
"""PHP extensions, with the suffix of their Debian package if it has another name."""
_PHP: Final = {
    names: f"Ask the operator to install php-{package or '{0}'}: {_NEEDS_EXTENSION}"
    for names, package in _EXTENSIONS
}
_GO: Final = "Ask the operator to install Go {0}: a module needs it."
_RUST: Final = "Ask the operator for a newer Rust than {0}, or depend on older packages: one refuses it."
_JAVA: Final = "Ask the operator to install a JDK of version {0}: the project is written for it."
_RUBY: Final = "Ask the operator to install Ruby {0}, or change it in the Gemfile: the machine has another."
_PERL: Final = "Ask the operator to install Perl {0}, or change it in cpanfile: the machine has another."
_IN_FROM: Final = "with language_version or in the FROM line of the Dockerfile"
_OF_IMAGES: Final = {
    _GO: f"Choose Go {{0}}, {_IN_FROM}: a module needs it.",
    _RUST: "Name an image with a newer Rust than {0} in the FROM line of a Dockerfile, or depend on older "
    "packages: one refuses it.",
    _JAVA: f"Choose a JDK of version {{0}}, {_IN_FROM}: the project is written for it.",
    _RUBY: f"Choose Ruby {{0}}, {_IN_FROM}, or change it in the Gemfile: the image has another.",
    _PERL: f"Choose Perl {{0}}, {_IN_FROM}, or change it in cpanfile: the image has another.",
    **dict.fromkeys(
        _PHP.values(),
        "Install the extension {0} in the Dockerfile, such as by docker-php-ext-install: " + _NEEDS_EXTENSION,
    ),
    **{
        words: f"Add {package} to system_packages, install it in the Dockerfile, or depend on a package that "
        "comes built: {0} is missing."
        for package, words in _LIBRARY.items()
    },
}
"""Replacements of remedies for steps that ran in an image, with the image's programs instead of this
machine's."""
_NO_SPACE: Final = (
    "Use fewer pseudo-terminals and watches of files in the build, or ask the operator for more of them: it "
    "reports that there is no space, and the disk has some."
)
"""Remedy for "no space left" on a disk with free space: Linux reports several exhausted resources with this
message."""


class _OtherPython:
    """Finds a version that pip has ignored because it needs another Python."""

    _missing = lazy_pattern(r"No matching distribution found for [\w.-]{1,100}==([\w.]{1,30})$", re.MULTILINE)
    _both = lazy_pattern(
        r"^([\w.]{1,30}) Requires-Python >=([\d.]{1,9})\n"
        r"No matching distribution found for ([\w.-]{1,100}==\1)$"
    )

    def search(self, text: str) -> re.Match[str] | None:
        for missing in islice(self._missing.finditer(text), _MAX_NAMED_VERSIONS):
            needed = re.search(rf"\b{re.escape(missing[1])} Requires-Python >=[\d.]{{1,9}}", text)
            if needed:
                return self._both.search(f"{needed[0]}\n{missing[0]}")
        return None


_RULES: Final[tuple[tuple[TextSearch, str], ...]] = tuple(
    (as_search(pattern, re.MULTILINE), words)
    for pattern, words in (
        (r"Disk quota exceeded", DISK_FULL_ERROR),
        (r"No space left on device|ENOSPC|no space left", _NO_SPACE),
        (TOO_MANY_PROCESSES, _PROCESSES),
        (
            r"heap out of memory|[Cc]annot allocate memory|virtual memory "
            r"exhausted|^MemoryError\b|signal: killed"
            r"|fatal error: Killed|^Killed$|java\.lang\.OutOfMemoryError|SIGKILL"
            r"|memory allocation of \d+ bytes failed"
            r"|std::bad_alloc|Allowed memory size of \d+ bytes exhausted",
            _MEMORY,
        ),
        (
            r"missing go\.sum entry|updates to go\.mod needed|no required module provides package",
            "Run `go mod tidy`, and commit go.mod and go.sum: they do not name all modules.",
        ),
        (
            r"go\.mod requires go >= ([\d.]+)|requires go >= ([\d.]+) \(running",
            _GO,
        ),
        (
            r"lock file .{0,200} needs to be updated but --locked",
            "Run `cargo build`, and commit Cargo.lock: it does not match Cargo.toml.",
        ),
        (
            r"set `DATABASE_URL` to use query macros online|`SQLX_OFFLINE=true` but there is no cached data",
            "Run `cargo sqlx prepare` beside the database on your machine, and commit the folder .sqlx: the "
            "build checks the queries, and has no database.",
        ),
        (
            r"rustc ([\d.]+) is not supported by|requires rustc ([\d.]+) or newer",
            _RUST,
        ),
        (
            r"release version (\d+) not supported|invalid target release: (\d+)",
            _JAVA,
        ),
        (
            r"Your Ruby version is [\d.]+, but your Gemfile specified ([\d.<>=~, ]{0,60}\d)",
            _RUBY,
        ),
        (
            r"bundle only supports platforms \[[^\]\n]{0,200}\] but your local platform is ([\w-]{1,60})",
            "Run `bundle lock --add-platform {0}`, and commit Gemfile.lock: it has none for this platform.",
        ),
        (r"Your Perl \([\d.]+\) is not in the range '([\w.<>=!, ]{1,60})'", _PERL),
        (
            r"Couldn't find module or a distribution ([\w:]+)",
            "Correct {0} in cpanfile, or deploy again: CPAN has no such module, or could not be reached.",
        ),
        *((_EXTENSION.format(names), words) for names, words in _PHP.items()),
        # Must precede the next rules: without a network, pip reports that no such version exists.
        (AllPatterns(r"connection broken by", r"\(from versions: none\)"), _NETWORK.format("one")),
        (
            rf"No matching distribution found for ({python_modules.STANDARD_MODULES})$",
            "Remove {0} from the dependencies: it is a part of Python, and no package has its name.",
        ),
        (
            _OtherPython(),
            "Set language_version to {1} or newer, or write it to a file .python-version: {2} needs "
            "this Python.",
        ),
        (r"No matching distribution found for ([^\s(;]+)", _VERSION),
        (
            r"was not found in the package registry",
            "Correct the dependencies: the registry has no such package.",
        ),
        (
            r"requires a different Python: (\S+) not in '?([^'\s]+)",
            "Choose a version of Python that fits {1}, such as in .python-version: this is {0}.",
        ),
        (
            r"ResolutionImpossible|have conflicting dependencies|unsatisfiable",
            "Change the versions of dependencies that exclude each other: no set of them fits together.",
        ),
        (
            r"Could not open requirements file: .*'(?:[^'\n]*/)?([^'/\n]+)'",
            "Commit the file {0}: the requirements name it, and it is not there.",
        ),
        *((pattern, _LIBRARY[package]) for pattern, package in _LIBRARIES.items()),
        (
            r"can only install packages when your package\.json and .{1,80} are in sync|lockfile "
            r"needs to be updated"
            r"|lock ?file .{0,40}(?:out of date|not up to date)|ERR_PNPM_OUTDATED_LOCKFILE"
            # npm may list so many missing packages that the first line of the message is not among the last
            # lines.
            r"|Missing: \S{1,200} from lock ?file|Invalid: lock ?file's ",
            "Install the dependencies once on your machine, and commit the lock file: it does not match "
            "package.json.",
        ),
        (
            r"ERESOLVE",
            "Change the versions of packages that exclude each other, or commit an .npmrc with the line "
            "legacy-peer-deps=true: no set of them fits together.",
        ),
        (
            r"The requested resource '((?:@[\w.-]{1,100}/)?[\w.-]{1,100})@[^'\s]{1,300}' could not be found"
            r"|'([^'\s]+)' is not in this registry|No matching version found for ([^\s.]+(?:\.[^\s.]+)*)"
            r"|/((?:@[\w.-]{1,100}/)?[\w.-]{1,100})/-/[^\s\"]{1,300}: Request failed \"404"
            r"|ERR_PNPM_FETCH_404[^\n]{0,300}/((?:@[\w.-]{1,100}(?:/|%2[Ff]))?[\w.-]{1,100}): Not Found",
            _PACKAGE,
        ),
        (
            r"\[vite:(terser)\] terser not found|Preprocessor dependency \"([\w@/-]{1,100})\" not found",
            "Add {0} to package.json, such as with `npm install --save-dev {0}`: the build calls it.",
        ),
        (
            r"error TS(?:2305|2724): (?:Module )?'\"((?:@[\w.-]{1,100}/)?\w[\w.-]{0,100})[^\"'\n]{0,200}\"' "
            r"has no exported member (?:named )?'(\w{1,100})'",
            "Update {0} in package.json and in the lock file, or correct the code: the installed version has "
            "no {1}.",
        ),
        (
            r"[Mm]issing script: \"?([\w:.-]+)",
            "Add the script {0} to package.json, or set build_command: there is no script of this name.",
        ),
        (
            (
                r"npm (?:error|ERR!) code EBADENGINE|[Ee]ngine \"node\" is incompatible"
                r"|Unsupported engine(?! \{)|requires "
                r"Node\.js|Node\.js version .* is required"
            ),
            (
                "Choose a version of Node.js that fits, such as with language_version: the packages "
                "refuse this one."
            ),
        ),
        (
            r"sh: (?:line )?(?:\d+: )?([\w./@-]+): (?:command )?not found",
            "Add {program} to the dependencies: the build calls {0}.",
        ),
        (
            r"module \"([\w./-]{1,200})\" not found in \"[^\"\n]{1,400}\"; either add it as a Hugo Module",
            "Commit the files of the theme {0} into themes, or name a theme that can be fetched: the "
            "repository has only a reference to it.",
        ),
        (
            r"execute of template failed[^\n]{0,2000}(?:can't evaluate field (\w+) in"
            r"|partial \"([\w./-]{1,200})\" not found)",
            "Update the theme, or name a Hugo of its time in requirements.txt (`hugo==…`): the theme uses "
            "{0}, which this Hugo does not have.",
        ),
        (
            r"failed to download modules: binary with name \"(\w+)\" not found",
            "Add golang to system_packages on the Docker engine, or ask the operator to install Go: Hugo "
            "fetches the modules of the site with the program {0}.",
        ),
        (_HOST, _NETWORK),
        (r"\] \"https?://([\w.-]{1,200})[^\"\n]{0,500}\": <no response>", _NETWORK),
        (
            r"Temporary failure in name resolution|Could not resolve host|ENOTFOUND|EAI_AGAIN"
            r"|ETIMEDOUT|ECONNRESET|ECONNREFUSED|Max retries exceeded"
            r"|Read timed out|Failed to establish a new connection"
            r"|Network is unreachable|no such host|UnknownHostException|Could not transfer artifact"
            r"|Could not reach host|Could not fetch specs|curl error|dial tcp"
            r"|getaddrinfo for \S+ failed|Could not resolve hostname",
            _NETWORK.format("one"),
        ),
        (
            r"Unable to find installation candidates for ([\w.-]+)",
            "Run `poetry lock`, and commit poetry.lock: the registry has no file of {0} that matches it.",
        ),
        (
            r"Could not build wheels for ([\w.-]+)|[Ff]ailed building wheel for ([\w.-]+)"
            r"|Failed to build [`']?([\w.=-]+)",
            "Update {0} in the dependencies, or choose an older Python with language_version: it cannot be "
            "built for this one.",
        ),
        (
            r"Rollup failed to resolve import [\"']([^\"'./][^\"']*)[\"']",
            "Add {0} to the dependencies: the build imports it.",
        ),
        (
            r"ERR_OSSL_EVP_UNSUPPORTED",
            "Set the variable NODE_OPTIONS to --openssl-legacy-provider, or language_version to 16: the "
            "packages use an algorithm that newer versions of Node refuse.",
        ),
        (
            r"cb\.apply is not a function|primordials is not defined",
            "Set language_version to an older Node, such as 10, or update the packages: they are written for "
            "a Node of earlier years.",
        ),
        (
            r"ERR_PACKAGE_PATH_NOT_EXPORTED",
            "Set language_version to an older Node, such as 16, or update the packages: they import files "
            "that this version of Node keeps private.",
        ),
        (
            r"Cannot find (?:module|package) '([^'./][^']*)'",
            "Add {0} to the dependencies: the build imports it.",
        ),
        (
            rf"^ModuleNotFoundError: No module named '({python_modules.REMOVED_MODULES})'",
            f"Set language_version to an older Python, such as {python_modules.LAST_WITH_REMOVED}, or update "
            "the dependencies: the build imports {0}, which this Python no longer has.",
        ),
        (
            rf"^ModuleNotFoundError: No module named '({python_modules.SETUPTOOLS_MODULES})'",
            f"{python_modules.ADD_SETUPTOOLS}: the build imports its module {{0}}.",
        ),
        (
            r"^ModuleNotFoundError: No module named '([\w.]+)'",
            "Add {package} to the dependencies: the build imports its module {0}.",
        ),
        *((pattern, _VARIABLE) for pattern in MISSING_VARIABLE),
    )
)
_KILLED_EXIT_CODE: Final = 137
_ERROR_LINE_PATTERN: Final = lazy_pattern(
    r"^(\[\w*(?:ERROR|Error|Exception)\]|npm ERR!|(npm error|error|fatal)\b):?\s*", re.IGNORECASE
)
_USAGE_LINE_PATTERN: Final = lazy_pattern(
    r"\[--\w|^\s*$|^\s*at \S|^\s*Stack trace:$|^Node\.js v\d"
    r"|^\s*(?:error: subprocess-exited|note: |[×│╰]|\[end of output\])"
)
"""Lines that follow the reason of a failure: usage texts, stack traces, and pip's box-drawing frame."""
_ERROR_PATTERN: Final = lazy_pattern(r"^\s*(?:Uncaught )?(?:\w+\.)*\w*(?:Error|Exception)(?: \[\w+\])?: \S")
_VERSIONS_PATTERN: Final = lazy_pattern(r"\(from versions: [^()]{80,}((?:, [^,()]+){3})\)")
"""Matches pip's list of all versions, and captures the last three."""
_EMPTY_BLAMES_PATTERN: Final = lazy_pattern(
    r"A complete log of this run|_logs/\S{1,200}\.log$"
    r"|code E?[A-Z0-9]+$|^\W*$|exit code|^errno -?\d+$|^Exit status \d+$"
    r"|^subprocess-exited-with-error$"
    r"|^\S+@\S+ \w+: `|^Failed at the |^This is probably not a problem with npm"
    # Secondary output of tools that npm runs, such as node-gyp.
    r"|^(?:[\w-]+ )?(?:info|http|WARN|verb) |^\(node:|^\(Use `node|^path "
)


def failure(title: str, code: int, last_lines: Sequence[str], *, has_room: bool = False) -> str:
    """Returns the error message for a failed program of a build: the remedy, and the program's own reason.
    `has_room`: whether the disk has free space."""
    remedy = build_remedy(code, last_lines, has_room=has_room)
    if remedy == DISK_FULL_ERROR:
        return remedy
    if code < 0:
        return f"{remedy or _MEMORY} {title} was ended by signal {-code}."
    reason = (
        blamed_line(last_lines) or _error(last_lines) or _last_sentence(last_lines) or "it gave no reason"
    )
    end = f"{title} failed (exit code {code}): {reason.rstrip('.')}. The build log has all that it said."
    return f"{remedy} {end}" if remedy else f"Fix what it reports, and deploy again: {end}"


def _error(last_lines: Sequence[str]) -> str:
    """Returns the first line with a named exception, such as `TypeError: …`."""
    return next((line.strip() for line in last_lines if _ERROR_PATTERN.match(line)), "")


def _last_sentence(last_lines: Sequence[str]) -> str:
    """Returns the last line, joined with the previous line if both form one sentence."""
    lines = [line.strip() for line in last_lines if not _USAGE_LINE_PATTERN.search(line)][-2:]
    goes_on = len(lines) == 2 and lines[1][:1].islower() and not lines[0].endswith((".", ":", "!"))
    return " ".join(lines if goes_on else lines[-1:])


def blamed_line(last_lines: Sequence[str]) -> str:
    """Returns the first output line in which a program explains its failure; empty if there is none."""
    lines = list(last_lines)  # a deque has no slices
    blamed = [
        _VERSIONS_PATTERN.sub(
            r"(from versions: …\1)", _with_next(_ERROR_LINE_PATTERN.sub("", line), lines[number + 1 :])
        )
        for number, line in enumerate(lines)
        if _ERROR_LINE_PATTERN.match(line)
    ]
    return next((_printable(line) for line in blamed if not _EMPTY_BLAMES_PATTERN.search(line)), "")


def _with_next(line: str, following: Sequence[str]) -> str:
    """Returns the line. If it only announces the next line (ends with a colon), appends the next line."""
    after = next((text.strip() for text in following if text.strip()), "")
    return f"{line.strip()} {after}".strip() if line.rstrip().endswith(":") else line


def build_remedy(
    code: int, last_lines: Sequence[str], *, is_image: bool = False, has_room: bool = False
) -> str:
    """Returns the remedy for a step that exited with a code; empty if its last lines do not reveal the cause.
    `is_image`: the step ran in an image. `has_room`: whether the disk has free space."""
    lines = (line[:_MAX_LINE_LENGTH] for line in last_lines if not line.startswith(_NPM_GUESSES))
    text = "\n".join(lines)[-_MAX_EXAMINED_LENGTH:]
    for pattern, words in _RULES:
        if match := pattern.search(text):
            if words == _NO_SPACE and not has_room:
                return DISK_FULL_ERROR
            words = _OF_IMAGES.get(words, words) if is_image else words
            named = [group for group in match.groups() if group] or [""]
            package = python_modules.package_of(named[0])
            return (
                words.format(
                    *map(_printable, named),
                    package=_printable(package),
                    program=_printable(package_of_program(named[0])),
                )
                if "{" in words
                else words
            )
    return _MEMORY if code in (_KILLED_EXIT_CODE, -9) else ""


def _printable(text: str) -> str:
    return "".join(filter(str.isprintable, text[:_MAX_QUOTE_LENGTH]))
