"""Parses HCL, the language of Terraform: declarations of variables, and their values. Does not evaluate
expressions."""

from windlass.terraform.hcl.tokens import HclError as HclError
from windlass.terraform.hcl.variables import input_variables as input_variables
from windlass.terraform.hcl.variables import is_module_file as is_module_file
from windlass.terraform.hcl.variables import is_values_file as is_values_file
from windlass.terraform.hcl.variables import sensitive_variables as sensitive_variables
from windlass.terraform.hcl.variables import variable_values as variable_values
