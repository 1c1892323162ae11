"""Stores keep records in order, survive a crash, and refuse names that are no names."""

from pathlib import Path

import pytest

from sglab.labs.store import FileStore, Record, SqliteStore, Store, best_attempts, hints_taken
from sglab.labs.store.export import as_csv, as_json, table_text


@pytest.fixture(params=["files", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return FileStore(tmp_path / "records") if request.param == "files" else SqliteStore(tmp_path / "records.sqlite")


def test_records_come_back_in_order(store: Store) -> None:
    records = [Record("ada", "01", "attempt", n, {"points": n}) for n in range(3)]
    for record in [*records, Record("bob", "02", "hint", 9, {"exercise": "x", "level": 1})]:
        store.add(record)
    assert store.records("ada") == records
    assert [each.student for each in store.records(lab="02")] == ["bob"]
    assert len(store.records()) == 4
    assert store.records("eve") == []


def test_the_best_attempt_counts_and_hints_add_up() -> None:
    records = [Record("ada", "01", "attempt", n, {"points": points}) for n, points in enumerate([3, 9, 5])]
    records += [Record("ada", "01", "hint", 4, {"exercise": "x", "level": level}) for level in (1, 2)]
    assert best_attempts(records)["ada", "01"].data == {"points": 9}
    assert hints_taken(records, "01") == {"x": 2}


def test_a_line_that_a_crash_cut_short_costs_only_itself(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    store.add(Record("ada", "01", "check", 1))
    with open(tmp_path / "ada.jsonl", "a") as file:
        file.write('{"student": "ada", "la')
    store.add(Record("ada", "01", "check", 2))
    assert [each.when for each in store.records("ada")] == [1, 2]


@pytest.mark.parametrize("name", ["", "../ada", "a/b", ".ada", "x" * 65, "a\nb"])
def test_a_name_that_would_be_no_file_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="student"):
        Record(name, "01", "check", 0)


def test_export_has_a_row_per_record_and_no_formulas() -> None:
    record = Record("ada", "01", "grade", 5, {"points": 3, "of": 4})
    assert as_csv([record]).splitlines()[1] == "ada,01,grade,5,3,4,"
    assert '"points": 3' in as_json([record])
    assert table_text([["=1+1", "-2", 3.5]]) == "'=1+1,'-2,3.5\n"
