from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.delta.schema import types as delta
from deltaberg.delta.schema.column_mapping import COLUMN_ID, NESTED_IDS, PHYSICAL_NAME, MappingMode
from deltaberg.iceberg.schema import types as ice
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.translate import codes
from deltaberg.translate.field_ids import assigned_ids
from deltaberg.translate.schema import (
    delta_to_iceberg_schema,
    iceberg_to_delta_schema,
    required_version,
)
from deltaberg.translate.type_changes import TYPE_CHANGES_KEY, TypeChangeEntry


def found(findings: Any) -> list[tuple[str, str]]:
    return [(finding.code.name, finding.what) for finding in findings]


def test_names_ids_nullability_and_comments_are_carried(column: Any, delta_schema: Any) -> None:
    schema = delta_schema(
        column("a", delta.LongType(), nullable=False, comment="the key"), column("b", delta.StringType())
    )
    result = delta_to_iceberg_schema(schema, {("a",): 7, ("b",): 9}, format_version=2)
    assert result.schema.fields == (
        ice.NestedField(field_id=7, name="a", required=True, type=ice.LongType(), doc="the key"),
        ice.NestedField(field_id=9, name="b", required=False, type=ice.StringType()),
    )
    assert result.findings == ()


def test_ids_go_to_physical_paths_while_names_are_logical(column: Any, delta_schema: Any) -> None:
    schema = delta_schema(column("new name", delta.LongType(), **{PHYSICAL_NAME: "col-1"}))
    result = delta_to_iceberg_schema(schema, {("col-1",): 4}, format_version=2)
    assert result.schema.fields[0].name == "new name"
    assert result.leaves[0].path == ("col-1",)


def test_nested_fields_get_the_ids_of_their_paths(column: Any, delta_schema: Any) -> None:
    inner = delta_schema(column("x", delta.IntegerType()))
    schema = delta_schema(
        column("s", inner),
        column("l", delta.ArrayType(element_type=inner, contains_null=False)),
        column("m", delta.MapType(key_type=delta.StringType(), value_type=delta.DoubleType())),
    )
    result = delta_to_iceberg_schema(schema, assigned_ids(schema, known={}), format_version=2).schema
    assert result.full_name(4) == "s.x"
    assert result.full_name(5) == "l.element"
    assert result.full_name(6) == "l.element.x"
    assert result.full_name(7) == "m.key"
    assert result.full_name(8) == "m.value"
    assert result.find(5).required  # type: ignore[union-attr]
    assert not result.find(8).required  # type: ignore[union-attr]


def test_leaves_below_lists_and_maps_are_marked(column: Any, delta_schema: Any) -> None:
    schema = delta_schema(column("l", delta.ArrayType(element_type=delta.LongType())), column("a", delta.LongType()))
    leaves = delta_to_iceberg_schema(schema, assigned_ids(schema, known={}), format_version=2).leaves
    assert [(leaf.name, leaf.in_collection) for leaf in leaves] == [("l.element", True), ("a", False)]


def test_void_is_unknown_from_version_3_on_and_left_out_before(column: Any, delta_schema: Any) -> None:
    schema = delta_schema(column("a", delta.LongType()), column("n", delta.VoidType(), nullable=False))
    ids = assigned_ids(schema, known={})
    new = delta_to_iceberg_schema(schema, ids, format_version=3)
    assert new.schema.fields[1].type == ice.UnknownType()
    assert not new.schema.fields[1].required
    old = delta_to_iceberg_schema(schema, ids, format_version=2)
    assert [each.name for each in old.schema.fields] == ["a"]
    assert old.left_out == (("n",),)
    assert found(old.findings) == [("void-column-left-out", "n")]


def test_a_struct_of_void_cannot_be_left_out(column: Any, delta_schema: Any) -> None:
    schema = delta_schema(column("a", delta.LongType()), column("s", delta_schema(column("n", delta.VoidType()))))
    result = delta_to_iceberg_schema(schema, assigned_ids(schema, known={}), format_version=2)
    assert ("type-needs-version-3", "s") in found(result.findings)


@pytest.mark.parametrize("kind", [delta.VariantType(), delta.GeometryType(), delta.GeographyType()])
def test_new_types_are_refused_below_version_3(column: Any, delta_schema: Any, kind: Any) -> None:
    schema = delta_schema(column("a", delta.LongType()), column("v", kind))
    result = delta_to_iceberg_schema(schema, assigned_ids(schema, known={}), format_version=2)
    assert found(result.findings) == [("type-needs-version-3", "v")]
    assert required_version(schema)[0] == 3


def test_intervals_are_refused_by_name(column: Any, delta_schema: Any) -> None:
    schema = delta_schema(column("a", delta.LongType()), column("i", delta.IntervalType(text="day to second")))
    result = delta_to_iceberg_schema(schema, assigned_ids(schema, known={}), format_version=3)
    assert found(result.findings) == [("type-not-in-iceberg", "i")]
    assert result.findings[0].detail == "interval day to second"


def test_widened_types_and_rules_are_said(column: Any, delta_schema: Any) -> None:
    schema = delta_schema(
        column("b", delta.ByteType()),
        column("g", delta.DateType(), delta__generationExpression="CAST(ts AS DATE)"),
        column("s", delta.StringType(collation="spark.UNICODE_CI")),
        column("c", delta.StringType(), __CHAR_VARCHAR_TYPE_STRING="varchar(3)"),
    )
    schema = delta_schema(
        *schema.fields[:3],
        delta.StructField(name="c", type=delta.StringType(), metadata={"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}),
    )
    result = delta_to_iceberg_schema(schema, assigned_ids(schema, known={}), format_version=2)
    assert set(found(result.findings)) == {
        ("type-widened", "b"),
        ("rule-not-enforced", "g"),
        ("collation-not-carried", "s"),
        ("char-length-recorded", "c"),
    }


def test_a_literal_default_is_a_write_default_from_version_3_on(column: Any, delta_schema: Any) -> None:
    schema = delta_schema(column("a", delta.IntegerType(), CURRENT_DEFAULT="7"))
    ids = assigned_ids(schema, known={})
    new = delta_to_iceberg_schema(schema, ids, format_version=3)
    assert (new.schema.fields[0].write_default, new.schema.fields[0].initial_default) == (7, None)
    assert required_version(schema) == (3, "the default of column a")
    old = delta_to_iceberg_schema(schema, ids, format_version=2)
    assert old.schema.fields[0].write_default is None
    assert found(old.findings) == [("default-needs-version-3", "a")]


def test_a_default_that_is_an_expression_is_said_and_not_carried(column: Any, delta_schema: Any) -> None:
    schema = delta_schema(column("a", delta.TimestampType(), CURRENT_DEFAULT="current_timestamp()"))
    result = delta_to_iceberg_schema(schema, assigned_ids(schema, known={}), format_version=3)
    assert result.schema.fields[0].write_default is None
    assert found(result.findings) == [("default-not-literal", "a")]
    assert required_version(schema)[0] == 1


@pytest.mark.parametrize(
    ("column_name", "kind", "inside"),
    [("a.b", "struct", "b"), ("a.element", "array", None), ("a.key", "map", None)],
)
def test_a_column_with_the_dotted_name_of_another_field_is_refused(
    column: Any, delta_schema: Any, column_name: str, kind: str, inside: str | None
) -> None:
    """Iceberg's library indexes fields by dotted names and opens no table where two are equal."""
    below: dict[str, delta.DeltaType] = {
        "struct": delta.StructType(fields=(column(inside or "x", delta.IntegerType()),)),
        "array": delta.ArrayType(element_type=delta.IntegerType(), contains_null=True),
        "map": delta.MapType(key_type=delta.IntegerType(), value_type=delta.IntegerType(), value_contains_null=True),
    }
    schema = delta_schema(column(column_name, delta.LongType()), column("a", below[kind]))
    result = delta_to_iceberg_schema(schema, assigned_ids(schema, known={}), format_version=2)
    assert found(result.findings) == [("names-collide-by-path", column_name)]
    alone = delta_schema(column(column_name, delta.LongType()), column("A", below[kind]))
    assert not delta_to_iceberg_schema(alone, assigned_ids(alone, known={}), format_version=2).findings


def test_a_schema_without_columns_is_refused(delta_schema: Any) -> None:
    assert found(delta_to_iceberg_schema(delta_schema(), {}, format_version=2).findings) == [("no-columns", "schema")]


# Towards Delta


def test_field_ids_become_column_mapping_ids(field: Any, iceberg_schema: Any) -> None:
    schema = iceberg_schema(field(3, "a", ice.LongType(), required=True, doc="the key"))
    result = iceberg_to_delta_schema(schema, mode=MappingMode.ID, physical_names={3: "old"})
    (column,) = result.schema.fields
    assert (column.name, column.nullable, column.comment) == ("a", False, "the key")
    assert column.metadata[COLUMN_ID] == 3
    assert column.metadata[PHYSICAL_NAME] == "old"
    assert result.max_column_id == 3


def test_without_column_mapping_nothing_of_it_is_written(field: Any, iceberg_schema: Any) -> None:
    result = iceberg_to_delta_schema(iceberg_schema(field(3, "a", ice.LongType())), mode=MappingMode.NONE)
    assert result.schema.fields[0].metadata == {}


def test_ids_of_list_and_map_parts_stand_at_the_nearest_struct_field(field: Any, iceberg_schema: Any) -> None:
    element = ice.StructType(fields=(field(4, "x", ice.ListType(element=field(5, "element", ice.LongType()))),))
    schema = iceberg_schema(
        field(1, "l", ice.ListType(element=field(2, "element", element))),
        field(
            6,
            "m",
            ice.MapType(key=field(7, "key", ice.StringType(), required=True), value=field(8, "value", ice.LongType())),
        ),
    )
    outer, other = iceberg_to_delta_schema(schema, mode=MappingMode.ID).schema.fields
    assert outer.metadata[NESTED_IDS] == {"l.element": 2}
    inner = outer.type.element_type.fields[0]  # type: ignore[union-attr]
    assert inner.metadata[NESTED_IDS] == {"x.element": 5}
    assert other.metadata[NESTED_IDS] == {"m.key": 7, "m.value": 8}


def test_type_changes_of_a_list_element_name_the_way_to_it(field: Any, iceberg_schema: Any) -> None:
    schema = iceberg_schema(field(1, "l", ice.ListType(element=field(2, "element", ice.LongType()))))
    changes = {2: (TypeChangeEntry(from_type="integer", to_type="long"),)}
    (column,) = iceberg_to_delta_schema(schema, mode=MappingMode.ID, type_changes=changes).schema.fields
    assert column.metadata[TYPE_CHANGES_KEY] == [{"fromType": "integer", "toType": "long", "fieldPath": "element"}]


def test_names_that_differ_by_case_are_refused_at_any_depth(field: Any, iceberg_schema: Any) -> None:
    inner = ice.StructType(fields=(field(2, "x", ice.LongType()), field(3, "X", ice.LongType())))
    result = iceberg_to_delta_schema(iceberg_schema(field(1, "s", inner)), mode=MappingMode.ID)
    assert found(result.findings) == [("names-differ-by-case", "s.X")]


def test_types_that_delta_lacks_are_refused_unless_mapped(field: Any, iceberg_schema: Any) -> None:
    schema = iceberg_schema(field(1, "u", ice.UuidType()), field(2, "a", ice.LongType()))
    refused = iceberg_to_delta_schema(schema, mode=MappingMode.ID)
    assert found(refused.findings) == [("type-not-in-delta", "u")]
    mapped = iceberg_to_delta_schema(schema, mode=MappingMode.ID, type_mappings={"uuid": "string"})
    assert mapped.schema.fields[0].type == delta.StringType()
    assert mapped.mapped_ids == {1}
    assert found(mapped.findings) == [("type-mapped", "u")]
    assert mapped.findings[0].code is codes.TYPE_MAPPED


def test_a_write_default_becomes_a_literal_and_an_initial_one_nothing(field: Any, iceberg_schema: Any) -> None:
    schema = iceberg_schema(field(1, "a", ice.StringType(), write_default="it's", initial_default="x"))
    result = iceberg_to_delta_schema(schema, mode=MappingMode.ID)
    assert result.has_defaults
    assert result.schema.fields[0].metadata["CURRENT_DEFAULT"] == r"'it\'s'"


names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6)
leaves = st.sampled_from(
    [
        delta.BooleanType(),
        delta.LongType(),
        delta.DoubleType(),
        delta.StringType(),
        delta.TimestampType(),
        delta.TimestampNtzType(),
        delta.DecimalType(precision=12, scale=3),
    ]
)
kinds = st.recursive(
    leaves,
    lambda below: st.one_of(
        st.builds(
            lambda element, null: delta.ArrayType(element_type=element, contains_null=null), below, st.booleans()
        ),
        st.builds(
            lambda key, value, null: delta.MapType(key_type=key, value_type=value, value_contains_null=null),
            leaves,
            below,
            st.booleans(),
        ),
        st.lists(st.tuples(names, below, st.booleans()), min_size=1, max_size=3, unique_by=lambda f: f[0].lower()).map(
            lambda fields: delta.StructType(
                fields=tuple(delta.StructField(name=n, type=k, nullable=null) for n, k, null in fields)
            )
        ),
    ),
    max_leaves=8,
)


@given(
    fields=st.lists(
        st.tuples(names, kinds, st.booleans()), min_size=1, max_size=4, unique_by=lambda each: each[0].lower()
    )
)
def test_a_schema_comes_back_equal_from_a_round_trip(fields: Any) -> None:
    there = delta.StructType(
        fields=tuple(delta.StructField(name=name, type=kind, nullable=null) for name, kind, null in fields)
    )
    iceberg = delta_to_iceberg_schema(there, assigned_ids(there, known={}), format_version=2).schema
    back = iceberg_to_delta_schema(iceberg, mode=MappingMode.NONE).schema
    assert back == there
    again = iceberg_to_delta_schema(iceberg, mode=MappingMode.ID)
    assert Schema.from_json(iceberg.to_json()) == iceberg
    assert again.max_column_id == iceberg.highest_field_id
