"""The message of a failed step of Go, Rust, Java, Ruby and PHP begins with what to do."""

from __future__ import annotations

import pytest

from tests.tables import rows
from windlass.builders.remedies import build_remedy, failure
from windlass.engines.start_remedies import LOG_HINT, with_remedy

MEMORY = "Ask the operator for more memory for builds"
REGISTRY = "Deploy again, or ask the operator to let builds reach their registries"
ROWS = [
    ("pip: a library", "Package libavformat was not found in the search path.", "Install libavdevice-dev"),
    ("go: memory", "go build x: /usr/local/go/pkg/tool/compile: signal: killed", MEMORY),
    ("rust: memory", "memory allocation of 4096 bytes failed", MEMORY),
    ("rust: killed", "process didn't exit successfully: `rustc` (signal: 9, SIGKILL: kill)", MEMORY),
    ("c++: memory", "terminate called after throwing an instance of 'std::bad_alloc'", MEMORY),
    ("java: memory", "java.lang.OutOfMemoryError: Java heap space", MEMORY),
    (
        "pip: a module of Python",
        "ERROR: No matching distribution found for sqlite3",
        "Remove sqlite3 from the",
    ),
    (
        "python: a module of another package",
        "ModuleNotFoundError: No module named 'yaml'",
        "Add PyYAML to the",
    ),
    ("node: a bundle", '[vite]: Rollup failed to resolve import "sharp" from "./x.js".', "Add sharp to"),
    (
        "node: a minifier",
        "[vite:terser] terser not found. Since Vite v3, terser has become an optional dependency.",
        "Add terser to package.json, such as with `npm install --save-dev terser`",
    ),
    (
        "node: a preprocessor",
        '[vite:css] Preprocessor dependency "sass-embedded" not found. Did you install it?',
        "Add sass-embedded to package.json",
    ),
    (
        "node: a newer library",
        "a.ts(1,10): error TS2724: '\"@tanstack/plugin/vite\"' has no exported member named 'router'.",
        "Update @tanstack/plugin in package.json and in the lock file, or correct the code",
    ),
    (
        "node: private files",
        "Error [ERR_PACKAGE_PATH_NOT_EXPORTED]: Package",
        "Set language_version to an older",
    ),
    ("node: an old graceful-fs", "TypeError: cb.apply is not a function", "Set language_version to an older"),
    ("node: an old gulp", "ReferenceError: primordials is not defined", "Set language_version to an older"),
    ("node: an old cipher", "  code: 'ERR_OSSL_EVP_UNSUPPORTED'", "Set the variable NODE_OPTIONS to"),
    ("php: memory", "PHP Fatal error:  Allowed memory size of 134217728 bytes exhausted", MEMORY),
    ("go: a full disk", "write $WORK/b001/x: no space left on device", "Ask the operator to free disk space"),
    ("go: sums", "main.go:3:8: missing go.sum entry for module providing package x", "Run `go mod tidy`"),
    ("go: modules", "main.go:3:8: no required module provides package x; to add it:", "Run `go mod tidy`"),
    (
        "go: a newer one",
        "go: x@v1: requires go >= 1.99 (running go 1.26.8; GOTOOLCHAIN=local)",
        "Ask the operator to install Go 1.99: a module needs it.",
    ),
    (
        "go: no proxy",
        'go: x@v1: Get "https://proxy/x": dial tcp: lookup proxy: no such host',
        REGISTRY,
    ),
    (
        "rust: the lock",
        "error: the lock file /x/Cargo.lock needs to be updated but --locked was passed",
        "Run `cargo build`, and commit Cargo.lock",
    ),
    (
        "java: a newer one",
        "[ERROR] error: release version 25 not supported",
        "Ask the operator to install a JDK",
    ),
    ("maven: no registry", "[ERROR] Could not transfer artifact a:b:pom:1 from/to central", REGISTRY),
    ("gradlew: no registry", "Exception: java.net.UnknownHostException: services.gradle.org", REGISTRY),
    (
        "ruby: another one",
        "Your Ruby version is 3.1.2, but your Gemfile specified 3.3.0",
        "Ask the operator to install Ruby 3.3.0",
    ),
    (
        "ruby: another platform",
        'Your bundle only supports platforms ["arm64-darwin-22"] but your local platform is x86_64-linux.',
        "Run `bundle lock --add-platform x86_64-linux`, and commit Gemfile.lock",
    ),
    ("ruby: no registry", "Could not fetch specs from https://rubygems/ due to underlying error", REGISTRY),
    (
        "perl: another one",
        "! Installing the dependencies failed: Your Perl (5.036000) is not in the range '5.038'",
        "Ask the operator to install Perl 5.038, or change it in cpanfile",
    ),
    (
        "perl: no such module",
        "! Couldn't find module or a distribution DBD::Pg",
        "Correct DBD::Pg in cpanfile, or deploy again",
    ),
    (
        "php: an extension",
        "- Root composer.json requires PHP extension ext-intl * but it is missing from your system.",
        "Ask the operator to install php-intl",
    ),
    (
        "php: an extension of another package",
        "- Root composer.json requires PHP extension ext-pdo_sqlite * but it is missing from your system.",
        "Ask the operator to install php-sqlite3: composer.json needs the extension pdo_sqlite.",
    ),
    (
        "php: no registry",
        "php_network_getaddresses: getaddrinfo for repo.packagist.org failed: Name",
        REGISTRY,
    ),
    (
        "poetry: an old lock",
        "  | Unable to find installation candidates for idna (3.3)",
        "Run `poetry lock`, and commit poetry.lock: the registry has no file of idna",
    ),
    (
        "pip: a package that is too old",
        "ERROR: Could not build wheels for psycopg2, which is required to install",
        "Update psycopg2 in the dependencies, or choose an older Python with language_version",
    ),
    # Negative control: another error is told as it is, with the tool's own words.
    (
        "maven: other",
        "[ERROR] cannot find symbol",
        "Fix what it reports, and deploy again: the step failed (exit",
    ),
]


@rows(("line", "remedy"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_a_failed_step_of_another_language_says_first_what_to_do(line, remedy):
    message = failure("the step", 1, ["first line", line])
    assert message.startswith(remedy), message


PROCESSES = [
    "/bin/sh: 1: Cannot fork",
    "bash: fork: retry: Resource temporarily unavailable",
    "make: vfork: Resource temporarily unavailable",
    "Error: spawn /usr/bin/node EAGAIN",
    "    if os.fork() == 0:\n       ^^^^^^^^^\nBlockingIOError: [Errno 11] Resource temporarily unavailable",
    "    self.pid = _fork_exec(\nBlockingIOError: [Errno 11] Resource temporarily unavailable",
    "RuntimeError: can't start new thread",
    "java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory",
    "runtime: failed to create new OS thread (have 12 already; errno=11)",
]


@rows("said", PROCESSES)
def test_a_step_that_reached_the_process_limit_is_reported_with_advice(said):
    assert failure("the step", 1, said.split("\n")).startswith("Start fewer programs at once")
    told = with_remedy(f"{LOG_HINT}web exited with code 1 while it was starting", "web", said.split("\n"))
    assert told.startswith("Let web start fewer programs at once")


@pytest.mark.parametrize(
    "said",
    [
        "    fcntl.flock(file, fcntl.LOCK_NB)\nBlockingIOError: [Errno 11] Resource temporarily unavailable",
        "bash: fork: Cannot allocate memory",
        "Error: fork the repository first",
    ],
)
def test_a_step_with_another_failure_gets_no_advice_to_start_fewer_programs(said):
    """The control of the test above."""
    assert "fewer programs" not in failure("the step", 1, said.split("\n"))
    assert "fewer programs" not in with_remedy(f"{LOG_HINT}web exited with code 1", "web", said.split("\n"))


OF_IMAGES = [
    (
        "go: x@v1: requires go >= 1.99 (running go 1.26.8; GOTOOLCHAIN=local)",
        "Choose Go 1.99, with language_version or in the FROM line of the Dockerfile: a module needs it.",
    ),
    (
        "error: package `x v1` cannot be built because it requires rustc 1.99 or newer",
        "Name an image with a newer Rust than 1.99 in the FROM line",
    ),
    ("[ERROR] error: release version 25 not supported", "Choose a JDK of version 25, with language_version"),
    (
        "Your Ruby version is 3.1.2, but your Gemfile specified >= 3.2, < 4.0",
        "Choose Ruby >= 3.2, < 4.0, with language_version or in the FROM line of the Dockerfile, or change",
    ),
    (
        "- Root composer.json requires PHP extension ext-pdo_sqlite * but it is missing from your system.",
        "Install the extension pdo_sqlite in the Dockerfile, such as by docker-php-ext-install: composer",
    ),
]


LIBRARIES = [
    ("Error: pg_config executable not found.", "libpq-dev", "pg_config"),
    ("OSError: mysql_config not found", "default-libmysqlclient-dev", "mysql_config"),
    ("x.c:3:10: fatal error: Python.h: No such file or directory", "python3-dev", "Python.h"),
    ("x.c:3:10: fatal error: ffi.h: No such file or directory", "libffi-dev", "ffi.h"),
    ("x.c:3:10: fatal error: gd.h: No such file or directory", "the Debian package that has it", "gd.h"),
    ("x.c:3:10: fatal error: lber.h: No such file or directory", "libldap2-dev libsasl2-dev", "lber.h"),
    (
        "Exception: Can not find valid pkg-config name.",
        "default-libmysqlclient-dev pkg-config",
        "pkg-config",
    ),
    (
        "Package pixman-1 was not found in the pkg-config search path.",
        "libpixman-1-dev pkg-config",
        "pixman-1",
    ),
    (
        '../meson.build:31:12: ERROR: Dependency "cairo" not found, tried pkgconfig',
        "libcairo2-dev pkg-config",
        "cairo",
    ),
    (
        "The system library `openssl` required by crate `openssl-sys` was not found.",
        "libssl-dev pkg-config",
        "openssl",
    ),
    ("error: command 'x86_64-linux-gnu-gcc' failed: No such file or directory", "build-essential", "gcc"),
    ("error: command 'cargo' failed: No such file or directory", "cargo", "cargo"),
]


@pytest.mark.parametrize(("line", "package", "missing"), LIBRARIES)
def test_a_missing_program_or_header_is_reported_with_its_debian_package(line, package, missing):
    message = build_remedy(1, [line])
    assert message.startswith(f"Install {package} on this machine")
    assert f"{missing} is missing." in message
    assert (f"`apt-get install {package}`" in message) == ("the Debian package" not in package)
    assert "Docker engine, with it in system_packages." in message
    of_image = build_remedy(1, [line], is_image=True)
    assert of_image.startswith(
        f"Add {package} to system_packages, install it in the Dockerfile, or depend on"
    )


@pytest.mark.parametrize(("line", "remedy"), OF_IMAGES)
def test_a_library_missing_in_an_image_is_reported_without_asking_to_install_it_on_the_machine(line, remedy):
    assert build_remedy(1, [line], is_image=True).startswith(remedy)
    assert build_remedy(1, [line]).startswith("Ask the operator")


@rows(
    ("line", "host"),
    [
        ("php_network_getaddresses: getaddrinfo for api.github.com failed: Name", "api.github.com"),
        ("fatal: unable to access 'https://h/': Could not resolve host: github.com", "github.com"),
        ("ssh: Could not resolve hostname git.example: Name or service not known", "git.example"),
        ("npm error request failed, reason: getaddrinfo ENOTFOUND registry.npmjs.org", "registry.npmjs.org"),
        ("go: x@v1: dial tcp: lookup proxy.golang.org on 10.0.0.1:53: no such host", "proxy.golang.org"),
        ("Caused by: java.net.UnknownHostException: repo.example", "repo.example"),
        ("HTTPSConnectionPool(host='pypi.org', port=443): Max retries exceeded", "pypi.org"),
        (
            'FetchError: [css] [GET] "https://fonts.example/a.json": <no response> fetch failed',
            "fonts.example",
        ),
        ("npm error network read ECONNRESET", "one"),
    ],
)
def test_an_unreachable_package_registry_is_reported_by_name(line, host):
    assert build_remedy(1, [line]).endswith(
        f" to let builds reach their registries: {host} could not be reached."
    )


def test_a_guess_of_npm_about_an_old_lock_file_is_not_the_reason_of_a_failure():
    guess = (
        "npm warn old lockfile Could not fetch metadata for a@1.2.4 a: No matching version found for a@1.2.4."
    )
    missing = (
        "npm error 404  The requested resource 'b@https://r.example/b/-/b-0.3.1.tgz' could not be found or"
    )
    assert build_remedy(1, [guess, missing]).startswith("Correct b in package.json: ")
    assert build_remedy(1, [guess]) == ""
    assert build_remedy(1, [guess.removeprefix("npm warn old lockfile ")])  # negative control


def test_an_unreachable_registry_is_not_reported_as_a_missing_package():
    lines = [
        "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(': failed')'",
        "ERROR: Could not find a version that satisfies the requirement flask (from versions: none)",
        "ERROR: No matching distribution found for flask",
    ]
    assert build_remedy(1, lines).startswith(REGISTRY)
    assert "flask" in build_remedy(1, lines[1:])


@pytest.mark.parametrize(
    ("module", "remedy"),
    [
        ("cgi", "Set language_version to an older Python, such as 3.11, or update the dependencies"),
        ("pkg_resources", "Add setuptools<81 to the dependencies"),
        ("flask", "Add flask to the dependencies"),
    ],
)
def test_a_module_removed_from_python_is_not_reported_as_a_missing_package(module, remedy):
    assert build_remedy(1, [f"ModuleNotFoundError: No module named '{module}'"]).startswith(remedy)


def test_the_failure_message_contains_the_error_of_maven():
    assert ": cannot find symbol. " in failure("mvn", 1, ["[ERROR] cannot find symbol"])


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (
            ["In Installer.php line 9:", "  No valid lock", "install [--prefer-source] [--dev]"],
            ": No valid lock. ",
        ),
        (["[KeyError]: 'x'", "WARNING: Add '-v' to see the detailed traceback"], ": 'x'. "),
        (
            ["TypeError: cb is no function", "    at a.js:1", "npm ERR! errno 1"],
            ": TypeError: cb is no function. ",
        ),
        (
            [
                "    no library here",
                "    [end of output]",
                "error: subprocess-exited-with-error",
                "note: pip is fine",
            ],
            ": no library here. ",
        ),
        (["it stops here", "  Stack trace:", "    at async file://./a.js:1:2", ""], ": it stops here. "),
    ],
)
def test_usage_text_is_not_reported_as_the_reason_of_a_failed_step(lines, reason):
    assert reason in failure("the step", 1, lines)


def test_the_path_of_npms_log_file_is_not_reported_as_the_reason():
    lines = [
        "TypeError: no",
        "npm ERR! A complete log of this run can be found in:",
        "npm ERR!     /n/_logs/1-debug.log",
    ]
    assert "failed (exit code 1): TypeError: no. " in failure("npm run build", 1, lines)


HUGO = 'render of "/" failed: "themes/x/layouts/a.html:1:3": execute of template failed: template: a.html: '


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        (
            f"{HUGO}at <.Hugo.Version>: can't evaluate field Hugo in type *hugolib.pageState",
            "Update the theme, or name a Hugo of its time in requirements.txt",
        ),
        (
            f'{HUGO}error calling partial: partial "_internal/google_news.html" not found',
            "Update the theme",
        ),
        (
            'Error: module "docks" not found in "/srv/app/themes/docks"; either add it as a Hugo Module or '
            'store it in "/srv/app/themes".: module does not exist',
            "Commit the files of the theme docks into themes",
        ),
    ],
)
def test_a_theme_that_does_not_fit_hugo_is_told_apart_from_one_that_is_missing(line, remedy):
    assert build_remedy(1, [line]).startswith(remedy)
    assert build_remedy(1, [line.replace("template failed", "template").replace("not found", "found")]) == ""


def test_a_warning_of_npm_about_engines_is_not_the_reason_of_a_failure():
    warning = "npm warn EBADENGINE Unsupported engine {"
    unreachable = (
        "npm error request to https://registry.example/x failed, reason: getaddrinfo ENOTFOUND a.example"
    )
    assert "a.example could not be reached" in build_remedy(1, [warning, unreachable])
    assert build_remedy(1, ["npm error code EBADENGINE"]).startswith("Choose a version of Node.js")
