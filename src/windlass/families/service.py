"""A service: anything that is deployed, whatever its family. Some paths say only its id."""

from windlass.core.registry import AnyOf
from windlass.core.traits import has_deployments

service = AnyOf("service", has_deployments, "service")
