"""A search of two minutes with a fresh seed, and what the harness itself promises.

SGLAB_FUZZ_SECONDS gives it another length, SGLAB_FUZZ_SEED the seed of an earlier one.
"""

import os
import secrets
from pathlib import Path

import pytest

pytest.importorskip("torch")

from sglab import _core
from sglab_fuzz import report, search, target
from sglab_fuzz.__main__ import SHARES
from sglab_fuzz.arithmetic.forms import all_forms, table
from sglab_fuzz.minimise import minimised
from sglab_fuzz.operand_templates import table as operand_table
from sglab_fuzz.operand_templates import taken
from sglab_fuzz.search import Search

SECONDS = float(os.environ.get("SGLAB_FUZZ_SECONDS", "120"))
SEED = int(os.environ.get("SGLAB_FUZZ_SEED", secrets.randbits(32)))


@pytest.mark.slow
@pytest.mark.parametrize("name", target.NAMES)
def test_a_search_with_a_fresh_seed_finds_nothing(name: str, tmp_path: Path) -> None:
    share = SECONDS * SHARES[name] / sum(SHARES.values())
    result = Search(name, SEED, share, keep=tmp_path).run()
    print(f"seed {SEED}: {report.line(result)}")
    shown = "\n".join(report.described(found) for found in result.found)
    # a busy machine makes any case slow now and then: a hang counts when it is seen again alone
    certain = [found for found in result.found if found["kind"] != "hang" or found["confirmed"]]
    assert not certain, f"python -m sglab_fuzz {name} --seed {SEED}\n{shown}"
    assert result.cases > 0


@pytest.mark.parametrize("name", target.NAMES)
def test_a_case_is_made_again_from_its_seed_and_number(name: str) -> None:
    made = target.load(name)
    texts = [made.make(target.generator(3, number), number) for number in range(20)]
    assert texts == [made.make(target.generator(3, number), number) for number in range(20)]
    assert len(set(texts)) > 10


def test_every_mnemonic_of_the_arithmetic_families_has_an_oracle() -> None:
    """All but conversions whose .sat could change nothing, which are refused, as by ptxas, and those with rules
    of their own (cvt.pack, cvt.rs, fma.oob), which conformance cases hold."""
    without = [mnemonic for mnemonic, forms in table().items() if not forms]
    assert all(mnemonic.startswith(("cvt.sat.", "cvt.pack.", "cvt.rs.", "fma.rn.oob.")) for mnemonic in without)
    assert len(without) == 60
    assert len({form.name for form in all_forms()}) == len(all_forms())


def test_programs_draw_every_row_of_the_table() -> None:
    rows = {pattern for _, pattern, _ in _core.instruction_forms()}
    assert len(operand_table()) == len(rows), "run python -m sglab_fuzz.operand_templates"
    refused = [each for row in operand_table() for each in row if not taken(*each)]
    assert not refused, "run python -m sglab_fuzz.operand_templates"


def test_crashes_hangs_exceptions_and_mismatches_are_found_minimised_and_kept(tmp_path: Path) -> None:
    result = Search("tests.support.faulty_target:target", 1, 60, keep=tmp_path, most=4).run()
    kinds = {found["kind"]: found for found in result.found}
    assert set(kinds) == {"crash", "hang", "exception", "mismatch"}
    assert [kinds[kind]["text"] for kind in kinds] == [f"{kind}\n" for kind in kinds]
    assert all(found["confirmed"] for found in result.found)
    assert len(list(tmp_path.glob("*.json"))) == 4
    assert result.cases >= 9


def test_minimising_keeps_the_lines_that_matter_together() -> None:
    text = "".join(f"{line}\n" for line in range(40))
    assert minimised(text, lambda rest: {"7", "31"} <= set(rest.split())) == "7\n31\n"


def test_reports_are_written_for_people_and_machines(tmp_path: Path) -> None:
    result = search.Result("front", "inputs", 1200, 1200, 2.0)
    report.write(tmp_path / "fuzz", [result], 5, "cpu")
    assert "| front | 1,200 | 1,200 inputs | 2 | 0 |" in (tmp_path / "fuzz.md").read_text()
    assert '"units": 1200' in (tmp_path / "fuzz.json").read_text()
