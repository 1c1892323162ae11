"""FlashMLA's tile scheduler metadata."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglab import planning
from sglab.planning.flash_mla import FIELDS, split_table


@pytest.mark.parametrize(
    ("lens", "heads", "expected"),
    [
        ([4096] * 4, 128, (66, 276, 10)),
        ([100, 5000, 200, 8000], 128, (66, 230, 9)),
        ([4096] * 128, 16, (132, 8832, 72)),
    ],
)
def test_golden_metadata(lens: list[int], heads: int, expected: tuple[int, int, int]) -> None:
    metadata = planning.get_mla_metadata(lens, h_q=heads, sm_count=132)
    assert (metadata.num_sm_parts, metadata.total_num_blocks, metadata.payload) == expected


@given(lens=st.lists(st.integers(0, 20_000), min_size=1, max_size=64), heads=st.sampled_from([16, 64, 128]))
def test_parts_cover_every_token_once(lens: list[int], heads: int) -> None:
    metadata = planning.get_mla_metadata(lens, h_q=heads, sm_count=132)
    table = split_table(metadata, lens)
    for request, length in enumerate(lens):
        mine = table[table[:, 1] == request]
        covered = np.concatenate([np.arange(start, end) for start, end in mine[:, 3:]])
        assert np.array_equal(covered, np.arange(length))
        assert mine[:, 2].tolist() == list(range(len(mine)))
        assert metadata.num_splits[request + 1] - metadata.num_splits[request] == len(mine)


@given(lens=st.lists(st.integers(1, 20_000), min_size=1, max_size=64))
def test_a_request_is_marked_split_exactly_when_several_parts_share_it(lens: list[int]) -> None:
    metadata = planning.get_mla_metadata(lens, h_q=128, sm_count=132)
    splits = np.diff(metadata.num_splits)
    fields = {name: metadata.tile_scheduler_metadata[:, column] for column, name in enumerate(FIELDS)}
    for part in np.flatnonzero(fields["begin_req_idx"] < len(lens)):
        first, last = fields["begin_req_idx"][part], fields["end_req_idx"][part]
        assert fields["is_first_req_splitted"][part] == (splits[first] > 1)
        assert fields["is_last_req_splitted"][part] == (splits[last] > 1)


def test_parts_left_over_start_past_the_batch() -> None:
    metadata = planning.get_mla_metadata([64], h_q=128, sm_count=132)
    begin = metadata.tile_scheduler_metadata[:, 0]
    assert begin[0] == 0
    assert (begin[1:] == 1).all()


def test_workspace_holds_one_partial_per_request_and_part() -> None:
    metadata = planning.get_mla_metadata([4096] * 4, h_q=128, sm_count=132)
    assert metadata.workspace_bytes == (4 + 66) * 128 * (512 + 1) * 4
