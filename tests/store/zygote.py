"""Starts `windlass serve` by forking: processes of their own, without the time that their imports take.

It reads orders, one JSON line each, and answers each with one line: `{"argv": …, "env": …, "log": …}` starts
a process and answers its id; `{"reap": id}` waits for its end and answers its exit status.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any, NoReturn

import windlass.operate.commands
import windlass.operate.serving
import windlass.store.postgres
import windlass.store.sqlite  # noqa: F401 (all that a server would load)
from windlass.main import main


def be(order: dict[str, Any]) -> NoReturn:
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number, target in ((0, nothing), (1, nothing), (2, log)):
        os.dup2(target, number)
    os.environ.update(order["env"])
    try:
        main(order["argv"])
    except SystemExit as end:
        os._exit(int(end.code or 0))
    except BaseException:  # noqa: BLE001 (nothing may fall back into the loop of the zygote)
        traceback.print_exc()
        os._exit(70)
    os._exit(0)


def obey(order: dict[str, Any]) -> int:
    if "reap" in order:
        return os.waitstatus_to_exitcode(os.waitpid(order["reap"], 0)[1])
    return os.fork() or be(order)


if __name__ == "__main__":
    for line in sys.stdin:
        print(obey(json.loads(line)), flush=True)
