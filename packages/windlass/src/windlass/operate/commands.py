"""Declares the commands of an operator. Their implementations are imported when a command runs."""

from __future__ import annotations

import asyncio
import gc
import itertools
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from windlass.base.log import start_logging
from windlass.config import ShownSetting, describe, take_variables, to_type
from windlass.operate.data_owner import check_data_owner
from windlass.operate.one_line_errors import one_line_errors
from windlass.operate.settings import DEFAULT_URL, example, flags, settings_from, to_text
from windlass.terminal.command_errors import CommandFailed, InvalidUsage, ended_by_user
from windlass.terminal.sections import Command
from windlass.terminal.tables import FORMAT_PARAMETER, pairs, print_json, wants_json, wrap_indented

if TYPE_CHECKING:
    from windlass.engines.findings import Finding
    from windlass.operate.archive import Manifest
    from windlass.operate.audit import Verdict

_FORMAT_OPTION = click.option(
    "--json/--text", FORMAT_PARAMETER, default=None, help="JSON (the default in pipes), or text."
)


@click.command("serve", cls=Command, params=flags())
@click.option(
    "--adopt",
    is_flag=True,
    help="Start although the data directory belongs to another database, or to a newer state of this one. "
    "Services that this database does not know are set aside, and not erased. With PostgreSQL, also become "
    "the owner of services whose server or Docker engine is gone for good.",
)
@click.option(
    "--migrate-only",
    is_flag=True,
    help="Bring the database to the form of this version, and end. Servers of an earlier version that run "
    "with it then only answer reads.",
)
def serve(adopt: bool, migrate_only: bool, **options: Any) -> None:
    """Run everything in one process.

    Every setting is also a variable of the environment, as WINDLASS_PORT is for --port, and a line of the
    file that --config names. Secrets (admin_token, database_url, key) are given only there.
    """
    gc.disable()  # until the server listens: nearly all objects that a start creates live until the end
    with one_line_errors():
        settings, _ = settings_from(options)
        if migrate_only:
            check_data_owner(settings, "serve --migrate-only")
            from windlass.operate.migration import migrate  # noqa: PLC0415 (imports both drivers)

            migrate(settings)
            click.echo("The database has the form of this version.", err=True)
            return
        from windlass.base.sd_notify import NOTIFY_VARIABLES, notifier_of  # noqa: PLC0415 (other commands do not need it)
        from windlass.operate.first_steps import begin  # noqa: PLC0415 (as above)

        manager = notifier_of(take_variables(NOTIFY_VARIABLES))
        gateway = begin(settings)
        from windlass.operate.serving import run  # noqa: PLC0415 (imports the whole server)

        run(settings, manager, adopt=adopt, gateway=gateway)


@click.command("stop", cls=Command, params=flags("data_dir"))
@click.option("--url", help="Address of the server.")
@click.option("--token", help="API token.")
@click.option("--all", "everything", is_flag=True, help="Every service of the installation.")
@click.option("-y", "--yes", is_flag=True, help="Stop without asking.")
@click.option(
    "--json/--text", FORMAT_PARAMETER, default=False, help="The number of services as JSON, or as text."
)
def stop(everything: bool, yes: bool, as_json: bool, **options: Any) -> None:
    """Stop every service that this installation runs. Data, settings and history stay.

    With the server running, this calls its API for all organizations of the token. Without, it works on the
    data directory and its database. The services stay stopped when the server starts, until they are
    deployed again. `windlass application stop NAME` stops one.
    """
    if not everything:
        raise InvalidUsage("pass --all to stop every service, or stop one: windlass application stop NAME")

    def sure(count: int) -> None:
        if not yes and sys.stdin.isatty() and sys.stdout.isatty():
            click.confirm(f"Stop {'1 service' if count == 1 else f'{count} services'}?", abort=True, err=True)

    with one_line_errors():
        count = _stop_all(options, sure)
    from windlass.operate import stopping  # noqa: PLC0415 (imports the whole server)

    stopping.report(count, as_json=as_json)


def _stop_all(options: dict[str, Any], confirm_stop: Callable[[int], None]) -> int:
    """Stops all services, through the running server if there is one, otherwise in the database. Returns
    their number."""
    settings, sources = settings_from(options)
    from windlass.cli.connection import connect  # noqa: PLC0415 (a starting server does not need it)
    from windlass.operate import stopping  # noqa: PLC0415 (imports the whole server)
    from windlass.operate.listeners import address_of  # noqa: PLC0415 (imports the gateway)

    usual = address_of(settings.host, settings.port) if settings.port else DEFAULT_URL
    api = connect(options, default_url=usual)
    named = sources.get("data_dir") == "flag" or options["config_file"] is not None
    if named and api.url != usual:
        _print_message(f"{api.url} is not called: --data-dir or --config names the installation.")
    if not named and stopping.answers(api):
        with ended_by_user("It continues in the background."):
            return stopping.through(api, confirm_stop)
    if not named and api.url != usual:
        folder = shlex.quote(str(Path(settings.data_dir).absolute()))
        raise CommandFailed(
            "start the server, or name its data directory, as in "
            f"`windlass stop --all --data-dir {folder}`: nothing listens at {api.url}"
        )
    check_data_owner(settings, "stop --all")
    with ended_by_user("What is not stopped yet is stopped when the server starts."):
        start_logging("error", settings.log_format)
        return asyncio.run(stopping.here(settings, confirm_stop))


@click.command("config", cls=Command, params=flags("data_dir"))
@click.argument("words", nargs=-1, metavar="", type=click.UNPROCESSED)
@click.option(
    "--example", "wants_example", is_flag=True, help="Print a TOML file with every setting, commented."
)
@_FORMAT_OPTION
def config(words: Sequence[str], wants_example: bool, as_json: bool | None, **options: Any) -> None:
    """Show every setting of the server with its value, the source of the value, and its meaning.

    For secrets, it only shows whether they are set. `windlass env` has the variables of services.
    """
    if words:
        raise InvalidUsage(
            "use `windlass env set NAME=VALUE` for variables of a service, and `windlass env` to list them: "
            "`windlass config` shows the settings of the server, and takes no words"
        )
    if wants_example:
        click.echo(example(), nl=False)
        return
    with one_line_errors():
        settings = describe(*settings_from(options))
    if wants_json(as_json):
        print_json(msgspec.to_builtins(settings))
        return
    for group, members in itertools.groupby(settings, lambda setting: setting.group):
        click.secho(f"\n{group}", bold=True)
        pairs(
            (f"  {setting.name}", _setting_text(setting), f"{setting.meaning}. {setting.variable}")
            for setting in members
        )


def _setting_text(setting: ShownSetting) -> str:
    text = to_text(setting.value) or "(empty)"
    return text if setting.source == "default" else f"{text}   ← {setting.source}"


@click.command("doctor", cls=Command, params=flags("data_dir"))
@_FORMAT_OPTION
def doctor(as_json: bool | None, **options: Any) -> None:
    """Check this machine, and say how to fix what does not work."""
    with one_line_errors():
        settings, _ = settings_from(options)
        from windlass.engines.findings import Level  # noqa: PLC0415 (only for the doctor)
        from windlass.operate.doctor import diagnose  # noqa: PLC0415 (imports both drivers)

        findings = asyncio.run(diagnose(settings))
    if wants_json(as_json):
        print_json(msgspec.to_builtins(findings))
    else:
        _print_findings(findings)
    if any(finding.level is Level.FAIL for finding in findings):
        click.get_current_context().exit(1)


def _print_findings(findings: Sequence[Finding]) -> None:
    colours = {"ok": "green", "warn": "yellow", "fail": "red"}
    wide = max(len(finding.what) for finding in findings)
    for finding in findings:
        mark = click.style(f"{finding.level:<4}", fg=colours[finding.level], bold=True)
        click.echo(f"{mark}  {finding.what:<{wide}}  {wrap_indented(finding.found, wide + 8)}")
        if finding.advice:
            click.echo(f"{'':<{wide + 8}}{click.style(wrap_indented(finding.advice, wide + 8), dim=True)}")


@click.command("backup", cls=Command, params=flags("data_dir"))
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def backup(file: Path, **options: Any) -> None:
    """Write a backup of the installation to FILE, a zip archive. The server may keep running.

    It does not contain the key that decrypts the secrets: keep the file `key` of the data directory
    elsewhere. It does not contain the data of deployed services or uploaded folders, either.
    """
    with one_line_errors():
        settings, _ = settings_from(options)
        from windlass.operate.backup import backup as back_up  # noqa: PLC0415 (imports both drivers)
        from windlass.operate.backup import to_keep_beside  # noqa: PLC0415 (as above)

        backup = asyncio.run(back_up(settings, file))
    size = file.stat().st_size
    click.echo(f"{file}: {_contents(backup)}; {_size_text(size)}.", err=True)
    for line in to_keep_beside(settings, backup):
        click.echo(line, err=True)


@click.command("restore", cls=Command, params=flags("data_dir"))
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace all that this installation has.")
def restore(file: Path, force: bool, **options: Any) -> None:
    """Replace this installation, which must not be running, by the backup FILE.

    All of it, or nothing. The backup may come from the other kind of database. The key of the backed-up
    installation must be here already, as the file `key` of the data directory or as WINDLASS_KEY.

    Services that were made after the backup lose their record and nothing else: they are named here, and a
    start with --adopt sets them aside.
    """
    with one_line_errors():
        settings, _ = settings_from(options)
        check_data_owner(settings, "restore")
        from windlass.install.ownership import examine  # noqa: PLC0415 (imports the server)
        from windlass.operate.backup import AFTER_RESTORE  # noqa: PLC0415 (imports both drivers)
        from windlass.operate.backup import restore as put_back  # noqa: PLC0415 (imports both drivers)

        done = asyncio.run(put_back(settings, file, force=force, report_progress=_print_message))
        report = asyncio.run(examine(settings))
    start = to_type(settings, "serve --adopt" if report.reason else "serve")
    click.echo(f"Restored, as of {done.created_at}: {_contents(done)}. Start it with `{start}`.", err=True)
    click.echo(AFTER_RESTORE, err=True)


def _print_message(message: str) -> None:
    click.echo(message, err=True)


@click.group("set-aside")
def set_aside() -> None:
    """Services that were set aside because the database did not know them."""


@set_aside.command("list", cls=Command, params=flags("data_dir"))
@_FORMAT_OPTION
def list_set_aside(as_json: bool | None, **options: Any) -> None:
    """Show what was set aside: when, why, and what it has."""
    with one_line_errors():
        settings, _ = settings_from(options)
        from windlass.operate.set_aside import set_aside_services  # noqa: PLC0415 (imports the server)

        services = set_aside_services(settings)
    if wants_json(as_json):
        print_json(msgspec.to_builtins(services))
    elif not services:
        click.echo("Nothing is set aside.")
    else:
        from windlass.base.clock import stamp  # noqa: PLC0415

        for service in services:
            pairs(
                (
                    (service.service, service.name or "(name unknown)", ""),
                    ("  since", stamp(service.at), ""),
                    ("  why", service.why, ""),
                    ("  has", f"instances {service.instances}, volumes {service.volumes}", ""),
                )
            )


@set_aside.command("restore", cls=Command, params=flags("data_dir"))
@click.argument("service")
def restore_set_aside(service: str, **options: Any) -> None:
    """Put SERVICE, an id, back in its place with all that it stored.

    The database has to know it. A start does the same by itself for each service that its database knows.
    """
    with one_line_errors():
        settings, _ = settings_from(options)
        from windlass.operate.set_aside import put_back  # noqa: PLC0415 (imports the server)

        check_data_owner(settings, "set-aside restore")
        done = asyncio.run(put_back(settings, service))
    click.echo(f"{done.name or service} is in its place again. It runs with the next start or deployment.")


@set_aside.command("purge", cls=Command, params=flags("data_dir"))
@click.argument("services", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All that is set aside.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def purge_set_aside(services: tuple[str, ...], everything: bool, yes: bool, **options: Any) -> None:
    """Erase SERVICES, ids, for good, with their volumes."""
    with one_line_errors():
        settings, _ = settings_from(options)
        from windlass.operate.set_aside import purge, set_aside_services  # noqa: PLC0415 (imports the server)

        check_data_owner(settings, "set-aside purge")
        meant = [record.service for record in set_aside_services(settings)] if everything else list(services)
        if not meant:
            shown = to_type(settings, "set-aside list")
            raise InvalidUsage(f"name the services to erase, or --all; `{shown}` shows them")
        if not yes:
            click.confirm(f"Erase services {len(meant)} with their data for good?", abort=True)
        asyncio.run(purge(settings, meant))
    click.echo(f"Erased: services {len(meant)}.")


@click.group("audit")
def audit() -> None:
    """Verify the audit."""


@audit.command("verify", cls=Command, params=flags("data_dir"))
@click.option(
    "--head",
    metavar="NUMBER:HASH",
    default="",
    help="Number and hash that an earlier run printed: shows whether events were cut off at the end.",
)
@_FORMAT_OPTION
def verify(head: str, as_json: bool | None, **options: Any) -> None:
    """Check the chain of all events: each carries a hash over itself and the one before it.

    Exits with 1 if an event was changed, removed or added. The server may keep running. An attacker with
    write access to the database could compute the whole chain again: note the newest number and hash
    elsewhere, and compare.
    """
    with one_line_errors():
        settings, _ = settings_from(options)
        from windlass.operate.audit import verify  # noqa: PLC0415 (imports both drivers)

        verdict = asyncio.run(verify(settings, head))
    if wants_json(as_json):
        print_json(msgspec.to_builtins(verdict))
    else:
        _print_verdict(verdict)
    if verdict.faults:
        click.get_current_context().exit(1)


def _print_verdict(verdict: Verdict) -> None:
    if verdict.events:
        span = f"from {verdict.since} to {verdict.until}, numbers {verdict.first} to {verdict.number}"
        click.echo(f"{verdict.events} events, {span}.")
    else:
        click.echo("There are no events yet.")
    if verdict.let_go:
        click.echo(f"Events up to number {verdict.let_go} were deleted because of their age.")
    for fault in verdict.faults:
        click.secho(fault, fg="red")
    if verdict.more:
        click.secho(f"And {verdict.more} more like these.", fg="red")
    if not verdict.faults and verdict.head:
        click.secho("They hold together.", fg="green")
        click.echo(f"The newest is {verdict.head}")
        click.echo("Note it elsewhere. Compare later: windlass audit verify --head " + verdict.head)


def _contents(manifest: Manifest) -> str:
    resources, deployments = (manifest.counts.get(name, 0) for name in ("resource", "deployment"))
    rows, logs = sum(manifest.counts.values()), len(manifest.logs)
    return f"resources {resources}, deployments {deployments}, rows in all {rows}, log files {logs}"


def _size_text(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
