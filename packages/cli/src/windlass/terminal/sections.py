"""Shows the options of a command under headings instead of in one long list."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NoReturn

import click

_LAST_SECTION = "Other options"


class Option(click.Option):
    """An option that is listed under the heading `section`."""

    def __init__(self, *args: Any, section: str = _LAST_SECTION, **options: Any) -> None:
        super().__init__(*args, **options)
        self.section = section


class Command(click.Command):
    """A command whose help groups options under headings, in the order of first use."""

    unknown: Callable[[click.NoSuchOption, Collection[str]], NoReturn] | None = None
    """Called with an unknown option and all option names; raises a better error."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if self.unknown is None:
                raise
            names = [name for param in self.params for name in (*param.opts, *param.secondary_opts)]
            self.unknown(error, names)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                sections.setdefault(getattr(param, "section", _LAST_SECTION), []).append(record)
        for title in sorted(sections, key=_LAST_SECTION.__eq__):
            with formatter.section(title):
                formatter.write_dl(sections[title])
