"""flex_attention: the tiles that its compiled kernel is given on a GPU."""

import pytest

from sglab.attention.flex_attention import tile_options

SHARED_BYTES = 227 << 10
"""Of an SM of sm_90 and sm_100, what a CTA may have."""


@pytest.mark.parametrize("head_dim", [192, 256, 320, 512, 576])
def test_a_tile_of_q_and_one_of_k_in_float32_fit_an_sm(head_dim: int) -> None:
    options = tile_options(head_dim)
    assert options is not None and options["num_stages"] == 1
    padded = 1 << (head_dim - 1).bit_length()
    assert (options["BLOCK_M"] + options["BLOCK_N"]) * padded * 4 <= SHARED_BYTES


@pytest.mark.parametrize("head_dim", [64, 128])
def test_small_heads_keep_pytorchs_tiles(head_dim: int) -> None:
    assert tile_options(head_dim) is None
