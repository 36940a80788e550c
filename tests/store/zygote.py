"""Starts `windlass serve` by forking. An order is `{"argv": …, "env": …, "log": …}`: see tests/forks.py."""

from __future__ import annotations

import os
from typing import Any

import windlass.operate.commands
import windlass.operate.serving
import windlass.store.postgres
import windlass.store.sqlite  # noqa: F401 (all that a server would load)
from tests.forks import obey
from windlass.cli.main import main


def be(order: dict[str, Any]) -> None:
    os.environ.update(order["env"])
    main(order["argv"])


if __name__ == "__main__":
    obey(be)
