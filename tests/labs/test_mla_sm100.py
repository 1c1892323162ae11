"""The questions of notebook 12 know their answers."""

import math

import pytest

torch = pytest.importorskip("torch")

import sglab
from sglab.events.log import EventLog
from sglab.labs import mla_sm100 as lab


def batch(num_heads: int) -> sglab.workbench.Batch:
    return sglab.decode_batch(seq_lens=[300, 1000, 77], num_heads=num_heads, page_size=128, dtype="float16", seed=0)


@pytest.fixture(scope="module")
def launched() -> lab.Launched:
    return lab.Launched(batch(128))


@pytest.fixture(scope="module")
def log(launched: lab.Launched) -> EventLog:
    return launched.record()


def test_the_launch_is_right_on_the_batch(launched: lab.Launched, log: EventLog) -> None:
    assert lab.largest_error(launched) < 2e-3


def test_answers(launched: lab.Launched, log: EventLog) -> None:
    assert lab.who_multiplies(log).answer() == [0, 8]
    assert lab.products_per_tile(log).answer() == 52
    assert lab.order_of_products(log, request=1).answer() == "S0 S1 O0 S2 O1"
    assert lab.columns_used(log).answer() == 384
    assert lab.page_loaded(log, launched, request=1, token=300).answer() == int(launched.page_table[1, 2])
    assert lab.cache_read_twice(log, launched).check((576 + 512) / 576).right is True
    assert lab.empty_request().answer() == -math.inf


def test_a_page_is_read_by_the_pair_of_its_split() -> None:
    split = lab.Launched(batch(128), sms=10)
    session = split.session()
    assert lab.readers_of_page(session, split.batch, page=7).check([4, 5]).right is True
    assert lab.readers_of_page(session, split.batch, page=7).check([2, 3]).right is False
    assert lab.copies_of_page(session, split.batch, page=7).check(2 * (9 + 8)).right is True


def test_splits_are_those_of_the_planner() -> None:
    split = lab.Launched(batch(128), sms=10)
    assert split.max_splits == 3
    assert split.record().geometry.grid == (2, 5, 1)


def test_sixteen_heads_cost_as_much_as_128(log: EventLog) -> None:
    assert lab.same_for_16_heads(batch(16), log).check(1.0).right is True


def test_a_question_refuses_a_wrong_answer(log: EventLog) -> None:
    assert lab.products_per_tile(log).check(36).right is False
