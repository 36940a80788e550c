"""A service of any family. Some paths need only its id."""

from windlass.core.declare.registry import AnyOf
from windlass.core.declare.traits import has_deployments

service = AnyOf("service", has_deployments, "service")
