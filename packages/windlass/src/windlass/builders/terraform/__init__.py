"""The programs Terraform and OpenTofu of this machine."""

from windlass.builders.terraform.programs import InstalledProgram, InstalledPrograms

__all__ = ["InstalledProgram", "InstalledPrograms"]
