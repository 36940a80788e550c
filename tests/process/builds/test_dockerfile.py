"""A Dockerfile is read as Docker reads it, and what is wrong with one is said with its line."""

from __future__ import annotations

from contextlib import suppress
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import rows
from windlass.base import dockerignore
from windlass.builders.dockerfile import read
from windlass.builders.dockerfile_hints import ExecForm, Shell, read_hints
from windlass.builders.instructions import Argument, DockerfileError
from windlass.builders.substitution import BadWord, substitute, words


def config(text, stage=None, **given):
    dockerfile = read(text)
    wanted = dockerfile.stage(stage)
    assert wanted
    return read_hints(dockerfile, wanted, given)


def names(text):
    return [(each.name, each.line, each.text) for stage in read(text).stages for each in stage.instructions]


READ = [
    ("comments", "# one\nFROM a\n  # two\nRUN x # not a comment\n", [("RUN", 4, "x # not a comment")]),
    ("small letters", "from a\nrun x\n", [("RUN", 2, "x")]),
    ("continuation", "FROM a\nRUN one \\\n  two\\  \n three\n", [("RUN", 2, "one   two three")]),
    (
        "comments and empty lines within an instruction",
        "FROM a\nRUN one \\\n# said between\n\n  && two\n",
        [("RUN", 2, "one   && two")],
    ),
    (
        "an escaped escape at the end",
        "FROM a\nRUN one \\\\\nRUN two\n",
        [("RUN", 2, "one \\\\"), ("RUN", 3, "two")],
    ),
    ("a continuation that never comes", "FROM a\nRUN one \\\n", [("RUN", 2, "one")]),
    (
        "escape directive",
        "# escape=`\nFROM a\nRUN one `\n two \\\nRUN x\n",
        [("RUN", 3, "one  two \\"), ("RUN", 5, "x")],
    ),
    ("no directive after a comment", "# hello\n# escape=`\nFROM a\nRUN `\n", [("RUN", 4, "`")]),
    (
        "syntax directive before escape",
        "# syntax=docker/dockerfile:1\n# escape=`\nFROM a\nRUN a`\nb\n",
        [("RUN", 4, "ab")],
    ),
    ("windows lines and a mark", "\ufeffFROM a\r\nRUN one \\\r\n two\r\n", [("RUN", 2, "one  two")]),
    (
        "heredoc",
        "FROM a\nRUN <<EOF\nFROM not\n# a comment of the shell\nEOF\nRUN two\n",
        [("RUN", 2, "<<EOF"), ("RUN", 6, "two")],
    ),
    (
        "heredoc with tabs",
        "FROM a\nRUN cat <<-'END' > x\n\tone\n\tEND\nUSER b\n",
        [("RUN", 2, "cat <<-'END' > x"), ("USER", 5, "b")],
    ),
    (
        "heredocs among words of a shell",
        "FROM a\nRUN [ -f x ] && cat <<A >\"$HOME/x y\" && cat 3<<'B' <&3 > ${C:-/d}\na\nA\nb\nB\nUSER b\n",
        [("RUN", 2, "[ -f x ] && cat <<A >\"$HOME/x y\" && cat 3<<'B' <&3 > ${C:-/d}"), ("USER", 7, "b")],
    ),
    (
        "no heredoc in a string, quotes or JSON",
        'FROM a\nRUN cat <<< "${A%.*}"\nRUN echo "a <<B" <<<x\nRUN ["a", "<<B"]\nRUN <x cat ${A%.*} <y\n',
        [
            ("RUN", 2, 'cat <<< "${A%.*}"'),
            ("RUN", 3, 'echo "a <<B" <<<x'),
            ("RUN", 4, '["a", "<<B"]'),
            ("RUN", 5, "<x cat ${A%.*} <y"),
        ],
    ),
    (
        "no heredoc in arithmetic",
        "FROM a\nRUN echo $((1<<2))\nUSER b\n",
        [("RUN", 2, "echo $((1<<2))"), ("USER", 3, "b")],
    ),
    ("flags", "FROM --platform=linux/amd64 a\nCOPY --from=b --chown=c:d x y\n", [("COPY", 2, "x y")]),
]


@rows(("text", "found"), [row[1:] for row in READ], ids=[row[0] for row in READ])
def test_each_instruction_is_parsed_with_its_line(text, found):
    assert names(text) == found


WRONG = [
    ("", 1, "no instruction"),
    ("# only a comment\n", 1, "no instruction"),
    ("RUN x\nFROM a\n", 1, "only ARG may come before"),
    ("ARG a\n", 1, "no FROM"),
    ("FROM a\nRUNN x\n", 2, "RUNN is not an instruction"),
    ("FROM a\n\nCMD\n", 3, "CMD says nothing"),
    ("FROM a b\n", 1, "FROM takes an image"),
    ("FROM a AS B!\n", 1, "not a name for a stage"),
    ("FROM a\nCMD [1]\n", 2, "only hold texts in double quotes"),
    ("FROM a\nRUN []\n", 2, "is empty"),
    ("FROM a\nSHELL /bin/bash\n", 2, "SHELL takes a JSON list"),
    ("FROM a\nENV A\n", 2, "A has no value"),
    ("FROM a\nENV A=1 B\n", 2, "takes NAME=value, and B"),
    ("FROM a\nARG 1=2\n", 2, "not a name for an ARG"),
    ("FROM a\nCOPY one\n", 2, "at least one source"),
    ("FROM a\nRUN <<EOF\nx\n", 2, "<<EOF has no end"),
    ("# escape=x\nFROM a\n", 1, "escape must be"),
    ("# escape=`\n# escape=`\nFROM a\n", 2, "may only come once"),
    ("FROM a\nONBUILD FROM b\n", 2, "ONBUILD cannot hold FROM"),
    pytest.param(f"FROM a\n{'ONBUILD ' * 100_000}RUN x\n", 2, "ONBUILD cannot hold ONBUILD", id="chain"),
    *((f"FROM a\nRUN a{sign}b\n", 2, "remove the control character") for sign in "\0\r\v\f\x1b\x1c\x1f\x7f"),
    ('FROM a\nCMD ["\\u0000"]\n', 2, "NUL"),
]


@rows(("text", "line", "why"), WRONG)
def test_an_error_in_a_dockerfile_is_named_with_its_line(text, line, why):
    with pytest.raises(DockerfileError, match=why) as caught:
        read(text)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"line {line}: ")


BADLY_MEANT = [
    ("FROM a\nWORKDIR ${A\n", 2, "has no closing"),
    ("FROM a\nWORKDIR 'x\n", 2, "has no closing '"),
    ('FROM a\nENV A="${B:?is needed}"\n', 2, "is needed"),
    ("FROM ${NONE}\n", 1, "empty"),
    ("FROM a\nEXPOSE http\n", 2, "not a port"),
    ("FROM a\nEXPOSE 70000\n", 2, "not a port"),
    ("FROM a\nEXPOSE 1-60000\n", 2, "range of ports"),
    ("FROM a\nENV $A=b\n", 2, "name comes out empty"),
]


@rows(("text", "line", "why"), BADLY_MEANT)
def test_a_meaningless_instruction_is_named_with_its_line(text, line, why):
    with pytest.raises(DockerfileError, match=why) as caught:
        config(text)
    assert caught.value.line == line


def test_a_command_of_invalid_json_is_a_shell_command():
    assert config("FROM a\nCMD ['python', 'x']\n").command == Shell("['python', 'x']")
    assert config('FROM a\nCMD ["python", "x"]\n').command == ExecForm(("python", "x"))


SUBSTITUTED = [
    ("$A", "one"),
    ("${A}two", "onetwo"),
    ("$A_", ""),
    ("\\$A", "$A"),
    ("'$A'", "$A"),
    ('"$A b"', "one b"),
    ('"\\"$A\\""', '"one"'),
    ("${B:-x}", "x"),
    ("${B-x}", "x"),
    ("${E:-x}", "x"),
    ("${E-x}", ""),
    ("${A:+x}", "x"),
    ("${B:+x}", ""),
    ("${E+x}", "x"),
    ("${A:?no}", "one"),
    ("${B:-${A}s}", "ones"),
    ("${P##*/}", "file.tar.gz"),
    ("${P#*/}", "b/file.tar.gz"),
    ("${P%.*}", "a/b/file.tar"),
    ("${P%%.*}", "a/b/file"),
    ("a$", "a$"),
    ("$$", ""),
]


@rows(("text", "made"), SUBSTITUTED)
def test_variables_are_filled_in_as_docker_does(text, made):
    assert substitute(text, {"A": "one", "E": "", "P": "a/b/file.tar.gz"}, "\\") == made


def test_exponentially_growing_dockerfile_variables_are_refused():
    lines = "".join(f"ENV A{at + 1}=$A{at}$A{at}$A{at}$A{at}\n" for at in range(40))
    with pytest.raises(DockerfileError, match=r"too (long|large)"):
        config(f"FROM a\nENV A0=xxxxxxxx\n{lines}")


@pytest.mark.timeout(20)
def test_very_many_flags_are_read_in_time_that_grows_with_their_number():
    """The limit of time is the negative control: to copy the rest of the line for each of them takes
    longer."""
    number = 170_000
    [run] = read(f"FROM image\nRUN {'--a=b ' * number}x\n").stages[0].instructions
    assert (len(run.flags), run.text) == (number, "x")


def test_quoted_text_in_a_dockerfile_instruction_is_one_word():
    assert words("a='b c' \"d e\" f\\ g", "\\") == ["a='b c'", '"d e"', "f\\ g"]


def test_build_arguments_are_listed():
    found = read("ARG TAG=3.12\nFROM python:$TAG AS Base\nARG USERNAME\nARG A=1 B='x y'\nFROM base\n")
    assert found.arguments == (Argument("TAG", "3.12", 1),)
    assert found.stages[0].arguments == (
        Argument("USERNAME", None, 3),
        Argument("A", "1", 4),
        Argument("B", "'x y'", 4),
    )
    assert [stage.name for stage in found.stages] == ["base", ""]


def test_an_arg_before_from_is_visible_in_a_stage_only_if_redeclared():
    text = "ARG V=1\nFROM a AS x\nENV A=[$V]\nFROM a AS y\nARG V\nENV A=[$V]\n"
    assert config(text, "x").environment["A"] == "[]"
    assert config(text, "y").environment["A"] == "[1]"
    assert config(text, "y", V="2").environment["A"] == "[2]"


def test_env_overrides_arg_and_uses_values_from_before_its_line():
    text = "FROM a\nARG A=arg\nENV A=env\nENV A=new B=$A\nWORKDIR /$A/$B\n"
    assert config(text, A="given").environment["B"] == "env"
    assert config(text).workdir == "/new/env"


def test_the_image_is_named_with_the_build_arguments():
    text = "ARG TAG=3.12\nFROM python:$TAG AS base\nFROM base\n"
    assert config(text).image == "python:3.12"
    assert config(text, TAG="3.11").image == "python:3.11"


def test_a_build_argument_that_the_dockerfile_does_not_declare_is_ignored():
    assert config("FROM a\nENV A=[$SECRET]\n", SECRET="x").environment["A"] == "[]"


def test_a_stage_inherits_settings_of_the_stage_it_is_based_on():
    text = (
        "FROM python:3.12 AS base\nENV A=1\nWORKDIR /srv\nEXPOSE 80\nCMD one\nFROM base\nWORKDIR app\n"
        "EXPOSE 81/tcp 82/udp 90-91\n"
    )
    found = config(text)
    assert (found.top, found.workdir, found.image) == ("/srv", "/srv/app", "python:3.12")
    assert found.ports == [80, 81, 90, 91]
    assert found.command == Shell("one")


COMMANDS = [
    ('CMD ["a"]', ExecForm(("a",))),
    ("CMD a $B", Shell("a $B")),
    ('SHELL ["/bin/bash", "-c"]\nCMD a', Shell("a", ("/bin/bash", "-c"))),
    ('ENTRYPOINT ["a"]\nCMD ["b"]', ExecForm(("a", "b"))),
    ('CMD ["b"]\nENTRYPOINT ["a"]', ExecForm(("a", "b"))),
    ('ENTRYPOINT ["a"]\nCMD b c', ExecForm(("a", "/bin/sh", "-c", "b c"))),
    ('ENTRYPOINT a\nCMD ["b"]', Shell("a")),
    ('CMD ["a"]\nCMD ["b"]', ExecForm(("b",))),
    ('CMD ["a"]\nCMD []', None),
]


@rows(("text", "command"), COMMANDS)
def test_the_command_of_a_dockerfile_is_entrypoint_followed_by_cmd(text, command):
    assert config(f"FROM a\n{text}\n").command == command


def test_an_entrypoint_forgets_the_cmd_of_the_stage_before():
    assert config('FROM a AS b\nCMD ["x"]\nFROM b\nENTRYPOINT ["y"]\n').command == ExecForm(("y",))


STAGES = "FROM a AS one\nRUN 1\nFROM b AS two\nRUN 2\nFROM c AS three\nRUN 3\nCOPY --from=one /x /y\n"


def test_an_error_in_an_unused_stage_is_ignored():
    text = "FROM a AS broken\nEXPOSE http\nFROM b\nEXPOSE 80\n"
    assert config(text).ports == [80]
    with pytest.raises(DockerfileError):
        config(text, "broken")


def test_an_unknown_stage_name_is_not_found():
    assert read(STAGES).stage("four") is None
    assert read(STAGES).stage("9") is None


def test_every_instruction_that_is_not_executed_is_named_with_a_reason():
    text = (
        "FROM a AS one\nRUN make\nFROM b\nLABEL a=b\nUSER x\nVOLUME /d\nADD https://example.com/x /x\n"
        "COPY --from=one /a /b\nHEALTHCHECK CMD y\nSTOPSIGNAL 9\nONBUILD RUN x\nCOPY . .\nEXPOSE 80\n"
    )
    skipped = config(text).skipped
    assert [each.line for each in skipped] == [2, 5, 6, 7, 8, 9, 10, 11, 12]
    assert all(each.why for each in skipped)
    assert [each.line for each in skipped if each.makes_files] == [2, 7, 8]


IGNORED = [
    ("*.md", "README.md", True),
    ("*.md", "docs/README.md", False),
    ("**/*.md", "docs/deep/README.md", True),
    ("**/*.md", "README.md", True),
    ("docs", "docs/a/b", True),
    ("/docs/", "docs/a", True),
    ("docs/*\n!docs/keep", "docs/keep", False),
    ("docs/*\n!docs/keep", "docs/other", True),
    ("*\n!src", "src/a.py", False),
    ("# docs", "docs", False),
    ("a?c", "abc", True),
    ("[^b]c", "ac", True),
    ("[^b]c", "bc", False),
    ("\\*", "a", False),
    (".git", ".git/config", True),
    ("**", "a/b", True),
]


@rows(("patterns", "path", "ignored"), IGNORED)
def test_dockerignore_patterns_match_as_in_docker(patterns, path, ignored):
    assert dockerignore.read(patterns)(PurePosixPath(path)) is ignored


WORDS = "FROM RUN CMD COPY ADD ENV ARG WORKDIR EXPOSE ENTRYPOINT SHELL USER VOLUME ONBUILD HEALTHCHECK LABEL"
SIGNS = "' \" [ ] { } $ ${ ${A :- :+ # % * ` = << <<EOF EOF , / .. --from= --from=0 a b AS x:1 A=1"
SPACES = [" ", "\n", "\n\n", "\\\n", "\\", "\t", "\r\n"]
WHOLE = ['["a", "b"]', "# escape=`\n", "FROM a\n", "FROM a AS b\n", "\0", "é", "\ud800"]
# Made of what Dockerfiles are made of, so that most are read quite far.
PIECES = st.sampled_from([*WORDS.split(), *SIGNS.split(), *SPACES, *WHOLE])


@given(st.lists(PIECES, max_size=40).map("".join) | st.text(max_size=200), st.booleans())
def test_any_text_as_a_dockerfile_is_parsed_or_refused_with_a_line(text, begins):
    whole = f"FROM a\n{text}" if begins else text
    line = None
    try:
        config(whole, A="1")
    except DockerfileError as error:
        line = error.line
    assert line is None or 1 <= line <= whole.count("\n") + 1


@given(st.text(alphabet="ab${}:-+?#%*'\"\\/ ", max_size=40))
def test_any_text_with_variables_is_substituted_or_refused(text):
    with suppress(BadWord):
        assert isinstance(substitute(text, {"a": "x", "b": ""}, "\\"), str)


@given(
    st.text(max_size=60), st.lists(st.text(alphabet="ab.*[]", min_size=1, max_size=5), min_size=1, max_size=4)
)
def test_any_dockerignore_patterns_can_be_matched_without_an_error(patterns, parts):
    assert dockerignore.read(patterns)(PurePosixPath("/".join(parts))) in {True, False}
