"""The built-in router: makes services reachable by host name and by port, without any other program."""

from windlass.base.http_in.bounds import Bounds
from windlass.routers.builtin.router import BuiltinRouter

__all__ = ["Bounds", "BuiltinRouter"]
