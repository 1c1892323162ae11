"""The question of notebook 00 knows its answer."""

import pytest

pytest.importorskip("torch")

import sglab
from sglab.labs import start_here as lab


def test_output_is_as_wide_as_the_latent() -> None:
    batch = sglab.decode_batch(seq_lens=[5, 9], num_heads=16, page_size=16)
    assert lab.output_width(batch).check(512).right
    assert lab.output_width(batch).check(576).right is False
