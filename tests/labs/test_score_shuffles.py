"""compute_qk's lanes and shuffles, as a launch had them in its registers, against the tensors."""

import numpy as np
import pytest

pytest.importorskip("torch")

from sglab.labs.score_shuffles import ScoreShuffles


@pytest.mark.parametrize(("group", "warp"), [(4, 0), (4, 3), (8, 1), (1, 2)])
def test_lanes_sum_their_dims_by_xor(group: int, warp: int) -> None:
    seen = ScoreShuffles(group, warp, seed=int(np.random.default_rng().integers(1 << 30)))
    lanes = np.arange(32)
    assert [each.distance for each in seen.rounds] == [8, 4, 2, 1]
    assert [each.event for each in seen.rounds] == sorted({each.event for each in seen.rounds})
    np.testing.assert_allclose(seen.rounds[0].sent, [seen.part(lane) for lane in lanes], rtol=1e-4, atol=1e-5)
    held = seen.rounds[0].sent
    for each in seen.rounds:
        assert np.array_equal(each.sent, held)
        assert np.array_equal(each.partner, lanes ^ each.distance)
        assert np.array_equal(each.sum, each.sent + each.received)
        held = each.sum
    np.testing.assert_allclose(held, [seen.score(lane) for lane in lanes], rtol=1e-4, atol=1e-4)
    assert [each.sums for each in seen.rounds] == [16, 8, 4, 2]  # two rows of 16 lanes, none of which needs a broadcast


def test_the_table_has_every_lane() -> None:
    seen = ScoreShuffles()
    lines = seen.table().splitlines()
    assert [int(line.split()[0]) for line in lines[1:33]] == list(range(32))
    assert lines[-1] == "different sums among 32 lanes: 16 after ^ 8, 8 after ^ 4, 4 after ^ 2, 2 after ^ 1"
    assert f"{seen.rounds[-1].sum[17]:.3f}" in lines[18]
    assert "(1, 1, 0)" in lines[18]
    assert "8 … 15" in lines[18]
