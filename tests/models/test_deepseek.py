"""DeepSeek-V2 and -V3 against transformers: latent attention, YaRN's two scales, every way of routing."""

from pathlib import Path
from typing import Any

import pytest
import torch

from sglab.layers.indexer import Indexer
from sglab.models.deepseek import DeepseekAttention
from tests.support.models import Driver, check_against, oracle, prompts, relative_error

SHAPE = {
    "vocab_size": 131,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 24,
    "qk_rope_head_dim": 16,
    "v_head_dim": 20,
    "max_position_embeddings": 256,
    "first_k_dense_replace": 1,
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 24,
    "n_shared_experts": 2,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "original_max_position_embeddings": 32,
    "mscale": 0.8,
    "mscale_all_dim": 1.2,
    "beta_fast": 32,
    "beta_slow": 1,
}


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"q_lora_rank": None, "topk_method": "greedy"}, id="V2-Lite: q in one step, no groups"),
        pytest.param(
            {"q_lora_rank": 28, "topk_method": "group_limited_greedy", "n_group": 4, "topk_group": 2,
             "routed_scaling_factor": 1.7, "rope_parameters": YARN},
            id="V2: groups, YaRN",
        ),
    ],
)  # fmt: skip
def test_deepseek_v2(options: dict[str, Any], tmp_path: Path) -> None:
    check_against(*oracle("DeepseekV2ForCausalLM", tmp_path, {**SHAPE, **options}), [37, 5, 18], chunk=7)


V3 = {"q_lora_rank": 28, "n_group": 4, "topk_group": 2, "rope_parameters": YARN, "num_nextn_predict_layers": 0}


@pytest.mark.parametrize("interleaved", [True, False])
def test_deepseek_v3(interleaved: bool, tmp_path: Path) -> None:
    config = {**SHAPE, **V3, "rope_interleave": interleaved}
    theirs, ours = oracle("DeepseekV3ForCausalLM", tmp_path, config)
    assert float(theirs.model.layers[1].mlp.gate.e_score_correction_bias.abs().max()) > 0
    check_against(theirs, ours, [37, 5, 18], chunk=7)


def test_plain_and_absorbed_attention_are_the_same_function(tmp_path: Path) -> None:
    theirs, ours = oracle("DeepseekV3ForCausalLM", tmp_path, {**SHAPE, **V3})
    given = prompts([37, 5, 18], ours.config.vocab_size)
    absorbed = Driver(ours).prefill(given)[0]
    for layer in ours.modules():
        if isinstance(layer, DeepseekAttention):
            layer.mla.method = "plain"
    assert relative_error(Driver(ours).prefill(given)[0], absorbed) < 1e-5
    check_against(theirs, ours, [37, 5, 18], chunk=7)
    assert not torch.equal(absorbed, torch.zeros_like(absorbed))


def test_deepseek_v32_attends_to_what_its_indexer_chooses(tmp_path: Path) -> None:
    """Prompts below index_topk tokens run densely; those beyond, and what they generate, sparsely.

    So many index heads that no token scores exactly 0, which would tie with others: which of them is chosen is not
    defined.
    """
    config = {**SHAPE, **V3, "index_topk": 16, "index_head_dim": 32, "index_n_heads": 24}
    config.pop("num_nextn_predict_layers")
    theirs, ours = oracle("DeepseekV32ForCausalLM", tmp_path, config)
    check_against(theirs, ours, [60, 5, 18], chunk=7)
    (prompt,) = prompts([60], 131)
    sparse = Driver(ours).prefill([prompt])[0]
    for layer in ours.modules():
        if isinstance(layer, Indexer):
            layer.topk = 100
    dense = Driver(ours).prefill([prompt])[0]
    assert relative_error(sparse[:16], dense[:16]) < 1e-5
    assert relative_error(sparse[16:], dense[16:]) > 1e-3
