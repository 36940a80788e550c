"""Programs that really fail, on each real engine: the first sentence of the status says what to do."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from tests.engines.dockers import PYTHON, docker_host, give_python
from tests.engines.newcomers import Newcomer, advice_for
from tests.free_ports import free_port
from tests.marks import nightly
from tests.whole import page, place
from windlass.docker.client import Docker
from windlass.engines.rollout import readiness

pytestmark = pytest.mark.nightly

DOCKERFILE = f"""
FROM {PYTHON}
WORKDIR /app
COPY . .
EXPOSE 8080
CMD {{command}}
"""
SERVER = """
import http.server, os, threading

class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"welcome")

def listen(address, port):
    http.server.ThreadingHTTPServer((address, port), Page).serve_forever()
"""
HOARDS = """
import http.server, os, time

class Page(http.server.BaseHTTPRequestHandler):
    kept = []

    def do_GET(self):
        self.kept.append(b"x" * (256 << 20))
        time.sleep(600)

http.server.HTTPServer(("", int(os.environ["PORT"])), Page).serve_forever()
"""
PORT = {"internal_port": 8080, "protocol": "HTTP", "publicly_accessible": True}
CHOSEN = {"ports": [PORT]}
EVERYWHERE, LOOPBACK = "0.0.0.0", "127.0.0.1"

VARIABLE = "Set the variable API_TOKEN, such as with `windlass env set API_TOKEN=…`: shop needs it to start"
DATABASE = (
    "Create a database, such as main-db, and set the variable DATABASE_URL to its address with "
    "`windlass env set DATABASE_URL={{MAIN_DB_URL}}`: shop needs it to start"
)
KEEPS_RUNNING = (
    "Name a command that keeps running, such as `web: gunicorn app:app` in a Procfile: shop ended by itself, "
    "and exited with code 0, while it was starting"
)
MODULE = "Add no_such_module to the dependencies, or correct the name: shop has no module no_such_module"
MEMORY = "Give shop more `memory`: it has used all that it has"
PROGRAM = (
    "Install gunicorn with the dependencies, or correct the start command: there is no program gunicorn "
    "where shop runs"
)
SCRIPT = (
    "Commit the script ./start.sh with a first line such as `#!/bin/sh` and the line endings of Unix (LF), "
    "or correct the start command: the script, or the program of its first line, is not where shop runs"
)
EXECUTABLE = (
    "Make ./start.sh executable with `git update-index --chmod=+x ./start.sh`, and commit that: shop is not "
    "allowed to run it"
)

PYTHONS = [
    ("a missing variable", "import os\nos.environ['API_TOKEN']", VARIABLE),
    ("no address of a database", "import os\nos.environ['DATABASE_URL']", DATABASE),
    (
        "an exception",
        "raise ValueError('no such shop')",
        "Fix what shop reports: `ValueError: no such shop`",
    ),
    ("an end at once", "print('done')", KEEPS_RUNNING),
    ("a missing module", "import no_such_module", MODULE),
    ("too much memory", "import time\nkept = b'x' * (256 << 20)\ntime.sleep(600)", MEMORY),
]
SHELLS = [
    ("a missing variable", "sh start.sh", 'set -u\necho "$API_TOKEN"\n', VARIABLE),
    ("a missing program", "sh start.sh", "gunicorn app:app\n", PROGRAM),
    ("a missing program that takes over", "sh -c 'exec gunicorn app:app'", "", PROGRAM),
    ("line endings of Windows", "chmod +x start.sh; ./start.sh", "#!/bin/sh\r\necho welcome\r\n", SCRIPT),
    ("an end at once", "sh start.sh", "echo done\n", KEEPS_RUNNING),
]
IN_CONTAINERS = [
    ("a missing program", '["gunicorn", "app:app"]', PROGRAM),
    ("a script that may not be run", '["./start.sh"]', EXECUTABLE),
    ("a script that may not be run, in a shell", "./start.sh", EXECUTABLE),
]


@asynccontextmanager
async def place_of(engine):
    host = docker_host() if engine == "docker" else ""
    if host:
        docker = Docker(host)
        await give_python(docker)
        await docker.close()
    async with place(engine, host, git_allow_local=True) as made:
        yield made


@pytest.fixture(params=["process", *nightly("docker")])
async def there(request):
    async with place_of(request.param) as made:
        yield made


@pytest.fixture
def sure_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that listens elsewhere is given up as soon as that is told."""
    monkeypatch.setattr(readiness, "WRONG_PORT_TIMEOUT", 0.0)


def in_python(code: str) -> dict[str, str]:
    return {"Dockerfile": DOCKERFILE.format(command="python3 app.py"), "app.py": code}


def listening(*places: tuple[str, int]) -> dict[str, str]:
    """A program that listens at these places."""
    started = [f"threading.Thread(target=listen, args={place}).start()\n" for place in places]
    return in_python(SERVER + "".join(started))


def web_port() -> int:
    """Returns a free port of this machine that is not one of a well-known server of another kind."""
    return next(port for port in iter(free_port, 0) if port not in readiness._NON_HTTP_PORTS)


@pytest.mark.parametrize(("code", "advice"), [row[1:] for row in PYTHONS], ids=[row[0] for row in PYTHONS])
async def test_a_failing_python_program_is_reported_with_advice(there, code, advice):
    assert await advice_for(there, in_python(code), memory=64) == advice


@pytest.mark.parametrize(
    ("command", "script", "advice"), [row[1:] for row in SHELLS], ids=[row[0] for row in SHELLS]
)
async def test_a_failing_shell_script_is_reported_with_advice(there, command, script, advice):
    files = {"Dockerfile": DOCKERFILE.format(command=command), "start.sh": script}
    assert await advice_for(there, files, memory=64) == advice


@pytest.mark.parametrize(
    ("command", "advice"), [row[1:] for row in IN_CONTAINERS], ids=[row[0] for row in IN_CONTAINERS]
)
async def test_a_start_command_that_cannot_run_in_a_container_is_reported_with_advice(command, advice):
    files = {"Dockerfile": DOCKERFILE.format(command=command), "start.sh": "#!/bin/sh\n"}
    async with place_of("docker") as there:
        assert await advice_for(there, files) == advice


async def test_a_program_that_uses_too_much_memory_after_its_release_says_what_to_do(there):
    async with there.windlass() as windlass:
        shop = Newcomer(there, windlass, in_python(HOARDS))
        status = await shop.deploy(memory=64, **CHOSEN)
        assert status["state"] == "RUNNING", status
        await page(await shop.url())
        assert await shop.advice() == MEMORY


async def test_a_default_port_is_replaced_by_the_one_on_which_the_program_answers(there):
    async with there.windlass() as windlass:
        shop = Newcomer(there, windlass, listening((EVERYWHERE, web_port())))
        status = await shop.deploy()
        assert (status["state"], status["message"]) == ("RUNNING", "")
        assert (await page(await shop.url())).text == "welcome"


async def test_without_containers_a_program_may_listen_on_the_loopback_address():
    async with place_of("process") as there, there.windlass() as windlass:
        shop = Newcomer(there, windlass, listening((LOOPBACK, web_port())))
        assert (await shop.deploy())["state"] == "RUNNING"
        assert (await page(await shop.url())).text == "welcome"


async def test_a_program_that_does_not_listen_on_the_chosen_port_says_which_port_to_choose(there, sure_soon):
    port = web_port()
    assert await advice_for(there, listening((EVERYWHERE, port)), **CHOSEN) == (
        f"Set ports[0].internal_port to {port}: shop listens on {port}, and the application says 8080"
    )


async def test_a_program_that_listens_on_two_other_ports_says_between_which_to_choose(there, sure_soon):
    ports = sorted((web_port(), web_port()))
    both = f"{ports[0]}, {ports[1]}"
    assert await advice_for(there, listening(*((EVERYWHERE, port) for port in ports))) == (
        f"Set ports[0].internal_port to one of {both}: shop listens on {both}, and the application says 8080"
    )


@pytest.mark.parametrize("port", [8080, 9999])
async def test_a_program_that_listens_only_on_loopback_in_its_container_is_reported_with_advice(
    port, sure_soon
):
    async with place_of("docker") as there:
        assert await advice_for(there, listening((LOOPBACK, port)), **CHOSEN) == (
            "Make shop listen on 0.0.0.0, at the port in the variable PORT: "
            f"it listens on {LOOPBACK}:{port} only"
        )
