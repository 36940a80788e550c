"""Finds the operations of a path in a tree of path segments, which is built from the registry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from windlass.base.ids import LENGTH
from windlass.core.declare.registry import Operation

MAX_WORD_LENGTH = 255
Methods = Mapping[str, Operation]


class Node:
    __slots__ = ("branches", "methods", "param", "takes_words")

    def __init__(self) -> None:
        self.branches: dict[str, Node] = {}
        self.param: Node | None = None
        self.methods: dict[str, Operation] = {}
        self.takes_words = False
        """Whether the path parameter may be any text, and not only an id."""


class RouteTree:
    def __init__(self, operations: Iterable[Operation]) -> None:
        self._root = Node()
        for operation in operations:
            self._node(operation).methods[operation.method] = operation

    def _node(self, operation: Operation) -> Node:
        node = self._root
        words = {f"{{{id.param}}}" for id in operation.ids if not id.families}
        for piece in operation.path.split("/")[1:]:
            if piece.startswith("{"):
                node.takes_words |= piece in words
                node.param = node.param or Node()
                node = node.param
            else:
                node = node.branches.setdefault(piece, Node())
        return node

    def find(self, path: str) -> tuple[Methods, tuple[str, ...]] | None:
        """Returns the operations of a path by method, and the values of its parameters; None if the path is
        unknown.

        A literal segment has priority over a parameter.
        """
        node = self._root
        ids: tuple[str, ...] = ()
        for piece in path.split("/")[1:]:
            following = node.branches.get(piece)
            if following is None:
                # A segment that cannot be an id belongs to no operation, so that no resource is looked up.
                if (
                    node.param is None
                    or "\0" in piece
                    or (len(piece) != LENGTH and not _is_word(piece, node))
                ):
                    return None
                ids = (*ids, piece)
                following = node.param
            node = following
        return (node.methods, ids) if node.methods else None


def _is_word(piece: str, node: Node) -> bool:
    return node.takes_words and 0 < len(piece) <= MAX_WORD_LENGTH


def allow_header(methods: Iterable[str]) -> str:
    """Returns the value of the `Allow` header for a path."""
    offered = set(methods) | {"OPTIONS"}
    if "GET" in offered:
        offered.add("HEAD")
    return ", ".join(sorted(offered))
