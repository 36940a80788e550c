"""The line in which a tool says why it failed is found in its output."""

from __future__ import annotations

from tests.tables import rows
from windlass.builders.error_lines import error_line

OUTPUTS = [
    (
        "pip",
        "Collecting flaskk\n"
        "ERROR: Could not find a version that satisfies the requirement flaskk (from versions: none)\n"
        "ERROR: No matching distribution found for flaskk\n"
        "[notice] A new release of pip is available: 23.0 -> 26.0\n",
        "ERROR: No matching distribution found for flaskk",
    ),
    (
        "a build of pip",
        "  error: subprocess-exited-with-error\n  exit code: 1\n"
        "      error: pg_config executable not found\n"
        "note: This error originates from a subprocess, and is likely not a problem with pip.\n",
        "error: pg_config executable not found",
    ),
    (
        "a plugin that Maven cannot fetch",
        "[ERROR] Some problems were encountered while processing the POMs:\n"
        "[ERROR]     Unresolveable build extension: Plugin a:b:3 could not be resolved:\n"
        "[ERROR]         Could not find artifact a:b:jar:3 in central\n[ERROR]     -> [Help 2]\n"
        "[ERROR]     Unknown packaging: quarkus @ line 8, column 16\n[ERROR]\n"
        "[ERROR] [Help 1] http://cwiki.example/ProjectBuildingException\n"
        "[ERROR] [Help 2] http://cwiki.example/PluginManagerException\n",
        "[ERROR]         Could not find artifact a:b:jar:3 in central",
    ),
    (
        "npm",
        "npm error code E404\n"
        "npm error 404 Not Found - GET https://user:token@r.example/nonesuch - Not found\n"
        "npm error 404\nnpm error A complete log of this run can be found in: /root/.npm/_logs/x.log\n",
        "npm error 404 Not Found - GET https://***@r.example/nonesuch - Not found",
    ),
    (
        "npm without a lock",
        "npm error code EUSAGE\nnpm error\nnpm error The `npm ci` command can only install with an existing "
        "package-lock.json\nnpm error A complete log of this run can be found in: x\n",
        "npm error The `npm ci` command can only install with an existing package-lock.json",
    ),
    (
        "a script that npm runs",
        "src/a.ts(3,5): error TS2322: no\nError: Cannot find module 'vite'\n"
        "npm error Lifecycle script `build` failed\nnpm ERR! code ELIFECYCLE\n",
        "Error: Cannot find module 'vite'",
    ),
    (
        "an exception of Python by its full name",
        "Traceback (most recent call last):\n    raise ImproperlyConfigured(\n"
        "django.core.exceptions.ImproperlyConfigured: Set STATIC_ROOT.\n",
        "django.core.exceptions.ImproperlyConfigured: Set STATIC_ROOT",
    ),
    ("go", "# shop\n./main.go:5:2: undefined: x\n", "./main.go:5:2: undefined: x"),
    (
        "cargo",
        "error[E0425]: cannot find value `x` in this scope\nerror: could not compile `shop` due to 1 error\n",
        "error[E0425]: cannot find value `x` in this scope",
    ),
    (
        "Maven",
        "[ERROR] COMPILATION ERROR :\n[ERROR] A.java:[1,2] ';' expected\n[ERROR] -> [Help 1]\n"
        "[ERROR] For more information about the errors\n",
        "[ERROR] A.java:[1,2] ';' expected",
    ),
    (
        "Python",
        "Traceback (most recent call last):\n  File \"x\"\nKeyError: 'SECRET_KEY'\n",
        "KeyError: 'SECRET_KEY'",
    ),
    ("apt", "Reading\nE: Unable to locate package ffmpegg\n", "E: Unable to locate package ffmpegg"),
    ("a shell", "/bin/sh: 1: yarnn: not found\n", "/bin/sh: 1: yarnn: not found"),
    ("colours", "\x1b[31mERROR: red\x1b[0m\n", "ERROR: red"),
    ("nothing", "all is well\nerrors: 0\n", ""),
]


@rows(("output", "line"), [row[1:] for row in OUTPUTS], ids=[row[0] for row in OUTPUTS])
def test_the_error_line_of_a_tools_output_is_found(output, line):
    assert error_line(output.splitlines()) == line


def test_a_long_line_is_cut_and_its_control_characters_are_left_out():
    assert error_line(["ERROR: \x07" + "x" * 5000]) == "ERROR: " + "x" * 293
