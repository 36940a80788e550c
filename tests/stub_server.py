"""The HTTP server below the stubs of tests: it is silent about clients that hang up."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
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

    @contextlib.contextmanager
    def in_thread(self) -> Iterator[None]:
        """Serves in a thread, until the block ends."""
        thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield
        finally:
            self.shutdown()
            thread.join()
