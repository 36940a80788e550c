"""`windlass detect`: shows what the files of a folder say about the application in it. Calls no server."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click
import msgspec

from windlass.base.file_names import file_names, read_beginning
from windlass.core.detect import Recipe, Tree
from windlass.core.detect import detect as recipe_of
from windlass.terminal.sections import Command
from windlass.terminal.tables import FORM, pairs, plain, print_json, wants_json


@click.command("detect", cls=Command)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".")
@click.option("--json/--text", FORM, default=None, help="JSON (the default in pipes), or text.")
@click.pass_context
def detect(ctx: click.Context, folder: Path, as_json: bool | None) -> None:
    """Show how the application in FOLDER would be installed, built and started, and why.

    Reads files and runs nothing. Ends with 1 if nothing says how to start it.
    """
    recipe = recipe_of(Tree(file_names(folder), partial(read_beginning, folder)))
    if wants_json(as_json):
        print_json(msgspec.to_builtins(recipe))
    else:
        _show(recipe)
    if not recipe.is_runnable:
        ctx.exit(1)


def _show(recipe: Recipe) -> None:
    if recipe.values:
        pairs((name.replace("_", " "), value, reason) for name, value, reason in recipe.values)
    for problem in recipe.problems:
        click.echo(plain(problem), err=True)
    if recipe.candidates:
        click.echo("Applications in other folders (root_path):")
        pairs(
            (candidate.root_path, candidate.language, candidate.framework) for candidate in recipe.candidates
        )
