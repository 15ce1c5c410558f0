from __future__ import annotations

import pickle
import re

import pytest

from deltaberg.translate import codes
from deltaberg.translate.findings import Finding, Severity, merge


def test_code_names_are_unique_and_stable_in_form() -> None:
    names = [code.name for code in codes.ALL_CODES]
    assert names == sorted(set(names))
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)


def test_every_code_says_why_what_to_do_and_where_it_comes_up() -> None:
    for code in codes.ALL_CODES:
        assert code.reason.endswith("."), code.name
        assert code.remedy.endswith("."), code.name
        assert code.example, code.name
        assert set(code.to) <= {"iceberg", "delta"}, code.name


def test_a_finding_travels_whole_and_its_code_by_name() -> None:
    findings = [Finding(code=code, what="a", detail="b", files=1, rows=2, remedy="c") for code in codes.ALL_CODES]
    sent = pickle.dumps(findings[0])
    assert findings[0].code.reason.encode() not in sent
    received = pickle.loads(pickle.dumps(findings))
    assert received == findings
    assert all(each.code is code for each, code in zip(received, codes.ALL_CODES, strict=True))


def test_a_code_that_is_not_known_is_not_made_up() -> None:
    renamed = pickle.dumps(codes.INT96).replace(b"int96", b"int97")
    with pytest.raises(KeyError, match="int97"):
        pickle.loads(renamed)


def test_strict_only_raises_a_severity() -> None:
    for code in codes.ALL_CODES:
        if code.strict is not None:
            assert code.strict.rank > code.severity.rank, code.name


def test_an_occurrence_may_be_graver_or_milder_than_its_code() -> None:
    finding = Finding(code=codes.FORMER_NAMES, what="a", severity=Severity.WARNING)
    assert finding.effective_severity() is Severity.WARNING
    assert Finding(code=codes.FORMER_NAMES, what="a").effective_severity() is Severity.REFUSE
    assert Finding(code=codes.INT96, what="a").effective_severity(strict=True) is Severity.REWRITE


def test_equal_findings_are_added_up_and_the_gravest_come_first() -> None:
    merged = merge(
        [
            Finding(code=codes.INT96, what="ts", files=1, rows=5),
            Finding(code=codes.NAMES_BY_CASE, what="A"),
            Finding(code=codes.INT96, what="ts", files=2, rows=7),
        ]
    )
    assert [(each.code.name, each.files, each.rows) for each in merged] == [
        ("names-differ-by-case", 0, 0),
        ("int96-timestamps", 3, 12),
    ]
