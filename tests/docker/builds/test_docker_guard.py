"""Dockerfiles are judged and written again before an engine reads them."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from msgspec.structs import replace

from tests.tables import rows
from windlass.builders.builder import BuildError
from windlass.docker.builds.expansion import FromImages, inherited
from windlass.docker.builds.guard import (
    SCOPE_ARGUMENT,
    Around,
    Rewritten,
    by_digest,
    check_image,
    is_plain_image,
    rewritten,
)

HERE = "linux/amd64"
NOTHING = FromImages()
PLATFORM = {
    f"{side}{name}": value
    for side in ("TARGET", "BUILD")
    for name, value in {"PLATFORM": HERE, "OS": "linux", "ARCH": "amd64", "VARIANT": ""}.items()
}


def of(text: str, *, heredocs: bool = True, base: FromImages = NOTHING, **arguments: str) -> Rewritten:
    around = Around(
        service="acme",
        scope="s",
        arguments=arguments,
        platform=PLATFORM,
        heredocs=heredocs,
        inherited=base,
    )
    return rewritten(text, around)


def lines(text: str, **given: Any) -> list[str]:
    """Returns the text that is written for the instructions after FROM."""
    return of(f"FROM a\n{text}\n", **given).text.decode().splitlines()[2:]


REFUSED = [
    ("an address", "ADD https://x.example/a /a"),
    ("in small letters", "add https://x.example/a /a"),
    ("its scheme in capitals", "ADD HTTPS://x.example/a /a"),
    ("beside a file", "ADD page https://x.example/a /a"),
    ("in JSON", 'ADD ["https://x.example/a", "/a"]'),
    ("escaped in JSON", 'ADD ["\\u0068ttps://x.example/a", "/a"]'),
    ("over lines", "ADD \\\n\n# a comment\nhttps://x.example/a \\\n /a"),
    ("cut by a line end", "ADD htt\\\nps://x.example/a /a"),
    ("in quotes", "ADD 'https'://x.example/a /a"),
    ("with an escape", "ADD h\\ttps://x.example/a /a"),
    ("with a checksum", f"ADD --checksum=sha256:{'0' * 64} https://x.example/a /a"),
    ("with other flags", "ADD --chown=1:1 --link https://x.example/a /a"),
    ("a repository", "ADD git@github.com:acme/shop.git /a"),
    ("a repository by its address", "ADD https://github.com/acme/shop.git#main /a"),
    ("a repository over ssh", "ADD ssh://git@x.example/shop /a"),
    ("a repository of GitHub", "ADD github.com/acme/shop /a"),
    ("in ENV", "ENV A=https://x.example\nADD $A/a /a"),
    ("in an ARG", "ARG A=https://x.example\nADD ${A}/a /a"),
    ("in an argument that is given", "ARG WHERE\nADD $WHERE /a"),
    ("by default", "ADD ${NONE:-https://x.example/a} /a"),
    ("in ONBUILD", "ONBUILD ADD https://x.example/a /a"),
    ("a step that runs before the scope of the cache is set", "ONBUILD RUN make"),
    ("a heredoc that is none for every engine", "RUN true <<CMD\nADD https://x.example/a /a\nCMD"),
    ("a heredoc with a variable for a name", "RUN true <<$CMD\nUSER x\n$CMD"),
    ("the network of the machine", "RUN --network=host true"),
    ("all rights", "RUN --security=insecure true"),
    ("a device", "RUN --device=all true"),
    ("a secret", "RUN --mount=type=secret,id=x true"),
    ("a key", "RUN --mount=type=ssh true"),
    ("a type that is a variable", "RUN --mount=type=$T,target=/x true"),
    ("a flag in quotes", 'RUN --mount="type=secret,id=x" true'),
    ("a flag with an escape", "RUN --mount=type=sec\\ret,id=x true"),
    ("a flag cut in two", 'RUN --mo"unt"=type=ssh true'),
    ("a flag in capitals", "RUN --MOUNT=type=ssh true"),
    ("an option twice", "RUN --mount=type=cache,type=ssh,target=/x true"),
    ("another's image", "COPY --from=windlass/x:1 /a /a"),
    ("the same with its registry", "COPY --from=docker.io/windlass/x:1 /a /a"),
    ("the same with its old registry", "COPY --from=index.docker.io/windlass/x@sha256:0 /a /a"),
    ("the same in capitals", "COPY --from=Docker.IO/Windlass/x:1 /a /a"),
    ("the second of two", "COPY --from=b --from=windlass/x:1 /a /a"),
    ("an image by a variable", "COPY --from=$IMAGE /a /a"),
    ("an image by an address", "COPY --from=https://x.example/a /a /b"),
    ("an image in a mount", "RUN --mount=type=bind,from=windlass/x:1,target=/m true"),
    ("an image in a cache", "RUN --mount=type=cache,FROM=windlass/x:1,target=/m true"),
    ("a folder in a cache", "RUN --mount=type=cache,target=/c,source=d true"),
    ("the same with its short name", "RUN --mount=type=cache,target=/c,SRC=d true"),
    ("an image as a base", "FROM windlass/x:1"),
    ("a name that leads upwards", "FROM a/../../containers/x"),
    ("a name with a part that is left out", "FROM docker.io/./windlass/x:1"),
    ("a copy from a name that leads upwards", "COPY --from=a/../windlass/x:1 /a /b"),
    ("a cache of another service", "RUN --mount=type=cache,id=../other/pip,target=/c true"),
    ("a cache by a variable", "RUN --mount=type=cache,id=$P,target=/c true"),
    ("a cache whose target leads upwards", "RUN --mount=type=cache,target=/../c true"),
    ("an image whose platform is named", "FROM --platform=linux/amd64 windlass/x:1"),
    ("an image of a layout", "FROM oci-layout://windlass/x"),
    ("a line that goes on in some engines", "RUN echo \\\\\nADD x /y"),
    ("an instruction that is none", "FRUM x"),
    ("the scope of the cache", f"ARG {SCOPE_ARGUMENT}=x"),
    ("the scope without a value", f"arg {SCOPE_ARGUMENT}"),
    ("the scope in quotes", f'ARG A=1 "{SCOPE_ARGUMENT}"=x'),
    ("the scope as a variable", f"ENV A=1 {SCOPE_ARGUMENT}=x"),
    ("the scope in the old form", f"ENV {SCOPE_ARGUMENT} x"),
    ("the scope over lines", f"ENV A=1 \\\n {SCOPE_ARGUMENT}=x"),
    ("the scope in ONBUILD", f"ONBUILD ARG {SCOPE_ARGUMENT}=x"),
    ("the scope as a variable in ONBUILD", f"ONBUILD ENV {SCOPE_ARGUMENT}=x"),
]


@rows("text", [text for _, text in REFUSED], ids=[name for name, _ in REFUSED])
def test_an_instruction_that_reaches_outside_the_build_is_refused_with_its_line(text):
    with pytest.raises(BuildError, match=r"^Dockerfile line \d+: "):
        of(f"FROM a\n{text}\n", WHERE="https://x.example/a")


HIDDEN = "RUN \\\n--mount=type=bind,from=windlass/x:1,target=/v true\nRUN : \\\n"
"""Rows that are refused as instructions, and pass as the content of a heredoc."""
NOT_READ_ALIKE = [
    ("a blank for one parser", f"RUN true\x1f<<E\n{HIDDEN}E"),
    ("a terminator for one parser", f"RUN <<E\ntrue\nE\r\r\n{HIDDEN}E"),
    ("a heredoc that waits for a child", f"ONBUILD COPY <<X /f\nFROM b\nRUN <<E\nX\n{HIDDEN}E"),
    ("a quote that does not end", f"RUN cat <<E '\n{HIDDEN}E"),
    ("a bad variable", f"RUN cat <<E ${{\n{HIDDEN}E"),
    ("a variable that begins one", f"RUN true ${{A:-a <\\<X }}\nRUN <<E\nX\n{HIDDEN}E"),
    ("an escape before one", f"RUN true \\<<X\nRUN <<E\nX\n{HIDDEN}E"),
    ("a variable of a flag", f"RUN --mount=type=tmpfs,target=/${{X:+ cat <<E }}\n{HIDDEN}E"),
    ("what is JSON for one parser", f'RUN ["true"] <<E\n{HIDDEN}E'),
    ("a name with signs", f"RUN cat <<E;\n{HIDDEN}E;"),
    ("another escape", f"# escape=`\nRUN echo `' <<E\n{HIDDEN}E"),
]


@rows("text", [text for _, text in NOT_READ_ALIKE], ids=[name for name, _ in NOT_READ_ALIKE])
def test_a_heredoc_that_parsers_read_in_different_ways_is_refused(text):
    directive, text = ("# escape=`\n", text[11:]) if text.startswith("# ") else ("", text)
    with pytest.raises(BuildError, match=r"^Dockerfile line \d: (remove the|put this|<<X: COPY)"):
        of(f"{directive}FROM a\n{text}\n")


def test_the_content_of_a_heredoc_may_look_like_anything_that_ends_at_its_name():
    assert lines(f"RUN <<E\n{HIDDEN}E") == ["RUN <<E", *HIDDEN.splitlines(), "E"]


WRITTEN = [
    ("a file", "ADD page /a", ["ADD ./page /a"]),
    (
        "files",
        "ADD --chown=1 a* /b c/ /d/",
        ["ADD --chown=1 ./a* ./ /b c/ /d/".replace("./ /b c/", ".//b ./c/")],
    ),
    ("in JSON", 'ADD ["a b", "/x"]', ['ADD ["./a b","/x"]']),
    ("what may become an address", "ADD $X /a", ["ADD ./$X /a"]),
    ("what is no JSON for every reader", "ADD [\"a\", '/x'] /y", ["ADD ./[\"a\", ./'/x'] /y"]),
    ("a heredoc", "ADD <<EOF /a\nhello\nEOF", ["ADD <<EOF /a", "hello", "EOF"]),
    ("a copy", "COPY --link a /b", ["COPY --link a /b"]),
    ("a copy with an address in it", "COPY a:b@c /b", ["COPY a:b@c /b"]),
    ("a step", "RUN a && \\\n  # why\n  b", ["RUN a &&   b"]),
    ("a step in JSON", 'run ["a", "b"]', ['RUN ["a", "b"]']),
    ("no network", "RUN --network=none x", ["RUN --network=none x"]),
    (
        "a cache",
        "RUN --mount=type=cache,target=/root/.cache pip",
        ["RUN --mount=type=cache,target=/root/.cache,sharing=locked,id=acme//root/.cache pip"],
    ),
    (
        "a cache with a name",
        "RUN --mount=ID=other/x,TYPE=CACHE,dst=/c,sharing=locked pip",
        ["RUN --mount=TYPE=CACHE,dst=/c,sharing=locked,id=acme/other/x pip"],
    ),
    (
        "two caches",
        "RUN --mount=type=cache,target=/a \\\n --mount=type=cache,target=/b,id= x",
        [
            "RUN --mount=type=cache,target=/a,sharing=locked,id=acme//a "
            "--mount=type=cache,target=/b,sharing=locked,id=acme//b x"
        ],
    ),
    (
        "a cache that steps share at once",
        "RUN --mount=type=cache,target=/c,Sharing=shared x",
        ["RUN --mount=type=cache,target=/c,sharing=locked,id=acme//c x"],
    ),
    (
        "a cache that no other step shares",
        "RUN --mount=type=cache,target=/c,sharing=Private x",
        ["RUN --mount=type=cache,target=/c,sharing=private,id=acme//c x"],
    ),
    ("a bind", "RUN --mount=target=/src x", ["RUN --mount=target=/src x"]),
    (
        "a heredoc of Python",
        "RUN python <<E\nfrom os import path\nE",
        ["RUN python <<E", "from os import path", "E"],
    ),
    ("comments and directives", "# syntax=a/b\n#escape=`\nUSER x", ["USER x"]),
]


@rows(("text", "written"), [row[1:] for row in WRITTEN], ids=[row[0] for row in WRITTEN])
def test_a_dockerfile_is_rewritten_in_canonical_form(text, written):
    assert lines(text) == written


def test_rewriting_resolves_base_image_variables_and_marks_every_stage_with_the_service():
    made = of(
        "# syntax=x/y\nARG V=1\nFROM b:$V AS One\nRUN x\n"
        "FROM --platform=$BUILDPLATFORM one\nFROM a-$TARGETARCH\n",
        V="2",
    )
    assert made.text.decode().splitlines() == [
        "ARG V=1",
        "FROM b:2 AS one",
        f"ARG {SCOPE_ARGUMENT}=s",
        "RUN x",
        "FROM one",
        f"ARG {SCOPE_ARGUMENT}=s",
        "FROM a-amd64",
        f"ARG {SCOPE_ARGUMENT}=s",
    ]
    assert made.images == ("b:2", "a-amd64")


def test_references_to_earlier_stages_are_not_images_but_forward_references_are():
    made = of(
        "FROM a AS one\nCOPY --from=two /x /x\nFROM one AS two\nCOPY --from=one /x /x\nCOPY --from=0 /x /x\n"
        "COPY --from=7 /x /x\nRUN --mount=from=c:1,target=/m x\n"
    )
    assert made.images == ("a", "two", "7", "c:1")


def test_a_backtick_escape_directive_is_kept_and_continued_lines_are_joined():
    assert of("#escape=`\nFROM a\nRUN a `\n b\\\n").text.decode().splitlines() == [
        "# escape=`",
        "FROM a",
        f"ARG {SCOPE_ARGUMENT}=s",
        "RUN a  b\\",
    ]


def test_the_scope_of_the_cache_is_not_declared_before_the_first_stage():
    with pytest.raises(BuildError, match=rf"line 1: choose another name than {SCOPE_ARGUMENT}"):
        of(f"ARG {SCOPE_ARGUMENT}=x\nFROM a\n")


def test_a_heredoc_is_refused_for_an_engine_without_heredoc_support():
    with pytest.raises(BuildError, match="line 2: <<EOF: add a script to the repository"):
        of("FROM a\nCOPY <<EOF /a\nhello\nEOF\n", heredocs=False)


def test_arguments_do_not_tell_the_engine_how_to_build():
    made = of("ARG BUILDKIT_SYNTAX\nFROM a\n", BUILDKIT_SYNTAX="x/y", Buildkit_Cache_Mount_Ns="z", A="1")
    assert made.arguments == {"A": "1"}


def test_credentials_in_an_address_do_not_appear_in_the_error():
    with pytest.raises(BuildError) as caught:
        of("FROM a\nADD https://me:s3cret@x.example/a /a\n")
    assert "s3cret" not in str(caught.value)


def test_bytes_that_are_no_text_pass_the_guard_and_can_be_logged():
    text = b"FROM a\nRUN echo \xe9\n".decode(errors="surrogateescape")
    assert of(text).text.endswith(b"RUN echo \xe9\n")
    with pytest.raises(BuildError) as caught:
        of(f"{text}FRUM \udce9\n\udce9\n")
    assert str(caught.value).encode()


LONG = "ENV A=" + "x" * 1000
TOO_LARGE = [
    ("values that double", f"{LONG}\n" + "ENV A=$A$A\n" * 12),
    ("one value many times", f"{LONG}\nLABEL b=" + "$A" * 1000),
    ("the default of an argument", f"{LONG}\nARG B=" + "${B:-$A}" * 1000),
    ("a file written in place", f"{LONG}\nCOPY <<here /a\n" + "$A\n" * 1000 + "here"),
    ("what waits for later stages", f"{LONG}\nONBUILD LABEL b=" + "$A" * 100 + "\nFROM a\n" * 10),
    ("what is replaced in a value", f"{LONG}\nLABEL b=${{A//x/{'y' * 1000}}}"),
    ("an argument that is given", "ARG GIVEN\nLABEL b=" + "$GIVEN" * 1000),
    ("a variable of the base image", "LABEL b=" + "$INHERITED" * 1000),
    ("variables that each step repeats", f"ENV A={'x' * 20_000}\n" + "RUN a\n" * 900),
    ("a letter that ends a name for one parser", f"{LONG}\nLABEL b=" + "$A²" * 1000),
    ("a digit that is a name for one parser", f"ENV 1={'x' * 1000}\nLABEL b=" + "$1A" * 1000),
    ("a sign that is a name", f"ENV @={'x' * 1000}\nLABEL b=${{@/x/{'y' * 1000}}}"),
    ("a shell that each step repeats", f'SHELL ["{"x" * 20_000}"]\n' + "RUN a\n" * 900),
    ("a user that each step repeats", f"USER {'x' * 20_000}\n" + "RUN a\n" * 900),
    ("a folder that grows", f"WORKDIR {'x' * 50}\n" * 900),
]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", [text for _, text in TOO_LARGE], ids=[name for name, _ in TOO_LARGE])
def test_variables_that_would_fill_the_memory_of_the_engine_are_refused(text: str) -> None:
    base = FromImages({"INHERITED": 1000})
    with pytest.raises(BuildError, match=r"line \d+: use shorter values, or fewer variables"):
        of(f"FROM a\n{text}\n", base=base, GIVEN="x" * 1000)


EXPOSING = [
    ("1000-1254 80/tcp", True),
    ("1000-1256", False),
    ("80-90/udp " * 23, True),
    ("80-90/udp " * 24, False),
    ("65535-1", False),
    ("$PORT ${PORT}/tcp ${PORT:-8080} $GIVEN $TARGETARCH", True),
    ("$PORT-90", False),
    ("$RANGE", False),
    ("$LIST", False),
    ("$FOLLOWS", False),
    ("$GIVEN_RANGE", False),
    ("$INHERITED", False),
    ("${NONE:-1-65535}", False),
    ("${PORT/8/1-6}", False),
    ("$1", False),
    ("1-65535:1-65535", False),
]


@rows(("ports", "is_taken"), EXPOSING)
def test_a_dockerfile_exposes_as_many_ports_as_an_image_may_have(ports, is_taken):
    variables = (
        "ARG GIVEN\nARG GIVEN_RANGE=1\nARG TARGETARCH\nENV PORT=8080 RANGE=1-65535\nENV LIST='80 81'\n"
        "ENV FOLLOWS=$RANGE"
    )
    base = inherited([{"Config": {"Env": ["INHERITED=1-65535", "PATH=/a-b"]}}])
    refusal = pytest.raises(BuildError, match=r"expose fewer ports|write the ports as numbers")
    with nullcontext() if is_taken else refusal:
        of(f"FROM a\n{variables}\nEXPOSE {ports}\n", base=base, GIVEN="80", GIVEN_RANGE="1-65535")


@pytest.mark.timeout(30)
@pytest.mark.parametrize("part", ["${a", "${", "${a${a}", "$a{"])
def test_an_unfinished_substitution_is_looked_for_in_one_pass(part: str) -> None:
    """An expression that begins anew at each `${` would take hours, while all threads of the server wait."""
    assert of(f"FROM a\nRUN a\nLABEL b={part * (500_000 // len(part))}\n").text


@rows(
    ("value", "is_counted"),
    [("${A/x/y}", True), ("${A${B}/x/y}", False), ("${A:-/x}", False), ("${}a/b", True), ("${A", False)],
)
def test_a_substitution_counts_with_its_square(value, is_counted):
    text = f"FROM a\nLABEL b={value}{'z' * 1000}\n"
    with pytest.raises(BuildError, match="use shorter values") if is_counted else nullcontext():
        of(text)


def test_a_dockerfile_has_a_limit_of_instructions() -> None:
    assert of("FROM a\n" + "RUN a\n" * 999).text
    with pytest.raises(BuildError, match="line 1001: join instructions"):
        of("FROM a\n" + "RUN a\n" * 1000)


@pytest.mark.timeout(20)
def test_onbuild_triggers_and_settings_of_base_images_count_against_the_limits() -> None:
    triggers = ["ENV A=$A$A"] * 12
    base = inherited([{"Config": {"Env": [f"A={'x' * 1000}"], "OnBuild": triggers}}])
    with pytest.raises(BuildError, match="line 1: use shorter values"):
        of("FROM a\n", base=base)
    assert of("FROM a\n", base=inherited([{"Config": {"Env": ["A=x"], "OnBuild": triggers[:3]}}])).text
    labelled = inherited([{"Config": {"Labels": {"a": "x" * 100_000}}}])
    assert of("FROM a\n" + "RUN a\n" * 100, base=labelled).text
    with pytest.raises(BuildError, match="use shorter values"):
        of("FROM a\n" + "RUN a\n" * 200, base=labelled)
    with pytest.raises(BuildError, match="line 1: expose fewer ports"):
        of("FROM a\n", base=inherited([{"Config": {"OnBuild": ["EXPOSE 1-65535"]}}]))


@pytest.mark.timeout(20)
def test_long_values_that_are_not_multiplied_are_accepted() -> None:
    assert of(f"FROM a\n{LONG}\n" + "RUN echo $A $A $A\n" * 200 + "LABEL a=$A b=$A\n" * 50).text


@pytest.mark.timeout(20)
def test_exponentially_growing_arguments_before_from_are_refused() -> None:
    grown = "".join(f"ARG B{n}=" + "$A" * 100 + "\n" for n in range(900))
    with pytest.raises(BuildError, match="use shorter values"):
        of(f"ARG A={'x' * 1000}\n{grown}FROM a\n")


OURS = {"Os": "linux", "Architecture": "amd64"}


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({"Id": "sha256:abc123", "Config": None}, "by its id"),
        ({"Id": "sha256:f", "Config": {"Labels": {"service": "other"}}}, "another service"),
        (
            {"Id": "sha256:f", "Config": {"Env": ["PATH=/bin", f"{SCOPE_ARGUMENT}=x"]}},
            f"it sets {SCOPE_ARGUMENT}",
        ),
        ({"Id": "sha256:f", "Config": {"OnBuild": ["ADD . /x"]}}, "ONBUILD ADD"),
        ({"Id": "sha256:f", "Config": {"OnBuild": ["RUN make"]}}, "ONBUILD RUN"),
        ({"Id": "sha256:f", "Config": {"OnBuild": ["COPY --from=x /a /a"]}}, "ONBUILD COPY"),
        ({"Id": "sha256:f", "Config": {"OnBuild": ["nonsense"]}}, "ONBUILD nonsense"),
        ({"Id": "sha256:f", "Config": {"OnBuild": [f"ARG {SCOPE_ARGUMENT}=x"]}}, "ONBUILD ARG"),
        ({"Id": "sha256:f", "Config": {"OnBuild": [f"ENV A=1 {SCOPE_ARGUMENT}=x"]}}, "ONBUILD ENV"),
        ({"Id": "sha256:f", "Config": {"OnBuild": ["COPY <<A /a\na\nA"]}}, "ONBUILD COPY"),
    ],
)
def test_an_unacceptable_base_image_is_refused_with_the_reason(found, why):
    with pytest.raises(BuildError, match=why):
        check_image("abc", found | OURS, "mine", "service", HERE)


@pytest.mark.parametrize(
    ("labels", "is_taken"),
    [(None, True), ({}, True), ({"service": "mine"}, True), ({"service": "other"}, False)],
)
def test_a_base_image_of_the_same_service_or_of_no_service_is_accepted(labels, is_taken):
    config = {"Labels": labels, "OnBuild": ["WORKDIR /app", "COPY . /app"]}
    refusal = nullcontext() if is_taken else pytest.raises(BuildError)
    with refusal:
        check_image("abc", {"Id": "sha256:f", "Config": config, **OURS}, "mine", "service", HERE)


@pytest.mark.parametrize(
    ("made_for", "is_taken"),
    [
        (OURS, True),
        (OURS | {"Variant": "v1"}, True),
        (OURS | {"Variant": "v4"}, False),
        ({"Os": "linux", "Architecture": "386"}, False),
        ({"Os": "windows", "Architecture": "amd64"}, False),
        ({}, False),
    ],
)
def test_an_image_for_another_platform_is_refused(made_for, is_taken):
    """BuildKit would ask the registry for another one, with triggers that nobody read."""
    refusal = (
        nullcontext() if is_taken else pytest.raises(BuildError, match=r"^Use an image for linux/amd64 ")
    )
    with refusal:
        check_image("abc", {"Id": "sha256:f", **made_for}, "mine", "service", HERE)


@rows(
    "platform", [HERE, "linux/x86_64", "Linux/AMD64", "$BUILDPLATFORM", "${TARGETPLATFORM}", "$TARGETOS/$A"]
)
def test_an_explicit_platform_equal_to_the_engines_is_accepted_and_removed(platform):
    made = of(f"ARG A=$TARGETARCH\nFROM --platform={platform} a:1 AS one\n")
    assert "FROM a:1 AS one" in made.text.decode().splitlines()
    assert made.images == ("a:1",)


@rows("platform", ["linux/386", "linux/arm64", "linux/amd64/v3", "$A", "$NONE", "", "linux", "amd64"])
def test_an_image_of_another_platform_is_refused(platform):
    with pytest.raises(BuildError, match=r"^Dockerfile line 3: write FROM without --platform="):
        of(f"ARG A=linux/386\nFROM b AS one\nFROM --platform={platform} a:1\n", NONE="linux/386")


@rows("base", ["one", "scratch"])
def test_a_stage_and_scratch_may_name_any_platform(base):
    made = of(f"FROM b AS one\nFROM --platform=linux/386 {base}\n")
    assert f"FROM {base}" in made.text.decode().splitlines()


D = f"sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("ref", "digests", "written"),
    [
        ("a:1", [f"a@{D}"], f"a@{D}"),
        ("docker.io/library/a", [f"b@{D}", f"a@{D}"], f"a@{D}"),
        ("host:5000/a/b:1", [f"host:5000/a/b@{D}"], f"host:5000/a/b@{D}"),
        ("host:5000/a", [f"a@{D}", f"host/a@{D}", "<none>@<none>"], "host:5000/a"),
        ("a:1", None, "a:1"),
    ],
)
def test_a_checked_image_is_referenced_by_its_digest(ref, digests, written):
    assert by_digest(ref, {"RepoDigests": digests}) == written


def test_a_numeric_from_refers_to_a_stage_in_copy_but_to_an_image_in_a_mount():
    """As BuildKit has it: what it takes for an image is checked as one."""
    assert of("FROM a\nFROM b\nCOPY --from=0 x y\n").images == ("a", "b")
    assert of("FROM a\nFROM b\nRUN --mount=from=0,target=/m x\n").images == ("a", "b", "0")


def test_the_name_of_a_checked_image_is_replaced_wherever_it_stands():
    text = (
        "FROM b:1 AS a\nFROM b:1\nCOPY --from=b:1 --chown=1 x y\nCOPY --from=a x y\n"
        "RUN --mount=type=cache,FROM=b:1,target=/c --mount=from=b:1,target=/m x\n"
        "ONBUILD COPY --from=b:1 x y\n"
    )
    around = Around(service="acme", scope="s", arguments={}, platform=PLATFORM, heredocs=True)
    one, other = rewritten(text, around), rewritten(text, replace(around, digests={"b:1": "b@D"}))
    assert one.images == other.images == ("b:1",)
    assert other.text == one.text.replace(b"b:1", b"b@D")
    assert other.text.count(b"b@D") == 6


PLAIN = [
    "FROM a\nARG X=1\nENV A=$X\nWORKDIR /app\nCOPY --chown=1:1 . .\nRUN make\nUSER 1\nEXPOSE 80\nCMD run\n",
    "FROM a AS one\nRUN make\nFROM b\nCOPY --from=one /x /x\n",
    "FROM a\nRUN make\nFROM b\nCOPY --from=0 /x /x\n",
    "ARG BASE=one\nFROM a AS one\nFROM $BASE\nHEALTHCHECK --interval=1s CMD true\n",
    'FROM a\nUSER root\nWORKDIR /app\nCOPY a* b ./\nCOPY ["a b", "c", "/d/"]\nCOPY a..b /c\n',
]
NOT_PLAIN = [
    "FROM a AS unused\nRUN make\nFROM b\nRUN make\n",
    "FROM --platform=linux/amd64 a\nRUN make\n",
    "FROM a\nRUN --mount=type=tmpfs,target=/t make\n",
    "FROM a\nRUN --network=none make\n",
    "FROM a\nRUN <<E\nmake\nE\n",
    "FROM a\nCOPY <<E /x\nmake\nE\n",
    "FROM a\nCOPY --link x /x\n",
    "FROM a\nCOPY --chmod=1 x /x\n",
    "FROM a\nADD x.tar /x\n",
    "FROM a\nVOLUME /x\nRUN make\n",
    "FROM a\nONBUILD COPY x /x\n",
    "FROM a\nARG TARGETARCH\n",
    "FROM a\nARG SOURCE_DATE_EPOCH\n",
    "FROM a\nHEALTHCHECK --start-interval=1s CMD true\n",
    "FROM a\nUSER 1000\nWORKDIR /app\n",
    "FROM a AS one\nUSER $WHO\nFROM one\nWORKDIR /app\n",
    "FROM a\nCOPY ../x /x\n",
    'FROM a\nCOPY ["x/../../y", "/x/"]\n',
    "FROM a\nCOPY $UP/x /x\n",
    "FROM a\nCOPY .\\./x /x\n",
    "FROM a\nCOPY x y /z\n",
    "FROM a\nCOPY x? .\n",
]


@rows("text", PLAIN)
def test_plain_instructions_may_use_the_classic_builder(text: str):
    assert of(text).is_plain


@rows("text", NOT_PLAIN)
def test_instructions_on_which_the_builders_differ_require_buildkit(text: str):
    assert not of(text).is_plain


def test_a_base_image_with_volumes_triggers_or_a_user_waits_for_buildkit():
    assert is_plain_image({"Config": {"Volumes": None}})
    assert not is_plain_image({"Config": {"Volumes": {"/data": {}}}})
    assert is_plain_image({"Config": {"User": "0"}})
    assert not is_plain_image({"Config": {"User": "1000"}})
    assert not is_plain_image({"Config": {"OnBuild": ["WORKDIR /app"]}})


def test_labels_are_left_out_where_steps_would_have_them():
    text = "FROM a AS one\nLABEL x=y\nONBUILD LABEL z=1\nFROM one\nRUN make\n"
    shown = Around(service="acme", scope="s", arguments={}, platform=PLATFORM, heredocs=True)
    assert b"LABEL" in rewritten(text, shown).text
    hidden = replace(shown, hides_labels=True, labels={"a": ("traefik.enable", "b")})
    assert [line for line in rewritten(text, hidden).text.splitlines() if b"LABEL" in line] == [
        b'LABEL traefik.enable="" b=""'
    ]


@pytest.mark.parametrize("name", ['a"b', "$HOME", "a b", "a=b", ""])
def test_a_base_image_with_a_label_that_cannot_be_emptied_is_refused(name):
    around = Around(
        service="acme",
        scope="s",
        arguments={},
        platform=PLATFORM,
        heredocs=True,
        hides_labels=True,
        labels={"a": (name,)},
    )
    with pytest.raises(BuildError, match="it has a label named"):
        rewritten("FROM a\nRUN make\n", around)


def test_a_base_image_that_sets_labels_in_later_builds_is_refused():
    with pytest.raises(BuildError, match="ONBUILD LABEL"):
        check_image(
            "a",
            {"Id": "sha256:1", "Os": "linux", "Architecture": "amd64", "Config": {"OnBuild": ["LABEL a=b"]}},
            "acme",
            "l",
            "linux/amd64",
        )
