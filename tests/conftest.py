"""Fixtures of all tests: an event loop, a database, a world.

The last two import the whole product when a test asks for them: the suite of a package has less."""

import gc
import logging
import os
import signal
import sys
import tempfile

import pytest

from windlass.base import cgroups

pytest_plugins = ["pytester", "tests.marks", "tests.skips", "tests.patience", "tests.tables", "tests.report"]

# A shell without job control starts background programs with SIGINT ignored. Commands that tests start, and
# end with Ctrl-C, would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Where Python is told to keep no compiled files, each of hundreds of servers and commands compiles all of
# Windlass, and each test process all tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Most of the time would go into waiting for the disk; what is promised of it is tried by killing processes.
if os.access("/dev/shm", os.W_OK):
    tempfile.tempdir = "/dev/shm"

# Commands of tests neither read the tokens of the person who runs them, nor write into that person's folders.
_OWN_FOLDERS = tempfile.TemporaryDirectory(prefix="windlass-home-")
os.environ["XDG_CONFIG_HOME"] = f"{_OWN_FOLDERS.name}/config"
os.environ["XDG_CACHE_HOME"] = f"{_OWN_FOLDERS.name}/cache"


def pytest_collection_finish():
    """Thousands of tests and all modules stay to the end: looking through them costs a second each time."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish():
    """Removes control groups of builds that the kernel kept when a test ended: a worker of xdist
    ends without the finalizers that would do it."""
    for base in filter(None, [cgroups.find(), *cgroups.find_v1().values()]):
        cgroups.remove(map(str, base.glob(f"guests.*.{os.getpid()}.*")))


@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio", {"use_uvloop": True}  # the loop that serves


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL of this test process, out of a wheel: nothing has to be installed or running."""
    from tests.postgres import running_postgres

    with running_postgres() as server:
        yield server


@pytest.fixture(autouse=True)
def same_logging():
    """A test that leaves less to be logged would hide from the tests after it what they look for."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    assert (root.level, root.handlers) == (level, handlers), "put logging back as it was"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.nightly)])
def database_url(request):
    """Both databases, one after the other: every promise holds on each."""
    from tests.postgres import chosen_database

    with chosen_database(request) as url:
        yield url


@pytest.fixture
async def world(database_url):
    from tests.world import make_world

    async with make_world(database_url) as made:
        yield made
