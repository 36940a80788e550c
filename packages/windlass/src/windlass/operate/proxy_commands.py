"""Declares the commands for a proxy in front of the server and its gateway."""

from __future__ import annotations

from typing import Any

import click

from windlass.operate.one_line_errors import one_line_errors
from windlass.operate.proxy_files import PROXIES, ProxyFile
from windlass.operate.settings import flags, settings_from
from windlass.terminal.sections import Command


@click.group("gateway")
def gateway() -> None:
    """The gateway, through which services are reached."""


@gateway.command("config", cls=Command, params=flags("data_dir"))
@click.option(
    "--for",
    "proxy",
    type=click.Choice(sorted(PROXIES)),
    required=True,
    help="The proxy that stands in front.",
)
@click.option(
    "--name",
    help="The name of the API and the console, such as windlass.example.com. Default: that of public_url.",
)
@click.option(
    "--services",
    metavar="DOMAIN",
    help="The domain of the names of services, such as apps.example.com. Default: the one in the settings.",
)
@click.option(
    "--certificate", default="", help="File of the certificate for both names, for a proxy that reads one."
)
@click.option("--certificate-key", default="", help="File of its key.")
def config(
    proxy: str,
    name: str | None,
    services: str | None,
    certificate: str,
    certificate_key: str,
    **options: Any,
) -> None:
    """Print the configuration of a proxy that gives the server and all services HTTPS.

    The lines at its beginning say where to save it, and which settings belong to it. Nothing is changed.
    """
    with one_line_errors():
        settings, _ = settings_from(options)
        wanted = ProxyFile.of(
            settings, name=name, services=services, certificate=certificate, key=certificate_key
        )
        click.echo(PROXIES[proxy](wanted), nl=False)
