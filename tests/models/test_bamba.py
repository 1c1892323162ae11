"""Bamba against transformers: Mamba2 recurrent and chunked, groups of heads, attention layers between."""

from pathlib import Path

import pytest

from tests.support.models import check_against, oracle

SHAPE = {
    "vocab_size": 131,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "attn_layer_indices": [1],
    "mamba_n_heads": 8,
    "mamba_d_head": 12,
    "mamba_d_state": 10,
    "mamba_chunk_size": 32,
}


@pytest.mark.parametrize("groups", [1, 2])
def test_bamba(groups: int, tmp_path: Path) -> None:
    config = {**SHAPE, "mamba_n_groups": groups}
    check_against(*oracle("BambaForCausalLM", tmp_path, config), [80, 2, 18], chunk=7)
