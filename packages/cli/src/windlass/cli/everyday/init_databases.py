"""The databases of a new application: `windlass init` creates those that its code needs, and sets the
variables from which it takes the access."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from windlass.cli.client import Api, ApiRefused
from windlass.detect.database_names import kind_of_type, prefix_of
from windlass.detect.recipe import NeededDatabase
from windlass.terminal.tables import plain

_DATABASE_MODE: Final = "CONTAINER"


class DatabaseMaker:
    """Creates databases beside a new application."""

    def __init__(self, api: Api, application: Mapping[str, Any], report_line: Callable[[str], None]) -> None:
        self._api = api
        self._application = application
        self._environment = f"/environment/{application['environment']['id']}"
        self._note = report_line

    def provide(self, needs: Sequence[NeededDatabase], confirm: Callable[[str], bool]) -> None:
        """Uses the only database of each kind in the environment, or creates one if `confirm` says so, and
        sets the variables. What the server refuses is said, and does not end the command."""
        for need in needs:
            title = kind_of_type(need.type).title
            try:
                if name := self._choose_database(need, title, confirm):
                    self._set_variables(need, name)
            except ApiRefused as refused:
                self._note(f"The {title} database is missing: {plain(refused.message)}")

    def _choose_database(self, need: NeededDatabase, title: str, confirm: Callable[[str], bool]) -> str:
        """Returns the name of the database to use; empty if there is none."""
        present = self._api.get(f"{self._environment}/database")["results"]
        same = [database["name"] for database in present if database["type"] == need.type]
        if len(same) == 1:
            return str(same[0])
        if same:
            names = ", ".join(map(plain, same))
            self._note(f"Set its variables to those of one of the {title} databases {names}.")
            return ""
        version = self._newest_version(need.type)
        if not version:
            self._note(f"The environment runs no {title} database: {self._variable_names(need)} stay unset.")
            return ""
        if not confirm(f"It needs a {title} database ({self._variable_names(need)}). Create {need.name}?"):
            return ""
        return self._create(need, version, {database["name"] for database in present})

    def _newest_version(self, type: str) -> str:
        kinds = self._api.get(f"{self._environment}/databaseConfiguration")["results"]
        versions = [each["version"] for each in kinds if each["database_type"] == type]
        return str(versions[0][0]["name"]) if versions and versions[0] else ""

    def _create(self, need: NeededDatabase, version: str, taken_names: set[str]) -> str:
        name = need.name if need.name not in taken_names else f"{self._application['name']}-db"
        body = {"name": name, "type": need.type, "version": version, "mode": _DATABASE_MODE}
        created = self._api.call("POST", f"{self._environment}/database", msgspec.json.encode(body)).json
        self._note(f"Created the database {plain(name)}.")
        self._api.call("POST", f"/database/{created['id']}/deploy", b"")
        return str(created["name"])

    def _set_variables(self, need: NeededDatabase, name: str) -> None:
        values = {
            variable.name: variable.value.replace(f"{{{{{prefix_of(need.name)}", f"{{{{{prefix_of(name)}")
            for variable in need.variables
        }
        entries = [
            {"name": key, "value": value, "scope": "APPLICATION", "is_secret": False}
            for key, value in values.items()
        ]
        path = f"/application/{self._application['id']}/environmentVariable/import"
        self._api.call("POST", path, msgspec.json.encode({"overwrite": False, "vars": entries}))
        self._note(f"Set {self._variable_names(need)} to the access to {plain(name)}.")

    @staticmethod
    def _variable_names(need: NeededDatabase) -> str:
        return ", ".join(plain(variable.name) for variable in need.variables)
