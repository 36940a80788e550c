"""`windlass doctor` on what can be run here: engines, limits, databases, tools, ports."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from pathlib import Path

import msgspec
import pytest

from tests.free_ports import free_port
from tests.marks import nightly
from tests.operate.test_commands import FREE, findings, run
from tests.schemathesis.serving import served
from tests.world import make_world
from windlass.config import Settings
from windlass.docker.provider import lets_steps_out
from windlass.engines.findings import AIO_LIMIT, INOTIFY_LIMIT, NEIGHBOUR_LIMIT, kernel_limits
from windlass.install import mark
from windlass.install.engines import choose_engine
from windlass.routers.builtin import BuiltinRouter

LIMITS = {"docker": (AIO_LIMIT, INOTIFY_LIMIT, NEIGHBOUR_LIMIT), "process": (AIO_LIMIT,)}


class Docker:
    """A Docker engine that describes itself, at a socket."""

    def __init__(self, place: Path, status: int = 200) -> None:
        self.host = f"unix://{place}"
        self.cached = 0
        """Bytes of its build cache."""
        self.subnets: list[str] = []
        self._status = status
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(place))
        self._listening.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        version = {"Version": "27.5.1", "ApiVersion": "1.47", "MinAPIVersion": "1.24"}
        while True:
            try:
                line, _ = self._listening.accept()
            except OSError:
                return
            with line:
                asked = line.recv(65_536)
                if not asked:  # only who listens here was asked
                    continue
                needed = [
                    {"ID": f"{number:064}", "Size": 1 << 40, "Shared": True} for number in range(20_000)
                ]
                cache = {"LayersSize": 5, "BuildCache": [{"Size": self.cached}, *needed]}
                nothing: object = {"Volumes": None} if b"/volumes" in asked else []
                if b"/system/df" in asked:
                    nothing = {"BuildCache": None} if not self.cached else cache if self.cached > 0 else []
                if b"/networks" in asked:
                    nothing = [{"IPAM": {"Config": [{"Subnet": subnet}]}} for subnet in self.subnets]
                is_general = b"/version" in asked or b"/_ping" in asked
                said = json.dumps(version if is_general else nothing).encode()
                line.sendall(
                    b"HTTP/1.1 %d OK\r\nContent-Length: %d\r\n\r\n%b" % (self._status, len(said), said)
                )

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listening.close()


@pytest.fixture
def docker(tmp_path: Path):
    found = Docker(tmp_path / "docker.sock")
    yield found
    found.close()


@pytest.fixture
def found(tmp_path: Path):
    """Returns the findings of the doctor with these settings."""

    def look(**settings: str) -> dict[str, tuple[str, str]]:
        named = {f"WINDLASS_{name.upper()}": value for name, value in settings.items()}
        nowhere = {"WINDLASS_DOCKER_HOST": f"unix://{tmp_path}/nowhere.sock"}
        return findings("--data-dir", str(tmp_path / "data"), **(nowhere | named))

    return look


def with_docker_at(host: str, **settings: str) -> Settings:
    return msgspec.convert({"docker_host": host, **settings}, Settings)


def test_engine_auto_chooses_docker_where_docker_answers(found, docker):
    told = found(docker_host=docker.host)
    assert told["Engine"] == ("ok", f"docker: `auto` takes it because Docker answers at {docker.host}")
    assert told["Docker"] == ("ok", f"27.5.1 (API 1.47) at {docker.host}")
    assert "any version" in told["Databases"][1]
    assert asyncio.run(choose_engine(with_docker_at(docker.host))) == "docker"


def test_engine_auto_chooses_process_where_no_docker_answers(found, tmp_path):
    told = found()
    assert told["Engine"][0] == told["Docker"][0] == "ok"
    assert told["Engine"][1].startswith("process: `auto` takes it because no Docker answers at unix://")
    assert asyncio.run(choose_engine(with_docker_at(f"unix://{tmp_path}/nowhere.sock"))) == "process"


def test_auto_keeps_the_engine_that_the_data_directory_was_used_with(found, docker, tmp_path):
    settings = with_docker_at(docker.host, data_dir=str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    for engine in ("process", "docker"):
        mark.write(settings, mark.Mark(installation="x", engine=engine))
        assert asyncio.run(choose_engine(settings)) == engine
        assert found(docker_host=docker.host)["Engine"][1].startswith(f"{engine}: `auto` keeps")
    mark.file_of(settings).write_text("damaged")
    told = found(docker_host=docker.host)
    assert (told["Engine"][0], told["Installation"][0]) == ("ok", "fail")


def test_doctor_reports_a_configured_engine_that_is_missing_as_a_failure(found):
    told = found(engine="docker")
    assert told["Engine"] == ("ok", "docker, as the settings say")
    assert told["Docker"][0] == "fail"
    assert found(engine="podman")["Engine"] == ("fail", "there is no engine podman")


def test_a_configured_engine_is_reported_as_configured_even_if_docker_answers(found, docker):
    told = found(engine="process", docker_host=docker.host)
    assert told["Engine"] == ("ok", "process, as the settings say")
    assert told["Docker"][0] == "ok"


def test_doctor_names_instance_records_of_another_version(found, tmp_path):
    home = tmp_path / "data" / "run" / "services" / "of-a-later-version" / "1-0"
    home.mkdir(parents=True)
    (home / "record.json").write_text('{"form": 2}')
    assert found(engine="process")["Instances"] == (
        "fail",
        f"records of another version: 1 ({home / 'record.json'})",
    )
    (home / "record.json").write_bytes(b"")  # torn by a power cut
    assert "Instances" not in found(engine="process")


def test_for_processes_the_doctor_reports_what_the_machine_can_limit(found):
    level, said = found(engine="process")["Limits"]
    assert ("the kernel holds each instance to its CPU and memory" in said) == (level == "ok")
    assert level == "ok" or "an instance above its limit is ended" in said or "CPU is not limited" in said


@pytest.mark.parametrize("proxies", ["127.0.0.1", "::1", "127.0.0.0/8", "*", "10.0.0.1,127.0.0.1"])
def test_for_processes_it_warns_of_a_trusted_proxy_on_the_machine_itself(found, proxies):
    level, said = found(engine="process", isolation="off", trusted_proxies=proxies)["Proxies"]
    assert (level, "trusted_proxies names this machine" in said) == ("warn", True)


def test_for_processes_it_warns_of_proxy_headers_from_the_machine_itself(found):
    level, said = found(engine="process", isolation="off", proxy_protocol_from="127.0.0.1")["Proxies"]
    assert (level, "proxy_protocol_from names this machine" in said) == ("warn", True)


def test_a_trusted_proxy_on_another_machine_passes_the_doctor(found):
    assert "Proxies" not in found(engine="process", isolation="off", trusted_proxies="10.0.0.1")


def test_for_processes_the_doctor_lists_the_available_databases(found):
    told = found(engine="process")
    assert told["PostgreSQL"][0] == "ok"
    assert "(from a wheel)" in told["PostgreSQL"][1]
    assert told["MongoDB"] == ("ok", "runs only on the Docker engine")


def without_programs(**settings):
    """Returns the findings on a machine without programs."""
    named = {f"WINDLASS_{name.upper()}": value for name, value in settings.items()}
    words = ("doctor", "--json", "--data-dir", "/nowhere")
    bare = run(*words, WINDLASS_ENGINE="process", PATH="/nowhere", **FREE, **named)
    return {one["what"]: one for one in json.loads(bare.stdout)}


def test_doctor_does_not_ask_to_install_a_program_that_builds_can_download():
    """The control is the test below: without leave to fetch it, Node has to be installed."""
    assert without_programs()["Node.js"]["found"] == "not found; builds that need it fetch it"


def test_a_missing_program_is_named_with_its_package(found):
    told = found(engine="process")
    assert {"Redis", "MariaDB or MySQL", "git", "Node.js"} <= told.keys()
    by_name = without_programs(toolchain_downloads="false")
    assert by_name["git"]["level"] == by_name["Redis"]["level"] == "warn"
    assert "install git" in by_name["git"]["advice"]
    assert "redis-server" in by_name["Redis"]["advice"]
    assert "install nodejs" in by_name["Node.js"]["found"]


@pytest.mark.parametrize(("status", "level"), [(0, "ok"), (3, "warn")])
def test_a_terraform_that_does_not_say_its_version_is_named_with_a_remedy(tmp_path, status, level):
    program = tmp_path / "terraform"
    program.write_text(f'#!/bin/sh\necho \'{{"terraform_version": "1.9.0"}}\'; exit {status}\n')
    program.chmod(0o755)
    words = ("doctor", "--json", "--data-dir", "/nowhere")
    told = json.loads(run(*words, WINDLASS_ENGINE="process", PATH=f"{tmp_path}:/bin", **FREE).stdout)
    [one] = [one for one in told if one["what"] == "Terraform"]
    assert one["level"] == level
    assert str(program) in one["found"]
    assert one["advice"].startswith(f"try `{program} version -json`") == bool(status)


@pytest.mark.parametrize(("what", "prefix"), [("API", ""), *nightly(("Gateway", "gateway_"))])
def test_doctor_reports_a_port_taken_by_another_program_with_its_process_id(found, what, prefix):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        level, said = found(**{f"{prefix}port": str(port)})[what]
        assert level == "fail"
        assert said.startswith(f"127.0.0.1, port {port} is taken by process {os.getpid()} (")
    assert found(**{f"{prefix}port": str(port)})[what] == ("ok", f"127.0.0.1, port {port} is free")


async def test_doctor_accepts_ports_used_by_a_running_windlass(found):
    async with make_world() as world, served(world) as address:
        port = address.rpartition(":")[2]
        told = await asyncio.to_thread(found, port=port, gateway_port=port)
    assert told["API"] == told["Gateway"] == ("ok", f"127.0.0.1, port {port}: a Windlass runs there")


async def test_a_gateway_without_a_server_passes_the_doctor(found):
    gateway = BuiltinRouter("127.0.0.1", 0)
    await gateway.start()
    try:
        told = await asyncio.to_thread(found, port="0", gateway_port=str(gateway.port))
        other = await asyncio.to_thread(found, port=str(gateway.port), gateway_port="0")
    finally:
        await gateway.stop()
    where = f"127.0.0.1, port {gateway.port}"
    assert told["Gateway"] == ("ok", f"{where}: the gateway of a Windlass is there, without its server")
    assert other["API"][0] == "fail"


async def test_the_doctor_reports_the_https_port(found):
    gateway = BuiltinRouter("127.0.0.1", 0, https_port=free_port())
    await gateway.start()
    port = gateway._shared.https_port
    try:
        told = await asyncio.to_thread(found, gateway_port="0", https_port=str(port))
    finally:
        await gateway.stop()
    where = f"127.0.0.1, port {port}"
    assert told["HTTPS"] == ("ok", f"{where}: the gateway of a Windlass is there, without its server")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        level, text = (await asyncio.to_thread(found, gateway_port="0", https_port=str(port)))["HTTPS"]
    assert level == "fail"
    assert text.startswith(f"127.0.0.1, port {port} is taken by process {os.getpid()} (")
    assert "HTTPS" not in await asyncio.to_thread(found, gateway_port="0")


def test_for_people_long_lines_wrap_below_themselves(tmp_path):
    words = ("doctor", "--text", "--data-dir", "/nowhere")
    shown = run(*words, WINDLASS_ENGINE="process", PATH="/nowhere", COLUMNS="60", **FREE).stdout
    assert max(len(line) for line in shown.splitlines() if " " in line.strip() and "/" not in line) <= 60
    assert all(line.startswith(("ok    ", "warn  ", "fail  ", "      ")) for line in shown.splitlines())


@pytest.mark.parametrize(("gibibytes", "level"), [(0, "ok"), (3, "ok"), (11, "warn")])
def test_a_docker_build_cache_above_the_limit_is_reported(found, docker, gibibytes, level):
    """Docker itself has no limit by default. What images need anyway is not counted."""
    docker.cached = gibibytes << 30
    told = found(docker_host=docker.host)["Build cache"]
    assert (told[0], told[1].startswith(f"{gibibytes}.0 GiB on the Docker engine")) == (level, True)
    assert ("more than build_cache_bytes" in told[1]) is (level == "warn")


@pytest.mark.parametrize(
    ("version", "is_warned"),
    [
        ("20.10.24+dfsg1 (API 1.41)", False),
        ("23.0.6", True),
        ("24.0.8", True),
        ("24.0.9", False),
        ("25.0.1", True),
        ("25.0.2", False),
        ("27.5.1", False),
        ("of an unknown version", False),
    ],
)
def test_doctor_warns_of_a_docker_version_whose_build_steps_can_reach_the_machine(version, is_warned):
    assert lets_steps_out(version) is is_warned


def test_doctor_warns_if_the_docker_build_cache_cannot_be_measured(found, tmp_path):
    mute = Docker(tmp_path / "mute.sock")
    mute.cached = -1
    try:
        told = found(docker_host=mute.host)["Build cache"]
    finally:
        mute.close()
    assert told == ("warn", "could not be measured")


def test_without_docker_builds_no_build_cache_is_reported(found):
    assert "Build cache" not in found(engine="process")


@pytest.mark.parametrize(
    ("taken", "level"), [(["172.17.0.0/16", "10.251.2.0/25"], "ok"), (["10.251.0.0/17"], "warn")]
)
def test_a_nearly_used_range_of_docker_networks_is_reported(found, docker, taken, level):
    docker.subnets = taken
    told = found(docker_host=docker.host, docker_networks="10.251.0.0/20")["Docker networks"]
    used = {"ok": 1, "warn": 30}[level]
    assert told == (level, f"{used} of 30 subnets of 10.251.0.0/20 for environments are in use")
    assert found(docker_host=docker.host, docker_networks="")["Docker networks"][0] == "warn"


@pytest.mark.parametrize(
    ("engine", "values", "small"),
    [
        (
            "docker",
            (65_536, 128, 1024),
            [
                "fs.aio-max-nr=1048576",
                "fs.inotify.max_user_instances=1024",
                "net.ipv4.neigh.default.gc_thresh3=8192",
            ],
        ),
        ("process", (65_536, 128, 1024), ["fs.aio-max-nr=1048576"]),
        ("docker", (1_048_576, 8192, 8192), []),
    ],
)
def test_low_kernel_limits_are_reported_with_the_command_that_raises_them(tmp_path, engine, values, small):
    for limit, value in zip((AIO_LIMIT, INOTIFY_LIMIT, NEIGHBOUR_LIMIT), values, strict=True):
        (tmp_path / limit.file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / limit.file).write_text(f"{value}\n")
    told = kernel_limits(LIMITS[engine], tmp_path)
    assert told.level == ("warn" if small else "ok")
    assert f"sysctl -w {' '.join(small)}`" in told.advice or not small


def test_doctor_checks_kernel_limits(found):
    assert "Kernel limits" in found(engine="process")
