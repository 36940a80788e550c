"""The engine that needs nothing but Python: child processes of this machine."""

from windlass.engines.process.engine import ProcessEngine
from windlass.engines.process.fate import Pauses

__all__ = ["Pauses", "ProcessEngine"]
