"""The application of the demonstration, as it runs on a machine with nothing but Python."""

from __future__ import annotations

import contextlib
import http.client
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

import windlass.demo
from tests.free_ports import free_port
from tests.process.databases.servers import PASSWORD, database

pytestmark = pytest.mark.slow

FOLDER = Path(windlass.demo.__file__).with_name("application")


class Guestbook:
    def __init__(self, **variables: str) -> None:
        self.port = free_port()
        words = [sys.executable, "-B", "-m", "guestbook"]
        self.process = subprocess.Popen(
            words, cwd=FOLDER, env={"PORT": str(self.port)} | variables, stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        self.output = self.process.stdout
        assert self.output.readline()

    def ask(self, method: str, path: str, **fields: str) -> tuple[int, str]:
        asking = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(asking):
            asking.request(method, path, urlencode(fields) if fields else None)
            answer = asking.getresponse()
            return answer.status, answer.read().decode()


@contextlib.contextmanager
def guestbook(**variables: str):
    running = Guestbook(**variables)
    try:
        yield running
    finally:
        running.process.terminate()
        assert running.process.wait(30) == 0
        running.output.close()


@pytest.fixture(scope="module")
def db():
    with database("postgresql") as db:
        db.started()
        yield db


def address(db, password=PASSWORD):
    return f"postgresql://me:{quote(password, safe='')}@127.0.0.1:{db.port}/shop"


def test_the_guestbook_counts_visits_in_its_database_and_continues_after_a_restart(db):
    counts = []
    for name in ("DATABASE_URL", "WINDLASS_POSTGRESQL_Z1_DATABASE_URL_INTERNAL"):
        with guestbook(**{name: address(db)}) as book:
            status, text = book.ask("GET", "/")
            assert status == 200
            counts.append(int(text.split('class="count">')[1].split("<")[0]))
    assert counts[1] == counts[0] + 1


def test_guestbook_entries_are_escaped_in_html_and_sql(db):
    with guestbook(DATABASE_URL=address(db)) as book:
        name, message = "Robert'); DROP TABLE entries;--", "<script>alert('ünd')</script>" + "x" * 300
        assert book.ask("POST", "/sign", name=name, message=message)[0] == 303
        _, text = book.ask("GET", "/")
        assert "Robert&#x27;); DROP TABLE entries;--" in text
        assert "&lt;script&gt;alert(&#x27;ünd&#x27;)" in text
        assert "<script>" not in text


def test_the_guestbook_reports_a_database_that_is_missing_or_refuses_it(db):
    with guestbook() as book:
        assert "Add a database" in book.ask("GET", "/")[1]
        assert book.ask("POST", "/sign", name="a", message="b")[0] == 400
    with guestbook(DATABASE_URL=address(db, "wrong")) as book:
        status, text = book.ask("GET", "/")
        assert status == 200
        assert "password authentication failed" in text
        assert book.ask("GET", "/healthz") == (200, "ok\n")


def test_the_page_needs_nothing_from_elsewhere_and_leads_to_the_reference(db):
    with guestbook(DATABASE_URL=address(db), DOCS_URL="http://127.0.0.1:8080/docs") as book:
        _, text = book.ask("GET", "/")
        assert '<a href="http://127.0.0.1:8080/docs">' in text
        assert text.count("http") == 1
    with guestbook(DOCS_URL="javascript:alert(1)") as book:
        assert "javascript" not in book.ask("GET", "/")[1]


def test_long_entries_and_unknown_paths_are_refused():
    with guestbook() as book:
        assert book.ask("POST", "/sign", name="a", message="x" * 5000)[0] == 413
        assert book.ask("GET", "/nowhere")[0] == 404


def test_guestbook_instances_that_start_concurrently_create_one_schema(db):
    db.ask("DROP TABLE IF EXISTS visits, entries")
    with contextlib.ExitStack() as stack:
        books = [stack.enter_context(guestbook(DATABASE_URL=address(db))) for _ in range(4)]
        with ThreadPoolExecutor(12) as people:
            answers = list(people.map(lambda book: book.ask("GET", "/"), books * 3))
    assert [status for status, _ in answers] == [200] * 12
    assert db.ask("SELECT count FROM visits") == ["12"]
