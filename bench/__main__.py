"""`python -m bench [case …] [--quick] [--write]`"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.cases import CASES
from bench.machine import LOAD_CORE, GaveUp, described, stay_on, within
from bench.measure import FULL, QUICK, Bench, Line
from bench.report import Report, table, text, write


def main() -> None:
    given = _given()
    stay_on(LOAD_CORE)
    signal.signal(signal.SIGTERM, _stop)
    names = given.case or list(CASES)
    # Not under /tmp, which may be memory: what is durable there costs nothing.
    with tempfile.TemporaryDirectory(prefix="windlass-bench-", dir=given.dir) as made:
        folder = Path(made)
        folder.chmod(0o755)  # PostgreSQL runs as somebody else
        bench = Bench(QUICK if given.quick else FULL, folder)
        machine = described(folder)
        report: Report = {}
        for name in names:
            print(f"… {name}", file=sys.stderr, flush=True)
            report[name] = measured(CASES[name], bench)
            print(table({name: report[name]}), file=sys.stderr, flush=True)
    said = text(report, machine, " ".join(["python -m bench", *sys.argv[1:]]), bench)
    print(said)
    if given.write:
        write(said)
    if any(isinstance(result, str) for result in report.values()):
        sys.exit("not every case came to its end")


def measured(case: Callable[[Bench], Sequence[Line]], bench: Bench) -> Sequence[Line] | str:
    """Returns the lines of a case, or the reason why it did not come to its end: the other cases go on."""
    try:
        with within(bench.effort.patience):
            return case(bench)
    except Exception as error:  # noqa: BLE001 (a loop that must outlive its items: the report tells of it)
        traceback.print_exc()
        return str(error) if isinstance(error, GaveUp) else f"it failed with {type(error).__name__}"


def _stop(*_: object) -> None:
    """Ends the run by an exception, so that everything that it has started is stopped."""
    sys.exit("stopped")


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
