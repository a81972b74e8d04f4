from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import get_args, get_type_hints

import jsonschema
import pytest

from tests.cli.fakes import fake_record
from vidcap.output import record as records
from vidcap.output.record import ErrorPart, Record, Segment, TimingPart, record_schema


def test_full_and_bare_records_satisfy_the_schema():
    error = ErrorPart("InputError", "no such file", None)
    for record in (
        fake_record("a.mp4"),
        fake_record("a.mp4", "ask", question="Why?", warnings=("w",)),
        Record("a.mp4", "describe", text="", finish_reason="stop"),
        Record("a.mp4", "describe", status="error", error=error),
        Record("a.mp4", "describe", status="skipped", segments=(Segment(0.0, 2.5, "x"),)),
    ):
        jsonschema.validate(record.to_dict(), record_schema())


@pytest.mark.parametrize(
    "record",
    [
        Record("a.mp4", "describe", status="error"),
        Record("a.mp4", "describe", status="ok"),
        Record("a.mp4", "describe", text="x", finish_reason="stop", error=ErrorPart("E", "m")),
        Record("a.mp4", "tell", text="x", finish_reason="stop"),  # type: ignore[arg-type]
        Record(3, "ask", text="x", finish_reason="stop"),  # type: ignore[arg-type]
        Record("a", "ask", text="x", finish_reason="stop", timing=TimingPart(load_s=-1.0)),
    ],
)
def test_the_schema_refuses_records_that_make_no_sense(record):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(record.to_dict(), record_schema())


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(record_schema())


def _part(annotation: object) -> type | None:
    """The dataclass inside ``X | None`` or ``tuple[X, ...]``, None where there is none."""
    found = [item for item in (annotation, *get_args(annotation)) if is_dataclass(item)]
    return found[0] if found else None


def _assert_same(part: type, schema: dict, definitions: dict) -> int:
    names = [item.name for item in fields(part)]
    assert sorted(schema["properties"]) == sorted(names)
    assert sorted(schema["required"]) == sorted(names)
    assert schema["additionalProperties"] is False
    count = 1
    for name, annotation in get_type_hints(part).items():
        inner = _part(annotation)
        if inner is not None:
            entry = schema["properties"][name]
            reference = entry.get("items", entry.get("anyOf", [{}])[0])["$ref"]
            count += _assert_same(inner, definitions[reference.rsplit("/", 1)[-1]], definitions)
    return count


def test_schema_and_dataclasses_have_the_same_keys():
    schema = record_schema()
    assert _assert_same(Record, schema, schema["$defs"]) == 9
    assert schema["properties"]["schema_version"]["const"] == records.SCHEMA_VERSION


def test_a_dict_has_every_key_in_printing_order_and_only_json_types():
    data = fake_record("a.mp4").to_dict()
    assert list(data) == list(record_schema()["required"])
    assert data["speculation"]["acceptance_histogram"] == [1, 0, 2, 1]
    assert data["video"]["frame_times_s"] == [0.0, 0.5, 1.0]


def test_numbers_that_json_does_not_know_become_null():
    timing = TimingPart(load_s=float("inf"), total_s=float("nan"), tokens_per_s=1.0)
    data = Record("a", "ask", text="", finish_reason="stop", timing=timing).to_dict()
    assert data["timing"]["load_s"] is None
    assert data["timing"]["total_s"] is None
    assert data["timing"]["tokens_per_s"] == 1.0
