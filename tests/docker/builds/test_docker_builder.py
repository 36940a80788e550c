"""Images are built from a Dockerfile by a real Docker engine."""

from __future__ import annotations

import asyncio
import os
import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.docker.builds.benches import Bench
from tests.engines.dockers import BOX, docker_host, load_exposing, own_engine
from tests.engines.proxies import proxied, run_when_available
from tests.marks import nightly
from tests.registries.docker_registry import PASSWORD, USER, docker_registry
from windlass.builders.builder import BuildError, BuilderUnavailable, BuildSettings
from windlass.docker.builds import builder
from windlass.docker.client import Docker, EngineRefused, client
from windlass.docker.client.images import image, pull, push
from windlass.engines.registries import RegistryLogin
from windlass.engines.workload import Artifact

pytestmark = pytest.mark.slow

SECONDS = 80.0


@pytest.fixture(scope="module")
def host():
    return docker_host()


@pytest.fixture(params=["buildkit", *nightly("classic")])
async def bench(request, host, tmp_path):
    made = Bench(host, tmp_path, buildkit=request.param == "buildkit")
    yield made
    await made.close()


@pytest.fixture
async def kit(host, tmp_path):
    """As the engine has it."""
    made = Bench(host, tmp_path)
    yield made
    await made.close()


async def until(true: Callable[[], Any]) -> Any:
    async with asyncio.timeout(SECONDS):
        while not (found := true()):  # noqa: ASYNC110 (what is waited for happens elsewhere)
            await asyncio.sleep(0.02)
    return found


def running(mark: str) -> bool:
    """True if a program of this machine has this in its command line."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "cmdline").read_bytes():
                return True
        except OSError:
            continue
    return False


async def test_an_image_is_built_with_its_exposed_ports_and_found_again_by_its_key(bench):
    bench.file("page", "hello")
    built = await bench.build(f'FROM {BOX}\nEXPOSE 8080/tcp 53/udp\nCOPY page /page\nCMD ["cat", "/page"]\n')
    assert built == Artifact(
        kind="image", ref=f"windlass/{bench.service}:k1", key="k1", ports=(8080,), web_port=8080
    )
    assert await bench.builder.find(bench.service, "k1") == built
    assert await bench.builder.find(bench.service, "k2") is None
    assert await bench.builder.find(str(uuid.uuid4()), "k1") is None
    assert await bench.runs(built.ref) == "hello"


async def test_an_image_exposes_a_bounded_number_of_ports(kit):
    """The engine starts two programs for each port that is published."""
    built = await kit.build(f"FROM {BOX}\nEXPOSE 1000-1199\n")
    assert built.ports == tuple(range(1000, 1020))
    assert "EXPOSE names 200 ports, and the lowest 20 are published" in kit.log[-1]
    few = await kit.build(f"FROM {BOX}\nEXPOSE 1000-1019\n", key="k2")
    assert few.ports == built.ports
    assert "are published" not in kit.log[-1]


@pytest.mark.nightly
async def test_an_image_with_too_many_ports_or_labels_is_refused_and_removed(host, kit):
    await kit.build(f"FROM {BOX}\nEXPOSE 1000-1255\n")  # the control
    docker = Docker(host)
    try:
        label = "\n".join(f"LABEL x{number}={'☃' * 20_000}" for number in range(3))
        many, long = ("EXPOSE 1-24000", "expose fewer ports"), (label, "Shorten labels")
        for what, why in (many, long):
            with pytest.raises(BuildError, match=why):
                await kit.build(f"FROM {BOX}\n{what}\n", key="k2")
            params = {"filters": {"label": [f"windlass.service={kit.service}"]}}
            assert [one["RepoTags"] for one in await docker.json("GET", "/images/json", params=params)] == [
                [f"windlass/{kit.service}:k1"]
            ]
    finally:
        await docker.close()


@pytest.mark.parametrize("port", ["8000-9000/tcp", "abc/tcp", "99999/tcp", "0/tcp", "", "80/sctp", "80:81"])
async def test_invalid_exposed_ports_of_a_base_image_are_left_out(host, kit, port):
    """Nothing but a registry has such images, whose engine did not make them from a Dockerfile."""
    docker = Docker(host)
    try:
        base = await load_exposing(docker, port, "90/udp", "80/tcp")
        built = await kit.build(f"FROM {base}\nCOPY Dockerfile /x\n")
        await docker.raw("DELETE", f"/images/{base}", params={"force": True})
    finally:
        await docker.close()
    assert built.ports == (80,)
    assert f"EXPOSE {port} is not published: it is no TCP or UDP port" in kit.log


@pytest.mark.parametrize(
    ("port", "ports"), [("80/sctp", ()), ("0", ()), ("$PORT", ()), ("80-81/TCP 80/udp", (80, 81))]
)
async def test_a_dockerfile_exposes_tcp_ports(kit, port, ports):
    assert (await kit.build(f"FROM {BOX}\nARG PORT\nEXPOSE {port}\n")).ports == ports


async def test_an_invalid_expose_port_fails_the_build_with_its_number(kit):
    with pytest.raises(BuildError, match="Invalid containerPort: 99999"):
        await kit.build(f"FROM {BOX}\nEXPOSE 99999\n")


async def test_the_build_log_has_the_steps_and_what_they_write(bench):
    await bench.build(f"FROM {BOX}\nRUN echo out {bench.service}; echo err >&2; sleep 0.5; printf 'no end'\n")
    assert bench.log[0].startswith("Building with ")
    assert any("RUN echo out" in line for line in bench.log)
    for line in (f"out {bench.service}", "err", "no end"):
        assert line in bench.log


async def test_arguments_and_the_target_stage_are_used(bench):
    dockerfile = (
        "ARG BASE\nFROM $BASE AS first\nARG WHO=nobody\nRUN echo $WHO > /who\n"
        "FROM first AS second\nRUN echo second > /who\n"
    )
    built = await bench.build(dockerfile, arguments={"BASE": BOX, "WHO": "it's me"}, stage="first")
    assert await bench.runs(built.ref, "cat", "/who") == "it's me\n"


async def test_a_build_finds_no_cache_of_another_service(kit):
    reads = "cat /c/secret > /found || echo none > /found"
    mount = f"RUN --mount=type=cache,target=/c,id={{}} {reads}\n"
    await kit.build(f"FROM {BOX}\nRUN --mount=type=cache,target=/c,id=x echo told > /c/secret\n", key="k1")
    neighbour = kit.another_service()
    other = await neighbour.build(f"FROM {BOX}\n{mount.format('x')}", key="k2")
    await neighbour.builder.stop()
    assert await kit.runs(other.ref, "cat", "/found") == "none\n"
    own = await kit.build(f"FROM {BOX}\n{mount.format('x')}", key="k3")
    assert await kit.runs(own.ref, "cat", "/found") == "told\n"  # negative control


async def test_a_build_takes_no_cached_step_of_another_service(kit):
    """The same step may have had another result there: BuildKit leaves the proxy out of its cache key."""
    text = f"FROM {BOX}\nRUN head -c 20 /dev/urandom | sha256sum > /made\n"
    first = await kit.runs((await kit.build(text, key="k1")).ref, "cat", "/made")
    other = kit.another_service()
    built = await other.build(text, key="k1")
    await other.builder.stop()
    assert await kit.runs(built.ref, "cat", "/made") != first
    again = await kit.build(text, key="k2")
    assert await kit.runs(again.ref, "cat", "/made") == first  # negative control


async def test_files_excluded_by_dockerignore_are_not_sent_to_the_build(bench):
    for name in ("kept", "secret.env", "deep/secret.env", "deep/kept.env", "logs/a", "Dockerfile.dev"):
        bench.file(name, "x")
    bench.file(".dockerignore", "# a comment\n**/*.env\n!deep/kept.env\nlogs/\nDockerfile*\n.dockerignore\n")
    built = await bench.build(f"FROM {BOX}\nCOPY . /app/\n")
    found = (await bench.runs(built.ref, "sh", "-c", "cd /app; find . -type f | sort")).split()
    assert set(found) - {"./Dockerfile", "./.dockerignore"} == {"./deep/kept.env", "./kept"}


@pytest.mark.parametrize("file", ["Dockerfile", "index.html"])
async def test_a_dockerignore_that_is_too_long_is_refused(kit, file):
    """A part of it would send files that the rest leaves out, such as secrets."""
    (kit.source / file).write_text(f"FROM {BOX}\n")
    (kit.source / ".dockerignore").write_text("x\n" * 1001)
    with pytest.raises(BuildError, match=r"Shorten \.dockerignore to 1000 patterns"):
        await kit.build()


async def test_a_dockerfile_elsewhere_in_the_repository_builds_the_folder_of_the_application(bench):
    bench.file("docker/Dockerfile.shop", f"FROM {BOX}\nCOPY . /app/\n")
    bench.file("shop/page", "hello")
    built = await bench.build(root="shop", dockerfile="../docker/Dockerfile.shop")
    assert await bench.runs(built.ref, "cat", "/app/page") == "hello"


async def test_symlinks_are_sent_as_symlinks_and_reach_no_file_of_the_machine(bench, tmp_path):
    (tmp_path / "secret").write_text("of this machine")
    bench.file("page", "hello")
    (bench.source / "inside").symlink_to("page")
    (bench.source / "outside").symlink_to(tmp_path / "secret")
    (bench.source / "folder").symlink_to(tmp_path)
    built = await bench.build(f"FROM {BOX}\nCOPY . /app/\n")
    assert await bench.runs(built.ref, "cat", "/app/inside") == "hello"
    assert "of this machine" not in await bench.runs(
        built.ref, "sh", "-c", "cat /app/outside /app/folder/* || true"
    )


@pytest.mark.parametrize("given", [{"root": "out"}, {"root": "../.."}, {"dockerfile": "link"}])
async def test_a_path_outside_the_repository_is_refused(kit, tmp_path, given):
    (tmp_path / "Dockerfile").write_text(f"FROM {BOX}\n")
    (kit.source / "out").symlink_to(tmp_path)
    (kit.source / "link").symlink_to(tmp_path / "Dockerfile")
    with pytest.raises(BuildError, match=r"root_path|dockerfile_path"):
        await kit.build(**given)


@pytest.mark.parametrize("name", ["Dockerfile", "nothing"])
async def test_a_dockerfile_path_outside_the_repository_reveals_no_files_of_the_machine(kit, tmp_path, name):
    (tmp_path / "Dockerfile").write_text(f"FROM {BOX}\n")
    with pytest.raises(BuildError, match="is outside of it"):
        await kit.build(dockerfile=f"../{name}")


async def test_a_missing_dockerfile_is_reported_with_its_path(kit):
    (kit.source / "shop").mkdir()
    with pytest.raises(BuildError, match=r"Set start_command, or add .*, or a Dockerfile"):
        await kit.build(root="shop")
    with pytest.raises(BuildError, match="builder: add a Dockerfile, or set builder to AUTO"):
        await kit.build(root="shop", settings=BuildSettings(builder="DOCKERFILE"))
    with pytest.raises(BuildError, match=r"Add a a+ to shop, or say"):
        await kit.build(root="shop", dockerfile="a" * 1000)
    with pytest.raises(BuildError, match="Add a deploy/Dockerfile to the repository's root"):
        await kit.build(dockerfile="deploy/Dockerfile")


async def test_a_step_that_fails_is_named_with_its_exit_code_and_nothing_stays_behind(bench):
    mark = bench.service[:8]
    with pytest.raises(BuildError, match=r"RUN echo broken \w+; exit 7.*: it exited with code 7") as caught:
        await bench.build(
            f"FROM {BOX}\nRUN echo {bench.service} > /x\nRUN echo broken {bench.service[:8]}; exit 7\n"
        )
    assert "sha256" not in str(caught.value)
    assert f"broken {bench.service[:8]}" in bench.log
    assert await bench.builder.find(bench.service, "k1") is None
    assert await left_of(bench.host, mark) == []


async def test_a_step_that_fails_is_reported_with_the_line_in_which_its_tool_says_why(bench):
    with pytest.raises(BuildError, match=r": ERROR: No matching distribution found for x \(exit code 1\)"):
        await bench.build(f"FROM {BOX}\nRUN echo ERROR: No matching distribution found for x >&2; exit 1\n")


async def test_a_step_that_fails_is_shown_without_its_mounts(kit):
    with pytest.raises(BuildError) as caught:
        await kit.build(f"FROM {BOX}\nRUN --mount=type=cache,target=/c false\n")
    assert "RUN false: it exited with code 1" in str(caught.value)


async def left_of(host: str, mark: str) -> list[str]:
    """Containers and images, named or not, that have to do with a command in which this stands."""
    docker = Docker(host)
    found = []
    try:
        for container in await docker.json("GET", "/containers/json", params={"all": True}):
            if mark in container["Command"]:
                found.append(container["Id"])
        for image in await docker.json("GET", "/images/json", params={"all": True}):
            try:
                history = await docker.json("GET", f"/images/{image['Id']}/history")
            except EngineRefused:
                continue  # belongs to another test, and is gone meanwhile
            found += [image["Id"] for layer in history if mark in layer["CreatedBy"]]
        return found
    finally:
        await docker.close()


async def test_an_unknown_dockerfile_instruction_is_reported_with_its_line(bench):
    with pytest.raises(BuildError, match=r"(?i)line 2.*FRUM|FRUM.*|unknown instruction"):
        await bench.build(f"FROM {BOX}\nFRUM nothing\n")


async def test_an_unreachable_base_image_is_reported_by_name(kit):
    with pytest.raises(BuildError, match=r"Check the host of localhost:1/none:1, .*does not answer"):
        await kit.build("FROM localhost:1/none:1\n")
    assert "Pulling localhost:1/none:1" in kit.log


async def test_a_build_by_digest_cannot_use_an_image_that_was_pulled_with_a_login(
    kit, host, tmp_path, monkeypatch
):
    docker = Docker(host)
    with docker_registry(tmp_path / "registry", tls=False) as registry:
        name, login = f"{registry.host}/acme/secret", RegistryLogin(USER, PASSWORD)
        await docker.raw("POST", f"/images/{BOX}/tag", params={"repo": name, "tag": "1"})
        await push(docker, f"{name}:1", login)
        (ref,) = [each for each in (await image(docker, f"{name}:1") or {})["RepoDigests"] if name in each]
        await docker.raw("DELETE", f"/images/{name}:1")
        await pull(docker, ref, login)
        try:
            with pytest.raises(BuildError, match="pulled without a password"):
                await kit.build(f"FROM {ref}\nLABEL a=b\n")
            # Negative control: what the engine has would do.
            monkeypatch.setattr(builder, "has_digest", lambda ref: False)
            await kit.build(f"FROM {ref}\nLABEL a=b\n")
        finally:
            await docker.raw("DELETE", f"/images/{ref}", params={"force": True})
            await docker.close()


async def test_an_image_by_digest_is_used_without_its_registry_by_the_organization_that_it_was_given_to(
    kit, host, tmp_path
):
    docker = Docker(host)
    with docker_registry(tmp_path / "registry", tls=False, login=False) as registry:
        name = f"{registry.host}/acme/open"
        await docker.raw("POST", f"/images/{BOX}/tag", params={"repo": name, "tag": "1"})
        await push(docker, f"{name}:1")
        (ref,) = [each for each in (await image(docker, f"{name}:1") or {})["RepoDigests"] if name in each]
        await docker.raw("DELETE", f"/images/{name}:1")
        try:
            await kit.build(f"FROM {ref}\nLABEL a=b\n")
            registry.stop()
            await kit.build(f"FROM {ref}\nLABEL a=c\n", key="k2")
            assert any(line.startswith("The image that the Docker engine has is used. ") for line in kit.log)
            with pytest.raises(BuildError, match=rf"Check the host of {ref}, .* does not answer"):
                await kit.build(f"FROM {ref}\nLABEL a=b\n", org="another")
        finally:
            await docker.raw("DELETE", f"/images/{ref}", params={"force": True})
            await docker.close()


async def test_a_cancelled_build_ends_and_leaves_nothing(bench):
    seconds = str(uuid.uuid4().int % 10**8 + 10**8)
    building = asyncio.create_task(bench.build(f"FROM {BOX}\nRUN echo begun; sleep {seconds}\n"))
    await until(lambda: "begun" in bench.log or building.done())
    await until(lambda: running(seconds))
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building
    await until(lambda: not running(seconds))
    assert await bench.builder.find(bench.service, "k1") is None
    assert await left_of(bench.host, seconds) == []


async def test_sending_a_large_build_context_does_not_block_the_event_loop(kit):
    (kit.source / "large").write_bytes(os.urandom(1 << 20) * 24)
    (kit.source / ("long-name-" * 20)).write_text("x")
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    meanwhile = asyncio.create_task(other())
    built = await kit.build(f"FROM {BOX}\nCOPY . /app/\n")
    meanwhile.cancel()
    assert turns > 100
    assert (await kit.runs(built.ref, "sh", "-c", "wc -c < /app/large")).strip() == str(24 << 20)


async def test_pruning_keeps_the_named_images_and_the_sweep_removes_untagged_ones(kit):
    for key in ("k1", "k2", "k3"):
        await kit.build(f"FROM {BOX}\nENV KEY={key}\n", key=key)
    await kit.build(f"FROM {BOX}\nENV KEY=again\n", key="k3")  # leaves one without a name
    await kit.builder.prune(kit.service, ["k2", "k3"])
    await kit.builder.sweep(())
    assert await kit.images() == [f"windlass/{kit.service}:{key}" for key in ("k2", "k3")]


async def test_discarding_removes_the_images_of_one_service_only(kit, host, tmp_path):
    await kit.build(f"FROM {BOX}\nENV A=1\n")
    other = Bench(host, tmp_path)
    await other.build(f"FROM {BOX}\nENV A=2\n")
    assert set(await kit.builder.services()) == {kit.service}
    await kit.builder.sweep([kit.service, other.service])
    await kit.builder.discard(other.service)  # belongs to another installation
    assert await kit.images() == []
    assert len(await other.images()) == 1
    await other.builder.discard(other.service)
    await other.builder.discard(other.service)
    assert await other.images() == []
    await other.close()


@pytest.mark.parametrize("in_parts", [True, *nightly(False)])
async def test_services_are_found_where_one_list_of_all_their_images_is_too_long(kit, monkeypatch, in_parts):
    other = kit.another_service()
    for made in (kit, other):
        await made.build(f"FROM {BOX}\nLABEL long={'x' * 1000}\n")
    with monkeypatch.context() as shorter:
        shorter.setattr(client, "MAX_LIST_BYTES", 2500)
        if in_parts:
            assert await kit.builder.services() == {kit.service, other.service}
            await kit.builder.sweep([kit.service])
            assert await kit.builder.services() == {other.service}
        else:  # the control
            shorter.setattr(builder, "SERVICE_ID_LENGTH", 0)
            with pytest.raises(BuildError, match="long labels"):
                await kit.builder.services()
    await other.close()


async def test_a_key_that_cannot_be_a_tag_is_refused(kit):
    with pytest.raises(BuildError, match="cannot name an image"):
        await kit.build(f"FROM {BOX}\n", key="../x")


async def test_a_docker_engine_that_disappears_during_a_build_is_reported_as_unavailable(host, tmp_path):
    async with proxied(Path(Docker(host).host.removeprefix("unix://")), tmp_path) as proxy:
        bench = Bench(proxy.host, tmp_path)
        building = asyncio.create_task(bench.build(f"FROM {BOX}\nRUN echo begun; sleep 12345\n"))
        await until(lambda: "begun" in bench.log or building.done())
        await proxy.vanish()
        with pytest.raises(BuilderUnavailable, match="does not answer"):
            await building
        with pytest.raises(BuilderUnavailable):
            await bench.builder.find(bench.service, "k1")
        await proxy.appear()
        await run_when_available(lambda: bench.build(f"FROM {BOX}\nRUN true\n"))
        await bench.close()


@pytest.mark.nightly
async def test_builds_of_a_service_during_which_the_engine_goes_away_twice_are_not_repeated(host, tmp_path):
    """They may be the reason, also with another deployment. A build that the engine survives is none."""
    async with proxied(Path(Docker(host).host.removeprefix("unix://")), tmp_path) as proxy:
        bench = Bench(proxy.host, tmp_path)

        async def interrupted(deployment: str, bench: Bench = bench) -> BuildError:
            bench.log.clear()
            text = f"FROM {BOX}\nENV A={uuid.uuid4()}\nRUN echo begun; sleep 12345\n"
            building = asyncio.create_task(bench.build(text, deployment=deployment))
            await until(lambda: "begun" in bench.log or building.done())
            await proxy.vanish()
            with pytest.raises(BuildError) as raised:
                await building
            # An engine that was unavailable before a build interrupts none
            with pytest.raises(BuilderUnavailable):
                await bench.build(text, deployment=deployment)
            await proxy.appear()
            return raised.value

        assert isinstance(await interrupted("d1"), BuilderUnavailable)
        other = bench.neighbour(tmp_path / "other")
        assert isinstance(await interrupted("d2", other), BuilderUnavailable)
        twice = await interrupted("d3")
        assert not isinstance(twice, BuilderUnavailable)
        assert "away during two builds of this service" in str(twice)
        await run_when_available(lambda: bench.build(f"FROM {BOX}\nRUN true\n", deployment="d4"))
        assert isinstance(await interrupted("d5"), BuilderUnavailable)
        await bench.close()


@pytest.mark.parametrize("buildkit", [True, *nightly(False)])
async def test_an_engine_that_is_killed_while_it_builds_builds_afterwards(tmp_path, buildkit):
    pause = f"0.1{random.randrange(10**9)}"  # no other test's, of this run or another
    with own_engine() as dockerd:
        bench = Bench(dockerd.host, tmp_path, buildkit=buildkit)
        building = asyncio.create_task(
            bench.build(f"FROM {BOX}\nRUN echo begun; trap exit TERM; while true; do sleep {pause}; done\n")
        )
        await until(lambda: "begun" in bench.log or building.done())
        assert of_command(pause)
        dockerd.kill()
        with pytest.raises(BuilderUnavailable):
            await building
        await asyncio.to_thread(dockerd.start)
        made = await run_when_available(lambda: bench.build(f"FROM {BOX}\nENV A=1\n"))
        assert made.ref.endswith(":k1")
        await bench.close()
        assert await left_of(dockerd.host, pause) == []
    assert of_command(pause) == []


def of_command(mark: str) -> list[int]:
    """Processes of this machine with this in their command."""
    found = Path("/proc").glob("[0-9]*/cmdline")
    return [int(file.parent.name) for file in found if mark in _read(file)]


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
