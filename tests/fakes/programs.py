"""Terraform and OpenTofu, as a machine that has them would tell of them."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.terraform.programs import InstalledProgram


class FakePrograms:
    """Programs that are installed, and never run."""

    def find_all(self) -> Sequence[InstalledProgram]:
        return [
            InstalledProgram("OPEN_TOFU", "1.9.4", "/usr/bin/tofu"),
            InstalledProgram("TERRAFORM", "1.11.4", "/usr/bin/terraform"),
        ]
