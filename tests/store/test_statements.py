"""Every statement is understood by both databases, takes the same arguments on both, and is needed."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path

import apsw
import apsw.ext
import asyncpg
import msgspec
import pytest

from tests.tables import rows
from windlass.store import Claim, DeploymentRow, EventRow, Row, StatusRow, postgres, tables
from windlass.store.migrate import migrations
from windlass.store.sqlite import connect, migrate
from windlass.store.tables import lists, row_sizes, sealed, tree

ALL = [pytest.param(text, id=name) for name, text in postgres.ALL_STATEMENTS.items()]
SHAPES = {
    Row: (
        "resources.FIND",
        "resources.FIRST",
        "links.SOURCES_OF_TARGET",
        "tree.ABOVE",
        "deletions.AT_OR_ABOVE",
    ),
    StatusRow: ("statuses.GET", "statuses.BELOW"),
    DeploymentRow: ("deployments.GET", "deployments.OPEN"),
    EventRow: ("events.AFTER", "audit.OLDER.org"),
    Claim: ("work.CLAIM",),
}


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    with contextlib.closing(connect(tmp_path_factory.mktemp("sqlite") / "a.db")) as connection:
        migrate(connection, migrations())
        yield connection


@pytest.fixture(scope="module")
def served(postgres):
    with postgres.fresh_database() as url:
        yield url


@rows("text", ALL)
def test_sqlite_understands_all_statements(embedded: apsw.Connection, text: str) -> None:
    assert apsw.ext.query_info(embedded, text).query == text


def test_the_statement_check_finds_an_unknown_column(embedded: apsw.Connection) -> None:
    with pytest.raises(apsw.SQLError):
        apsw.ext.query_info(embedded, "SELECT colour FROM resource")


def test_no_statement_scans_all_resources_or_deployments(embedded: apsw.Connection) -> None:
    scans = {
        name: found for name, text in postgres.ALL_STATEMENTS.items() if (found := scanned(embedded, text))
    }
    for_commands = {f"sealed.COUNTS.{name}" for name in sealed.COUNTS}  # in a process of its own
    in_threads = {
        "figures.FIGURES",
        *(f"row_sizes.SIZE_BY_TABLE.{table}" for table in row_sizes.SIZE_BY_TABLE),
    }
    assert scans.keys() <= {*in_threads, *for_commands}


def test_the_scan_check_finds_a_join_in_the_wrong_order(embedded: apsw.Connection) -> None:
    text = tree.MARKS.replace("CROSS JOIN resource\nWHERE", "JOIN resource\nON")
    assert scanned(embedded, text.replace(" AND resource.family", " WHERE resource.family")) == ["resource"]


def scanned(connection: apsw.Connection, text: str) -> list[str]:
    """The large tables that are read from end to end, by the names that the statement gives them."""
    names = {"resource", "deployment", *re.findall(r"\bresource AS (\w+)", text)}
    plan = connection.execute(f"EXPLAIN QUERY PLAN {text}", ["x"] * len(placeholders(text)))
    found = [re.match(r"SCAN (\w+)", str(row[3])) for row in plan]
    return [match[1] for match in found if match and match[1] in names]


async def test_postgresql_understands_all_statements(served: str) -> None:
    connection = await asyncpg.connect(served)
    try:
        for name, text in postgres.ALL_STATEMENTS.items():
            prepared = await connection.prepare(text)
            assert len(prepared.get_parameters()) == len(placeholders(text)), name
        with pytest.raises(asyncpg.UndefinedColumnError):
            await connection.prepare("SELECT colour FROM resource")
    finally:
        await connection.close()


@rows("text", ALL)
def test_placeholders_of_a_statement_first_appear_in_numeric_order(text: str) -> None:
    """SQLite numbers `$1` by where it first appears: the same text takes the same arguments only then."""
    assert placeholders(text) == [str(number) for number in range(1, len(placeholders(text)) + 1)]


def test_sqlite_numbers_placeholders_by_first_appearance(embedded: apsw.Connection) -> None:
    assert embedded.execute("SELECT $2, $1", ("first", "second")).fetchone() == ("first", "second")


@rows(
    ("shape", "name"), [pytest.param(shape, name, id=name) for shape, all in SHAPES.items() for name in all]
)
def test_the_columns_of_a_statement_match_the_fields_of_its_struct(
    embedded: apsw.Connection, shape: type[msgspec.Struct], name: str
) -> None:
    info = apsw.ext.query_info(embedded, postgres.ALL_STATEMENTS[name])
    columns = [column[0] for column in info.description]
    fields = msgspec.structs.fields(shape)
    assert columns == [field.name for field in fields[: len(columns)]]
    assert not any(field.required for field in fields[len(columns) :])


def test_every_sql_statement_is_used_in_the_code() -> None:
    """In its own module by its name, or in another one by the names of both."""
    folder = Path(str(tables.__file__)).parent
    texts = {file: file.read_text() for file in folder.parent.rglob("*.py")}
    assert [name for name in postgres.ALL_STATEMENTS if not is_used(name, folder, texts)] == []
    assert not is_used("resources.NEVER_USED", folder, texts)


def is_used(name: str, folder: Path, texts: Mapping[Path, str]) -> bool:
    module, constant = name.split(".")[:2]
    home = folder / f"{module}.py"
    if len(re.findall(rf"\b{constant}\b", texts[home])) > 1:
        return True
    used = re.compile(rf"\b{module}\.{constant}\b")
    return any(used.search(text) for file, text in texts.items() if file.name != home.name)


def placeholders(text: str) -> list[str]:
    """Each once, in the order of appearance."""
    return list(dict.fromkeys(re.findall(r"\$(\d+)", text)))


@pytest.mark.parametrize("ours", [True, False])
def test_sqlite_plans_a_statement_once(tmp_path: Path, ours: bool) -> None:
    with contextlib.closing(connect(tmp_path / "a.db")) as connection:
        migrate(connection, migrations())
        if not ours:
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 0)
        assert (planned_anew(connection) == 0) is ours


def planned_anew(connection: apsw.Connection) -> int:
    """Returns how often SQLite asks for authorization again, which it does whenever it plans a statement."""
    asked = []

    def allow(*what: object) -> int:
        asked.append(what)
        return apsw.SQLITE_OK

    connection.authorizer = allow
    for most in range(1, 10):
        connection.execute(lists.PAGE, ("parent", "project", 1, most)).fetchall()
        if most == 1:
            assert asked
            asked.clear()
    return len(asked)
