"""Bundles the modules of the first page into one file, and the style sheets into another.

A browser then sends two requests instead of twenty, and starts one module, which is faster on a slow core.
The other modules remain separate files that are loaded when their page is opened. The sources are plain
modules. Their imports determine which modules are bundled.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Final

MAIN: Final = "js/main.js"
STYLE: Final = "style/console.css"
_FIRST_PAGE_MODULE: Final = "js/pages/overview.js"
_STYLE_SHEETS: Final = ("style/base.css", "style/parts.css", "style/pages.css")
_IMPORT_PATTERN: Final = re.compile(r'^import (?:\{ ([^}]*) \}|\* as (\w+)) from "([^"]+)";$', re.MULTILINE)
_LAZY_PATTERN: Final = re.compile(r'\bimport\("([^"]+)"\)')
_EXPORT_PATTERN: Final = re.compile(r"^export ((?:async )?function\*?|class|const) (\w+)", re.MULTILINE)
_OTHER_FORM_PATTERN: Final = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)


class UnknownForm(Exception):
    """A module has an import or export statement that the bundler does not support."""


def join(contents: Mapping[str, bytes]) -> dict[str, bytes]:
    """Returns the files to serve. `MAIN` contains the bundled modules, and `STYLE` the bundled style
    sheets."""
    texts = {name: content.decode() for name, content in contents.items() if name.endswith(".js")}
    joined = _order_modules(texts, [_FIRST_PAGE_MODULE, MAIN])
    kept = {
        name: content
        for name, content in contents.items()
        if name not in joined and name not in _STYLE_SHEETS
    }
    kept |= {name: _link_module(name, text, joined).encode() for name, text in texts.items() if name in kept}
    kept[MAIN] = _join_modules(texts, joined).encode()
    kept[STYLE] = b"".join(contents[name] for name in _STYLE_SHEETS)
    return kept


def _order_modules(texts: Mapping[str, str], roots: list[str]) -> list[str]:
    """Returns the modules that the roots import, directly or not. Each module follows its dependencies."""
    order: list[str] = []

    def visit(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise UnknownForm(f"{name} imports itself, by way of {above[-1]}")
        if name not in order:
            for _, _, target in _IMPORT_PATTERN.findall(texts[name]):
                visit(_resolve(name, target), (*above, name))
            order.append(name)

    for root in roots:
        visit(root, ())
    return order


def _join_modules(texts: Mapping[str, str], joined: list[str]) -> str:
    parts = [_wrap(name, texts[name], joined) for name in joined]
    names = ", ".join(_module_variable(name) for name in joined)
    return "\n".join([*parts, f"export {{ {names} }};\n"])


def _wrap(name: str, text: str, joined: list[str]) -> str:
    """Returns a module as a function that is called once, so that its names do not collide with other
    modules."""
    exported = ", ".join(match for _, match in _EXPORT_PATTERN.findall(text))
    body = _IMPORT_PATTERN.sub(
        lambda match: _rewrite_import(name, match), _EXPORT_PATTERN.sub(r"\1 \2", text)
    )
    if other := _OTHER_FORM_PATTERN.search(body):
        raise UnknownForm(f"{name}: {other[0]}")
    body = _LAZY_PATTERN.sub(lambda match: _open(name, match[1], joined, MAIN), body)
    return (
        f"// {name}\nconst {_module_variable(name)} = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();\n"
    )


def _link_module(name: str, text: str, joined: list[str]) -> str:
    """Returns a separate module. Imports of bundled modules are replaced by imports from `MAIN`."""

    def replace(match: re.Match[str]) -> str:
        target = _resolve(name, match[3])
        if target not in joined:
            return match[0]
        source = _relative_path(name, MAIN)
        return f'import {{ {_module_variable(target)} }} from "{source}"; {_rewrite_import(name, match)}'

    text = _IMPORT_PATTERN.sub(replace, text)
    return _LAZY_PATTERN.sub(lambda match: _open(name, match[1], joined, name), text)


def _rewrite_import(name: str, match: re.Match[str]) -> str:
    names, whole, target = match[1], match[2], match[3]
    wanted = whole or f"{{ {names.replace(' as ', ': ')} }}"
    return f"const {wanted} = {_module_variable(_resolve(name, target))};"


def _open(name: str, target: str, joined: list[str], file_path: str) -> str:
    """Returns the expression that loads a module on demand. `file_path`: the file that will contain the
    expression."""
    wanted = _resolve(name, target)
    if wanted not in joined:
        return f'import("{_relative_path(file_path, wanted)}")'
    if file_path == MAIN:
        return f"Promise.resolve({_module_variable(wanted)})"
    return f'import("{_relative_path(file_path, MAIN)}").then((main) => main.{_module_variable(wanted)})'


def _module_variable(name: str) -> str:
    return "$" + name.removeprefix("js/").removesuffix(".js").replace("/", "$")


def _resolve(name: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), target))


def _relative_path(file_path: str, target: str) -> str:
    path = posixpath.relpath(target, posixpath.dirname(file_path))
    return path if path.startswith(".") else f"./{path}"
