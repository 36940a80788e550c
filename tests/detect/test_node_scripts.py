"""Commands that build, and commands that need development packages, are found through the scripts that they
run."""

from __future__ import annotations

import pytest

from windlass.detect.node_scripts import managers_called, needs_development, runs_build

SCRIPTS = {
    "build": "tsc",
    "start": "npm run build && node dist/server.js",
    "all": "run-s build:* serve",
    "build:client": "vite build",
    "serve": "node dist/server.js",
    "loop": "npm run loop",
}


@pytest.mark.parametrize(
    "command",
    [
        "npm run build && node dist/server.js",
        "npm start",
        "yarn build",
        "pnpm run --silent build",
        "pnpm --filter web run build",
        "yarn workspace web build",
        "npm run build --workspace=web",
        "npm-run-all all",
        'concurrently "npm:build" "node server.js"',
        "cross-env NODE_ENV=production npm run all",
        "node --run build",
        "turbo run build --filter=web && node apps/web/server.js",
        "npx nx build web",
    ],
)
def test_a_command_that_builds_is_recognized(command):
    assert runs_build(SCRIPTS, command)
    assert needs_development([command], ["jest"], SCRIPTS)


@pytest.mark.parametrize(
    "command", ["node server.js", "npm run serve", "npm run loop", "node build", "node ./build/index.js", ""]
)
def test_a_command_that_builds_nothing_needs_no_development_packages(command):
    assert not runs_build(SCRIPTS, command)
    assert not needs_development([command], ["jest"], SCRIPTS)


@pytest.mark.parametrize(
    ("command", "package"),
    [
        ("tsc && node dist", "typescript"),
        ("npx tsx server.ts", "tsx"),
        ("node --import=tsx server.ts", "tsx"),
        ("nest start", "@nestjs/cli"),
        ("sequelize db:migrate", "sequelize-cli"),
    ],
)
def test_a_program_in_a_start_command_is_mapped_to_the_npm_package_that_provides_it(command, package):
    assert needs_development([command], [package])
    assert not needs_development([command], ["jest"])


@pytest.mark.timeout(20)
def test_scripts_that_run_very_many_others_are_read_in_a_short_time():
    """The limit of time is the negative control: without limits, each word is compared with each script."""
    many = {f"a{number}": "run-s " + "b* " * 20_000 for number in range(50)}
    scripts = {**many, "start": "run-s " + "a* " * 100_000}
    assert not runs_build(scripts, "npm start")
    assert not needs_development(["npm start"], ["jest"], scripts)


@pytest.mark.parametrize(
    ("start", "called"),
    [("npm run start", ["yarn"]), ("node x.js", []), ("pnpm run serve", ["pnpm"])],
)
def test_package_managers_that_scripts_call_are_found(start, called):
    scripts = {"start": "npm run build && node x.js", "build": "yarn run clean && tsc", "serve": "node x.js"}
    assert managers_called(scripts, start) == called
