"""Writing Avro container files out of Arrow structs, block by block."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from deltaberg.iceberg.avro.codec import CODECS, unknown_codec
from deltaberg.iceberg.avro.container import encode_block, encode_header
from deltaberg.iceberg.avro.encoder import encode_records
from deltaberg.iceberg.avro.schema_json import avro_schema_json
from deltaberg.iceberg.schema.types import StructType, type_to_json

BLOCK_BYTES: Final = 1 << 17
"""About how many bytes of records a block holds before compression."""

_CHUNK_ROWS: Final = 8192
_CHUNK_BYTES: Final = 64 << 20


class AvroWriter:
    """Writes records of one type to a sink, which stays open.

    ``metadata``: the header's key-value pairs besides the schema and the codec; ``sync`` 16 bytes that mark blocks.
    """

    def __init__(
        self,
        sink: pa.NativeFile,
        kind: StructType,
        *,
        name: str,
        codec: str,
        metadata: Mapping[str, str],
        sync: bytes,
    ) -> None:
        if codec not in CODECS:
            raise unknown_codec(codec)
        self.sink = sink
        self.kind = kind
        self.codec = codec
        self.sync = sync
        pairs = {
            **metadata,
            "avro.codec": codec,
            "avro.schema": json.dumps(avro_schema_json(kind, name), separators=(",", ":")),
            "iceberg.schema": _iceberg_schema(kind),
        }
        header = encode_header({key: value.encode() for key, value in pairs.items()}, sync)
        sink.write(header)
        self.length = len(header)
        """Bytes written so far; the file is whole after each ``write``."""

    def write(self, records: pa.StructArray) -> None:
        """Append records typed as ``arrow_type(kind)``, nested nullability aside."""
        if len(records) == 0:
            return
        step = max(1, min(_CHUNK_ROWS, len(records) * _CHUNK_BYTES // max(records.nbytes, 1)))
        for first in range(0, len(records), step):
            self._write_chunk(records.slice(first, step))

    def _write_chunk(self, records: pa.StructArray) -> None:
        encoded = encode_records(records, self.kind)
        offsets = np.frombuffer(encoded.buffers()[1], dtype=np.int32)[encoded.offset :][: len(encoded) + 1]
        content = memoryview(encoded.buffers()[2])
        first = 0
        while first < len(encoded):
            last = int(np.searchsorted(offsets, int(offsets[first]) + BLOCK_BYTES, side="right")) - 1
            last = min(max(last, first + 1), len(encoded))
            data = content[int(offsets[first]) : int(offsets[last])]
            block = encode_block(last - first, data, codec=self.codec, sync=self.sync)
            self.sink.write(block)
            self.length += len(block)
            first = last


def _iceberg_schema(kind: StructType) -> str:
    value = type_to_json(kind)
    schema = {"type": "struct", "schema-id": 0, **value} if isinstance(value, dict) else value
    return json.dumps(schema, separators=(",", ":"))
