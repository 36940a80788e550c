"""The port on which the command of a Dockerfile serves: its own, or a usual one of its server."""

from __future__ import annotations

import pytest

from tests.process.builds.native_sites import Site
from tests.tables import rows
from windlass.builders.command_ports import fixed_port, web_port, with_given_port
from windlass.builders.dockerfile_hints import ExecForm, Shell
from windlass.detect import Recipe
from windlass.engines.workload import Artifact

GIVEN = "${WINDLASS_PORT_80:-80}"


def named_port(artifact: Artifact) -> int | None:
    """Returns the port that a service has which names none itself."""
    return next(iter(artifact.ports), artifact.web_port or None)


@pytest.mark.parametrize(
    ("text", "then"),
    [
        ("gunicorn app:app -b 0.0.0.0:80", f"gunicorn app:app -b 0.0.0.0:{GIVEN}"),
        ("gunicorn app:app --bind=:80 -w 4", f"gunicorn app:app --bind=:{GIVEN} -w 4"),
        ("fastapi run main.py --port 80", f"fastapi run main.py --port {GIVEN}"),
        ("streamlit run x.py --server.port=80", f"streamlit run x.py --server.port={GIVEN}"),
        ("migrate && uvicorn a:b --port 80", f"migrate && uvicorn a:b --port {GIVEN}"),
        ("next start -p 80", f"next start -p {GIVEN}"),
        ("python manage.py runserver 0.0.0.0:80", f"python manage.py runserver 0.0.0.0:{GIVEN}"),
    ],
)
def test_a_fixed_port_in_a_server_command_is_replaced_by_port(text, then):
    assert fixed_port(Shell(text), [80]) == 80
    assert with_given_port(Shell(text), 80) == Shell(then)
    assert with_given_port(ExecForm(("sh", "-c", text)), 80) == ExecForm(("sh", "-c", then))


@pytest.mark.parametrize(
    "text",
    [
        "gunicorn app:app -b 0.0.0.0:$PORT",
        "app --port 81",  # another one is exposed
        "app --port 80 --metrics-port 81",
        "wait-for db:80",
        "app --database http://db.internal:80/x",
        "app 80",
        "gunicorn app:app -b '0.0.0.0:80'",
    ],
)
def test_numbers_that_are_not_ports_are_not_replaced(text):
    assert fixed_port(Shell(text), [80]) is None


def test_a_number_after_a_short_option_is_a_port_only_if_exposed():
    assert fixed_port(Shell("next start -p 3000"), [3000]) == 3000
    assert fixed_port(Shell("make -p 3000"), []) is None


@pytest.mark.parametrize("exposed", ["EXPOSE 80\n", ""])
async def test_a_dockerfile_with_a_port_that_needs_root_gets_another_one(site: Site, exposed):
    dockerfile = f'FROM python\nCOPY . .\n{exposed}CMD ["python", "main.py", "a b", "--bind", "0.0.0.0:80"]\n'
    artifact = await site.build({"Dockerfile": dockerfile, "main.py": "import sys; print(sys.argv[1:])"})
    assert named_port(artifact) == 80
    assert site.run(artifact, WINDLASS_PORT_80="4001") == "['a b', '--bind', '0.0.0.0:4001']"
    assert site.run(artifact) == "['a b', '--bind', '0.0.0.0:80']"


@rows(
    ("command", "port"),
    [
        (ExecForm(("gunicorn", "--config", "settings.py", "run:app")), 8000),
        (ExecForm(("python", "-m", "uvicorn", "main:app")), 8000),
        (Shell("flask db upgrade && flask --app shop run"), 8000),
        (Shell("celery -A shop worker"), 0),
        (ExecForm(("python", "bot.py")), 0),
        (ExecForm(("python", "/code/app.py")), 8000),
        (Shell("sleep 1 && python app.py"), 8000),
        (Shell("echo gunicorns"), 0),
        (None, 0),
    ],
)
def test_a_known_server_command_gets_its_default_port(command, port):
    assert web_port(command, Recipe(framework="Flask", start="gunicorn app:app", port=8000)) == port


async def test_a_server_of_a_dockerfile_that_exposes_nothing_gets_a_public_port(site: Site):
    server = {"main.py": "", "gunicorn": "#!/bin/sh\n"}
    artifact = await site.build({"Dockerfile": "FROM x\nCOPY . .\nCMD ./gunicorn main:app\n", **server})
    assert named_port(artifact) == 8000
    artifact = await site.build({"Dockerfile": "FROM x\nCOPY . .\nCMD python main.py\n", **server})
    assert named_port(artifact) is None


@pytest.mark.parametrize(
    ("text", "port"),
    [("import os; os.environ.get('PORT', '5000')", 5000), ("import os; os.environ.get('SMTP_PORT')", None)],
)
@pytest.mark.parametrize("files", [{}, {"Dockerfile": "FROM python\nCOPY . .\nCMD python main.py\n"}])
async def test_a_plain_program_gets_a_public_port_if_it_reads_port(site: Site, files, text, port):
    artifact = await site.build({**files, "main.py": text})
    assert named_port(artifact) == port
