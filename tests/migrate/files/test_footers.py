"""Whose footers are read: files that are not proven to be the table's own, and a few of each group of those that are."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.datafile import FileField
from deltaberg.datafile.hybrid_calendar import HybridCalendar
from deltaberg.migrate.files.file_layout import FileLayout, SeenFile, read_layout
from deltaberg.migrate.files.footer_memory import FooterMemory, cache_folder
from deltaberg.migrate.files.footers import FooterSampler, any_conflict
from deltaberg.migrate.files.provenance import Provenance
from deltaberg.storage import open_storage

PLAIN = pa.table({"a": pa.array([1], pa.int64())})
OTHER = pa.table({"a": pa.array([1], pa.int32())})
MORE = pa.table({"a": pa.array([1], pa.int64()), "b": pa.array(["x"])})
Files = Callable[[Sequence[pa.Table]], list[str]]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    def write(tables: Sequence[pa.Table]) -> list[str]:
        places = []
        for table in tables:
            places.append(str(tmp_path / f"{len(list(tmp_path.iterdir())):05}.parquet"))
            pq.write_table(table, places[-1])
        return places

    return write


def provenance(groups: list[str], *, own: list[bool] | None = None, exact: bool = True) -> Provenance:
    """The writer of a group is what stands before its colon."""
    return Provenance(
        own=np.array(own if own is not None else [True] * len(groups)),
        groups=pa.array(groups),
        writers=pa.array([each.partition(":")[0] for each in groups]),
        exact=np.full(len(groups), exact),
    )


def observed(survey: FooterSampler, places: list[str], found: Provenance) -> list[int]:
    """The places of the facts of all files, after as many passes as it takes."""
    result: list[int] = []
    rows = pa.array([1] * len(places), pa.int64())
    formats = pa.array(["parquet"] * len(places))
    for _ in survey.passes():
        result = survey.observe(pa.array(places), formats, rows, rows, lambda: found).tolist()
    return result


def types(survey: FooterSampler, places: list[int]) -> list[pa.DataType]:
    fields = [survey.layout[place].fields for place in places]
    return [each[0].type for each in fields if each is not None]


def survey_of(**options: Any) -> FooterSampler:
    return FooterSampler(open_storage(), **{"deep": False, "one_by_one": 0, **options})


class TestSampling:
    def test_two_footers_stand_for_a_group_that_agrees(self, files: Files) -> None:
        survey = survey_of()
        found = observed(survey, files([PLAIN] * 6), provenance(["w:1"] * 6))
        assert types(survey, found) == [pa.int64()] * 6
        assert (survey.count.files, survey.count.read, survey.count.unread) == (6, 2, 4)

    def test_files_that_are_not_own_are_all_read(self, files: Files) -> None:
        survey = survey_of()
        own = [False, True, True, True, False]
        observed(survey, files([PLAIN] * 5), provenance(["w:1"] * 5, own=own))
        assert (survey.count.read, survey.count.unread) == (4, 1)

    def test_everything_is_read_on_request_and_nobody_asks_who_wrote_it(self, files: Files) -> None:
        survey = survey_of(deep=True)
        found: Any = None
        observed(survey, files([PLAIN] * 5), found)
        assert (survey.count.read, survey.count.unread) == (5, 0)

    def test_a_group_that_does_not_agree_is_read_whole(self, files: Files) -> None:
        survey = survey_of()
        tables = [PLAIN, PLAIN, OTHER, PLAIN, MORE, *[PLAIN] * 4]
        found = observed(survey, files(tables), provenance(["w:1"] * 5 + ["w:2"] * 4))
        assert types(survey, found) == [pa.int64(), pa.int64(), pa.int32(), *[pa.int64()] * 6]
        assert found[4] != found[3]
        assert (survey.count.read, survey.count.unread) == (7, 2)

    def test_groups_by_time_that_contradict_each_other_are_all_read(self, files: Files) -> None:
        """Two sessions write at the same time: which file is whose, its time does not tell."""
        tables = [*[PLAIN] * 4, OTHER, OTHER, PLAIN, OTHER, *[PLAIN] * 3]
        groups = ["w:1"] * 4 + ["w:2"] * 4 + ["v:1"] * 3
        survey = survey_of()
        found = observed(survey, files(tables), provenance(groups, exact=False))
        assert types(survey, found) == [each.schema.field("a").type for each in tables]
        assert (survey.count.read, survey.count.unread) == (10, 1)

    def test_commits_that_are_told_apart_may_differ(self, files: Files) -> None:
        survey = survey_of()
        groups = ["w:1"] * 4 + ["w:2"] * 4
        found = observed(survey, files([*[PLAIN] * 4, *[OTHER] * 4]), provenance(groups))
        assert types(survey, found) == [*[pa.int64()] * 4, *[pa.int32()] * 4]
        assert survey.count.unread == 4

    def test_columns_may_come_and_go(self, files: Files) -> None:
        survey = survey_of()
        groups = ["w:1"] * 4 + ["w:2"] * 4
        observed(survey, files([*[PLAIN] * 4, *[MORE] * 4]), provenance(groups, exact=False))
        assert survey.count.unread == 4

    def test_what_the_tables_writers_never_write_makes_all_of_that_name_doubtful(self, files: Files) -> None:
        places = files([*[PLAIN] * 4, *[OTHER] * 4, *[PLAIN] * 4])
        groups = ["w:1"] * 4 + ["w:2"] * 4 + ["v:1"] * 4
        survey = survey_of(contradicts=lambda facts: facts.fields[0].type == pa.int32())
        observed(survey, places, provenance(groups))
        assert (survey.count.read, survey.count.unread) == (10, 2)
        assert "of writers whose footers differ" in survey.count.reason

    def test_a_large_group_has_more_footers_read(self, tmp_path: Path) -> None:
        first = tmp_path / "0.parquet"
        pq.write_table(PLAIN, first)
        places = [str(tmp_path / f"{number}.parquet") for number in range(4_000)]
        for place in places[1:]:
            os.link(first, place)
        survey = survey_of()
        observed(survey, places, provenance(["w:1"] * 4_000))
        assert survey.count.read == 4

    def test_a_later_pass_reads_nothing(self, files: Files) -> None:
        survey = survey_of()
        places, proof = files([*[PLAIN] * 5, *[OTHER] * 5]), provenance(["w:1"] * 10)
        found = observed(survey, places, proof)
        read = survey.count.read
        rows = pa.array([1] * 10, pa.int64())
        again = survey.observe(pa.array(places), pa.array(["parquet"] * 10), rows, rows, lambda: proof)
        assert again.tolist() == found
        assert survey.count.read == read

    def test_the_parts_of_a_table_are_judged_together(self, files: Files) -> None:
        parts = []
        for table in (PLAIN, OTHER):
            part = survey_of()
            observed(part, files([table] * 4), provenance(["w:1"] * 4, exact=False))
            parts.append(pickle.loads(pickle.dumps(part.without_files())))
        assert [part.judged() for part in parts] == [frozenset(), frozenset()]
        together = survey_of()
        for part in parts:
            together.merge(part)
        assert together.judged() == {"w"}
        assert len(together.layout) == 2
        assert (together.count.files, together.count.read) == (8, 4)


KINDS = st.sampled_from([PLAIN, OTHER, MORE])


@given(st.data())
def test_no_file_is_described_by_one_that_differs_unless_its_group_hides_it(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Whatever groups and owners there are: a file that is not own, or whose group is of one kind, gets its own facts."""
    folder = tmp_path_factory.mktemp("files")
    kinds = data.draw(
        st.lists(st.tuples(KINDS, st.sampled_from(["w:1", "w:2", "v:1"]), st.booleans()), min_size=1, max_size=12)
    )
    places = []
    for number, (table, _, _) in enumerate(kinds):
        places.append(str(folder / f"{number}.parquet"))
        pq.write_table(table, places[-1])
    survey = survey_of(one_by_one=data.draw(st.integers(0, 3)))
    found = provenance(
        [group for _, group, _ in kinds], own=[own for _, _, own in kinds], exact=data.draw(st.booleans())
    )
    result = observed(survey, places, found)
    storage = open_storage()
    for place, (_, group, own), facts in zip(places, kinds, result, strict=True):
        alike = len({id(table) for table, other, belongs in kinds if other == group and belongs}) == 1
        if not own or alike:
            assert survey.layout[facts] == read_layout(storage, place).layout


class TestConflicts:
    @pytest.mark.parametrize(
        "changed",
        [
            {"field_id": 4},
            {"type": pa.int32()},
            {"calendar": HybridCalendar()},
        ],
    )
    def test_one_column_in_two_ways(self, changed: dict[str, Any]) -> None:
        usual: dict[str, Any] = {"name": "a", "type": pa.date32(), "field_id": 3}
        one, other = (
            FileLayout(format="parquet", fields=(FileField(**each),)) for each in (usual, {**usual, **changed})
        )
        assert any_conflict(frozenset({one, other}))
        assert not any_conflict(frozenset({one}))


@pytest.fixture
def remembering(tmp_path: Path) -> Callable[[], FooterMemory]:
    def memory() -> FooterMemory:
        found = FooterMemory.of(open_storage(), "/some/table", {"DELTABERG_FOOTER_CACHE": str(tmp_path / "cache")})
        assert found is not None
        return found

    return memory


def learn(memory: FooterMemory, places: list[str]) -> None:
    memory.recall(places, [None] * len(places))
    memory.learn({place: read_layout(open_storage(), place) for place in places})
    memory.save()


class TestMemory:
    def test_what_one_run_learns_another_knows(self, files: Files, remembering: Any) -> None:
        places = files([PLAIN, MORE, OTHER])
        learn(remembering(), places)
        assert remembering().recall(places, [None] * 3) == [read_layout(open_storage(), place) for place in places]

    @pytest.mark.parametrize("same_size", [False, True])
    def test_a_file_that_was_replaced_is_read(self, files: Files, remembering: Any, same_size: bool) -> None:
        (place,) = files([PLAIN])
        learn(remembering(), [place])
        if not same_size:
            pq.write_table(MORE, place)
        os.utime(place, (1, 1))
        assert remembering().recall([place], [None]) == [None]

    def test_a_file_that_is_gone_is_looked_for(self, files: Files, remembering: Any) -> None:
        (place,) = files([PLAIN])
        learn(remembering(), [place])
        os.unlink(place)
        assert remembering().recall([place], [None]) == [None]

    def test_trouble_is_not_remembered(self, files: Files, remembering: Any) -> None:
        (place,) = files([PLAIN])
        memory = remembering()
        memory.recall([place], [None])
        memory.learn({place: SeenFile(layout=FileLayout(format="unreadable"), rows=None, trouble="damaged")})
        memory.save()
        assert remembering().recall([place], [None]) == [None]

    @given(place=st.floats(0, 0.999), bits=st.integers(1, 255))
    def test_a_damaged_cache_is_no_cache(
        self, tmp_path_factory: pytest.TempPathFactory, place: float, bits: int
    ) -> None:
        folder = tmp_path_factory.mktemp("cache")
        file = str(folder / "a.parquet")
        pq.write_table(PLAIN, file)
        environment = {"DELTABERG_FOOTER_CACHE": str(folder / "cache")}
        memory = FooterMemory.of(open_storage(), "/t", environment)
        assert memory is not None
        learn(memory, [file])
        (kept,) = (folder / "cache").iterdir()
        data = bytearray(kept.read_bytes())
        data[int(place * len(data))] ^= bits
        kept.write_bytes(data)
        again = FooterMemory.of(open_storage(), "/t", environment)
        assert again is not None
        assert again.recall([file], [None]) == [None]

    def test_a_survey_reads_what_it_does_not_remember(self, tmp_path: Path, remembering: Any) -> None:
        first = tmp_path / "0.parquet"
        pq.write_table(PLAIN, first)
        places = [str(tmp_path / f"{number}.parquet") for number in range(300)]
        for place in places[1:]:
            os.link(first, place)
        counts = []
        for _ in range(2):
            survey = survey_of(memory=remembering())
            observed(survey, places, provenance(["w:1"] * 300, own=[False] * 300))
            counts.append((survey.count.read, survey.count.remembered, survey.count.unread))
        assert counts == [(300, 0, 0), (0, 300, 0)]

    @pytest.mark.parametrize(
        ("environment", "folder"),
        [
            ({"DELTABERG_FOOTER_CACHE": "off", "HOME": "/h"}, None),
            ({"DELTABERG_FOOTER_CACHE": "/x"}, "/x"),
            ({"XDG_CACHE_HOME": "/c", "HOME": "/h"}, "/c/deltaberg/footers"),
            ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/deltaberg/footers"),
            ({"HOME": "/h"}, "/h/.cache/deltaberg/footers"),
            ({}, None),
        ],
    )
    def test_where_it_is(self, environment: dict[str, str], folder: str | None) -> None:
        assert cache_folder(environment) == folder
