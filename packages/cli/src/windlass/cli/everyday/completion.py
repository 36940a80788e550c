"""`windlass completion`: the script that lets a shell complete commands, options and names."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

from windlass.terminal.sections import Command

_SHELL_NAMES: Final = ("bash", "zsh", "fish")
_COMPLETION_VARIABLE: Final = "_WINDLASS_COMPLETE"


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(_SHELL_NAMES), metavar="|".join(_SHELL_NAMES))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands, options, and names of services in a shell.

    \b
    bash:  source <(windlass completion bash)        in ~/.bashrc
    zsh:   source <(windlass completion zsh)         in ~/.zshrc, after compinit
    fish:  windlass completion fish | source         in ~/.config/fish/config.fish
    """
    completing = get_completion_class(shell)
    assert completing is not None, "click knows these shells"
    # The method source() is not used, because it would start bash to check its version.
    script = completing(ctx.find_root().command, {}, "windlass", _COMPLETION_VARIABLE)
    click.echo(completing.source_template % script.source_vars())
