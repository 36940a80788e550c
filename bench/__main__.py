"""`python -m bench [case …] [--quick] [--write]`"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench.cases import CASES
from bench.machine import LOAD_CORE, described, stay_on
from bench.measure import FULL, QUICK, Bench, Line
from bench.report import table, text, write


def main() -> None:
    given = _given()
    stay_on(LOAD_CORE)
    names = given.case or list(CASES)
    # Not under /tmp, which may be memory: what is durable there costs nothing.
    with tempfile.TemporaryDirectory(prefix="windlass-bench-", dir=given.dir) as made:
        folder = Path(made)
        folder.chmod(0o755)  # PostgreSQL runs as somebody else
        bench = Bench(QUICK if given.quick else FULL, folder)
        machine = described(folder)
        report: dict[str, list[Line]] = {}
        for name in names:
            print(f"… {name}", file=sys.stderr, flush=True)
            report[name] = CASES[name](bench)
            print(table({name: report[name]}), file=sys.stderr, flush=True)
    said = text(report, machine, " ".join(["python -m bench", *sys.argv[1:]]), bench)
    print(said)
    if given.write:
        write(said)


def _given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Benchmarks against the physical limit."
    )
    parser.add_argument("case", nargs="*", help=f"which; all if none is named: {', '.join(CASES)}")
    parser.add_argument("--quick", action="store_true", help="less of everything: to see that it works")
    parser.add_argument("--write", action="store_true", help="put the report into bench/README.md")
    parser.add_argument("--dir", default="/var/tmp", help="where databases are made; default: %(default)s")
    given = parser.parse_args()
    if unknown := [name for name in given.case if name not in CASES]:
        parser.error(f"no case {', '.join(unknown)}; there are {', '.join(CASES)}")
    if given.write and given.case:
        parser.error("--write takes all cases: a report is of one run")
    return given


if __name__ == "__main__":
    main()
