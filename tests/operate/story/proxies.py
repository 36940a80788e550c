"""nginx with the lines of the manual, in front of servers and of gateways."""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.needs import needs
from tests.whole import until

MANUAL = Path(__file__).parents[3] / "docs/proxies.md"
LINES: str = re.findall(r"```nginx\n(.*?)```", MANUAL.read_text(), re.DOTALL)[0]
"""The example of the manual: a `map` first, then a group of servers and the site before them."""

needs_nginx = needs("nginx")


def site(name: str, port: int, hosts: str, servers: Sequence[str]) -> str:
    """Returns the example with other names and addresses, and nothing else changed."""
    _, upstream, lines = LINES.partition("upstream windlass")
    text = (upstream + lines).replace("upstream windlass", f"upstream {name}")
    text = text.replace("http://windlass;", f"http://{name};").replace("windlass.example.com", hosts)
    text = text.replace("listen 80;", f"listen 127.0.0.1:{port};")
    example, *others = re.findall(r"^    server .*\n", text, re.MULTILINE)
    for line in others:
        text = text.replace(line, "")
    given = [re.sub(r"[\d.]+:\d+", server, example) for server in servers]
    return text.replace(example, "".join(given))


def configuration(folder: Path, sites: Sequence[str]) -> str:
    shared, _, _ = LINES.partition("upstream windlass")
    paths = "".join(
        f"{kind}_temp_path {folder}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    http = "\n".join([f"access_log off;\n{paths}", shared, *sites])
    return f"daemon off;\npid {folder}/pid;\nevents {{}}\nhttp {{\n{http}\n}}\n"


@asynccontextmanager
async def nginx(folder: Path, *sites: str) -> AsyncIterator[None]:
    folder.mkdir()
    file = folder / "nginx.conf"
    file.write_text(configuration(folder, sites))
    program = shutil.which("nginx")
    assert program
    log = folder / "log"
    process = await asyncio.create_subprocess_exec(program, "-c", str(file), "-e", str(log))

    async def listens() -> bool:
        assert process.returncode is None, log.read_text()
        return (folder / "pid").exists()

    try:
        await until(listens)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()
