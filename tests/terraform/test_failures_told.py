"""The message of a Terraform run that failed says what to do, in the words of the program."""

from __future__ import annotations

import pytest

from windlass.terraform.failures import explain_output

UNSET = """\
windlass: terraform plan

Error: No value for required variable

  on main.tf line 1:
   1: variable "region" { type = string }

The root module input variable "region" is not set, and has no default value.
Use a -var or -var-file command line argument to provide a value for this
variable.
"""
UNDECLARED = """\
windlass: terraform init
Error: an older remark
windlass: tofu-1.9 plan
╷
│ Error: Reference to undeclared resource
│
│   on main.tf line 8, in output "name":
│    8: output "name" { value = terraform_data.buckte.output }
╵
╷
│ Error: Another
│   on other.tf line 2:
"""
NO_FILE = "windlass: terraform plan\n\nError: Failed to read variables file\n\nThe file x does not exist."


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (
            UNSET,
            "Give a value to the input variable region, in terraform_variables_source.tf_vars or a file "
            "of values: the module has no default",
        ),
        (UNDECLARED, "Look at main.tf, line 8: Reference to undeclared resource"),
        (NO_FILE, "Look at its log: Failed to read variables file"),
        (
            f"{UNSET}windlass: the plan is stale: plan again\n",
            "The plan is stale: plan again",
        ),
        ("windlass: terraform plan\nPlan: 1 to add\n", ""),
        ("windlass: terraform plan\n", ""),
        ("", ""),
    ],
)
def test_the_reported_reason_is_the_first_error_of_the_last_terraform_command(output, reason):
    assert explain_output(output.splitlines()) == reason
