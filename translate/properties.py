"""Table properties: those that are carried, kept under a prefix, or left out.

A property of one format means nothing in the other but by accident (``gc.enabled`` and the like), so nothing keeps its
bare name except a property that no engine of the target gives a meaning to. The way back removes the prefixes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from deltaberg.redaction import HIDDEN, redacted
from deltaberg.translate.codes import SECRET_PROPERTY
from deltaberg.translate.findings import Finding

OWN_PREFIX: Final = "deltaberg."
"""Properties that deltaberg writes about its own work; never carried on."""

_FROM_ICEBERG: Final = "iceberg."
_FROM_DELTA: Final = "delta."

_ICEBERG_MEANINGS: Final = re.compile(
    r"(write|read|commit|history|gc|schema|format|engine|client|table|manifest|metadata|encryption|compatibility|"
    r"format-version|created-at|owner|uuid|snapshot-count|current-.*|default-.*|sort-order|iceberg|app-id)([.\-].*)?"
)
_SECRET: Final = re.compile(
    r"(^|[._\-])(password|passwd|secret|token|credentials?|private[._\-]?key|access[._\-]?key|account[._\-]?key|"
    r"sas|api[._\-]?key|session[._\-]?key|client[._\-]?secret|secret[._\-]?access[._\-]?key)([._\-]|$)|"
    r"password|secret|credential|accesskey|privatekey",
    re.IGNORECASE,
)
_SECRET_VALUE: Final = re.compile(r"://[^/\s:@]+:[^/\s@]+@|\bAKIA[0-9A-Z]{16}\b|-----BEGIN [A-Z ]*PRIVATE KEY")


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyRule:
    """One row of docs/properties.md: what becomes of the properties that a pattern describes."""

    source: str
    pattern: str
    becomes: str


PROPERTY_RULES: Final[tuple[PropertyRule, ...]] = (
    PropertyRule(source="Delta", pattern=f"`{OWN_PREFIX}*`", becomes="left out: they are about deltaberg's own work"),
    PropertyRule(source="Delta", pattern="looks like a secret, by name or value", becomes="left out, with a warning"),
    PropertyRule(source="Delta", pattern=f"`{_FROM_ICEBERG}<name>`", becomes="`<name>`: it came from Iceberg"),
    PropertyRule(source="Delta", pattern=f"`{_FROM_DELTA}<name>`", becomes="the same; it means nothing in Iceberg"),
    PropertyRule(
        source="Delta",
        pattern="a name that Iceberg gives a meaning to, such as `gc.enabled`",
        becomes=f"`{_FROM_DELTA}user.<name>`",
    ),
    PropertyRule(source="Delta", pattern="any other", becomes="the same"),
    PropertyRule(
        source="Iceberg",
        pattern="`deltaberg.delta.column-mapping`",
        becomes="the column mapping mode and the partition columns' physical names, where files still agree with them: they "
        "are those of the Delta table that this one came from",
    ),
    PropertyRule(
        source="Iceberg",
        pattern=f"`{OWN_PREFIX}*`, `schema.name-mapping.default`",
        becomes="left out: the one is about deltaberg's own work, the other is carried by column mapping",
    ),
    PropertyRule(source="Iceberg", pattern="looks like a secret, by name or value", becomes="left out, with a warning"),
    PropertyRule(source="Iceberg", pattern=f"`{_FROM_DELTA}user.<name>`", becomes="`<name>`: it came from Delta"),
    PropertyRule(
        source="Iceberg",
        pattern="any other",
        becomes=f"`{_FROM_ICEBERG}<name>`, so that none switches on a Delta feature by its name",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyTranslation:
    """properties: the target's; findings: those left out."""

    properties: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


def is_secret(key: str, value: str) -> bool:
    """Whether a property looks like a credential: by its name, or by a value that holds one."""
    return _SECRET.search(key) is not None or _SECRET_VALUE.search(value) is not None or redacted(value) != value


def shown_text(text: str | None) -> str | None:
    """A description as the target's metadata may repeat it: without a URL's credentials."""
    return None if text is None else redacted(text)


def shown_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties as they may be printed: no value that is or holds a secret."""
    return {
        key: HIDDEN if _SECRET.search(key) or _SECRET_VALUE.search(value) else redacted(value)
        for key, value in properties.items()
    }


def delta_to_iceberg_properties(configuration: Mapping[str, str]) -> PropertyTranslation:
    """``delta.*`` stays as it is; what came from Iceberg once gets its name back; the rest keeps its name unless
    Iceberg gives it a meaning (then ``delta.user.<name>``)."""
    result: dict[str, str] = {}
    findings: list[Finding] = []
    for key, value in configuration.items():
        if key.startswith(OWN_PREFIX):
            continue
        if is_secret(key, value):
            findings.append(Finding(code=SECRET_PROPERTY, what=key))
        elif key.startswith(_FROM_ICEBERG):
            result[key.removeprefix(_FROM_ICEBERG)] = value
        elif not key.startswith(_FROM_DELTA) and _ICEBERG_MEANINGS.fullmatch(key):
            result[f"{_FROM_DELTA}user.{key}"] = value
        else:
            result[key] = value
    return PropertyTranslation(properties=result, findings=tuple(findings))


def iceberg_to_delta_properties(properties: Mapping[str, str]) -> PropertyTranslation:
    """Every property is carried under ``iceberg.``, but ``delta.user.<name>`` gets its name back: no property of an
    Iceberg table may switch on a Delta feature by its name.
    """
    result: dict[str, str] = {}
    findings: list[Finding] = []
    for key, value in properties.items():
        if key.startswith(OWN_PREFIX) or key == "schema.name-mapping.default":
            continue
        if is_secret(key, value):
            findings.append(Finding(code=SECRET_PROPERTY, what=key))
        elif key.startswith(f"{_FROM_DELTA}user."):
            result[key.removeprefix(f"{_FROM_DELTA}user.")] = value
        else:
            result[f"{_FROM_ICEBERG}{key}"] = value
    return PropertyTranslation(properties=result, findings=tuple(findings))
