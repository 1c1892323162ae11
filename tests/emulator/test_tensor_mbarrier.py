"""The mbarrier word: phases, counts, transactions, and misuse by name."""

import random

import pytest
from sglab._core.tma import Mbarrier

MOST = 2**20 - 1


def barrier(count: int) -> Mbarrier:
    b = Mbarrier()
    assert b.init(count) == "done"
    return b


def test_a_phase_completes_when_all_have_arrived() -> None:
    b = barrier(3)
    assert [b.arrive(), b.arrive(), b.arrive()] == ["done", "done", "phase_complete"]
    assert b.fields == (True, 3, 3, 0)


def test_parity_waits_for_the_other_phase() -> None:
    b = barrier(1)
    assert not b.parity_done(False)
    assert b.parity_done(True)  # the phase before the first counts as complete
    b.arrive()
    assert b.parity_done(False)
    assert not b.parity_done(True)


def test_state_token_waits_for_its_own_phase() -> None:
    b = barrier(2)
    token = b.word
    b.arrive()
    assert not b.state_done(token)
    b.arrive()
    assert b.state_done(token)


def test_transactions_hold_the_phase_open_in_either_order() -> None:
    b = barrier(1)
    assert b.arrive(expect_tx=64) == "done"
    assert b.complete_tx(48) == "done"
    assert b.fields == (False, 0, 1, 16)
    assert b.complete_tx(16) == "phase_complete"
    assert b.complete_tx(32) == "done"  # completion may come first
    assert b.fields == (True, 1, 1, -32)
    assert b.arrive(expect_tx=32) == "phase_complete"


def test_dropped_arrivals_count_down_every_later_phase() -> None:
    b = barrier(3)
    assert b.arrive(drop=True) == "done"
    assert b.arrive(count=2) == "phase_complete"
    assert b.fields == (True, 2, 2, 0)


def test_cp_async_arrivals_are_net_zero() -> None:
    b = barrier(1)
    assert b.add_pending() == "done"
    assert b.fields == (False, 2, 1, 0)
    assert b.arrive() == "done"
    assert b.arrive() == "phase_complete"


@pytest.mark.parametrize(
    ("operate", "status"),
    [
        (lambda b: b.arrive(count=3), "arrival_underflow"),
        (lambda b: b.arrive(count=0), "count_out_of_range"),
        (lambda b: b.arrive(count=3, drop=True), "expected_underflow"),
        (lambda b: b.expect_tx(MOST + 1), "tx_overflow"),
        (lambda b: b.complete_tx(MOST + 1), "tx_underflow"),
        (lambda b: b.arrive(count=2, no_complete=True), "completed_by_no_complete"),
    ],
)
def test_misuse_is_named_and_changes_nothing(operate, status: str) -> None:
    b = barrier(2)
    before = b.word
    assert operate(b) == status
    assert b.word == before


def test_life_cycle() -> None:
    b = Mbarrier()
    for operate in (b.arrive, b.inval, lambda: b.expect_tx(1), lambda: b.complete_tx(1), b.add_pending):
        assert operate() == "uninitialised"
    assert b.init(0) == "count_out_of_range"
    assert b.init(MOST + 1) == "count_out_of_range"
    assert b.init(MOST) == "done"
    assert b.init(1) == "init_of_live_object"
    assert b.fields == (False, 1, 1, 0)
    assert b.inval() == "done"
    assert b.init(1) == "done"


def test_bounds_are_those_of_the_isa() -> None:
    b = barrier(1)
    assert b.expect_tx(MOST) == "done"
    assert b.fields[3] == MOST
    assert b.complete_tx(MOST) == "done"
    assert b.complete_tx(MOST) == "done"
    assert b.fields[3] == -MOST


def test_random_programs_agree_with_a_plain_model() -> None:
    rng = random.Random()
    for _ in range(200):
        expected = pending = rng.randint(1, 5)
        tx, phase = 0, False
        b = barrier(expected)
        for _ in range(40):
            action = rng.choice(["arrive", "expect", "complete"])
            if action == "arrive":
                b.arrive()
                pending -= 1
            elif action == "expect":
                amount = rng.randint(0, 64)
                b.expect_tx(amount)
                tx += amount
            else:
                amount = rng.choice([tx, rng.randint(0, 64)]) if tx > 0 else 0
                b.complete_tx(amount)
                tx -= amount
            if pending == 0 and tx == 0 and action != "expect":
                phase, pending = not phase, expected
            elif pending == 0:  # keep the program legal: settle the transactions first
                (b.complete_tx if tx > 0 else b.expect_tx)(abs(tx))
                if tx < 0:
                    b.complete_tx(0)
                tx, phase, pending = 0, not phase, expected
            assert b.fields == (phase, pending, expected, tx)
