"""Commands of the settings, for a folder of which no language is known: nothing else would run them."""

from __future__ import annotations

from windlass.process.builds.build_state import BuildState
from windlass.process.builds.tools import step


async def run_own_commands(state: BuildState) -> None:
    """Installs and builds. The steps of Python and Node run these commands themselves."""
    if state.sources.declaration is not None or state.sources.package is not None:
        return
    settings = state.order.settings
    for title, command in (("Installing", settings.install_command), ("Building", settings.build_command)):
        if command:
            with step(state.say, f"{title} ({command})"):
                await state.tools.run(
                    ["/bin/sh", "-c", command],
                    cwd=state.layout.folder,
                    more=state.variables_as_started(),
                    what=command,
                )
