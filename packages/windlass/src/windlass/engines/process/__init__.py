"""The engine that needs nothing but Python: child processes of this machine."""

from windlass.engines.process.engine import ProcessEngine
from windlass.engines.process.exit_reason import Pauses

__all__ = ["Pauses", "ProcessEngine"]
