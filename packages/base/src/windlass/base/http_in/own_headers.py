"""Lists the response headers that the gateway sets itself."""

from typing import Final

GATEWAY_HEADERS: Final = frozenset(
    {
        "accept-ranges",
        "age",
        "connection",
        "content-encoding",
        "content-length",
        "content-range",
        "date",
        "etag",
        "keep-alive",
        "last-modified",
        "location",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "vary",
    }
)
"""The headers that sites may not set, because the response would be wrong with another value."""
