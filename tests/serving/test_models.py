"""Models of other kinds through the engine: latent KV, sinks and windows, recurrent states."""

from typing import Any

import pytest
import torch

from sglab.engine import BadArgumentError
from sglab.models import CausalLM, from_config
from sglab.serving import Engine
from tests.support.serving.tiny import prompts

COMMON = {"vocab_size": 64, "hidden_size": 48, "intermediate_size": 80, "max_position_embeddings": 256}
MOE = {"num_experts_per_tok": 3, "moe_intermediate_size": 24}
FAMILIES: dict[str, dict[str, Any]] = {
    "Qwen3ForCausalLM": {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16},
    "DeepseekV2ForCausalLM": {
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "kv_lora_rank": 32,
        "qk_nope_head_dim": 24,
        "qk_rope_head_dim": 16,
        "v_head_dim": 20,
        "first_k_dense_replace": 1,
        "n_routed_experts": 8,
        "n_shared_experts": 2,
        "q_lora_rank": None,
        "topk_method": "greedy",
        **MOE,
    },
    "Qwen3NextForCausalLM": {
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 12,
        "linear_value_head_dim": 20,
        "num_experts": 6,
        "shared_expert_intermediate_size": 40,
        "mlp_only_layers": [1],
        "layer_types": ["linear_attention", "full_attention", "linear_attention", "linear_attention"],
        **MOE,
    },
}
GREEDY = {"temperature": 0, "max_new_tokens": 14}


def model(name: str) -> CausalLM:
    made = from_config({**COMMON, **FAMILIES[name], "architectures": [name]}, "float32", "cpu", 1)
    with torch.no_grad():
        for key, parameter in made.named_parameters():
            if parameter.dim() > 1 and "norm" not in key:
                parameter *= 8
    return made


@pytest.mark.parametrize("name", FAMILIES)
def test_tokens_do_not_depend_on_scheduling(name: str) -> None:
    made, given = model(name), prompts(5, 30)
    alone = [
        Engine(made, disable_radix_cache=True, max_total_tokens=128).generate(prompt, GREEDY).token_ids
        for prompt in given
    ]
    small = {"max_total_tokens": 112, "schedule_conservativeness": 0.05}
    cut = {"chunked_prefill_size": 8, "enable_mixed_chunk": True, "disable_overlap_schedule": False}
    for options in ({"page_size": 4, **small}, {"page_size": 8, **cut, "max_total_tokens": 256}):
        with Engine(made, check_invariants=True, **options) as engine:
            for _ in range(2):
                assert [output.token_ids for output in engine.generate(given, GREEDY)] == alone, options


@pytest.mark.parametrize("name", FAMILIES)
def test_captured_passes_leave_the_states_of_others_alone(name: str) -> None:
    made, given = model(name), prompts(3, 20)
    plain = Engine(made, max_total_tokens=256).generate(given, GREEDY)
    engine = Engine(made, max_total_tokens=256, cuda_graph=True, cuda_graph_bs=(1, 4))
    captured = engine.generate(given, GREEDY)
    assert [one.token_ids for one in captured] == [one.token_ids for one in plain]
    assert {replay.bs for replay in engine.worker.graph_runner.replays} <= {1, 4}


@pytest.mark.parametrize(
    "options", [{"enable_hierarchical_cache": True}, {"speculative_algorithm": "NGRAM"}], ids=["host cache", "drafts"]
)
def test_states_can_neither_be_shared_nor_rolled_back(options: dict) -> None:
    with pytest.raises(BadArgumentError, match="none with a model that keeps recurrent states"):
        Engine(model("Qwen3NextForCausalLM"), max_total_tokens=128, **options)


def test_an_encoder_is_refused() -> None:
    class Encoding(type(model("Qwen3ForCausalLM"))):
        def encode(self) -> None: ...

    made = model("Qwen3ForCausalLM")
    made.__class__ = Encoding
    with pytest.raises(BadArgumentError, match="model: expected a decoder alone, got Encoding with an encoder"):
        Engine(made)


def test_the_model_that_ships_continues_what_it_was_taught() -> None:
    engine = Engine("tiny", device="cpu", max_total_tokens=512, cuda_graph=True, cuda_graph_bs=(1,))
    sampling = {"temperature": 0, "max_new_tokens": 4, "stop": "\n"}
    assert engine.generate("12 + 7 = ", sampling).text == "19"
    assert len(engine.worker.graph_runner.replays) >= 2
