"""Requests of an attacker to a public port, as data: the same for the API and the gateway.

`REFUSED` is answered with an error, and the connection is closed. `TAKEN` is one request, whatever it
contains. `BEYOND` is larger than a limit, by the status that RFC 9110 and RFC 6585 give it.
"""

HOST = b"Host: shop.localhost\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
_CHUNKED = b"0\r\n\r\n" + SMUGGLED


def post(fields: bytes, body: bytes = b"") -> bytes:
    return b"POST / HTTP/1.1\r\n" + HOST + fields + b"\r\n" + body


def with_length(fields: bytes, body: bytes) -> bytes:
    return post(fields + b"Content-Length: %d\r\n" % len(body), body)


REFUSED = {
    "both lengths": with_length(b"Transfer-Encoding: chunked\r\n", _CHUNKED),
    "both lengths, the other way round": post(
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", _CHUNKED
    ),
    "two lengths that differ": post(b"Content-Length: 0\r\nContent-Length: 36\r\n", SMUGGLED),
    "two lengths that agree": post(b"Content-Length: 36\r\nContent-Length: 36\r\n", SMUGGLED),
    "a list of lengths": post(b"Content-Length: 0, 36\r\n", SMUGGLED),
    "a length with a sign": post(b"Content-Length: +36\r\n", SMUGGLED),
    "a length below zero": post(b"Content-Length: -1\r\n", SMUGGLED),
    "a length in hexadecimal": post(b"Content-Length: 0x24\r\n", SMUGGLED),
    "a length with an underscore": post(b"Content-Length: 3_6\r\n", SMUGGLED),
    "a length with a blank in it": post(b"Content-Length: 3 6\r\n", SMUGGLED),
    "a length that is a fraction": post(b"Content-Length: 36.0\r\n", SMUGGLED),
    "a length that is empty": post(b"Content-Length:\r\n", SMUGGLED),
    "a length beyond all numbers": post(b"Content-Length: 18446744073709551652\r\n", SMUGGLED),
    "a length in foreign digits": post("Content-Length: ٣٦\r\n".encode(), SMUGGLED),
    "a blank before the colon": post(b"Content-Length : 36\r\n", SMUGGLED),
    "a tab before the colon": post(b"Transfer-Encoding\t: chunked\r\n", _CHUNKED),
    "a blank before the name": post(b" Content-Length: 36\r\n", SMUGGLED),
    "a folded field": post(b"X: y\r\n Content-Length: 36\r\n", SMUGGLED),
    "a folded coding": post(b"Transfer-Encoding:\r\n chunked\r\n", _CHUNKED),
    "a folded first field": b"POST / HTTP/1.1\r\n X: y\r\n" + HOST + b"\r\n" + SMUGGLED,
    "a lone line feed in the head": post(b"X: y\nContent-Length: 36\r\n", SMUGGLED),
    "only line feeds": b"GET / HTTP/1.1\nHost: shop.localhost\n\n" + SMUGGLED,
    "a lone line feed at the end of the head": b"GET / HTTP/1.1\r\nHost: shop.localhost\r\n\n" + SMUGGLED,
    "a lone carriage return in the head": post(b"X: y\rContent-Length: 36\r\n", SMUGGLED),
    "a zero byte in a field": post(b"X: y\0\r\n"),
    "a zero byte in a name": post(b"Content-Length\0: 36\r\n", SMUGGLED),
    "a control character in a field": post(b"Transfer-Encoding: \x0bchunked\r\n", _CHUNKED),
    "a field without a colon": post(b"Content-Length 36\r\n", SMUGGLED),
    "a field without a name": post(b": 36\r\n", SMUGGLED),
    "another coding": post(b"Transfer-Encoding: gzip, chunked\r\n", _CHUNKED),
    "a coding twice": post(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", _CHUNKED),
    "a coding and another one": post(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n", _CHUNKED),
    "a coding in quotes": post(b'Transfer-Encoding: "chunked"\r\n', _CHUNKED),
    "a coding that is empty": post(b"Transfer-Encoding:\r\n", SMUGGLED),
    "identity": with_length(b"Transfer-Encoding: identity\r\n", SMUGGLED),
    "a coding with a parameter": post(b"Transfer-Encoding: chunked;q=1\r\n", _CHUNKED),
    "a coding in HTTP/1.0": b"POST / HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + _CHUNKED,
    "the length only for the next hop": with_length(b"Connection: Content-Length\r\n", SMUGGLED),
    "the coding only for the next hop": post(
        b"Connection: close, Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n", _CHUNKED
    ),
    "the host only for the next hop": post(b"Connection: Host\r\n"),
    "a chunk size that is not one": post(
        b"Transfer-Encoding: chunked\r\n\r\n"[:-2], b"xyz\r\n\r\n" + SMUGGLED
    ),
    "a chunk size with a sign": post(b"Transfer-Encoding: chunked\r\n", b"+0\r\n\r\n" + SMUGGLED),
    "a chunk size with 0x": post(b"Transfer-Encoding: chunked\r\n", b"0x0\r\n\r\n" + SMUGGLED),
    "a chunk size with a blank": post(b"Transfer-Encoding: chunked\r\n", b"0 \r\n\r\n" + SMUGGLED),
    "a chunk size that overflows": post(
        b"Transfer-Encoding: chunked\r\n", b"10000000000000000\r\n\r\n" + SMUGGLED
    ),
    "a chunk size before a lone line feed": post(b"Transfer-Encoding: chunked\r\n", b"0\n\n" + SMUGGLED),
    "an extension with a lone line feed": post(
        b"Transfer-Encoding: chunked\r\n", b"2;\nxx\r\n24\r\n0\r\n\r\n" + SMUGGLED
    ),
    "an extension with a lone return": post(b"Transfer-Encoding: chunked\r\n", b"0;a\rb\r\n\r\n" + SMUGGLED),
    "a chunk longer than it says": post(
        b"Transfer-Encoding: chunked\r\n", b"1\r\nab\r\n0\r\n\r\n" + SMUGGLED
    ),
    "a chunk that ends with a lone line feed": post(b"Transfer-Encoding: chunked\r\n", b"1\r\na\n0\r\n\r\n"),
    "a length among the trailers": post(
        b"Transfer-Encoding: chunked\r\n", b"0\r\nContent-Length: 36\r\n\r\n" + SMUGGLED
    ),
    "a lone line feed among the trailers": post(
        b"Transfer-Encoding: chunked\r\n", b"0\r\nA: b\nC: d\r\n\r\n"
    ),
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n",
    "an empty host": b"GET / HTTP/1.1\r\nHost:\r\n\r\n",
    "a host with a path": b"GET / HTTP/1.1\r\nHost: shop.localhost/x\r\n\r\n",
    "a host with a user": b"GET / HTTP/1.1\r\nHost: x@shop.localhost\r\n\r\n",
    "a host with a blank": b"GET / HTTP/1.1\r\nHost: shop.localhost x\r\n\r\n",
    "a host with a port that is none": b"GET / HTTP/1.1\r\nHost: shop.localhost:80x\r\n\r\n",
    "another host in the target": b"GET http://other.localhost/ HTTP/1.1\r\n" + HOST + b"\r\n",
    "a target without a slash": b"GET index.html HTTP/1.1\r\n" + HOST + b"\r\n",
    "a target with a blank": b"GET / /x HTTP/1.1\r\n" + HOST + b"\r\n",
    "a target with a tab": b"GET /\tx HTTP/1.1\r\n" + HOST + b"\r\n",
    "a target with a fragment": b"GET /#x HTTP/1.1\r\n" + HOST + b"\r\n",
    "two blanks in the first line": b"GET  / HTTP/1.1\r\n" + HOST + b"\r\n",
    "a blank at the end of the first line": b"GET / HTTP/1.1 \r\n" + HOST + b"\r\n",
    "no version": b"GET /\r\n" + HOST + b"\r\n" + SMUGGLED,
    "another version": b"GET / HTTP/2.0\r\n" + HOST + b"\r\n",
    "a version that does not exist": b"GET / HTTP/1.10\r\n" + HOST + b"\r\n",
    "the beginning of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a method that is none": b"GE(T / HTTP/1.1\r\n" + HOST + b"\r\n",
    "a tunnel": b"CONNECT shop.localhost:22 HTTP/1.1\r\n" + HOST + b"\r\n",
    "a tunnel to a path": b"GET shop.localhost:22 HTTP/1.1\r\n" + HOST + b"\r\n",
    "the beginning of TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "a head without an end": b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 12_000,
}

TAKEN = {
    "a request within a body": with_length(b"", SMUGGLED),
    "a request within a chunk": post(
        b"Transfer-Encoding: chunked\r\n", b"%x\r\n%b\r\n0\r\n\r\n" % (len(SMUGGLED), SMUGGLED)
    ),
    "a length with an underscore for a hyphen": post(b"Content_Length: 36\r\n"),
    "a coding with an underscore for a hyphen": with_length(b"Transfer_Encoding: chunked\r\n", _CHUNKED),
    "a coding in capitals": post(b"TRANSFER-ENCODING:\tCHUNKED\t\r\n", b"0\r\n\r\n"),
    "a body of GET": b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED,
    "a body of HEAD": b"HEAD / HTTP/1.1\r\n"
    + HOST
    + b"Content-Length: %d\r\n\r\n" % len(SMUGGLED)
    + SMUGGLED,
    "an upgrade with a body": with_length(b"Connection: Upgrade\r\nUpgrade: websocket\r\n", SMUGGLED),
    "an upgrade to HTTP/2": post(
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n"
    ),
    "a request encoded in the target": b"GET /%0d%0aGET%20/smuggled HTTP/1.1\r\n" + HOST + b"\r\n",
    "an id with a request in it": post(b"X-Request-Id: a b GET / HTTP/1.1\r\n"),
    "an absolute target": b"GET http://shop.localhost:99/x HTTP/1.1\r\n" + HOST + b"\r\n",
    "empty lines before it": b"\r\n\r\n" + post(b""),
    "a long extension of a chunk": post(
        b"Transfer-Encoding: chunked\r\n", b"1;" + b"a" * 4000 + b"\r\nx\r\n0\r\n\r\n"
    ),
}

CHUNKED = b"Transfer-Encoding: chunked\r\n"
BEYOND = {
    "a head without an end": (
        431,
        b"GET / HTTP/1.1\r\n" + HOST + b"A: " + b"x" * 65_000 + b"\r\nB: " + b"y" * 600,
    ),
    "a field without an end": (431, b"GET / HTTP/1.1\r\n" + HOST + b"A: " + b"x" * 65_600),
    "a head that is too large": (431, post(b"A: " + b"x" * 65_600 + b"\r\n")),
    "too many fields": (431, post(b"A: b\r\n" * 100)),
    "a target without an end": (414, b"GET /" + b"x" * 16_600),
    "a target that is too long": (414, b"GET /" + b"x" * 16_600 + b" HTTP/1.1\r\n" + HOST + b"\r\n"),
    "a method without an end": (414, b"x" * 16_600),
    "trailers without an end": (431, post(CHUNKED, b"0\r\nA: " + b"x" * 16_500)),
    "too many trailers": (431, post(CHUNKED, b"0\r\n" + b"A: b\r\n" * 101 + b"\r\n")),
    "extensions instead of a body": (400, post(CHUNKED, (b"1;" + b"a" * 4000 + b"\r\nx\r\n") * 5)),
    "the size of a chunk without an end": (400, post(CHUNKED, b"1;" + b"a" * 4200)),
    "empty lines without an end": (400, b"\r\n" * 100),
    "another version": (505, b"GET / HTTP/2.0\r\n" + HOST + b"\r\n"),
    "no host": (400, b"GET / HTTP/1.1\r\n\r\n"),
    "two hosts": (400, b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n"),
    "another coding": (501, post(b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n")),
}
"""Each comes with nothing after it: the answer has to be there although nothing more is sent."""

WITHIN = {
    "a head of nearly the size": post(b"A: " + b"x" * 60_000 + b"\r\n"),
    "as many fields as there may be": post(b"A: b\r\n" * 99),
    "a target of nearly the length": b"GET /" + b"x" * 16_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "trailers": post(CHUNKED, b"1\r\nx\r\n0\r\n" + b"A: b\r\n" * 100 + b"\r\n"),
    "a body in small chunks": post(CHUNKED, b"1\r\nx\r\n" * 1000 + b"0\r\n\r\n"),
    "a body of 1 MiB": with_length(b"", b" " * 1024 * 1024),
    "a body in large chunks": post(CHUNKED, b"8000\r\n%b\r\n" % (b" " * 0x8000) + b"0\r\n\r\n"),
}
