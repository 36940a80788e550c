"""The HTTP server below the stubs of tests: it is silent about clients that hang up."""

from __future__ import annotations

import sys
from http.server import ThreadingHTTPServer
from typing import Any


class StubServer(ThreadingHTTPServer):
    """Serves each connection on a thread of its own, and prints faults of the stub only.

    A client may hang up while it is answered, for example once it has read the event that ends a log.
    """

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)
