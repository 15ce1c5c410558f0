"""What a publisher says to its own machine: ``/metrics``, ``/health``, and ``POST /sync/NAME`` for events of a store."""

from __future__ import annotations

import hmac
import ipaddress
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import unquote

from deltaberg.errors import DeltabergError, UsageError
from deltaberg.migrate.publish.metrics import CONTENT_TYPE, metrics_text
from deltaberg.migrate.publish.publisher import Publisher

TOKEN_VARIABLE: Final = "DELTABERG_PUBLISH_TOKEN"
_SYNC: Final = "/sync/"
_REQUEST_S: Final = 10


class CannotListen(DeltabergError):
    """The address is taken, or may not be used."""


def listen_address(text: str) -> tuple[str, int]:
    """``127.0.0.1:9400`` as host and port; 0 is any free port. Raises UsageError for an address that others can reach."""
    host, _, port = text.rpartition(":")
    name = host.strip("[]")
    if not name or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"Cannot listen on {text}: expected HOST:PORT, such as 127.0.0.1:9400")
    try:
        local = name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        local = False
    if not local:
        raise UsageError(
            f"Cannot listen on {text}: only this machine may ask (expected 127.0.0.1:PORT); put a proxy in front of it to "
            "let others"
        )
    return name, int(port)


@contextmanager
def serving(publisher: Publisher, address: tuple[str, int], *, token: str | None) -> Iterator[int]:
    """Meanwhile the publisher is asked over HTTP; gives the port. token: None refuses every ``POST``."""
    try:
        server = _Server(publisher, address, token)
    except OSError as error:
        raise CannotListen(f"Cannot listen on {address[0]}:{address[1]}: {error.strerror or error}") from error
    thread = threading.Thread(target=server.serve_forever, name="deltaberg-listen", daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, publisher: Publisher, address: tuple[str, int], token: str | None) -> None:
        self.publisher, self.token = publisher, token
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _REQUEST_S
    server_version = "deltaberg"
    sys_version = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            publisher = self.server.publisher
            self._send(HTTPStatus.OK, metrics_text(publisher.records, now_ms=publisher.now_ms()), CONTENT_TYPE)
        elif path == "/health":
            self._health()
        else:
            self._say(HTTPStatus.NOT_FOUND, error="expected /metrics, /health or POST /sync/NAME")

    def do_POST(self) -> None:
        if not self.path.startswith(_SYNC):
            self._say(HTTPStatus.NOT_FOUND, error="expected POST /sync/NAME")
            return
        token = self.server.token
        if not token:
            self._say(HTTPStatus.FORBIDDEN, error=f"no token is set: set {TOKEN_VARIABLE} where publish runs")
            return
        given = self.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        if not hmac.compare_digest(given.encode("utf-8", "replace"), token.encode("utf-8", "replace")):
            self._say(HTTPStatus.UNAUTHORIZED, error="expected the header Authorization: Bearer TOKEN")
            return
        name = unquote(self.path[len(_SYNC) :])
        try:
            self.server.publisher.wants(name)
        except UsageError as error:
            self._say(HTTPStatus.NOT_FOUND, error=error.message)
            return
        self._say(HTTPStatus.ACCEPTED, table=name)

    def log_message(self, format: str, *arguments: object) -> None:
        """Requests are not logged."""

    def _health(self) -> None:
        publisher = self.server.publisher
        failing = sorted(name for name, record in publisher.records.items() if record.last_error is not None)
        alive = publisher.is_alive
        self._say(
            HTTPStatus.OK if alive else HTTPStatus.SERVICE_UNAVAILABLE,
            status="ok" if alive else "stopping",
            tables=len(publisher.records),
            failing=failing,
        )

    def _say(self, code: HTTPStatus, **document: Any) -> None:
        self._send(code, json.dumps(document) + "\n", "application/json")

    def _send(self, status: HTTPStatus, text: str, kind: str) -> None:
        data = text.encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
