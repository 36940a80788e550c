"""Programs in the place of package managers of Python, for scripts of the repository that call `uv run`.

Commands that Windlass reads itself are started without the manager: see `detect.python_runners`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from windlass.detect.python_runners import OPTIONS, RUNNERS

_TEXT: Final = rf"""#!/bin/sh
name=${{0##*/}}
if [ "${{1-}}" != run ]; then
    echo "$name: the environment was made at the build; here is only \`$name run\`" >&2
    exit 64
fi
shift
while [ $# -gt 0 ]; do
    case $1 in
        {"|".join(OPTIONS)}) shift ;;
        *) break ;;
    esac
done
case ${{1-}} in
    *.py) exec python "$@" ;;
    *) exec "$@" ;;
esac
"""


def make_runners(folder: Path) -> None:
    """Makes the programs of a folder, which run their command in the environment that comes before them on
    the path."""
    folder.mkdir()
    for name in RUNNERS:
        (folder / name).write_text(_TEXT)
        (folder / name).chmod(0o755)
