"""Turns failures of the machine into one line with a remedy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from windlass.config import BadSetting
from windlass.terminal.stopped import Misused, Stopped


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    from windlass.operate.explain import Explained, explaining  # noqa: PLC0415 (loads what explains)

    try:
        with explaining():
            yield
    except BadSetting as error:
        raise Misused(str(error)) from error
    except Explained as error:
        raise Stopped(str(error)) from error.__cause__
