"""Docker engines for tests: the one that answers, one that may be killed, and images without a registry."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.certificates import authority, write_pair
from tests.engines.descendants import Identity, is_alive, kill, run_by
from tests.engines.image_files import VERSION, add_text, box_files, python_files
from windlass.docker.client import Away, Docker, EngineRefused
from windlass.docker.client.images import image
from windlass.docker.engine import DockerEngine
from windlass.engines.workload import Artifact

T = TypeVar("T")

REQUIRED = "WINDLASS_TEST_REQUIRE_DOCKER"
BOX = "windlass-test/box:1"
PYTHON = f"windlass-test/python:{VERSION}-1"
DOCKERFILE = f"FROM {PYTHON}\nWORKDIR /app\nCOPY main.py .\n"


def docker_host() -> str:
    """Returns the address of an engine that answers, with the test image on it. Without one the test is
    skipped, or fails."""
    host = os.environ.get("WINDLASS_TEST_DOCKER_HOST", "")
    problem = _run(_prepared(host))
    if not problem:
        return host
    return _missing(problem)


async def _prepared(host: str) -> str:
    docker = Docker(host)
    try:
        await give_box(docker)
    except (Away, EngineRefused) as error:
        return str(error)
    finally:
        await docker.close()
    return ""


async def give_box(docker: Docker) -> None:
    """An image with a shell and the usual tools, made of Debian's static busybox."""
    async with _missing_image(docker, BOX) as is_missing:
        if is_missing:
            await load(docker, BOX, box_files(), "ENV PATH=/bin")


async def give_python(docker: Docker) -> None:
    """The same, with a copy of the Python that runs these tests."""
    async with _missing_image(docker, PYTHON) as is_missing:
        if is_missing:
            made = await asyncio.to_thread(python_files)
            await load(docker, PYTHON, made, "ENV PATH=/usr/bin:/bin", "ENV PYTHONUNBUFFERED=1")


@asynccontextmanager
async def _missing_image(docker: Docker, ref: str) -> AsyncIterator[bool]:
    """Yields whether an image is to be made. Test processes that need it wait for the one that makes it."""
    if await image(docker, ref):
        yield False
        return
    with Path(tempfile.gettempdir(), "windlass-test-images.lock").open("w") as lock:
        await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
        yield not await image(docker, ref)


async def load(docker: Docker, ref: str, layer: bytes, *changes: str) -> None:
    name, _, tag = ref.rpartition(":")
    params = {"fromSrc": "-", "repo": name, "tag": tag}
    query = "&".join(f"changes={change.replace(' ', '%20').replace('=', '%3D')}" for change in changes)
    async with docker.stream("POST", f"/images/create?{query}", params=params, data=layer) as answer:
        async for said in answer.objects():
            assert "error" not in said, said


async def load_exposing(docker: Docker, *ports: str) -> str:
    """Loads an image without files that exposes ports, which may be none that an engine would write."""
    ref, layer, packed = f"windlass-test/exposes-{uuid.uuid4()}:1", io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w"):
        pass
    config = {
        "architecture": (await docker.json("GET", "/version"))["Arch"],
        "os": "linux",
        "config": {"ExposedPorts": {port: {} for port in ports}},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer.getvalue()).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [ref], "Layers": ["layer.tar"]}]
    with tarfile.open(fileobj=packed, mode="w") as tar:
        add_text(tar, "config.json", json.dumps(config))
        add_text(tar, "manifest.json", json.dumps(manifest))
        entry = tarfile.TarInfo("layer.tar")
        entry.size = len(layer.getvalue())
        tar.addfile(entry, io.BytesIO(layer.getvalue()))
    await docker.raw("POST", "/images/load", data=packed.getvalue())
    return ref


async def build(docker: Docker, ref: str, files: Mapping[str, str]) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, text in files.items():
            add_text(tar, name, text)
    params = {"t": ref, "rm": True, "forcerm": True}
    async with docker.stream("POST", "/build", params=params, data=made.getvalue()) as answer:
        async for said in answer.objects():
            assert "error" not in said, said


class Dockerd:
    """An engine of this test alone, which may be killed and started again. Its networks are in a namespace of
    their own, so it does not disturb another engine of this machine, and its ports are not reached from
    here."""

    def __init__(self, folder: Path) -> None:
        self._folder = self._home = folder
        self._namespace = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        # Before that, an engine would begin in the network of this machine, and change its rules.
        while Path(f"/proc/{self._namespace.pid}/ns/net").samefile("/proc/self/ns/net"):
            time.sleep(0.01)
        self._process: subprocess.Popen[bytes] | None = None
        self._left: set[Identity] = set()
        self.socket = folder / "docker.sock"
        self.host = f"unix://{self.socket}"
        self.options: Sequence[str] = ()
        """Further options of dockerd."""
        self.features: Mapping[str, bool] = {}

    def start(self) -> None:
        self._home.mkdir(exist_ok=True)
        configuration = self._home / "daemon.json"
        # Docker 20.10 makes its id of this key, later versions keep it in the data root.
        key = str(self._home / "key.json")
        configuration.write_text(json.dumps({"deprecated-key-path": key, "features": self.features}))
        with (self._folder / "says").open("ab") as says:
            self._process = subprocess.Popen(
                [
                    *("nsenter", "--net", f"--target={self._namespace.pid}", "dockerd"),
                    *("--config-file", configuration),
                    *("--host", self.host),
                    *("--data-root", self._home / "data"),
                    *("--exec-root", self._home / "exec"),
                    *("--pidfile", self._folder / "pid"),
                    *self.options,
                ],
                stdout=says,
                stderr=says,
                start_new_session=True,
            )
        _run(self._answers())

    @property
    def data(self) -> Path:
        return self._home / "data"

    def kill(self) -> None:
        """As when the power goes; what it runs stays without it."""
        assert self._process
        self._left |= run_by(self._folder)
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        # Its helper dies with it, and is not always buried: a new engine would count on it.
        helper = self._home / "exec" / "containerd" / "containerd.pid"
        while is_alive(int(helper.read_text())):
            time.sleep(0.01)
        helper.unlink()
        (self._folder / "pid").unlink(missing_ok=True)

    def come_back_empty(self) -> None:
        """As after a boot at which the disk of the data root was not there: the same engine, without its
        containers, volumes and networks."""
        self.shut_down()
        _unmount(self._home / "data")
        shutil.rmtree(self._home / "data")
        host, self.host = self.host, f"unix://{self._folder}/aside.sock"
        self.start()  # gets the images of tests before others reach it
        self.shut_down()
        self.host = host
        self.start()

    def shut_down(self) -> None:
        assert self._process
        self._process.terminate()
        self._process.wait(60)
        kill(run_by(self._folder))

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
        self._namespace.kill()
        self._namespace.wait()
        kill(self._left | run_by(self._folder))

    async def _answers(self) -> None:
        assert self._process
        deadline = time.monotonic() + 60
        while True:
            docker = Docker(self.host)
            try:
                await docker.ping()
                await give_box(docker)
                return
            except (Away, EngineRefused) as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError((self._folder / "says").read_text()[-3000:]) from error
            finally:
                await docker.close()
            await asyncio.sleep(0.1)


class DockerHost(Dockerd):
    """Another machine with a Docker engine, as far as the network tells: with an address of its own, where
    the engine takes TLS with client certificates."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._link, part = self._linked()
        self.address, self._here = f"{part}.2", f"{part}.1"
        self.url = f"tcp://{self.address}:2376"
        self.authority = authority(folder / "ca")
        certificate, key = write_pair(self.authority, "dockerd", self.address)
        self.options = (
            *("--host", self.url, "--tlsverify"),
            *("--tlscacert", str(self.authority.file)),
            *("--tlscert", str(certificate), "--tlskey", str(key)),
        )
        self._join()

    def become_another(self) -> None:
        """Another engine answers at the address, with the same certificate."""
        self.kill()
        self._home = self._folder / "another"
        self.start()

    def become_itself(self) -> None:
        self.kill()
        self._home = self._folder
        self.start()

    def _linked(self) -> tuple[str, str]:
        """Makes a link into the namespace. The kernel gives each name once, and so each network: another host
        of this process, or of another one, may be there or just about to go."""
        for number in range(250):
            link = f"wdl-{number}"
            into = ("peer", "name", "eth0", "netns", str(self._namespace.pid))
            command = ["ip", "link", "add", link, "type", "veth", *into]
            made = subprocess.run(command, capture_output=True, text=True, check=False)
            if made.returncode == 0:
                return link, f"10.213.{number}"
            assert "File exists" in made.stderr, made.stderr
        raise AssertionError("all networks for second hosts are in use")

    def _join(self) -> None:
        inside = f"--net=/proc/{self._namespace.pid}/ns/net"
        for command in (
            ["ip", "addr", "add", f"{self._here}/24", "dev", self._link],
            ["ip", "link", "set", self._link, "up"],
            ["nsenter", inside, "ip", "addr", "add", f"{self.address}/24", "dev", "eth0"],
            ["nsenter", inside, "ip", "link", "set", "eth0", "up"],
            ["nsenter", inside, "ip", "link", "set", "lo", "up"],
        ):
            subprocess.run(command, check=True)


@contextmanager
def second_host() -> Iterator[DockerHost]:
    with own_engine(DockerHost) as host:
        assert isinstance(host, DockerHost)
        yield host


@contextmanager
def own_engine(kind: type[Dockerd] = Dockerd) -> Iterator[Dockerd]:
    """On a disk that knows overlays: what is in memory does not everywhere."""
    if os.geteuid() != 0 or not shutil.which("dockerd"):
        _missing("an engine of its own needs root and dockerd")
    folder = Path(tempfile.mkdtemp(prefix="wdl-", dir="/var/tmp"))
    engine = kind(folder)
    try:
        engine.start()
        yield engine
    finally:
        engine.stop()
        _unmount(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _unmount(folder: Path) -> None:
    for line in reversed(Path("/proc/mounts").read_text().splitlines()):
        if f"{line.split()[1]}/".startswith(f"{folder}/"):
            subprocess.run(["umount", "-l", line.split()[1]], check=False)


def _run(deed: Coroutine[Any, Any, T]) -> T:
    """On a loop of its own, whether or not one runs here already."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, deed).result()


def _missing(why: str) -> str:
    if os.environ.get(REQUIRED):
        pytest.fail(f"{REQUIRED} is set, and: {why}")
    pytest.skip(why)


class DockerRig:
    """The Docker engine for the conformance suite; see `stations.Rig`."""

    cannot: Mapping[str, str] = {}

    def __init__(self, host: str, folder: Path) -> None:
        self._host = host
        self._folder = folder / "engine"
        self._installation = f"test-{folder}"

    def opener(self) -> Callable[[], DockerEngine]:
        return partial(DockerEngine, host=self._host, folder=self._folder, installation=self._installation)

    async def artifact(self, program: str) -> Artifact:
        ref = f"windlass-test/program:{hashlib.sha256(program.encode()).hexdigest()[:16]}"
        async with self._asked() as docker:
            if not await image(docker, ref):
                await give_python(docker)
                await build(docker, ref, {"Dockerfile": DOCKERFILE, "main.py": program})
        return Artifact(kind="image", ref=ref, command=("python3", "main.py"))

    async def copies(self, service: str) -> Sequence[tuple[int, int]]:
        found = await self._of("/containers/json", service)
        labels = [each["Labels"] for each in found if each["State"] == "running"]
        return [(int(each["windlass.generation"]), int(each["windlass.index"])) for each in labels]

    async def traces(self, service: str) -> Collection[str]:
        containers = await self._of("/containers/json", service, all=True)
        volumes = (await self._of("/volumes", service))["Volumes"] or []
        return [each["Names"][0] for each in containers] + [each["Name"] for each in volumes]

    async def remembered(self) -> bytes:
        return b"".join(path.read_bytes() for path in self._folder.rglob("*") if path.is_file())

    async def _of(self, path: str, service: str, **given: object) -> Any:
        labels = [f"windlass.service={service}", f"windlass.installation={self._installation}"]
        async with self._asked() as docker:
            return await docker.json("GET", path, params={"filters": {"label": labels}, **given})

    @asynccontextmanager
    async def _asked(self) -> AsyncIterator[Docker]:
        docker = Docker(self._host)
        try:
            yield docker
        finally:
            await docker.close()
