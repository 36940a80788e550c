"""A service: anything that is deployed, whatever its family. Some paths say only its id."""

from windlass.core.declare.registry import AnyOf
from windlass.core.declare.traits import has_deployments

service = AnyOf("service", has_deployments, "service")
