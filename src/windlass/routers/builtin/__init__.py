"""The built-in router: nothing but this process is needed to reach services by name and by port."""

from windlass.base.http_in.bounds import Bounds
from windlass.routers.builtin.router import BuiltinRouter

__all__ = ["Bounds", "BuiltinRouter"]
