"""HCL is read as Terraform reads it, as far as it is plain; all else is refused with its line."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import rows
from windlass.terraform.hcl import HclError, input_variables, sensitive_variables, variable_values


def default(expression: str) -> str | None:
    [variable] = input_variables({"a.tf": f'variable "a" {{\n  default = {expression}\n}}\n'.encode()})
    return variable.default


PLAIN = [
    ('"web"', "web"),
    ('""', ""),
    (r'"a\tb\"c\\ é"', 'a\tb"c\\ é'),
    ('"$${a} %%{b} $5 100%"', "${a} %{b} $5 100%"),
    ("null", None),
    ("true", "true"),
    ("-5", "-5"),
    ("007", "7"),
    ("0.50", "0.50"),
    ("1e3", "1e3"),
    ("123456789012345678901234567890", "123456789012345678901234567890"),
    ("[]", "[]"),
    ('[\n "a", # first\n 2,\n]', '["a",2]'),
    ('{ a = 1, "b" : [true], 3 = null\n c = {} }', '{"a":1,"b":[true],"3":null,"c":{}}'),
    ("<<EOT\n  a\n  b }\n  EOT", "  a\n  b }\n"),
    ("<<-EOT\n    a\n      b\n  EOT", "a\n  b\n"),
    ("<<-EOT\n    a\n  \n\tb\n  EOT", "   a\n  \nb\n"),
    ("<<EOT\n$${a} \\n\nEOT", "${a} \\n\n"),
    ('"a" // a comment', "a"),
    ("/* a\n comment */ 1", "1"),
]
"""Expressions, and how they are shown."""


@rows(("expression", "shown"), PLAIN)
def test_a_plain_default_value_is_shown_as_on_the_command_line(expression: str, shown: str | None):
    assert default(expression) == shown


@rows(
    "expression",
    [
        '"${var.b}"', "var.b", "60 * 60", "-var.b", 'f("a")', 'true ? "a" : "b"', "[for a in [1] : a]",
        '{ (a) = 1 }', '["a" "b"]', '"a" "b"', "null.a", "true[0]", "<<EOT\n${a}\nEOT", "(1)", "[1",
        '"a', '"\\q"', '"\\ud800"', "<<EOT\nno end", "/* no end", "?", "",
    ],
)  # fmt: skip
def test_expressions_that_are_not_plain_values_are_refused_with_their_line(expression: str):
    with pytest.raises(HclError, match=r"^a\.tf, line \d"):
        default(expression)


MODULE = b"""
terraform {
  required_version = ">= 1.5"
  backend "s3" {}
}
locals { all = { for k, v in var.a : k => "${v}-${join("}", [k])}" } }
resource "x" "y" {
  name   = <<-END
    variable "not_this" { ${ "}" }
  END
  count  = var.a == null ? 0 : length(var.b[*].c...)
  nested { deeper = [1, { a = (2 + 3) }] }
}
variable "a" {
  type = object({
    b = optional(list(string), ["}"])
  })
  default     = null
  description = <<-END
    Text of
    two lines
  END
  validation {
    condition     = var.a != "{"
    error_message = "No."
  }
}
variable b { sensitive = "true" }
variable "c" {}
"""


def test_variables_are_found_in_a_whole_module():
    found = {one.key: one for one in input_variables({"main.tf": MODULE})}
    assert {one.key: one.sensitive for one in found.values()} == {"a": False, "b": True, "c": False}
    assert found["a"].description == "Text of\ntwo lines\n"


def test_an_override_file_takes_precedence_over_the_declaration():
    files = {
        "a_override.tf": b'variable "a" { default = 2 }',
        "main.tf": b'variable "a" {\n default = 1\n description = "A"\n}',
        "override.tf.json": b'{"variable": [{"a": [{"sensitive": true}]}]}',
    }
    [one] = input_variables(files)
    assert (one.sensitive, one.default, one.description, one.source) == (True, None, "A", "main.tf")
    assert sensitive_variables(files) == {"a"}
    [control] = input_variables({name: files[name] for name in ("a_override.tf", "main.tf")})
    assert control.default == "2"


def test_sensitive_variables_are_found_beside_values_that_are_not_plain():
    files = {"a.tf": b'variable "a" {\n default = f("x")\n sensitive = true\n}'}
    assert sensitive_variables(files) == {"a"}
    with pytest.raises(HclError):
        input_variables(files)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tfvars", b'\xef\xbb\xbfa = "x"\r\nb = [1,\r\n2]\n\nc = null\n'),
        ("a.tfvars.json", b'{"a": "x", "b": [1, 2], "c": null, "//": "a comment"}'),
    ],
)
def test_values_files_are_read_as_hcl_and_as_json(name: str, content: bytes):
    assert variable_values(name, content) == {"a": "x", "b": "[1,2]"}


@rows(
    ("name", "content"),
    [
        ("a.tfvars", b"a"),
        ("a.tfvars", b"a {}"),
        ("a.tfvars", b"a = 1\na = 2"),
        ("a.tfvars", b'"a" = 1'),
        ("a.tfvars", b"a = 1 b = 2"),
        ("a.tfvars.json", b"[]"),
        ("a.tfvars.json", b"{"),
        ("a.tfvars.json", b'{"a": NaN}'),
        ("a.tfvars.json", b'{"a": "\\ud800"}'),
        ("a.tfvars.json", b'{"a": ' + b"[" * 100_000),
        ("a.tf.json", b'{"variable": 1}'),
        ("a.tf.json", b'{"variable": {"a": 1}}'),
        ("a.tf.json", b'{"variable": {"a": {"sensitive": 1}}}'),
        ("a.tf.json", b'{"variable": {"a": {"description": 1}}}'),
        ("a.tf", b'variable "a" "b" {}'),
        ("a.tf", b"variable {}"),
        ("a.tf", b"variable = 1"),
        ("a.tf", b'variable "a" { sensitive = 1 }'),
        ("a.tf", b'variable "a" }'),
        ("a.tf", b'variable "a" { type = (] }'),
    ],
)
def test_invalid_files_are_refused_with_their_name(name: str, content: bytes):
    with pytest.raises(HclError, match=r"^a\.tf(vars)?(\.json)?[:,]"):
        read(name, content)


def test_an_hcl_error_message_is_short_and_printable():
    name = "a" * 1000
    with pytest.raises(HclError) as raised:
        variable_values("a.tfvars", f"{name} = 1\n{name} = 2".encode())
    assert len(str(raised.value)) < 300
    with pytest.raises(HclError) as raised:
        input_variables({"a.tf": 'variable "\u202e" {}\nvariable "\u202e" {}'.encode()})
    assert str(raised.value).isprintable()


@given(st.text(alphabet=st.sampled_from('ab1"\\${}%[](),=:\n#/*<-E. '), max_size=60))
def test_any_text_as_hcl_is_read_or_raises_an_hcl_error(text: str):
    for name in ("a.tf", "a.tfvars"):
        with suppress(HclError):
            assert isinstance(read(name, b"variable" + text.encode()), dict | list)


def read(name: str, content: bytes) -> object:
    return variable_values(name, content) if "vars" in name else input_variables({name: content})
