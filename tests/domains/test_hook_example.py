"""The example of `dns_hook` in the manual takes each text that a record may have."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

MANUAL = Path(__file__).parents[2] / "docs" / "domains.md"
TOOL = """\
#!/bin/sh
# As most tools do: a word that begins with - is an option, up to --.
options=yes
for word; do
    case $options$word in
    yes--) options=no ;;
    yes-*) echo "unknown option $word" >&2; exit 2 ;;
    *) echo "$word" ;;
    esac
done
"""


@pytest.mark.parametrize("word", ["add", "remove"])
def test_a_text_that_begins_with_a_hyphen_is_no_option(tmp_path, word):
    (text,) = re.findall(r"```sh\n(#!/bin/sh\n# /usr/local/bin/set-record\n.*?)```", MANUAL.read_text(), re.S)
    for name, content in (("set-record", text), ("my-dns", TOOL)):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o755)
    name, value = "_acme-challenge.apps.example.com", "-0NlC6L9K7_jnhA"
    done = subprocess.run(
        [tmp_path / "set-record", word, name, value],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-3:] == [name, "TXT", value]
