"""Options of a command, shown under headings instead of in one long list."""

from __future__ import annotations

from typing import Any

import click

_LAST = "Other options"


class Option(click.Option):
    """An option that knows under which heading it stands."""

    def __init__(self, *args: Any, section: str = _LAST, **options: Any) -> None:
        super().__init__(*args, **options)
        self.section = section


class Command(click.Command):
    """A command whose help has a heading for each group of options, in the order of their first one."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                sections.setdefault(getattr(param, "section", _LAST), []).append(record)
        for title in sorted(sections, key=_LAST.__eq__):
            with formatter.section(title):
                formatter.write_dl(sections[title])
