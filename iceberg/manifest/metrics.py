"""Column metrics between their two shapes: one map per file, and one array per column (Data File Fields 108-128).

Both directions touch every (file, column) pair once and no file by itself.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def metric(maps: pa.MapArray, field_id: int) -> pa.Array:
    """The value each file has for one field, aligned with the files; null where the file has no such key.

    Of a key that occurs twice in one map the last value counts, as in every reader that builds a map.
    """
    keys, items, offsets = _flat(maps)
    at = np.flatnonzero(keys == field_id)
    index = np.zeros(len(maps), dtype=np.int64)
    present = np.zeros(len(maps), dtype=bool)
    rows = np.searchsorted(offsets, at, side="right") - 1
    valid = _valid(maps)
    keep = valid[rows]
    index[rows[keep]] = at[keep]
    present[rows[keep]] = True
    return items.take(pa.array(index, mask=~present))


def metric_ids(maps: pa.MapArray) -> tuple[int, ...]:
    """The field ids that any file of the array has a value for, ascending."""
    keys, _, offsets = _flat(maps)
    if len(keys) == 0:
        return ()
    if maps.null_count:
        rows = np.searchsorted(offsets, np.arange(len(keys)), side="right") - 1
        keys = keys[_valid(maps)[rows]]
    return tuple(int(key) for key in np.unique(keys))


def metric_map(columns: Mapping[int, pa.Array], *, length: int | None = None) -> pa.MapArray:
    """One map per file from one array per field id; a null value leaves its key out of that file's map.

    Every array has one value per file and all share a type. ``length`` is needed when ``columns`` is empty, and then
    the values are typed int64. A file without any value gets an empty map; keys stand in ascending order.
    """
    if not columns:
        empty = pa.array([], pa.int64())
        return pa.MapArray.from_arrays(np.zeros((length or 0) + 1, np.int32), pa.array([], pa.int32()), empty)
    ids = sorted(columns)
    arrays = [_plain(columns[field_id]) for field_id in ids]
    rows = len(arrays[0])
    width = len(ids)
    # Row-major order: the value of column c in row r stands at c * rows + r of the concatenated columns.
    order = (np.arange(rows, dtype=np.int64)[:, None] + np.arange(width, dtype=np.int64) * rows).ravel()
    keys = np.tile(np.array(ids, dtype=np.int32), rows)
    joined = pa.concat_arrays(arrays)
    if joined.null_count:
        valid = joined.is_valid().to_numpy(zero_copy_only=False)[order]
        counts = valid.reshape(rows, width).sum(axis=1)
        order, keys = order[valid], keys[valid]
        offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    else:
        offsets = np.arange(0, (rows + 1) * width, width, dtype=np.int32)
    return pa.MapArray.from_arrays(offsets, pa.array(keys), joined.take(pa.array(order)))


def _plain(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _valid(maps: pa.MapArray) -> npt.NDArray[np.bool_]:
    return np.asarray(maps.is_valid().to_numpy(zero_copy_only=False), dtype=bool)


def _flat(maps: pa.MapArray) -> tuple[npt.NDArray[np.int32], pa.Array, npt.NDArray[np.int32]]:
    """Keys, values and offsets of all maps, offsets counted from the first key of the (possibly sliced) array."""
    offsets = maps.offsets.to_numpy()
    start, stop = int(offsets[0]), int(offsets[-1])
    keys = maps.keys.slice(start, stop - start).to_numpy()
    items = maps.items.slice(start, stop - start)
    return keys, items, offsets - start
