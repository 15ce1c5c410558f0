"""Buckets of a server in this process that behaves like S3, conditional writes included."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.request import Request, urlopen

import pytest


@contextmanager
def buckets() -> Iterator[Callable[[], str]]:
    """A function that makes a bucket and gives its URL; meanwhile the environment has the keys."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint, numbers = f"http://{host}:{port}", itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }.items():
            patch.setenv(name, value)

        def create() -> str:
            name = f"bucket-{next(numbers)}"
            with urlopen(Request(f"{endpoint}/{name}", method="PUT")):
                return f"s3://{name}"

        yield create
    server.stop()
