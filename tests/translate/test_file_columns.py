"""Which obstacles to sharing a file count."""

from __future__ import annotations

from deltaberg.translate import codes
from deltaberg.translate.file_columns import Obstacle, still_in_the_way

RENAMED = Obstacle(code=codes.FORMER_NAMES, column="new")
IMPORTED = Obstacle(code=codes.FIELD_IDS_DISAGREE, column="other")
WITHOUT_DEFAULT = Obstacle(code=codes.INITIAL_DEFAULT, column="added")
FOREIGN_TYPE = Obstacle(code=codes.TYPE_MAPPED, column="id")


def test_former_names_do_not_refuse_a_file_that_is_written_anew_for_another_reason() -> None:
    assert still_in_the_way((RENAMED, WITHOUT_DEFAULT)) == (WITHOUT_DEFAULT,)
    assert still_in_the_way((FOREIGN_TYPE, RENAMED, IMPORTED)) == (FOREIGN_TYPE,)


def test_former_names_of_a_file_that_could_be_shared_otherwise_count() -> None:
    assert still_in_the_way((RENAMED,)) == (RENAMED,)
    assert still_in_the_way((RENAMED, IMPORTED)) == (RENAMED, IMPORTED)
    assert still_in_the_way(()) == ()


def test_a_file_with_a_refused_column_keeps_all_its_obstacles() -> None:
    refused = Obstacle(code=codes.TYPE_NOT_IN_DELTA, column="t")
    assert still_in_the_way((refused, RENAMED)) == (refused, RENAMED)
