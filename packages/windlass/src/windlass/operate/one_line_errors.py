"""Reports errors of the machine as one line with a remedy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from windlass.config import BadSetting
from windlass.terminal.command_errors import CommandFailed, InvalidUsage


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    from windlass.operate.explain import OperatorError, explain_errors  # noqa: PLC0415 (imports drivers)

    try:
        with explain_errors():
            yield
    except BadSetting as error:
        raise InvalidUsage(str(error)) from error
    except OperatorError as error:
        raise CommandFailed(str(error)) from error.__cause__
