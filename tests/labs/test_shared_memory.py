"""Notebook 07's launches and questions, and the kernel of its prefill."""

from __future__ import annotations

import math

import pytest
import torch

from sglab.labs import shared_memory as lab
from sglab.labs.question import Question
from tests.support.launches.memory_sessions import mla_sm100


@pytest.mark.parametrize("variant", ["permuted", "linear"])
@pytest.mark.parametrize("keys", [1, 5, 64, 65, 333])
def test_the_prefill_is_attention(variant: str, keys: int) -> None:
    prefill = lab.Prefill(variant, keys, seed=int(torch.randint(1 << 30, ())))
    report = prefill.run(sanitize=True)
    assert report.findings == ()
    scores = prefill.q.double() @ prefill.k.double().T * lab.SCALE
    truth = torch.softmax(scores, -1) @ prefill.v.double()
    torch.testing.assert_close(prefill.out.double(), truth, atol=2e-3, rtol=0)
    lse = torch.logsumexp(scores, -1) / math.log(2)
    torch.testing.assert_close(prefill.lse.double(), lse, atol=1e-4, rtol=0)


def test_without_keys_the_prefill_leaves_zeros_and_minus_infinity() -> None:
    prefill = lab.Prefill(keys=0)
    assert prefill.run(sanitize=True).findings == ()
    assert not prefill.out.any() and (prefill.lse == -math.inf).all()


def test_the_prefills_storage_is_the_union_that_the_planner_sizes() -> None:
    kernel = lab.Prefill()._kernel.emulated
    assert kernel.static_smem == lab.union_bytes().answer() == 36_864


def questions() -> dict[str, Question]:
    paged = lab.PagedDecode()
    return {
        "in_flight": lab.in_flight_at_the_first_wait(paged),
        "bytes": lab.bytes_of_a_group(paged),
        "stages": lab.wait_for_stages(3),
        "union": lab.union_bytes(),
        "exchange": lab.exchange_bytes(),
        "linear": lab.passes_of_one_ldmatrix("linear"),
        "permuted": lab.passes_of_one_ldmatrix("permuted"),
        "place": lab.place_of_a_chunk(5, 3),
        "line": lab.line_that_still_conflicts(),
        "q": lab.bytes_of_q(mla_sm100(128)),
        "element": lab.address_of_an_element(mla_sm100(128), row=12, column=5),
    }


ANSWERS = {
    "in_flight": [1, 2, 3],
    "bytes": 16,
    "stages": 5,
    "union": 36_864,
    "exchange": 262_144,
    "linear": 32,
    "permuted": 4,
    "place": 6,
    "q": 73_728,
    "element": 0x400 + 12 * 128 + (0 ^ 4) * 16 + 5 * 2,
}


def test_right_and_wrong_answers_are_distinguished() -> None:
    asked = questions()
    for name, right in ANSWERS.items():
        assert asked[name].check(right).right is True, name
        assert asked[name].check(7).right is False, name
        assert asked[name].check("what?").right is False, name
    source = (lab.ptx.provenance("shared_storage").source, asked["line"].answer())
    assert source[0].endswith("shared_storage.cu") and asked["line"].check(source[1]).right


def test_the_table_of_banks_names_every_line_once() -> None:
    head, *rows = lab.bank_table(lab.Prefill().session()).splitlines()
    assert "at least" in head and len(rows) == len({row.split()[0] for row in rows}) > 4
