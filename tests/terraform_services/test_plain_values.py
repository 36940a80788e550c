"""The reader of HCL finds the values that the program itself finds."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.terraform.test_hcl import PLAIN
from tests.terraform_services.modules import program
from windlass.terraform.hcl import input_variables


def test_plain_default_values_equal_those_of_the_terraform_console(tmp_path: Path):
    expressions = [expression for expression, _ in PLAIN]
    blocks = (f'variable "v{number}" {{\n  default = {text}\n}}' for number, text in enumerate(expressions))
    module = "\n".join(blocks).encode()
    (tmp_path / "variables.tf").write_bytes(module)
    names = ", ".join(f"var.v{number}" for number in range(len(expressions)))
    console = subprocess.run(
        [program(), "console"],
        cwd=tmp_path,
        input=f"jsonencode([{names}])\n",
        capture_output=True,
        text=True,
        check=True,
    )
    answers = json.loads(json.loads(console.stdout))
    read = [variable.default for variable in input_variables({"variables.tf": module})]
    for expression, own, answer in zip(expressions, read, answers, strict=True):
        is_text = answer is None or isinstance(answer, str)
        assert (own if is_text else json.loads(own or "")) == answer, expression
