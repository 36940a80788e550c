"""The database servers of the machine, and the message if there are none."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from windlass.builders.builder import BuildError
from windlass.launch.installed_servers import ServerFolders
from windlass.process.databases import NativeDatabases

NOWHERE = ServerFolders(wheel="", folders=(), path="", beside_path=())


def server(folder: Path, name: str, says: str) -> None:
    """A program that only knows its version; which is all that is asked of it here."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def postgresql(top: Path, version: str) -> None:
    folder = top / version.partition(".")[0] / "bin"
    server(folder, "initdb", "")
    server(folder, "psql", "")
    server(folder, "postgres", f"postgres (PostgreSQL) {version} (Debian {version}-1)")


def machine(top: Path) -> ServerFolders:
    return ServerFolders(wheel="", folders=(f"{top}/*/bin",), path=f"{top}/path", beside_path=())


async def test_the_newest_installed_minor_of_the_requested_major_database_version_is_used(tmp_path):
    for version in ("14.9", "16.4"):
        postgresql(tmp_path, version)
    servers = NativeDatabases(tmp_path / "home", machine(tmp_path))
    for wanted, got in [("16", "16.4"), ("16.1", "16.4"), ("14-alpine", "14.9"), ("latest", "16.4")]:
        artifact = await servers.artifact("POSTGRESQL", wanted, "db")
        assert artifact.environment["WINDLASS_SERVER_VERSION"] == got
        assert artifact.key == f"postgresql-{got}"
        assert (Path(artifact.ref) / "app").is_dir()


async def test_another_installed_major_database_version_is_reported_and_not_used(tmp_path):
    postgresql(tmp_path, "16.4")
    servers = NativeDatabases(tmp_path / "home", machine(tmp_path))
    for wanted in ("15", "1", "160", "next"):
        with pytest.raises(BuildError, match=r"it has PostgreSQL 16\.4.*Docker engine"):
            await servers.artifact("POSTGRESQL", wanted, "db")


@pytest.mark.parametrize(
    ("type", "package"),
    [("POSTGRESQL", "postgresql"), ("MYSQL", "mariadb-server"), ("REDIS", "redis-server")],
)
async def test_a_missing_database_server_is_reported_with_its_package(tmp_path, type, package):
    servers = NativeDatabases(tmp_path, NOWHERE)
    with pytest.raises(BuildError, match=f"`{package}`.*Docker engine"):
        await servers.artifact(type, "16", "db")


async def test_a_database_type_that_runs_only_in_containers_is_refused_with_a_reason(tmp_path):
    with pytest.raises(BuildError, match=r"POSTGRESQL.*MONGODB runs only in containers"):
        await NativeDatabases(tmp_path).artifact("MONGODB", "7", "db")


async def test_a_database_server_that_cannot_run_is_not_used(tmp_path):
    server(tmp_path / "path", "redis-server", "nothing of the kind")
    server(
        tmp_path / "16" / "bin", "postgres", "postgres (PostgreSQL) 16.4"
    )  # and nothing to make its data with
    servers = NativeDatabases(tmp_path / "home", machine(tmp_path))
    for type in ("REDIS", "POSTGRESQL"):
        with pytest.raises(BuildError, match="Install"):
            await servers.artifact(type, "latest", "db")


async def test_a_server_without_its_client_is_refused_with_what_to_install(tmp_path, monkeypatch):
    postgresql(tmp_path, "16.4")
    (tmp_path / "16" / "bin" / "psql").unlink()
    servers = NativeDatabases(tmp_path / "home", machine(tmp_path))
    monkeypatch.setattr(os, "defpath", str(tmp_path))  # this machine may have one
    with pytest.raises(BuildError, match=r"has PostgreSQL 16\.4, but not its client psql.*`postgresql`"):
        await servers.artifact("POSTGRESQL", "16", "db")


@pytest.mark.parametrize(
    ("type", "name", "says", "key"),
    [
        (
            "REDIS",
            "redis-server",
            "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0",
            "redis-7.0.15",
        ),
        ("REDIS", "valkey-server", "Valkey server v=8.1.1 sha=00000000:0", "valkey-8.1.1"),
        ("MYSQL", "mysqld", "/usr/sbin/mysqld  Ver 8.0.39 for Linux on x86_64 (MySQL)", "mysql-8.0.39"),
    ],
)
async def test_every_database_product_and_version_is_recognized_by_its_version_output(
    tmp_path, type, name, says, key
):
    server(tmp_path / "path", name, says)
    for client in ("redis-cli", "mysqladmin"):
        server(tmp_path / "path", client, "")
    servers = NativeDatabases(tmp_path / "home", machine(tmp_path))
    assert (await servers.artifact(type, "latest", "db")).key == key


async def test_database_artifacts_of_removed_services_are_deleted(tmp_path):
    postgresql(tmp_path, "16.4")
    servers = NativeDatabases(tmp_path / "home", machine(tmp_path))
    for service in ("one", "two", "three"):
        await servers.artifact("POSTGRESQL", "16", service)
    await servers.discard("one")
    await servers.discard("one")
    await servers.sweep(())
    assert set(await servers.services()) == {"two", "three"}
    await servers.sweep(["three"])
    assert [folder.name for folder in (tmp_path / "home").iterdir()] == ["two"]
