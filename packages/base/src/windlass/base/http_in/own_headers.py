"""Headers that the gateway writes itself."""

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
"""Headers that only the gateway may set, because another value would be wrong."""
