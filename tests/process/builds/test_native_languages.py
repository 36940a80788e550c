"""Native builds of languages without a way of their own: the commands of their recipe are run."""

from __future__ import annotations

import pytest

from windlass.builders.builder import BuildError
from windlass.process.builds.kept_folders import keep_times
from windlass.process.builds.language_steps import CACHE_DAMAGED_WARNING
from windlass.process.builds.language_tools import check_programs

CARGO = """#!/bin/sh
case "$1" in
--version) echo "cargo ${CARGO_VERSION:-1.80.0}"; exit ;;
esac
set -e
mkdir -p target/release "$CARGO_HOME"
if [ -e "$CARGO_HOME/damaged" ]; then echo "error: failed to unpack package"; exit 101; fi
echo run >> target/release/.runs
cat src/broken 2>/dev/null && { echo "error: it does not compile"; exit 101; }
echo '#!/bin/sh' > target/release/shop
echo 'cat $(dirname $0)/../../message; echo $PORT' >> target/release/shop
chmod +x target/release/shop
mkdir -p target/deps && echo large > target/deps/large
wc -l < target/release/.runs
"""
RUST = {"Cargo.toml": '[package]\nname = "shop"\n', "src/main.rs": "", "message": "one\n"}
GO = {"go.mod": "module shop\ngo 1.22\n", "main.go": "package main"}


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Programs that this machine has, besides those of the system."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def add(name, text):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)

    return add


async def test_an_application_of_a_compiled_language_is_built_and_runs(site, programs):
    programs("cargo", CARGO)
    artifact = await site.build(RUST)
    assert site.run(artifact, PORT="80").split() == ["one", "80"]
    assert "Building (cargo build --release) …" in site.log()


async def test_compiler_caches_stay_with_the_service_and_only_results_are_deployed(site, programs):
    programs("cargo", CARGO)
    first = await site.build(RUST)
    second = await site.build({**RUST, "message": "two\n"})
    assert site.log().splitlines().count("2") == 1, "the second build found the folder of the first"
    app = [path.name for path in site.folder_of(second, "app/target").rglob("*") if path.is_file()]
    assert sorted(app) == [".runs", "shop"]
    assert (site.run(first).split()[0], site.run(second).split()[0]) == ("one", "two")
    await site.build(RUST, service="another")
    assert site.log().splitlines().count("1") == 1


async def test_a_build_that_fails_keeps_the_files_of_its_compiler(site, programs):
    programs("cargo", CARGO)
    await site.build(RUST)
    with pytest.raises(BuildError, match="it does not compile"):
        await site.build({**RUST, "src/broken": "x"})
    await site.build(RUST)
    assert site.log().splitlines().count("3") == 1


async def test_a_damaged_cache_is_thrown_away_and_the_build_succeeds(site, programs):
    programs("cargo", CARGO)
    await site.build(RUST)
    [cargo] = site.kept.glob("cache/.services/*/*/*/downloads/cargo")
    (cargo / "damaged").touch()
    await site.build(RUST)
    assert CACHE_DAMAGED_WARNING in site.log()
    # Negative control: without damage, nothing is thrown away, also if the build fails.
    with pytest.raises(BuildError, match="it does not compile"):
        await site.build({**RUST, "src/broken": "x"})
    assert CACHE_DAMAGED_WARNING not in site.log()


async def test_an_older_toolchain_than_the_wanted_one_is_named_with_its_installation(site, programs):
    programs("cargo", CARGO)
    files = {**RUST, "Cargo.toml": '[package]\nname = "shop"\nrust-version = "1.99"\n'}
    said = await site.refused(files)
    assert said.startswith(
        "Install Rust 1.99 or newer on this machine: `rustup toolchain install 1.99`. This is Rust "
        "(Cargo.toml is there), and the machine that runs Windlass has Rust 1.80.0."
    )
    files["Cargo.toml"] = files["Cargo.toml"].replace("1.99", "1.80")
    await site.build(files)


async def test_toolchain_output_that_a_repository_influences_is_used_for_its_service_only(site, programs):
    """As with rust-toolchain.toml in a folder above the application, which rustup reads."""
    programs("cargo", CARGO.replace("${CARGO_VERSION:-1.80.0}", "$(cat ../chosen || echo 1.80.0)"))
    files = {**RUST, "Cargo.toml": '[package]\nname = "shop"\nrust-version = "1.60"\n'}
    hostile = {f"app/{name}": text for name, text in files.items()} | {"chosen": "1.0.0\n"}
    said = await site.refused(hostile, service="hostile", root="app")
    assert "the machine that runs Windlass has Rust 1.0.0" in said
    await site.build(files)


async def test_a_missing_program_of_a_recipe_is_named_before_anything_is_run(site, programs, monkeypatch):
    programs("javac", "#!/bin/sh\necho javac 17.0.1\n")
    monkeypatch.setenv("PATH", str(site.top / "programs"))
    said = await site.refused({"pom.xml": "<a>spring-boot</a>"})
    assert said.startswith("Install mvn on this machine: `apt-get install maven`. This is Java (pom.xml is")
    assert "Building" not in site.log()


def test_a_missing_program_without_a_package_is_named_with_the_command_that_installs_it():
    with pytest.raises(BuildError, match=r"^Install deno on this machine: `pip install deno`\. "):
        check_programs(["deno task build"], [], "This is Go (go.mod is there)")


async def test_a_procfile_sets_the_start_command_of_a_compiled_application(site, programs):
    programs("cargo", CARGO)
    artifact = await site.build({**RUST, "Procfile": "web: target/release/shop | tr a-z A-Z\n"})
    assert site.run(artifact).split()[0] == "ONE"


async def test_steps_get_only_the_registries_of_their_language(site, programs):
    script = "mkdir -p target/release && cp /bin/true target/release/shop"
    programs("cargo", f"#!/bin/sh\n[ $1 = --version ] && echo 1.80.0 && exit\nenv | sort\n{script}\n")
    surroundings = {"CARGO_REGISTRIES_OURS_TOKEN": "cargo", "GOPROXY": "go", "SECRET": "secret"}
    site.builder = type(site.builder)(site.kept, surroundings)
    await site.build(RUST)
    assert "CARGO_REGISTRIES_OURS_TOKEN=cargo" in site.log()
    assert "GOPROXY" not in site.log()
    assert "SECRET" not in site.log()


async def test_go_telemetry_is_off_in_builds(site, programs):
    look = 'echo "telemetry is $(cat "$HOME/.config/go/telemetry/mode")" >&2'
    make = "mkdir -p bin && cp /bin/true bin/shop"
    programs("go", f"#!/bin/sh\n{look}\n[ $1 = version ] && echo go version go1.22.0 || {{ {make}; }}\n")
    await site.build(GO)
    assert "telemetry is off" in site.log()


def test_unchanged_files_keep_their_time_and_changed_ones_do_not(tmp_path):
    code, record = tmp_path / "code", tmp_path / "times"
    code.mkdir()

    def check_out(**files):
        for name, text in files.items():
            (code / name).unlink(missing_ok=True)
            (code / name).write_text(text)
        keep_times(code, record)
        return {name: (code / name).stat().st_mtime_ns for name in files}

    first = check_out(one="1", two="2")
    second = check_out(one="1", two="changed")
    assert second["one"] == first["one"]
    assert second["two"] > first["two"]
    third = check_out(one="1", two="2")
    assert third["one"] == first["one"]
    assert third["two"] > second["two"], "a file that is as it was before the last build has changed since"
