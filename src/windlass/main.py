"""The command: `serve` and what an operator does on the machine itself, and everything of the API."""

from __future__ import annotations

from typing import Any

import click
import uvloop

from windlass import __version__
from windlass.base.log import start_logging
from windlass.config import Settings, load
from windlass.installation import install
from windlass.server import listen, serve


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="windlass")
def main() -> None:
    """Windlass: a self-hosted control plane for infrastructure."""


@main.command("serve")
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=int, help="Port to listen on; 0 picks a free one.")
@click.option("--data-dir", help="Where everything is kept.")
def serve_command(**flags: Any) -> None:
    """Run everything in one process."""
    settings, _ = load(flags)
    start_logging(settings.log_level, settings.log_format)
    uvloop.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    listening = listen(settings.host, settings.port)
    installation = await install(settings)

    def announce(port: int) -> None:
        click.echo(_welcome(settings.host, port, installation.first_token), err=True)

    await serve(installation, listening, announce)


def _welcome(host: str, port: int, token: str | None) -> str:
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{port}"
    lines = [f"Windlass {__version__} listens on {url}  (reference: {url}/docs, stop: Ctrl-C)"]
    if token:
        lines += [
            "",
            "This is the first start. The Admin token below is shown this once: keep it.",
            "",
            f"  export WINDLASS_TOKEN={token}",
            f'  curl -H "Authorization: Token $WINDLASS_TOKEN" {url}/organization',
            "",
        ]
    return "\n".join(lines)
