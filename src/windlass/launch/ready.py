"""`python -m windlass.launch.ready KIND`: whether the database of these variables can be used now.

Exits with 0 if it can, and else with 1 and a line that says why. It is run every second or so, and so it
loads little.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

from windlass.launch.asking.line import Line, NotReady

KINDS = ("mysql", "postgresql", "redis")
SECONDS = 4.0


def main(words: list[str], variables: dict[str, str]) -> int:
    if len(words) != 1 or words[0] not in KINDS:
        return _said(f"say which: {', '.join(KINDS)}", 2)
    port = variables.get("PORT", "")
    if not port.isdecimal():
        return _said(f"PORT must be the port of the database, and is {port!r}", 2)
    try:
        with Line(int(port), SECONDS) as line:
            import_module(f"windlass.launch.asking.{words[0]}").ask(line, variables)
    except NotReady as why:
        return _said(str(why))
    except TimeoutError:
        return _said("the server does not answer")
    except OSError as error:
        return _said(f"the server cannot be reached: {error.strerror or error}")
    return 0


def _said(message: str, code: int = 1) -> int:
    print(f"not ready: {message}", file=sys.stderr)  # noqa: T201 (it is a program)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], dict(os.environ)))  # noqa: TID251 (the variables of an instance)
