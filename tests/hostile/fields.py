"""The fields of a body, at every depth, with the type of each."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import inspect


def fields_of(
    info: inspect.Type, above: tuple[str, ...] = (), *, in_lists: bool
) -> Iterator[tuple[tuple[str, ...], inspect.Type]]:
    """Yields path and type of each plain value; `in_lists`: also of those in items of lists."""
    match info:
        case inspect.Metadata(type=inner):
            yield from fields_of(inner, above, in_lists=in_lists)
        case inspect.UnionType(types=types):
            for part in types:
                yield from fields_of(part, above, in_lists=in_lists)
        case inspect.ListType(item_type=item) if in_lists:
            yield from fields_of(item, above, in_lists=in_lists)
        case inspect.StructType(fields=fields):
            for field in fields:
                yield from fields_of(field.type, (*above, field.encode_name), in_lists=in_lists)
        case _:
            yield above, info
