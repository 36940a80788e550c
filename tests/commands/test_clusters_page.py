"""The commands in the page on clusters work as they are written, in their order."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.commands.manual import DOCS
from tests.needs import needs
from tests.running.clusters import connector

PAGE = (DOCS / "clusters.md").read_text()


def commands(program: str) -> list[str]:
    """All commands of the page that call a program."""
    blocks = re.findall(r"^ *```console\n(.*?)^ *```", PAGE, re.MULTILINE | re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line.strip().removeprefix("$ ") for line in lines if line.strip().startswith(f"$ {program} ")]


def make_certificates(folder: Path) -> None:
    for command in commands("openssl"):
        # Keys of the page's length take seconds each.
        quick = command.replace("rsa:4096", "rsa:2048")
        subprocess.run(["bash", "-ec", quick], cwd=folder, check=True, capture_output=True)


@needs("openssl")
def test_the_certificates_of_the_page_are_valid_for_what_they_are_used_for(tmp_path):
    make_certificates(tmp_path)
    for purpose, name in (("sslserver", "server-cert.pem"), ("sslclient", "cert.pem")):
        verify = ["openssl", "verify", "-CAfile", "ca.pem", "-purpose", purpose, name]
        done = subprocess.run(verify, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.stdout == f"{name}: OK\n", done


async def test_the_commands_of_the_page_connect_check_renew_and_give_up_a_cluster(
    windlass, tmp_path, monkeypatch
):
    await windlass.done("project", "create", "--name", "shop")
    for name, kind in {"ca": "CERTIFICATE", "cert": "CERTIFICATE", "key": "PRIVATE KEY"}.items():
        text = f"-----BEGIN {kind}-----\nMIIB\n-----END {kind}-----\n"
        (tmp_path / f"{name}.pem").write_text(text)
    monkeypatch.chdir(tmp_path)
    for command in commands("windlass"):
        if command.split()[1] in {"doctor", "serve", "stop"}:
            continue
        words = re.findall(r"'[^']*'|\S+", command)[1:]
        done = await windlass(*(word.strip("'") for word in words))
        assert done.code == 0, (command, done)
    assert connector(windlass.world).checked
    names = [one["name"] for one in (await windlass.done("cluster", "list"))["results"]]
    assert names == ["local"]
