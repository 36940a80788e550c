"""What goes wrong on the machine, said in one line with the way out."""

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
        from windlass.operate.explain import explain  # noqa: PLC0415 (nobody needs it while all goes well)

        said = explain(error)
        if said is None:
            raise
        raise Stopped(said) from error
