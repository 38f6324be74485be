"""Hand-made attacks on the HTTP service: bytes to send, what becomes of the connection, and which answers are right."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

SECRET = "Xanthippe"
"""Stands in bodies, and must never stand in the log."""
TEXT = json.dumps({"text": f"{SECRET} flew"}).encode()
KINDS = "Content-Type: application/json\r\n"
MEBI = 1 << 20
REFUSED = frozenset({400})
SILENT = frozenset[int]()
"""No answer at all, only the end of the connection."""


@dataclass(frozen=True, slots=True)
class Attack:
    """One connection."""

    family: str
    name: str
    parts: tuple[bytes, ...]
    """Sent one after the other, a second apart."""
    statuses: frozenset[int]
    """What it may be answered with; the empty set means that nothing need come."""
    ending: Literal["wait", "half-close", "reset"] = "wait"


def post(
    body: bytes = TEXT, path: str = "/tag", *, kind: str = KINDS, length: object = None, close: bool = True
) -> bytes:
    """A POST, sound unless an argument makes it otherwise."""
    size = f"Content-Length: {len(body) if length is None else length}\r\n"
    end = "Connection: close\r\n" if close else ""
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{kind}{size}{end}\r\n".encode() + body


def head(line: str, headers: str = "Host: localhost\r\nConnection: close\r\n") -> bytes:
    """The head of a request without a body."""
    return f"{line}\r\n{headers}\r\n".encode("latin-1")


def attacks() -> list[Attack]:
    """All of them."""
    families = (
        slow_heads,
        slow_bodies,
        lengths,
        chunks,
        request_lines,
        pipelines,
        large_heads,
        texts,
        bodies,
        requests,
        endings,
    )
    return [attack for family in families for attack in family()]


def slow_heads() -> Iterator[Attack]:
    """Heads that never end."""
    full = b"POST /tag HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
    for size in (0, 1, 9, 20, 38, len(full)):
        yield Attack("slow heads", f"{size} bytes, then nothing", (full[:size],), SILENT)
    yield Attack("slow heads", "a byte a second", tuple(bytes([byte]) for byte in full[:15]), SILENT)
    yield Attack("slow heads", "a header a second", (full[:20], *(b"X-A: b\r\n",) * 15), SILENT)
    yield Attack("slow heads", "empty lines only", (b"\r\n",) * 12, SILENT | REFUSED)
    yield Attack("slow heads", "after an answer", (head("GET /health HTTP/1.1", "Host: localhost\r\n"),), _of(200))


def slow_bodies() -> Iterator[Attack]:
    """Bodies that never end, after a refusal or before an answer."""
    drip = (b"x",) * 12
    foreign = post(b"", length=10**9).replace(b"localhost", b"elsewhere.example")
    endless = head("POST /nothing HTTP/1.1", "Host: localhost\r\nTransfer-Encoding: chunked\r\n")
    cases = {
        "no such path": (post(b"", "/nothing", length=10**9), 404),
        "no such method": (post(b"", length=10**9).replace(b"POST", b"PUT", 1), 405),
        "no JSON": (post(b"", kind="Content-Type: text/plain\r\n", length=10**9), 415),
        "too large": (post(b"", length=10**9), 413),
        "another host": (foreign, 400),
        "a page with a body": (post(b"", "/health", length=10**9).replace(b"POST", b"GET", 1), 200),
        "a wanted body": (post(b"", length=100), 408),
        "a wanted batch": (post(b"", "/tag/batch", length=MEBI), 408),
    }
    for name, (start, status) in cases.items():
        yield Attack("slow bodies", name, (start, *drip), _of(status))
        yield Attack("slow bodies", f"{name}, nothing sent", (start,), _of(status))
    yield Attack("slow bodies", "chunks to no such path", (endless, *(b"1\r\nx\r\n",) * 12), _of(404))


def lengths() -> Iterator[Attack]:
    """What Content-Length may be made to say."""
    for length in (-1, "+18", "0x12", "1e3", "18 18", "18,19", "abc", "", "\u0661\u0668", "18\x00", "18.0", "10" * 40):
        yield Attack("lengths", f"Content-Length: {length!r}", (post(length=length),), REFUSED | _of(413))
    yield Attack("lengths", "ten to the eighteenth", (post(length=10**18),), _of(400, 413))
    yield Attack("lengths", "the same twice in one", (post(length=f"{len(TEXT)}, {len(TEXT)}"),), _of(200, 400))
    twice = f"{len(TEXT)}\r\nContent-Length: "
    yield Attack("lengths", "twice, equal", (post(length=f"{twice}{len(TEXT)}"),), _of(200, 400))
    yield Attack("lengths", "twice, different", (post(length=f"{twice}5"),), REFUSED)
    yield Attack("lengths", "too short for the body", (post(length=5),), REFUSED)
    yield Attack("lengths", "nothing, for a body that comes", (post(length=0),), _of(400, 422))
    both = post(kind=KINDS + "Transfer-Encoding: chunked\r\n").partition(b"\r\n\r\n")[0]
    yield Attack("lengths", "and chunks", (both + b"\r\n\r\n0\r\n\r\n",), _of(400, 422))


def chunks() -> Iterator[Attack]:
    """Transfer-Encoding and its chunks."""
    headers = f"Host: localhost\r\n{KINDS}Connection: close\r\nTransfer-Encoding: chunked\r\n"
    start = head("POST /tag HTTP/1.1", headers)
    whole = b"%x\r\n%s\r\n" % (len(TEXT), TEXT)
    cases = {
        "sound": (whole + b"0\r\n\r\n", _of(200)),
        "a byte each": (b"".join(b"1\r\n%c\r\n" % byte for byte in TEXT) + b"0\r\n\r\n", _of(200)),
        "ten thousand blanks": (b"1\r\n \r\n" * 10_000 + whole + b"0\r\n\r\n", _of(200)),
        "size no number": (b"zz\r\n" + TEXT, REFUSED),
        "size below zero": (b"-5\r\n" + TEXT, REFUSED),
        "size of 2^64": (b"ffffffffffffffff\r\n" + TEXT, _of(400, 408, 413)),
        "size of a hundred digits": (b"f" * 100 + b"\r\n" + TEXT, REFUSED),
        "size smaller than its chunk": (b"2\r\n" + TEXT + b"\r\n0\r\n\r\n", REFUSED),
        "long extension": (b"%x;%s\r\n%s\r\n0\r\n\r\n" % (len(TEXT), b"a" * 100_000, TEXT), _of(200, 400)),
        "large trailer": (whole + b"0\r\n" + b"X-A: b\r\n" * 20_000 + b"\r\n", _of(200, 400)),
        "more than a MiB": (b"100000\r\n" + b" " * MEBI + b"\r\n" + whole + b"0\r\n\r\n", _of(413)),
        "no chunk": (b"0\r\n\r\n", _of(400, 422)),
        "never ended": (whole, _of(408)),
    }
    for name, (body, statuses) in cases.items():
        yield Attack("chunks", name, (start + body,), statuses)
    for coding in (
        "gzip",
        "chunked, chunked",
        "identity",
        "xchunked",
        "chunked\r\nTransfer-Encoding: chunked",
        "\x0bchunked",
    ):
        changed = start.replace(b"Encoding: chunked", b"Encoding: " + coding.encode())
        yield Attack("chunks", f"Transfer-Encoding: {coding!r}", (changed + whole + b"0\r\n\r\n",), _of(200, 400, 501))


def request_lines() -> Iterator[Attack]:
    """First lines that are none."""
    lines = [
        "hello",
        "GET",
        "GET /",
        "GET / HTTP/9.9",
        "GET / HTTP/1.1 more",
        "GET  / HTTP/1.1",
        "GET /\x00 HTTP/1.1",
        "GET /\xff HTTP/1.1",
        " GET / HTTP/1.1",
        "G\x01T / HTTP/1.1",
        "PRI * HTTP/2.0",
        "GET /" + "a" * 100_000 + " HTTP/1.1",
        "GET / HTTP/1.1\nHost: localhost",
        "GET /a b HTTP/1.1",
        "GET / http/1.1",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ]
    for line in lines:
        yield Attack("request lines", repr(line[:40]), (head(line),), _of(200, 400, 404) | SILENT)


def pipelines() -> Iterator[Attack]:
    """More requests than one before the first is answered."""
    health = head("GET /health HTTP/1.1", "Host: localhost\r\n")
    yield Attack("pipelines", "two hundred", (health * 200,), _of(200))
    yield Attack("pipelines", "a hundred sentences", (post(close=False) * 100,), _of(200, 503))
    yield Attack("pipelines", "nonsense second", (post(close=False) + b"nonsense\r\n\r\n",), _of(200, 400))
    yield Attack("pipelines", "a request in a body", (post(health),), REFUSED)
    yield Attack("pipelines", "a request after a refusal", (post(b"{", close=False) + health,), _of(400, 200))
    yield Attack(
        "pipelines",
        "a GET with a request as its body",
        (health[:-2] + b"Content-Length: %d\r\n\r\n" % len(health) + health,),
        _of(200),
    )


def large_heads() -> Iterator[Attack]:
    """Heads of headers that nobody needs."""
    start = "Host: localhost\r\nConnection: close\r\n"
    headers = {
        "a value of 100 kB": "X-A: " + "a" * 100_000,
        "a name of 100 kB": "a" * 100_000 + ": b",
        "ten thousand": "X-A: b\r\n" * 10_000 + "X-B: c",
        "five megabytes": "X-A: b\r\n" * 650_000 + "X-B: c",
        "a line folded": "X-A: b\r\n c",
        "NUL in a value": "X-A: \x00",
        "NUL in a name": "X\x00A: b",
        "no colon": "nothing",
        "a blank before the colon": "X-A : b",
        "an escape in a value": "X-A: \x1b[2J",
        "another range": "Range: bytes=0-,0-,0-,0-",
        "an upgrade": "Upgrade: websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13",
        "expects what nobody knows": "Expect: 200-maybe",
    }
    for name, lines in headers.items():
        yield Attack(
            "large heads", name, (head("GET /health HTTP/1.1", f"{start}{lines}\r\n"),), _of(200, 400, 431) | SILENT
        )


def texts() -> Iterator[Attack]:
    """Sound requests of strange text."""
    strange = [
        "\x00",
        "\u202e",
        "\ufeff",
        "\U0010ffff",
        "e\u0301" * 100,
        "\u0300" * 250,
        "\r\n" * 1000,
        "\x1b]0;a\x07",
        "🏴" * 60,
    ]
    for text in strange:
        yield Attack("texts", repr(text[:8]), (post(json.dumps({"text": text}).encode()),), _of(200))
    surrogate = b'{"text": "%s \\ud800"}' % SECRET.encode()
    yield Attack("texts", "a lone surrogate", (post(surrogate),), _of(200, 422))
    yield Attack("texts", "a lone surrogate as a token", (post(b'{"tokens": ["\\udfff"]}'),), _of(200, 422))
    yield Attack("texts", "a lone surrogate in a lattice", (post(surrogate, "/lattice"),), _of(200, 422))
    yield Attack("texts", "an unknown key of lone surrogates", (post(b'{"\\ud800": 1, "text": "a"}'),), _of(422))
    yield Attack(
        "texts", "fixed tags of lone surrogates", (post(b'{"tokens": ["a"], "fixed": {"0": "\\ud800"}}'),), _of(422)
    )


def bodies() -> Iterator[Attack]:
    """Bodies that are not what is asked for."""
    cases = {
        "empty": b"",
        "a number": b"1",
        "null": b"null",
        "a list": b"[]",
        "no JSON": b"{",
        "not UTF-8": b'{"text": "\xff"}',
        "overlong NUL": b'{"text": "\xc0\x80"}',
        "an encoded surrogate": b'{"text": "\xed\xa0\x80"}',
        "UTF-16": '{"text": "a"}'.encode("utf-16"),
        "a byte order mark": b"\xef\xbb\xbf" + TEXT,
        "a raw NUL": b'{"text": "\x00"}',
        "NULs": b"\x00" * 1000,
        "NaN": b'{"text": "a", "threshold": NaN}',
        "Infinity": b'{"text": "a", "threshold": Infinity}',
        "1e999": b'{"text": "a", "threshold": 1e999}',
        "a key twice": b'{"text": "a", "text": "b"}',
        "ten thousand digits": b'{"text": "a", "nbest": %s}' % (b"9" * 10_000),
        "deep lists": b"[" * 100_000,
        "deep objects": b'{"a":' * 100_000,
        "deep and whole": b'{"text": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        "both": b'{"text": "a", "tokens": ["a"]}',
        "neither": b"{}",
        "true for a number": b'{"text": "a", "nbest": true}',
        "a number for text": b'{"text": 1}',
        "an object for text": b'{"text": {"a": 1}}',
        "below zero": b'{"text": "a", "nbest": -1}',
        "an empty token": b'{"tokens": [""]}',
        "too many keys": json.dumps({str(n): n for n in range(20_000)}).encode(),
        "too many fixed": json.dumps({"tokens": ["a"], "fixed": {str(n): "O" for n in range(5000)}}).encode(),
        "a long token": json.dumps({"tokens": ["a" * 100_000]}).encode(),
        "a long text": json.dumps({"text": "a " * 100_000}).encode(),
        "many empty tokens": b'{"tokens": [' + b'"",' * 300_000 + b'""]}',
    }
    for name, body in cases.items():
        yield Attack("bodies", name, (post(body),), _of(400, 422))
    yield Attack("bodies", "two MiB", (post(b" " * 2 * MEBI),), _of(413))
    yield Attack("bodies", "a batch of nothing", (post(b'{"sentences": []}', "/tag/batch"),), _of(422))
    yield Attack("bodies", "a batch of wrong things", (post(b'{"sentences": [1, null, {}]}', "/tag/batch"),), _of(422))


def requests() -> Iterator[Attack]:
    """Methods, hosts and paths."""
    for method in ("PUT", "DELETE", "PATCH", "TRACE", "OPTIONS", "CONNECT", "BREW"):
        yield Attack("requests", method, (head(f"{method} /tag HTTP/1.1"),), _of(400, 405))
    for path in (
        "/..",
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//health",
        "/health/",
        "/page/../tag",
        "/%00",
        "/%ff",
        "*",
    ):
        yield Attack("requests", path, (head(f"GET {path} HTTP/1.1"),), _of(400, 404, 405))
    for host in (
        "elsewhere.example",
        "localhost.evil.example",
        "localhost@evil.example",
        "",
        "[::1",
        "127.0.0.1.nip.io:80",
        "a" * 9000,
    ):
        close = "Connection: close\r\n"
        yield Attack(
            "requests", f"host {host[:25]!r}", (head("GET /health HTTP/1.1", f"Host: {host}\r\n{close}"),), REFUSED
        )
    yield Attack("requests", "no host", (head("GET /health HTTP/1.1", ""),), REFUSED)
    yield Attack(
        "requests", "two hosts", (head("GET /health HTTP/1.1", "Host: localhost\r\nHost: evil.example\r\n"),), REFUSED
    )
    for kind in ("", "Content-Type: text/plain\r\n", "Content-Type: application/jsonp\r\n", "Content-Type: \r\n"):
        yield Attack("requests", repr(kind), (post(kind=kind),), _of(415))


def endings() -> Iterator[Attack]:
    """Connections that their client half closes or resets, at every place."""
    whole = post()
    for name, part in {
        "nothing": b"",
        "half a head": whole[:30],
        "half a body": whole[:-5],
        "a request": whole,
    }.items():
        yield Attack("endings", f"half closed after {name}", (part,), _of(200, 400) | SILENT, "half-close")
        yield Attack("endings", f"reset after {name}", (part,), SILENT, "reset")
    large = post(json.dumps({"tokens": ["a"] * 2000, "nbest": 2, "probabilities": True}).encode())
    yield Attack("endings", "reset while the model works", (large,), SILENT, "reset")
    yield Attack("endings", "reset in the midst of chunks", (chunked_start(),), SILENT, "reset")


def chunked_start() -> bytes:
    """A request whose first chunk is not whole."""
    return f"POST /tag HTTP/1.1\r\nHost: localhost\r\n{KINDS}Transfer-Encoding: chunked\r\n\r\n100\r\nabc".encode()


def _of(*statuses: int) -> frozenset[int]:
    return frozenset(statuses)
