"""The field types that families share, with their limits.

An annotation validates the field in requests, documents it in OpenAPI, and is its help text on the command
line. `\\Z` in a pattern is printed as `$`, which in JSON Schema matches only at the end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeAlias, TypeVar

from msgspec import UNSET, Meta, UnsetType

from windlass.base import ids
from windlass.core.words.naming import to_words, with_article

T = TypeVar("T")

Maybe: TypeAlias = T | UnsetType | None
"""A field that is returned as it was sent: an absent field stays absent, null stays null."""

absent: Final[Any] = UNSET

# Rejected characters are listed explicitly, because `\s` differs between Python and JSON Schema (ECMA 262).
# These characters are invisible and change the meaning of text: direction marks, zero-width spaces, fillers
# and tags. Some of them are outside of Unicode's basic plane.
INVISIBLE_CHARACTERS: Final = (
    r"\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff"
    r"\uffa0\ufff9-\ufffb" + "\U000e0000-\U000e007f"
)
CONTROL_RANGES: Final = r"\x00-\x1f\x7f-\x9f\u2028\u2029" + INVISIBLE_CHARACTERS
BLANK_RANGES: Final = r"\x20\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
# Joiners and variation selectors are needed in several scripts and in emoji. Elsewhere they are invisible.
_JOINERS: Final = r"\u200c\u200d"
_SELECTORS: Final = r"\ufe00-\ufe0f"
_INNER_BLANKS: Final = r"\x20\xa0\u1680\u2000-\u200a\u202f\u205f\u3000"
_SHAPED: Final = rf"[^\x00-\x7f{CONTROL_RANGES}{BLANK_RANGES}{_JOINERS}{_SELECTORS}][{_SELECTORS}]?"
_SIGN: Final = rf"([!-~]|{_SHAPED}([{_JOINERS}]{_SHAPED})*)"
_CONTROL_CHARACTERS_PATTERN: Final = re.compile(f"[{CONTROL_RANGES}]")

EXPECTED_FORMS: Final[dict[str, str]] = {}
"""The expected form of a value in words, by pattern. Error messages use it instead of the pattern."""


def shaped(pattern: str, description: str) -> str:
    """Registers the expected form for a pattern and returns the pattern. Error messages contain the form."""
    EXPECTED_FORMS[pattern] = description
    return pattern


_VISIBLE_TEXT: Final = shaped(
    # schemathesis rewrites a repeated character class with Python's escapes, but not an alternative.
    rf"^([^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f{INVISIBLE_CHARACTERS}]+|)\Z",
    "must have no control characters, and none that are not seen",
)
"""Matches a text of visible characters, in which line ends and tabs are allowed."""

Id = Annotated[
    str,
    Meta(
        pattern=shaped(ids.PATTERN, "must be an id such as 6f1c1f0a-5c53-4b8e-9d43-6f4a5a0f7a11"),
        extra_json_schema={"format": "uuid"},
    ),
]
Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=255,
        pattern=shaped(
            rf"^{_SIGN}([{_INNER_BLANKS}]*{_SIGN})*\Z",
            "must have no blank at either end, and no characters that are not seen",
        ),
        description="No other one here has this name, in letters of any case. No blanks at its ends.",
    ),
]
_LINES: Final = Meta(extra={"several_lines": True})
Text = Annotated[str, Meta(max_length=65_536), _LINES]
MAX_LINE_LENGTH: Final = 1024
Line = Annotated[str, Meta(max_length=MAX_LINE_LENGTH, pattern=_VISIBLE_TEXT)]
Password = Annotated[str, Meta(max_length=1024), _LINES]
Timestamp = Annotated[
    str,
    Meta(
        description="ISO 8601, UTC, with milliseconds",
        examples=["2026-01-31T09:05:00.007Z"],
        extra_json_schema={"format": "date-time"},
    ),
]
# RFC 3986: non-ASCII characters are percent-encoded and host names use punycode, so the host is unambiguous.
_URL_PART = "([A-Za-z0-9._~:@!$&'()*+,;=/?-]|%[0-9A-Fa-f]{2})*"
_HEX = "[0-9A-Fa-f]{1,4}"
_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_LAST_32_BITS = rf"({_HEX}:{_HEX}|{_OCTET}(\.{_OCTET}){{3}})"
# An IPv6 address as defined by RFC 3986: `::` stands for one or more groups, so fewer other groups remain.
_IPV6 = "|".join(
    [
        f"({_HEX}:){{6}}{_LAST_32_BITS}",
        f"::({_HEX}:){{5}}{_LAST_32_BITS}",
        *(
            f"(({_HEX}:){{0,{before}}}{_HEX})?::({_HEX}:){{{4 - before}}}{_LAST_32_BITS}"
            for before in range(5)
        ),
        f"(({_HEX}:){{0,5}}{_HEX})?::{_HEX}",
        f"(({_HEX}:){{0,6}}{_HEX})?::",
    ]
)
_URL_HOST = rf"([A-Za-z0-9._-]+|\[({_IPV6})\])"
Url = Annotated[
    str,
    Meta(
        max_length=2048,
        pattern=shaped(
            rf"^https?://{_URL_HOST}(:[0-9]{{1,5}})?([/?]{_URL_PART})?(#{_URL_PART})?\Z",
            "must be an address such as https://example.com/path, without a user name",
        ),
        extra_json_schema={"format": "uri"},
        examples=["https://example.com/hooks/deployments"],
    ),
]

Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Positive = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Port = Annotated[int, Meta(ge=1, le=65_535)]
Millicores = Annotated[int, Meta(ge=1, le=1_000_000, description="Thousandths of a CPU: 1000 is one CPU")]
Mebibytes = Annotated[int, Meta(ge=1, le=16_777_216, description="MB of memory")]
Gibibytes = Annotated[int, Meta(ge=1, le=1_048_576, description="GB of storage")]

Key = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=255,
        pattern=shaped(
            r"^[A-Za-z_][A-Za-z0-9_.-]*\Z",
            "must begin with a letter or _, and continue with letters, digits, _, . and -",
        ),
        description="Name of the variable",
        examples=["DATABASE_URL"],
        extra={"exact": True},
    ),
]
"""The name of a variable. Unlike a Name, it is case-sensitive."""
Description = Annotated[
    str, Meta(max_length=65_536, pattern=_VISIBLE_TEXT, description="Text for people, without effect")
]
Note = Annotated[
    str, Meta(max_length=255, pattern=_VISIBLE_TEXT, description="Text for people, without effect")
]

Icon = Annotated[Line, Meta(description="Address of the picture that consoles show")]

WITHOUT_EFFECT: Final = Meta(
    description="Stored for other clients of this interface; has no effect here",
    extra_json_schema={"x-without-effect": True},
)
"""Marks a field that is stored and returned but has no effect."""

# Any: the values have different types; the body of the operation checks them.
ChangedSettings = Annotated[
    Maybe[dict[str, Any]],
    Meta(description="The advanced settings that differ from their defaults"),
]
"""The field of a resource with its changed advanced settings, by key."""


def visible(text: str) -> str:
    """Removes characters that names and descriptions do not allow, for text from a third party."""
    return _CONTROL_CHARACTERS_PATTERN.sub("", text)


def refers(family: str, *, opens: str = "") -> Meta:
    """Marks the id of an existing resource in the same organization that the caller may see.

    `opens`: for a credential, the sibling field with the address that the credential is sent to.
    """
    extra = {"refers": family, "opens": opens}
    return Meta(
        extra=extra,
        extra_json_schema={"x-refers": family},
        description=f"Id of {with_article(to_words(family))} of the organization",
    )


SERVICE_OR_ABOVE: Final = "service or above"
"""Used instead of a family: the id may belong to any service, project or environment."""


def takes_names(family: str) -> Meta:
    """Marks a list of ids for which the command line also accepts names."""
    return Meta(extra={"names": family})


def hidden(flag: str = "", *, sent_to: tuple[str, ...]) -> Meta:
    """Marks a field that is accepted and encrypted, but never returned. `flag`: the response field that shows
    whether a value is set.

    `sent_to`: the paths of the fields that determine where the server sends the value. A change of such a
    field requires the value to be sent again. An empty tuple means that the server never sends the value. A
    hidden field may be nested, such as `config.password`; it then has no flag.
    """
    return Meta(extra={"hidden": flag, "sent_to": sent_to}, extra_json_schema={"writeOnly": True})


def redacted() -> Meta:
    """Marks an address whose path may be secret. The address is encrypted. Only Admins see it completely;
    other callers see only scheme and host."""
    return Meta(extra={"redacted": True})


def short_form(option: str, sets: str, others: Mapping[str, object], meaning: str, *, written: str) -> Meta:
    """Marks a list of objects that usually need only one number. On the command line, `option` takes this
    number.

    The number sets the field `sets` of an object; `others` are the object's other fields. `written`: the list
    as JSON.
    """
    return Meta(extra={"short_form": (option, sets, others, meaning), "written": written})


def several_lines() -> Meta:
    """Marks a text that users keep in a file. The command line can read it from a file, like secrets."""
    return _LINES


def shown_once() -> Meta:
    """Marks a secret that only one response contains. Requests with the same Idempotency-Key return it for
    one more minute."""
    return Meta(extra={"shown_once": True}, extra_json_schema={"x-shown-once": True})


def always_refused(reason: str) -> Meta:
    """Marks a field that this server always rejects, so that forms do not show it."""
    return Meta(description=f"Refused: {reason}", extra_json_schema={"x-refused": True})


def ignored(reason: str) -> Meta:
    """Marks a field that is accepted and not even stored, so that commands have no option for it."""
    return Meta(description=f"Ignored: {reason}", extra={"ignored": True})


EXAMPLE_MARK: Final = "x-in-example"
"""A schema keyword that controls examples. It is removed from the published document."""
SHOWN: Final = "SHOWN"
LEFT_OUT: Final = "LEFT_OUT"
SUBJECT: Final = "SUBJECT"


def example(value: Any) -> Meta:
    """Sets the example of a field in the OpenAPI document."""
    return Meta(examples=[value])


def shown_in_examples() -> Meta:
    """Includes an optional field in examples of the OpenAPI document: an id, an object, or a list with one
    item."""
    return Meta(extra_json_schema={EXAMPLE_MARK: SHOWN})


def in_section(name: str) -> Meta:
    """Puts a field into a section of the settings that the console shows."""
    return Meta(extra_json_schema={"x-section": name})


def left_out_of_examples() -> Meta:
    """Leaves an optional field out of examples of the OpenAPI document: another choice excludes it."""
    return Meta(extra_json_schema={EXAMPLE_MARK: LEFT_OUT})


def usual_choice() -> Meta:
    """Marks the default among mutually exclusive fields, of which exactly one is sent."""
    return Meta(extra={"usual_choice": True})


def alternatives(fields: Mapping[str, Sequence[str]]) -> Meta:
    """Marks an object with mutually exclusive fields. Forms show each title as a choice, with its fields."""
    return Meta(extra_json_schema={"x-alternatives": {title: [*names] for title, names in fields.items()}})


def fields_by(sibling: str, fields: Mapping[str, Sequence[str]]) -> Meta:
    """Marks an object whose allowed fields depend on the value of a sibling field. Forms show only these
    fields."""
    by_value = {value: [*names] for value, names in fields.items()}
    return Meta(extra_json_schema={"x-fields-by": {"field": sibling, "values": by_value}})


def id_of_subject() -> Meta:
    """Marks the id of the resource that an operation acts on."""
    return Meta(extra_json_schema={EXAMPLE_MARK: SUBJECT})


def counts(family: str) -> Meta:
    """Marks a counter of the direct child resources of a family. The server maintains it."""
    return Meta(extra={"counts": family})


def counts_users() -> Meta:
    """Marks a counter of the resources that refer to this resource. The server maintains it."""
    return Meta(extra={"counts_users": True})


def fixed() -> Meta:
    """Marks a field that is set at creation and cannot be changed."""
    return Meta(extra={"fixed": True})


def kept() -> Meta:
    """Marks a field that keeps its value if a PUT omits it, although it has a default."""
    return Meta(extra={"kept": True})


def stays() -> Meta:
    """Marks a field whose value a rollback does not change, such as storage."""
    return Meta(extra={"stays": True})


def in_full_default(value: bool) -> Meta:
    """Marks a field with another default for clients of the full interface."""
    return Meta(extra={"in_full_default": value})


def follows(field: str, *, when_named: bool = False) -> Meta:
    """Marks a field that is derived from another field unless the client sends it. A change of the other
    field updates it.

    `when_named`: sending the other field counts as a change even if its value is the same.
    """
    return Meta(extra={"follows": field, "when_named": when_named})
