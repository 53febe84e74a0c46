"""A file server on 127.0.0.1 with configurable misbehaviour."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@dataclass
class Site:
    """Served files and behaviour.

    Attributes:
        files: Bodies by path.
        ranges: Whether Range requests are supported.
        shift: Offset added to the first byte of a range, for a server that counts wrongly.
        lengths: Whether Content-Length is sent.
        cuts: Number of bytes after which each of the next connections is closed.
        statuses: HTTP statuses returned for the next connections instead of a file.
        redirect: Address to which every request is redirected.
        stall: Number of bytes after which a body stops until ``go``.
        drip: Seconds between single bytes of a body.
        partial: Send the end of the body in every response, requested or not.
        endless: Send endless bodies, without a length.
        slow_headers: Send endless headers, byte by byte.
        requests: Path and Range header of each request so far.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    shift: int = 0
    lengths: bool = True
    cuts: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    redirect: str = ""
    stall: int | None = None
    drip: float | None = None
    partial: bool = False
    endless: bool = False
    slow_headers: bool = False
    go: threading.Event = field(default_factory=threading.Event)
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    address: str = ""

    def url(self, name: str) -> str:
        return f"{self.address}/{name}"


def _handler(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers["Range"]
            path = urlsplit(self.path).path.lstrip("/")
            site.requests.append((path, wanted))
            self.close_connection = True
            if site.statuses:
                return self.send_error(site.statuses.pop(0))
            if site.redirect:
                self.send_response(302)
                self.send_header("Location", site.redirect)
                return self.end_headers()
            if site.slow_headers:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                return self._drip(b"x" * 60_000, 0.01)
            if site.endless:
                self.send_response(200)
                self.end_headers()
                while not site.go.is_set():
                    self.wfile.write(bytes(1 << 14))
                return None
            if path not in site.files:
                return self.send_error(404)
            body, first = site.files[path], 0
            if site.partial:
                first = 7
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {first}-{len(body) - 1}/{len(body)}")
            elif wanted and site.ranges:
                first = int(wanted.removeprefix("bytes=").removesuffix("-"))
                if first >= len(body):
                    self.send_response(416)
                    self.send_header("Content-Range", f"bytes */{len(body)}")
                    return self.end_headers()
                first += site.shift
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {first}-{len(body) - 1}/{len(body)}")
            else:
                self.send_response(200)
            if site.lengths:
                self.send_header("Content-Length", str(len(body) - first))
            self.end_headers()
            end = first + site.cuts.pop(0) if site.cuts else len(body)
            if site.stall is not None:
                self.wfile.write(body[first : site.stall])
                first = max(first, site.stall)
                site.go.wait(10)
            if site.drip is not None:
                return self._drip(body[first:end], site.drip)
            self.wfile.write(body[first:end])
            return None

        def _drip(self, data: bytes, seconds: float) -> None:
            for place in range(len(data)):
                if site.go.is_set():
                    return
                self.wfile.write(data[place : place + 1])
                time.sleep(seconds)

        def handle(self) -> None:
            with suppress(ConnectionError):  # the client went away, as some tests make it
                super().handle()

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


@contextmanager
def serve(site: Site) -> Iterator[Site]:
    """Run the server during the ``with`` block."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(site)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        site.address = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield site
        finally:
            site.go.set()
            server.shutdown()
            thread.join()
