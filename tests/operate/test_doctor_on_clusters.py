"""`windlass doctor` on clusters: asked without a server, together, and each with what to do."""

from __future__ import annotations

import asyncio
import datetime
import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from tests import certificates
from tests.certificates import Authority, authority, write_pair
from tests.free_ports import free_port
from tests.operate.test_commands import FREE, findings, run
from tests.running.clusters import cluster
from tests.world import make_world
from windlass.operate import clusters

HERE = "127.0.0.1/32"


def access(by: Authority, port: int, **fields: Any) -> dict[str, Any]:
    certificate, key = write_pair(by, "windlass")
    return {
        "engine": "DOCKER",
        "engine_address": f"tcp://127.0.0.1:{port}",
        "engine_ca_certificate": by.file.read_text(),
        "engine_certificate": certificate.read_text(),
        "engine_key": key.read_text(),
    } | fields


def doctor(folder: Path, **settings: str) -> Mapping[str, tuple[str, str]]:
    named = {f"WINDLASS_{name.upper()}": value for name, value in settings.items()}
    chosen = {"WINDLASS_ENGINE": "process", "WINDLASS_OUTBOUND_ALLOW": HERE}
    return findings("--data-dir", str(folder), **(chosen | named))


@pytest.fixture
def lasting(monkeypatch):
    """Certificates that last."""
    monkeypatch.setattr(certificates, "A_DAY", datetime.timedelta(days=400))


async def connected(folder: Path, by: Authority, port: int, **fields: Any) -> None:
    async with make_world(folder=folder) as world:
        await cluster(world, **access(by, port, **fields))


async def test_doctor_reports_an_unreachable_cluster_as_a_failure_with_advice(tmp_path, lasting):
    await connected(tmp_path / "data", authority(tmp_path / "ca"), port := free_port())
    told = await asyncio.to_thread(doctor, tmp_path / "data")
    level, reason = told["Cluster east"]
    assert level == "fail"
    assert f"tcp://127.0.0.1:{port}: check the port, and that dockerd listens there" in reason
    assert told["Cluster east: certificates"][0] == "ok"
    assert "Cluster local" not in told


async def test_an_address_that_the_operator_did_not_allow_is_not_connected_to(tmp_path, lasting):
    with socket.create_server(("127.0.0.1", 0)) as watched:
        await connected(tmp_path / "data", authority(tmp_path / "ca"), watched.getsockname()[1])
        told = await asyncio.to_thread(doctor, tmp_path / "data", outbound_allow="10.0.0.0/8")
        assert "WINDLASS_OUTBOUND_ALLOW" in told["Cluster east"][1]
        watched.setblocking(False)
        with pytest.raises(BlockingIOError):
            watched.accept()


async def test_several_clusters_that_hang_are_each_named(tmp_path, lasting, monkeypatch):
    monkeypatch.setattr(clusters, "TIMEOUT", 0.5)
    by = authority(tmp_path / "ca")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        async with make_world(folder=tmp_path / "data") as world:
            for name in ("east", "west"):
                await cluster(world, name, **access(by, port))
        told = await asyncio.to_thread(doctor, tmp_path / "data")
    for name in ("east", "west"):
        assert told[f"Cluster {name}"][0] == "fail"
        assert told[f"Cluster {name}"][1].startswith(f"check the host at tcp://127.0.0.1:{port}: ")


@pytest.mark.parametrize(("days", "level", "words"), [(3, "warn", "it ends on"), (-1, "fail", "it ended on")])
async def test_a_certificate_that_ends_is_to_be_renewed(tmp_path, monkeypatch, days, level, words):
    monkeypatch.setattr(certificates, "A_DAY", datetime.timedelta(days=400))
    by = authority(tmp_path / "ca")
    given = access(by, free_port())
    before = datetime.timedelta(days=max(days, -days))
    monkeypatch.setattr(certificates, "A_DAY", before)
    signed = Authority.signed

    def soon(self: Authority, *words: Any) -> x509.Certificate:
        if days > 0:
            return signed(self, *words)
        late = datetime.timedelta(days=3)
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(words[0])
            .issuer_name(self.name)
            .public_key(words[1].public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - late)
            .not_valid_after(now - before)
            .sign(self.key, hashes.SHA256())
        )

    monkeypatch.setattr(Authority, "signed", soon)
    certificate, key = write_pair(by, "ending")
    given |= {"engine_certificate": certificate.read_text(), "engine_key": key.read_text()}
    async with make_world(folder=tmp_path / "data") as world:
        await cluster(world, **given)
    told = await asyncio.to_thread(doctor, tmp_path / "data")
    assert told["Cluster east: certificates"][0] == level
    assert told["Cluster east: certificates"][1].startswith(f"renew engine_certificate: {words}")


async def test_doctor_reports_a_router_port_as_free_or_taken_by_another_program(tmp_path, lasting):
    port = free_port()
    await connected(tmp_path / "data", authority(tmp_path / "ca"), free_port(), router_port=port)
    what = "Cluster east: router port"
    told = await asyncio.to_thread(doctor, tmp_path / "data")
    assert told[what] == ("ok", f"127.0.0.1, port {port} is free")
    with socket.create_server(("127.0.0.1", port)):
        level, reason = (await asyncio.to_thread(doctor, tmp_path / "data"))[what]
    assert level == "fail"
    assert reason.startswith(f"free port {port} on 127.0.0.1, or choose another router_port")


async def test_doctor_names_clusters_whose_nodes_have_the_login_that_pushes(tmp_path):
    async with make_world(folder=tmp_path / "data") as world:
        config = {"username": "windlass", "password": "may-push"}
        fields = {"name": "images", "kind": "GENERIC_CR", "url": "https://registry.example.com"}
        path = f"/organization/{world.org}/containerRegistry"
        registry = await world.made(path, fields | {"config": config})
        pulls = await world.made(path, fields | {"name": "pulls", "config": config})
        kubernetes = {"engine": "KUBERNETES", "kubeconfig": "{}", "registry_id": registry}
        await cluster(world, "east", **kubernetes)
        await cluster(world, "west", **kubernetes, registry_pull_id=pulls)
    told = await asyncio.to_thread(doctor, tmp_path / "data")
    level, reason = told["Cluster east: login of the nodes"]
    assert level == "warn"
    assert "the nodes have the login that pushes" in reason
    assert "Cluster west: login of the nodes" not in told


async def test_clusters_with_the_same_name_are_shown_with_their_organization(tmp_path, lasting):
    by = authority(tmp_path / "ca")
    async with make_world(folder=tmp_path / "data") as world:
        await cluster(world, **access(by, free_port()))
        org, token = await world.organization()
        theirs = {"name": "east"} | access(by, free_port())
        await world.made(f"/organization/{org}/cluster", theirs, token=token)
        name = (await world.get(f"/organization/{org}", token=token))["name"]
    told = await asyncio.to_thread(doctor, tmp_path / "data")
    assert {"Cluster east (default)", f"Cluster east ({name})"} <= told.keys()


async def test_without_the_key_doctor_connects_to_no_cluster(tmp_path, lasting):
    await connected(tmp_path / "data", authority(tmp_path / "ca"), free_port())
    (tmp_path / "data" / "key").unlink()
    told = await asyncio.to_thread(doctor, tmp_path / "data")
    assert told["Clusters"][0] == "fail"
    assert told["Clusters"][1].startswith("bring back the key")


async def test_the_key_of_a_cluster_is_not_shown(tmp_path, lasting):
    by = authority(tmp_path / "ca")
    await connected(tmp_path / "data", by, free_port())
    words = ("doctor", "--json", "--data-dir", str(tmp_path / "data"))
    shown = await asyncio.to_thread(run, *words, WINDLASS_ENGINE="process", **FREE)
    secret = access(by, 1)["engine_key"].splitlines()[1]
    assert "Cluster east" in {one["what"] for one in json.loads(shown.stdout)}
    assert secret not in shown.output
