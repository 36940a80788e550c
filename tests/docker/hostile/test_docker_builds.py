"""An attacker's Dockerfiles, against a real Docker engine.

Each attack also runs without the guard, and works.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import socket
import socketserver
import subprocess
import tarfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import Any

import pytest

from tests.docker.builds.benches import Bench
from tests.engines.dockers import BOX, docker_host
from tests.marks import nightly
from tests.needs import needs_root
from windlass.base.oom_score import INSTANCES_SCORE
from windlass.builders.builder import BuildError
from windlass.docker.builds import engine_turn, guard, step_scores
from windlass.docker.builds.builder import DockerBuilder
from windlass.docker.builds.engine_turn import EngineTurn
from windlass.docker.builds.guard import SCOPE_ARGUMENT
from windlass.docker.client import Docker

pytestmark = pytest.mark.slow

POISON = "poisoned"


class Loopback:
    """A server that only this machine should reach, such as the API port."""

    def __init__(self, port: int, reached: list[bytes]) -> None:
        self.port = port
        self.reached = reached

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/secret"


@contextmanager
def answering(address: str = "127.0.0.1", text: str = "of-the-machine") -> Iterator[Loopback]:
    reached: list[bytes] = []

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            reached.append(self.request.recv(4096))
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n"
            self.request.sendall(f"{head}{text}".encode())

    with socketserver.ThreadingTCPServer((address, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield Loopback(server.server_address[1], reached)
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def host():
    return docker_host()


@pytest.fixture
async def attacker(host, tmp_path):
    made = Bench(host, tmp_path)
    yield made
    await made.close()


class Engine:
    """The engine itself, asked without the guard: what an attack does where nothing prevents it."""

    def __init__(self, host: str) -> None:
        self._docker = Docker(host)
        self._made: list[str] = []

    async def build(self, text: str, **arguments: str) -> str:
        ref = f"windlass-test/raw-{uuid.uuid4()}:1"
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            entry = tarfile.TarInfo("Dockerfile")
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
        params = {"t": ref, "version": "2", "rm": True, "buildargs": arguments}
        async with self._docker.stream("POST", "/build", params=params, data=packed.getvalue()) as answer:
            async for said in answer.objects():
                assert "error" not in said, said
        self._made.append(ref)
        return ref

    async def id_of(self, ref: str) -> str:
        found = await self._docker.json("GET", f"/images/{ref}/json")
        return str(found["Id"]).removeprefix("sha256:")

    async def tag(self, ref: str) -> str:
        """Another name of an image, as an operator may give it."""
        name = f"windlass-test/other-{uuid.uuid4()}"
        await self._docker.raw("POST", f"/images/{ref}/tag", params={"repo": name, "tag": "latest"})
        self._made.append(f"{name}:latest")
        return name

    async def close(self) -> None:
        while self._made:
            ref = self._made.pop()
            await self._docker.raw("DELETE", f"/images/{ref}", params={"force": True})
        await self._docker.close()


@pytest.fixture
async def engine(host):
    made = Engine(host)
    yield made
    await made.close()


ADDRESSES = [
    "FROM {box}\nADD {url} /x\n",
    "FROM {box}\nadd \\\n  # a comment\n  {url} \\\n  /x\n",
    'FROM {box}\nADD ["{url}", "/x"]\n',
    "FROM {box}\nENV WHERE={url}\nADD $WHERE /x\n",
    "FROM {box}\nARG WHERE\nADD ${{WHERE}} /x\n",
    'FROM {box}\nADD "{url}" /x\n',
    "FROM {box}\nADD ht\\tp://127.0.0.1:{port}/x /x\n",
    "# escape=`\nFROM {box}\nADD ht`tp://127.0.0.1:{port}/x /x\n",
    "FROM {box} AS one\nONBUILD ADD {url} /x\nFROM one\n",
    "FROM {base}\nADD $INHERITED /x\n",
    "FROM {base}\nARG INHERITED=page\nADD $INHERITED /x\n",
    "FROM {box}\nRUN true <<CMD\nADD {url} /x\nCMD\n",
    "FROM {box}\nADD http://0x7f000001:{port}/x http://localhost:{port}/y /x/\n",
    "FROM {box}\nADD HTTP://127.0.0.1:{port}/x /x\n",
]


@pytest.mark.parametrize("kit", [True, *nightly(False)])
async def test_no_build_instruction_reaches_the_engines_own_network(host, tmp_path, engine, kit):
    attacker = Bench(host, tmp_path, buildkit=kit)
    with answering() as machine:
        base = await engine.build(f"FROM {BOX}\nENV INHERITED={machine.url}\n")
        given = {"box": BOX, "base": base, "url": machine.url, "port": machine.port}
        texts = [text.format(**given) for text in ADDRESSES]
        assert await built(attacker, texts, arguments={"WHERE": machine.url}) == []
        assert machine.reached == []
    await attacker.close()


async def built(attacker: Bench, texts: list[str], **given: Any) -> list[str]:
    """Returns the Dockerfiles of which an image was built."""
    found = []
    for text in texts:
        try:
            await attacker.build(text, **given)
        except BuildError:
            continue
        found.append(text)
    return found


@pytest.mark.nightly
async def test_without_the_guard_the_engine_fetches_from_its_own_network(engine):
    with answering() as machine:
        base = await engine.build(f"FROM {BOX}\nENV INHERITED={machine.url}\n")
        await engine.build(f"FROM {base}\nADD $INHERITED /x\n")
        assert machine.reached != []


MOUNTED = "FROM {box}\nRUN --mount=type=cache,{options} ls {target}; echo {word} > {target}/{word}\n"


@pytest.mark.parametrize(
    "options",
    ["ID=a,dst={target},sharing=shared", *nightly("target={target}", "id=shared,target={target}")],
)
async def test_organizations_share_no_cache_mount(host, attacker, tmp_path, options):
    target = f"/cache-{uuid.uuid4()}"
    options = options.format(target=target)
    await attacker.build(MOUNTED.format(box=BOX, options=options, target=target, word=POISON))
    other = Bench(host, tmp_path)
    await other.build(MOUNTED.format(box=BOX, options=options, target=target, word="second"), org="victim")
    assert POISON not in other.log
    await attacker.build(MOUNTED.format(box=BOX, options=options, target=target, word="third"), key="k2")
    assert POISON in attacker.log  # belongs to its own organization
    assert "second" not in attacker.log
    await other.close()


@pytest.mark.nightly
async def test_without_the_guard_a_cache_mount_is_shared_with_other_services(engine):
    target = f"/cache-{uuid.uuid4()}"
    await engine.build(MOUNTED.format(box=BOX, options=f"target={target}", target=target, word=POISON))
    checked = f"FROM {BOX}\nRUN --mount=type=cache,target={target} test -e {target}/{POISON}\n"
    assert await engine.build(checked)  # the step fails where the cache is another


AT_ONCE = """\
FROM {box} AS one
RUN --mount=type=cache,sharing=shared,id={id},target=/c touch /c/one; echo alone > /x; \
    for i in $(seq 20); do [ -e /c/two ] && echo together > /x; sleep 0.1; done; rm /c/one
FROM {box} AS two
RUN --mount=type=cache,sharing=shared,id={id},target=/c touch /y; \
    for i in $(seq 20); do [ -e /c/one ] && touch /c/two; sleep 0.1; done; rm -f /c/two
FROM {box}
COPY --from=one /x /x
COPY --from=two /y /y
"""


@pytest.mark.nightly
async def test_one_step_at_a_time_changes_the_files_of_a_cache_mount(attacker):
    """BuildKit before 0.12.5, of Docker before 25, mounts a folder of the machine if another step exchanges
    the mounted one for a link just then (CVE-2024-23651)."""
    made = await attacker.build(AT_ONCE.format(box=BOX, id=uuid.uuid4()))
    assert await attacker.runs(made.ref, "cat", "/x") == "alone\n"


@pytest.mark.nightly
async def test_without_the_guard_two_steps_change_a_cache_mount_at_once(engine, attacker):
    made = await engine.build(AT_ONCE.format(box=BOX, id=uuid.uuid4()))
    assert await attacker.runs(made, "cat", "/x") == "together\n"


STEP = (
    "ARG http_proxy\nFROM {box}\nRUN echo {word}; wget -q -O /x http://packages.invalid/x || echo none > /x\n"
)


async def test_organizations_share_no_result_of_a_step(host, attacker, tmp_path):
    """A proxy is no part of what BuildKit knows a step by."""
    word = str(uuid.uuid4())
    with answering(_bridge(), POISON) as proxy:
        through = {"http_proxy": f"http://{_bridge()}:{proxy.port}"}
        mine = await attacker.build(STEP.format(box=BOX, word=word), arguments=through)
        assert await attacker.runs(mine.ref, "cat", "/x") == POISON
    other = Bench(host, tmp_path)
    theirs = await other.build(STEP.format(box=BOX, word=word), org="victim")
    assert await other.runs(theirs.ref, "cat", "/x") == "none\n"
    await other.close()


@pytest.mark.nightly
async def test_without_the_guard_a_poisoned_layer_is_reused_by_other_services(engine, attacker):
    word = str(uuid.uuid4())
    with answering(_bridge(), POISON) as proxy:
        await engine.build(STEP.format(box=BOX, word=word), http_proxy=f"http://{_bridge()}:{proxy.port}")
    second = await engine.build(STEP.format(box=BOX, word=word))
    assert await attacker.runs(second, "cat", "/x") == POISON


def _bridge() -> str:
    """The address of this machine that containers of the default network reach."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("172.17.0.2", 9))
        return str(probe.getsockname()[0])


TAKEN = [
    "FROM windlass/{service}:k1\n",
    "FROM docker.io/windlass/{service}:k1\n",
    "FROM index.docker.io/windlass/{service}:k1 AS x\n",
    "ARG NAME=windlass\nFROM $NAME/{service}:k1\n",
    "ARG A=${{TARGETOS:+windlass/{service}:k1}}\nARG B=${{A:-{box}}}\nFROM $B\n",
    "FROM {box}\nCOPY --from=windlass/{service}:k1 /secret /x\n",
    "FROM {box}\nRUN --mount=type=bind,from=windlass/{service}:k1,target=/m cp /m/secret /x\n",
    "FROM {box}\nRUN --mount=type=cache,from=windlass/{service}:k1,target=/m cp /m/secret /x\n",
    "FROM {box}\nONBUILD COPY --from=windlass/{service}:k1 /secret /x\n",
    "FROM {id}\n",
    "FROM sha256:{id}\n",
    "FROM {short}\n",
    "FROM {box}\nCOPY --from={short} /secret /x\n",
    "FROM {box}\nCOPY --from={other} /secret /x\n",
]


@pytest.mark.parametrize("kit", [True, *nightly(False)])
async def test_a_build_cannot_copy_from_images_of_other_services(host, tmp_path, engine, kit):
    victim = Bench(host, tmp_path)
    made = await victim.build(f"FROM {BOX}\nRUN echo s3cret > /secret\n", org="victim")
    id, other = await engine.id_of(made.ref), await engine.tag(made.ref)
    attacker = victim.another_service(buildkit=kit)
    given = {"box": BOX, "service": victim.service, "id": id, "short": id[:12], "other": other}
    assert await built(attacker, [text.format(**given) for text in TAKEN]) == []
    await engine.close()
    await attacker.builder.stop()
    await victim.close()


@pytest.mark.nightly
async def test_without_the_guard_a_build_can_copy_from_images_of_other_services(host, tmp_path, engine):
    victim = Bench(host, tmp_path)
    made = await victim.build(f"FROM {BOX}\nRUN echo s3cret > /secret\n", org="victim")
    taken = await engine.build(f"FROM {BOX}\nCOPY --from={made.ref} /secret /x\n")
    assert await victim.runs(taken, "cat", "/x") == "s3cret\n"
    await engine.close()
    await victim.close()


@pytest.mark.parametrize("kit", [True, *nightly(False)])
async def test_a_build_step_cannot_reach_the_loopback_address_of_the_machine(host, tmp_path, kit):
    attacker = Bench(host, tmp_path, buildkit=kit)
    with answering() as machine:
        await attacker.build(f"FROM {BOX}\nRUN wget -q -T 2 -O /x {machine.url} || true\n")
        assert machine.reached == []
    await attacker.close()


@pytest.mark.parametrize("kit", [True, *nightly(False)])
async def test_a_base_image_with_a_dangerous_onbuild_trigger_is_refused(host, tmp_path, engine, kit):
    attacker = Bench(host, tmp_path, buildkit=kit)
    with answering() as machine:
        base = await engine.build(f"FROM {BOX}\nONBUILD ADD {machine.url} /x\n")
        with pytest.raises(BuildError, match="ONBUILD ADD"):
            await attacker.build(f"FROM {base}\n")
        assert machine.reached == []
    await attacker.close()


async def test_a_custom_syntax_frontend_is_not_fetched_from_its_registry(attacker):
    asked = {"BUILDKIT_SYNTAX": "localhost:1/reader:1"}
    text = f"# syntax=localhost:1/reader:1\nARG BUILDKIT_SYNTAX\nFROM {BOX}\nRUN echo built\n"
    await attacker.build(text, arguments=asked)
    assert not any("localhost:1" in line for line in attacker.log)


LISTENING = (
    "FROM {box}\nRUN {flag}ip -4 addr show eth0 | sed -n 's,.*inet \\([0-9.]*\\)/.*,at \\1,p'; "
    "echo {word} | timeout 8 nc -l -p 4711 || true\n"
)
ASKING = "FROM {box}\nRUN {flag}echo {word}; timeout 2 nc {address} 4711 </dev/null > /x || echo none > /x\n"
ONLY_BUILDKIT = "--mount=type=tmpfs,target=/t "


@pytest.mark.parametrize(
    ("kit", "flag", "server", "org"),
    [
        (True, ONLY_BUILDKIT, "another", "victim"),
        *nightly(
            (True, "", "same", "attacker"),
            (True, ONLY_BUILDKIT, "same", "victim"),
            (True, "", "another", "attacker"),
            (False, "", "same", "attacker"),
        ),
    ],
    ids=str,
)
async def test_a_step_reaches_no_step_of_another_service(host, tmp_path, kit, flag, server, org):
    """Who reaches a step can also answer in the place of its gateway, since steps have NET_RAW."""
    victim = Bench(host, tmp_path, buildkit=kit)
    attacker, word = victim.neighbour(tmp_path / "attacker"), str(uuid.uuid4())
    async with AsyncExitStack() as after:
        after.push_async_callback(victim.close)
        if server == "another":
            attacker.builder = DockerBuilder(
                host=host, installation=victim.installation, buildkit=kit, folder=victim.folder
            )
            after.push_async_callback(attacker.builder.stop)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(victim.build(LISTENING.format(box=BOX, flag=flag, word=word), org="victim"))
            given = {"box": BOX, "flag": flag, "address": await address_in(victim.log), "word": uuid.uuid4()}
            built = await attacker.build(ASKING.format(**given), org=org)
        assert word not in await attacker.runs(built.ref, "cat", "/x")


@pytest.mark.nightly
async def test_without_build_networks_a_step_reaches_steps_of_other_builds(engine, attacker):
    word = str(uuid.uuid4())
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(attacker.build(LISTENING.format(box=BOX, flag="", word=word), org="victim"))
        address = await address_in(attacker.log)
        built = await engine.build(ASKING.format(box=BOX, flag="", address=address, word=uuid.uuid4()))
    assert word in await attacker.runs(built, "cat", "/x")


@needs_root
@pytest.mark.nightly
async def test_buildkit_waits_while_a_step_of_a_killed_build_is_left_on_the_bridge(host, tmp_path):
    """A step outlives its engine if that is killed. Any interface without a container stands for it."""
    bench, name = Bench(host, tmp_path), f"wdl{uuid.uuid4().hex[:8]}"
    async with AsyncExitStack() as after:
        after.push_async_callback(bench.close)
        run("ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}x")
        try:
            run("ip", "link", "set", name, "master", "docker0", "up")
            plain = bench.neighbour(tmp_path / "plain")
            await plain.build(f"FROM {BOX}\nRUN echo plain\n")
            assert any("with the classic builder" in line for line in plain.log), plain.log
            async with asyncio.TaskGroup() as tasks:
                built = tasks.create_task(bench.build(f"FROM {BOX}\nRUN {ONLY_BUILDKIT}echo built\n"))
                while not any("a step of another build" in line for line in bench.log):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                assert not built.done()
                run("ip", "link", "delete", name)
        finally:
            subprocess.run(["ip", "link", "delete", name], check=False, stderr=subprocess.DEVNULL)
        assert any("built" in line for line in bench.log)


def run(*command: str) -> None:
    subprocess.run(command, check=True)


async def address_in(log: list[str]) -> str:
    async with asyncio.timeout(60):
        while not (said := next((line for line in log if line.startswith("at ")), "")):  # noqa: ASYNC110 (a step says it)
            await asyncio.sleep(0.02)
    return said.removeprefix("at ")


@pytest.mark.nightly
async def test_ids_that_a_step_prints_are_not_deleted(host, tmp_path, engine):
    """Layers and containers of a failed build of the classic builder go; those of others stay."""
    attacker = Bench(host, tmp_path, buildkit=False)
    docker = Docker(host)
    async with AsyncExitStack() as after:
        after.push_async_callback(docker.close)
        after.push_async_callback(attacker.close)
        theirs = await engine.id_of(await engine.build(f"FROM {BOX}\nRUN echo {uuid.uuid4()} > /x\n"))
        body = {"Image": BOX, "Cmd": ["sleep", "1000"]}
        container = (await docker.json("POST", "/containers/create", body=body))["Id"]
        after.push_async_callback(lambda: docker.raw("DELETE", f"/containers/{container}"))
        mark = uuid.uuid4()
        prints = f"echo ' ---> Running in {container}'; echo ' ---> {theirs}'"
        with pytest.raises(BuildError):
            await attacker.build(f"FROM {BOX}\nENV OURS={mark}\nRUN {prints}\nRUN {prints}; exit 1\n")
        assert await engine.id_of(theirs) == theirs
        assert (await docker.json("GET", f"/containers/{container}/json"))["Id"] == container
        left = await docker.json("GET", "/images/json", params={"all": True})
        layers = [
            await docker.json("GET", f"/images/{one['Id']}/json") for one in left if not one["RepoTags"]
        ]
        assert not any(f"OURS={mark}" in (layer["Config"]["Env"] or ()) for layer in layers)


DRAWN = "FROM {box}\n{argument}RUN head -c 20 /dev/urandom | sha256sum > /made; echo {word}\n"


@pytest.mark.parametrize("secret", ["known to the server alone", *nightly("")])
async def test_only_the_cache_secret_keeps_cached_layers_of_a_service_from_other_services(
    host, tmp_path, secret, monkeypatch
):
    """Ids of an installation and of services are no secrets. Without one, the name of the cache follows. The
    guard refuses its declaration, and is therefore changed here."""
    monkeypatch.setattr(guard, "_check_name", lambda line, name: None)
    victim = Bench(host, tmp_path)
    attacker, word = victim.neighbour(tmp_path / "attacker"), uuid.uuid4()
    guessed = hashlib.sha256(f"{victim.installation}/{victim.service}/".encode()).hexdigest()[:32]
    async with AsyncExitStack() as after:
        after.push_async_callback(victim.close)
        given = {"box": BOX, "word": word}
        theirs = await victim.build(DRAWN.format(argument="", **given), cache_secret=secret)
        argument = f"ARG {SCOPE_ARGUMENT}={guessed}\n"
        built = await attacker.build(DRAWN.format(argument=argument, **given), org="attacker")
        found = await victim.runs(theirs.ref, "cat", "/made") == await victim.runs(built.ref, "cat", "/made")
    assert found == (not secret)


async def test_the_build_turn_of_a_killed_server_expires(host, monkeypatch):
    """Its volume is left, and nobody renews it."""
    docker, installation = Docker(host), f"test-{uuid.uuid4()}"
    monkeypatch.setattr(engine_turn, "STALE_MARK_SECONDS", 2)
    async with AsyncExitStack() as after:
        after.push_async_callback(docker.close)
        killed, other = (EngineTurn(docker, installation) for _ in range(2))
        await after.enter_async_context(killed.of("gone"))
        assert not await other.is_free("here")
        killed.abandon()
        async with asyncio.timeout(60), other.of("here"):
            assert not await killed.is_free("gone")
        assert await killed.is_free("gone")


async def test_a_sweep_removes_the_turn_of_a_server_that_was_killed(host, monkeypatch):
    docker, installation = Docker(host), f"test-{uuid.uuid4()}"
    async with AsyncExitStack() as after:
        after.push_async_callback(docker.close)
        killed, other = (EngineTurn(docker, installation) for _ in range(2))
        await after.enter_async_context(killed.of("gone"))
        killed.abandon()
        await other.sweep()
        assert not await other.is_free("here")  # it may live
        monkeypatch.setattr(engine_turn, "MAX_MARK_AGE_SECONDS", -1)
        await other.sweep()
        assert await other.is_free("here")


@pytest.mark.parametrize("waits", [True, False])
async def test_a_busy_server_yields_the_build_turn_to_another_installation(host, waits):
    """Without one that waits, builds of an organization share a turn."""
    docker, began = Docker(host), list[str]()
    busy, other = (EngineTurn(docker, f"test-{uuid.uuid4()}") for _ in range(2))

    async def build(turn: EngineTurn, org: str) -> None:
        async with turn.of(org):
            began.append(org)

    async with AsyncExitStack() as after:
        after.push_async_callback(docker.close)
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks, busy.of("busy"):
            if waits:
                tasks.create_task(build(other, "other"))
                while await busy.is_free("busy"):  # noqa: ASYNC110 (a mark appears)
                    await asyncio.sleep(0.01)
            again = tasks.create_task(build(busy, "busy"))
            await asyncio.wait([again], timeout=1 if waits else None)
            assert again.done() is not waits
        assert began == (["other", "busy"] if waits else ["busy"])
        assert await busy._marks() == []


OF_VOLUMES = f"FROM {BOX}\nVOLUME /kept\nRUN mkdir -p /kept && echo word > /kept/word\n"
UNUSED = f"FROM {BOX} AS unused\nRUN exit 1\nFROM {BOX}\nRUN mkdir /kept && echo word > /kept/word\n"

OF_A_USER = f"FROM {BOX}\nUSER 1000:1000\nWORKDIR /kept\nRUN echo word > word\n"
ABOVE = f"FROM {BOX}\nCOPY ../word /kept/word\n"
DIFFERENT = {"volume": OF_VOLUMES, "unused stage": UNUSED, "user": OF_A_USER, "above": ABOVE}


@pytest.mark.parametrize("why", ["unused stage", *nightly("volume", "user", "above")])
@pytest.mark.nightly
async def test_a_dockerfile_on_which_the_builders_differ_waits_for_buildkit(host, tmp_path, why):
    text = DIFFERENT[why]
    bench = Bench(host, tmp_path)
    classic = bench.another_service(buildkit=False)
    classic.source = bench.source
    bench.file("word", "word\n")
    other = EngineTurn(Docker(host), "another")
    async with AsyncExitStack() as after:
        after.push_async_callback(bench.close)
        after.push_async_callback(classic.builder.stop)
        after.push_async_callback(other._docker.close)
        async with asyncio.TaskGroup() as tasks, other.of("another"):
            built = tasks.create_task(bench.build(text))
            while not any(line.startswith("Waiting") for line in bench.log):  # noqa: ASYNC110 (it says)
                await asyncio.sleep(0.01)
        assert await bench.runs(built.result().ref, "cat", "/kept/word") == "word\n"
        with suppress(BuildError):  # the control: the classic builder makes something else of it
            ref = (await classic.build(text)).ref
            assert await bench.runs(ref, "cat", "/kept/word") != "word\n"


async def test_a_build_that_fails_with_the_classic_builder_is_repeated_with_buildkit(
    host, tmp_path, monkeypatch
):
    """Whether a build succeeds does not depend on builds of others."""
    monkeypatch.setattr(guard, "_makes_folders_as_root", lambda steps: True)
    bench, other = Bench(host, tmp_path), EngineTurn(Docker(host), "another")
    async with AsyncExitStack() as after:
        after.push_async_callback(bench.close)
        after.push_async_callback(other._docker.close)
        async with asyncio.TaskGroup() as tasks, other.of("another"):
            built = tasks.create_task(bench.build(OF_A_USER))
            while not any(line.startswith("Waiting") for line in bench.log):  # noqa: ASYNC110 (it says)
                await asyncio.sleep(0.01)
        assert await bench.runs(built.result().ref, "cat", "/kept/word") == "word\n"
        assert sum("BuildKit tries again" in line for line in bench.log) == 1
        assert sum(line.startswith("Building with") for line in bench.log) == 2


@needs_root
@pytest.mark.parametrize("is_raised", [True, *nightly(False)])
async def test_the_kernel_ends_steps_of_buildkit_before_services(host, tmp_path, monkeypatch, is_raised):
    """Without Windlass, a step has the score of the engine, which is made to outlive services."""
    if not is_raised:  # the control
        monkeypatch.setattr(step_scores, "STEPS_SCORE", 1)
    bench = Bench(host, tmp_path, buildkit=True)
    text = f"FROM {BOX}\nRUN sleep 3; cat /proc/self/oom_score_adj > /score\n"
    async with AsyncExitStack() as after:
        after.push_async_callback(bench.close)
        score = int(await bench.runs((await bench.build(text)).ref, "cat", "/score"))
        assert (score > INSTANCES_SCORE) == is_raised
