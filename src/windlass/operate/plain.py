"""Turns failures of the machine into one line with a remedy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from windlass.config import BadSetting
from windlass.terminal.stopped import Misused, Stopped


@contextlib.contextmanager
def plainly() -> Iterator[None]:
    try:
        yield
    except BadSetting as error:
        raise Misused(str(error)) from error
    except Exception as error:
        from windlass.operate.explain import explain  # noqa: PLC0415 (only needed after a failure)

        said = explain(error)
        if said is None:
            raise
        raise Stopped(said) from error
