"""`windlass detect`: shows the detected recipe of a folder, without a server."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click
import msgspec

from windlass.base.file_names import file_names, read_beginning
from windlass.builders.plan import plan_of
from windlass.detect import Recipe, Tree
from windlass.detect import detect as recipe_without_dockerfile
from windlass.detect.dockerfile import dockerfile
from windlass.detect.recipe import WEB_PROCESS, ProcessType
from windlass.terminal.sections import Command
from windlass.terminal.tables import FORMAT_PARAMETER, pairs, plain, print_json, wants_json


@click.command("detect", cls=Command)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".")
@click.option("--json/--text", FORMAT_PARAMETER, default=None, help="JSON (the default in pipes), or text.")
@click.option("--dockerfile", "wants_dockerfile", is_flag=True, help="Print the Dockerfile of the recipe.")
@click.pass_context
def detect(ctx: click.Context, folder: Path, as_json: bool | None, wants_dockerfile: bool) -> None:
    """Show how the application in FOLDER would be installed, built and started, and why.

    Reads files and runs nothing. Exits with 1 if there is no start command.
    """
    tree = Tree(file_names(folder), partial(read_beginning, folder))
    # `--dockerfile` shows the Dockerfile of the recipe, also beside a Dockerfile.
    recipe = recipe_without_dockerfile(tree) if wants_dockerfile else plan_of(tree).recipe
    if wants_dockerfile and recipe.is_runnable:
        _show_dockerfile(recipe, _dockerfile(recipe, tree), as_json is True)
    elif wants_json(as_json):
        print_json(msgspec.to_builtins(recipe))
    else:
        _print_recipe(recipe)
    if not (recipe.is_runnable or recipe.dockerfile):
        ctx.exit(1)


def _dockerfile(recipe: Recipe, tree: Tree) -> str:
    try:
        return dockerfile(recipe, tree)
    except ValueError as error:
        raise click.ClickException(str(error)) from error


def _show_dockerfile(recipe: Recipe, text: str, as_json: bool) -> None:
    """Prints the Dockerfile as text even in pipes, so that it can be redirected to a file."""
    if as_json:
        print_json({**msgspec.to_builtins(recipe), "dockerfile": text})
    else:
        click.echo(text, nl=False)


def _print_recipe(recipe: Recipe) -> None:
    is_web_alone = recipe.processes == [ProcessType(WEB_PROCESS, recipe.start)]  # shown as the start command
    shown = [entry for entry in recipe.values if not (entry[0] == "processes" and is_web_alone)]
    if shown:
        pairs((name.replace("_", " "), value, reason) for name, value, reason in shown)
    for problem in (*recipe.problems, *recipe.remarks):
        click.echo(plain(problem), err=True)
    if recipe.candidates:
        click.echo("Applications in other folders (root_path). Run `windlass init` in one of them:")
        pairs(
            (candidate.root_path, candidate.language, candidate.framework) for candidate in recipe.candidates
        )
