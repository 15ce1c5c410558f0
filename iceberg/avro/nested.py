"""Readers of Avro's records, unions, arrays and maps, in lockstep over many cursors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltaberg.iceberg.avro.container import read_long
from deltaberg.iceberg.avro.cursors import Cursors, Positions
from deltaberg.iceberg.avro.values import Reader
from deltaberg.iceberg.errors import CorruptMetadata

# A round over all cursors costs about as much as walking this many items in plain Python.
_ROUND_COST: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordReader:
    """A record's fields; ``slots`` says which field of ``type`` each one becomes (None: it is skipped).

    Fields of ``type`` that no slot fills are null.
    """

    what: str
    fields: tuple[Reader, ...]
    slots: tuple[int | None, ...]
    type: pa.StructType
    longs: int = 0

    def read(self, cursors: Cursors, at: Positions) -> tuple[pa.Array, Positions]:
        found: dict[int, pa.Array] = {}
        for reader, slot in zip(self.fields, self.slots, strict=True):
            if slot is None:
                at = reader.skip(cursors, at)
            else:
                found[slot], at = reader.read(cursors, at)
        return struct_array(self.type, found, len(at)), at

    def skip(self, cursors: Cursors, at: Positions) -> Positions:
        if self.longs == 2:
            return cursors.skip_long_pairs(at, self.what)
        for reader in self.fields:
            at = reader.skip(cursors, at)
        return at

    def walk(self, view: memoryview, at: int) -> int:
        for reader in self.fields:
            at = reader.walk(view, at)
        return at


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoringReader:
    """Values that are stepped over and read as null."""

    what: str
    inner: Reader
    type: pa.DataType
    longs: int = 0

    def read(self, cursors: Cursors, at: Positions) -> tuple[pa.Array, Positions]:
        return pa.nulls(len(at), self.type), self.inner.skip(cursors, at)

    def skip(self, cursors: Cursors, at: Positions) -> Positions:
        return self.inner.skip(cursors, at)

    def walk(self, view: memoryview, at: int) -> int:
        return self.inner.walk(view, at)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionReader:
    """A union. ``value`` is the branch that is read as the field's value, the others store no value."""

    what: str
    branches: tuple[Reader, ...]
    value: int
    type: pa.DataType
    longs: int = 0

    def read(self, cursors: Cursors, at: Positions) -> tuple[pa.Array, Positions]:
        chosen, at = self._chosen(cursors, at)
        present = chosen == self.value
        count = int(np.count_nonzero(present))
        if count == len(at):
            return self.branches[self.value].read(cursors, at)
        if count == 0:
            return pa.nulls(len(at), self.type), at
        values, ends = self.branches[self.value].read(cursors, at[present])
        at = at.copy()
        at[present] = ends
        index = np.cumsum(present) - 1
        return values.take(pa.array(index, mask=~present)), at

    def skip(self, cursors: Cursors, at: Positions) -> Positions:
        chosen, at = self._chosen(cursors, at)
        return self._skip_chosen(cursors, chosen, at)

    def walk(self, view: memoryview, at: int) -> int:
        chosen, at = read_long(view, at, self.what)
        if not 0 <= chosen < len(self.branches):
            raise self._unknown_branch()
        return self.branches[chosen].walk(view, at)

    def _chosen(self, cursors: Cursors, at: Positions) -> tuple[npt.NDArray[np.int64], Positions]:
        first = cursors.small(at, self.what)
        if len(first) and int(first.max()) >= 0x80:
            chosen, at = cursors.longs(at, self.what)
        else:
            chosen, at = (first >> 1).astype(np.int64), at + 1
            if bool((first & 1).any()):
                raise self._unknown_branch()
        if len(chosen) and (int(chosen.max()) >= len(self.branches) or int(chosen.min()) < 0):
            raise self._unknown_branch()
        return chosen, at

    def _skip_chosen(self, cursors: Cursors, chosen: npt.NDArray[np.int64], at: Positions) -> Positions:
        at = at.copy()
        for branch in np.unique(chosen):
            here = chosen == branch
            at[here] = self.branches[branch].skip(cursors, at[here])
        return at

    def _unknown_branch(self) -> CorruptMetadata:
        return CorruptMetadata(
            f"Cannot read Avro field {self.what}: a value chooses a branch that its union of {len(self.branches)} "
            "does not have",
            field=self.what,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemsReader:
    """An array or map: blocks of items, a count before each, 0 at the end.

    ``type`` is the list or map to build out of the items; ``item`` reads structs of key and value for a map.
    """

    what: str
    item: Reader
    type: pa.DataType
    longs: int = 0

    def read(self, cursors: Cursors, at: Positions) -> tuple[pa.Array, Positions]:
        starts, counts, end = self._find(cursors, at)
        offsets = np.zeros(len(at) + 1, dtype=np.int64)
        np.cumsum(counts, out=offsets[1:])
        items, _ = self.item.read(cursors, starts)
        edges = pa.array(offsets.astype(np.int32))
        if pa.types.is_map(self.type):
            keys, values = items.flatten()
            if keys.null_count:
                raise CorruptMetadata(f"Cannot read Avro field {self.what}: a map key is null", field=self.what)
            return pa.MapArray.from_arrays(edges, keys, values, type=self.type), end
        return pa.ListArray.from_arrays(edges, items, type=self.type), end

    def skip(self, cursors: Cursors, at: Positions) -> Positions:
        return self._find(cursors, at)[2]

    def walk(self, view: memoryview, at: int) -> int:
        while True:
            count, at = self._block(view, at)
            if count == 0:
                return at
            for _ in range(count):
                at = self.item.walk(view, at)

    def _block(self, view: memoryview, at: int) -> tuple[int, int]:
        count, at = read_long(view, at, self.what)
        if count < 0:
            count, at = -count, read_long(view, at, self.what)[1]
        if count > len(view):
            raise self._too_many()
        return count, at

    def _find(self, cursors: Cursors, at: Positions) -> tuple[Positions, npt.NDArray[np.int64], Positions]:
        """The start of every item in order, the number of items of each cursor, and the position after each cursor."""
        at = at.copy()
        totals = np.zeros(len(at), dtype=np.int64)
        found: list[tuple[npt.NDArray[np.int64], Positions]] = []
        active = everyone = np.arange(len(at), dtype=np.int64)
        while len(active):
            counts, at[active] = self._counts(cursors, at[active])
            more = counts > 0
            if not bool(more.all()):
                active, counts = active[more], counts[more]
            totals[active] += counts
            if int(totals.sum()) > cursors.size:
                raise self._too_many()
            if len(active):
                self._rounds(cursors, at, active, counts, found)
        if not found:
            return np.zeros(0, dtype=np.int64), totals, at
        if all(owners is everyone for owners, _ in found):
            return np.stack([starts for _, starts in found], axis=1).ravel(), totals, at
        owners = np.concatenate([owners for owners, _ in found])
        starts = np.concatenate([starts for _, starts in found])
        return starts[np.argsort(owners, kind="stable")], totals, at

    def _rounds(
        self,
        cursors: Cursors,
        at: Positions,
        active: npt.NDArray[np.int64],
        counts: npt.NDArray[np.int64],
        found: list[tuple[npt.NDArray[np.int64], Positions]],
    ) -> None:
        """Step over one block of items in the active cursors, one item of each at a time, recording where items start."""
        most = int(counts.max())
        done = 0
        if int(counts.min()) == most and len(active) * most >= _ROUND_COST * most:
            ends = at[active]
            for _ in range(most):
                found.append((active, ends))
                ends = self.item.skip(cursors, ends)
            at[active] = ends
            return
        while done < most and len(active) >= _ROUND_COST:
            found.append((active, at[active]))
            at[active] = self.item.skip(cursors, at[active])
            done += 1
            left = counts > done
            active, counts = active[left], counts[left]
        for lane, count in zip(active.tolist(), counts.tolist(), strict=True):
            starts = np.empty(count - done, dtype=np.int64)
            here = int(at[lane])
            for i in range(count - done):
                starts[i] = here
                here = self.item.walk(cursors.view, here)
            at[lane] = here
            found.append((np.full(len(starts), lane, dtype=np.int64), starts))

    def _counts(self, cursors: Cursors, at: Positions) -> tuple[npt.NDArray[np.int64], Positions]:
        counts, at = cursors.longs(at, self.what)
        sized = counts < 0
        if bool(sized.any()):
            at[sized] = cursors.skip_longs(at[sized], self.what)
            counts = np.abs(counts)
        if len(counts) and (int(counts.max()) > cursors.size or int(counts.min()) < 0):
            raise self._too_many()
        return counts, at

    def _too_many(self) -> CorruptMetadata:
        return CorruptMetadata(
            f"Cannot read Avro field {self.what}: it claims more items than there are bytes", field=self.what
        )


def struct_array(kind: pa.StructType, found: dict[int, pa.Array], length: int) -> pa.StructArray:
    """A struct of the given fields by index; the others are null."""
    if kind.num_fields == 0:
        return pa.Array.from_buffers(kind, length, [None])
    arrays = [found[i] if i in found else pa.nulls(length, kind.field(i).type) for i in range(kind.num_fields)]
    return pa.StructArray.from_arrays(arrays, fields=list(kind))
