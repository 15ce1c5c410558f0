"""A server that behaves like S3, on loopback, whose answers can be lost, replaced, or given without doing anything."""

from __future__ import annotations

import itertools
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.request import Request, urlopen

import pytest


@dataclass(slots=True)
class Fault:
    """What happens to the requests that ``reaches`` says yes to (method and path), ``times`` of them.

    status: of the answer; None: the connection is closed instead. applied: whether the request was carried out.
    """

    reaches: Callable[[str, str], bool]
    status: int | None
    applied: bool
    times: int = 1


@dataclass(slots=True)
class FaultyBuckets:
    """WSGI application in front of moto's. heeds_conditions: False for a store that ignores ``If-None-Match``."""

    real: Any
    fault: Fault | None = None
    heeds_conditions: bool = True
    fired: list[tuple[str, str]] = field(default_factory=list)
    endpoint: str = ""
    _lock: Any = field(default_factory=threading.Lock)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        request = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if not self.heeds_conditions:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        with self._lock:
            fault = self.fault
            if fault is None or fault.times == 0 or not fault.reaches(*request):
                fault = None
            else:
                fault.times -= 1
                self.fired.append(request)
        if fault is None:
            return self.real(environ, start_response)
        if fault.applied:
            b"".join(self.real(environ, lambda *_: lambda _: None))
        if fault.status is None:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            return [b""]
        start_response(f"{fault.status} Faulty", [("Content-Length", "0")])
        return [b""]

    def bucket(self) -> str:
        """The URL of a new bucket."""
        name = f"faulty-{next(self._numbers)}"
        with urlopen(Request(f"{self.endpoint}/{name}", method="PUT")):
            return f"s3://{name}"


@contextmanager
def faulty_buckets() -> Iterator[FaultyBuckets]:
    """A running server; the environment names it while the block lasts."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    buckets = FaultyBuckets(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, buckets, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    buckets.endpoint = f"http://127.0.0.1:{server.server_port}"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ENDPOINT_URL": buckets.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }.items():
            patch.setenv(name, value)
        yield buckets
    server.shutdown()
    server.server_close()
    thread.join()
