"""DeepSeek-V3.2 in the engine, beyond index_topk tokens: through `dsa` the tokens are those of the plain way."""

import random
from dataclasses import replace
from typing import Any

import pytest
import torch

from sglab.attention.capabilities import FLOATS
from sglab.attention.registry import backend_factory
from sglab.engine import BadArgumentError, RadixKey
from sglab.kernels import get_index_k_scale_buffer
from sglab.kernels.registry import record_choices
from sglab.layers.indexer import rotate_activation
from sglab.layers.mla import MLAttention
from sglab.models import CausalLM, from_config
from sglab.serving import Engine
from tests.support.deepseek import SHAPE, V3
from tests.support.models import Driver, relative_error

TOPK = 16
V32: dict[str, Any] = {
    **SHAPE,
    **V3,
    "architectures": ["DeepseekV32ForCausalLM"],
    "index_topk": TOPK,
    "index_head_dim": 32,
    "index_n_heads": 6,
    "num_nextn_predict_layers": 0,
    "max_position_embeddings": 160,
}
WIDE = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "index_head_dim": 128, "num_hidden_layers": 1}
"""DeepSeek's own widths of KV and index rows."""
GREEDY = {"temperature": 0, "max_new_tokens": 10}


def v32(dtype: str = "float32", device: str = "cpu", **changes: Any) -> CausalLM:
    model = from_config({**V32, **changes}, dtype, device, 1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "norm" not in name:
                parameter *= 6
    return model


@pytest.fixture
def takes_tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """In 16 bit two ways round differently, and greedy tokens of a random model part soon after."""
    for name in ("dsa", "ascend"):
        found: Any = backend_factory(name, "mla")
        allowed = replace(found.capabilities, dtypes=FLOATS, head_dims=(), page_sizes=())
        monkeypatch.setattr(found, "capabilities", allowed)


@pytest.fixture
def plain_runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The layer of every attention that expands its cache."""
    ran: list[int] = []
    plain = MLAttention._plain

    def counted(self: MLAttention, *given: Any) -> torch.Tensor:
        ran.append(self.attn.shape.layer_id)
        return plain(self, *given)

    monkeypatch.setattr(MLAttention, "_plain", counted)
    return ran


def drawn(seed: int) -> tuple[list[list[int]], dict[str, Any]]:
    """Prompts on both sides of index_topk, and how they are scheduled."""
    rng = random.Random(seed)
    lengths = [
        rng.randint(1, 12),
        rng.randint(TOPK + 1, 70),
        rng.choice([TOPK - 1, TOPK, TOPK + 1]),
        rng.randint(8, 50),
    ]
    given = [[rng.randrange(131) for _ in range(length)] for length in lengths]
    page = rng.choice([1, 4, 64])
    options = {
        "page_size": page,
        "chunked_prefill_size": max(page, rng.choice([8, 32, 256])),
        "enable_mixed_chunk": rng.random() < 0.5,
        "disable_radix_cache": rng.random() < 0.5,
        "max_total_tokens": 1024,
    }
    return given, options


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("records_graphs", [False, True])
@pytest.mark.parametrize("name", ["dsa", "ascend"])
def test_tokens_are_those_of_the_plain_way(
    seed: int, name: str, records_graphs: bool, takes_tiny: None, plain_runs: list[int]
) -> None:
    model, (given, options) = v32(), drawn(seed)
    expected = Engine(model, attention_backend="torch_native", **options).generate(given, GREEDY)
    assert plain_runs
    plain_runs.clear()
    graphs = {"cuda_graph": True, "cuda_graph_bs": (1, 4)} if records_graphs else {}
    engine = Engine(model, attention_backend=name, **options, **graphs)
    made = engine.generate(given, GREEDY)
    assert [one.token_ids for one in made] == [one.token_ids for one in expected]
    assert not plain_runs
    again = engine.generate(given[1], GREEDY)
    assert again.token_ids == expected[1].token_ids
    if records_graphs:
        assert engine.worker.graph_runner is not None and engine.worker.graph_runner.replays


def test_the_triton_kernels_choose_and_attend(takes_tiny: None, plain_runs: list[int]) -> None:
    model = v32(num_hidden_layers=1, first_k_dense_replace=1)
    prompts = [[3 + (7 * i) % 120 for i in range(24)], [5, 6, 7]]
    expected, batch = Driver(model, backend="torch_native").prefill(prompts)
    wanted = [expected]
    driver = Driver(model, backend="torch_native")
    wanted.append(driver.decode(driver.prefill(prompts)[1], [9, 11]))
    plain_runs.clear()
    driver = Driver(model, backend="dsa", implementation="triton")
    with record_choices() as ran:
        logits, batch = driver.prefill(prompts)
        made = [logits, driver.decode(batch, [9, 11])]
    assert max(relative_error(*pair) for pair in zip(made, wanted, strict=True)) < 1e-5 and not plain_runs
    by = {choice.operator: choice.implementation for choice in ran}
    assert by["slot_mqa_logits"] == by["fast_topk"] == "triton"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("seed", range(3))
def test_on_a_gpu(seed: int, takes_tiny: None, plain_runs: list[int]) -> None:
    """In float32; decodes replay captured graphs, in which the choice is made again."""
    model, (given, options) = v32(device="cuda"), drawn(seed)
    expected = Engine(model, attention_backend="torch_native", **options).generate(given, GREEDY)
    assert plain_runs
    plain_runs.clear()
    engine = Engine(model, attention_backend="dsa", **options)
    assert [one.token_ids for one in engine.generate(given, GREEDY)] == [one.token_ids for one in expected]
    assert engine.worker.graph_runner is not None and engine.worker.graph_runner.replays and not plain_runs


def test_auto_takes_dsa_where_it_serves_the_model(plain_runs: list[int]) -> None:
    """DeepSeek's own head dims in bfloat16; tokens where the two best logits are further apart than the rounding."""
    wide = v32("bfloat16", **WIDE)
    engine = Engine(wide, max_total_tokens=512)
    assert engine.config.attention_backend == "dsa" and engine.runner.page_size == 64
    prompt = [(11 * i) % 131 for i in range(60)]
    engine.generate(prompt, GREEDY)
    assert not plain_runs
    sparse = Driver(wide, 64, "dsa").prefill([prompt])[0]
    plain = Driver(wide, 64, "torch_native").prefill([prompt])[0]
    assert plain_runs and relative_error(sparse, plain) < 0.05
    best = plain.topk(2).values
    clear = best[:, 0] - best[:, 1] > 0.1 * float(plain.abs().max())
    assert clear.sum() > 5 and torch.equal(sparse.argmax(-1)[clear], plain.argmax(-1)[clear])
    for options in ({"page_size": 4}, {"context_length": TOPK}):
        assert Engine(wide, max_total_tokens=512, **options).config.attention_backend == "auto"
    assert Engine(v32(), max_total_tokens=512).config.attention_backend == "auto"


def test_chosen_over_records(plain_runs: list[int]) -> None:
    wide = v32("bfloat16", **WIDE)
    prompt = [(11 * i) % 131 for i in range(60)]
    outputs = []
    for dtype in ("auto", "fp8_e4m3"):
        engine = Engine(wide, attention_backend="dsa", kv_cache_dtype=dtype, max_total_tokens=512)
        outputs.append(engine.generate(prompt, {"temperature": 0, "max_new_tokens": 1}, return_logprob=True))
    assert not plain_runs
    assert abs(outputs[0].logprobs[0] - outputs[1].logprobs[0]) < 0.5


def exact_index_keys(engine: Engine, prompt: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """What the pool's FP8 index keys of the first layer say of a finished prompt's tokens, and their scales."""
    tree, pool = engine.tree_cache, engine.runner.token_to_kv_pool
    slots = tree.match_prefix(RadixKey(prompt)).device_indices
    return get_index_k_scale_buffer(pool.get_index_k_with_scale_buffer(0), slots, pool.page_size)


@pytest.mark.parametrize("backend", ["dsa", "torch_native"])
def test_index_keys_in_fp8(backend: str, takes_tiny: None) -> None:
    """The pool's keys are those of the 16-bit pool, turned and rounded to e4m3 with a power of two each; what is chosen
    with them differs where scores are near each other alone, so that a prompt's log probabilities stay."""
    model = v32(index_head_dim=128, index_n_heads=6)
    prompt = [(11 * i) % 131 for i in range(128)]
    options = {"attention_backend": backend, "page_size": 64, "max_total_tokens": 512, "context_length": 160}
    rows = Engine(model, **options)
    pages = Engine(model, index_k_dtype="fp8_e4m3", **options)
    wanted = rows.generate(prompt, GREEDY, return_logprob=True)
    made = pages.generate(prompt, GREEDY, return_logprob=True)
    assert len(made.token_ids) == 10 and abs(made.logprobs[0] - wanted.logprobs[0]) < 0.5
    slots = rows.tree_cache.match_prefix(RadixKey(prompt)).device_indices
    assert len(slots) == 128
    turned = rotate_activation(rows.runner.token_to_kv_pool.get_index_k_buffer(0)[slots])
    keys, scales = exact_index_keys(pages, prompt)
    assert torch.equal(scales.frexp().mantissa, torch.full_like(scales, 0.5))
    error = (keys.float() * scales[:, None] - turned).abs()
    assert (error <= turned.abs() * 2.0**-4 + scales[:, None] * 2.0**-10).all()
    assert pages.runner.token_to_kv_pool.get_kv_size_bytes() < rows.runner.token_to_kv_pool.get_kv_size_bytes()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("graphs", [False, True])
def test_index_keys_in_fp8_do_not_depend_on_scheduling(seed: int, graphs: bool, takes_tiny: None) -> None:
    """Also from the host and back, and in captured graphs: the tokens of each request alone."""
    model, (given, options) = v32(index_head_dim=128), drawn(seed)
    shared = given[1]
    given = [*given, [*shared[: len(shared) // 2], 5, 6, 7]]
    pages = {"attention_backend": "dsa", "index_k_dtype": "fp8_e4m3", "page_size": options["page_size"]}
    alone = [Engine(model, max_total_tokens=512, **pages).generate(one, GREEDY).token_ids for one in given]
    if graphs:
        options |= {"cuda_graph": True, "cuda_graph_bs": (1, 4)}
    small = max(3 * options["page_size"], -(-200 // options["page_size"]) * options["page_size"])
    options |= {"disable_radix_cache": False, "enable_hierarchical_cache": True, "max_total_tokens": small}
    engine = Engine(model, check_invariants=True, **{**options, **pages})
    for _ in range(2):
        assert [one.token_ids for one in engine.generate(given, GREEDY)] == alone


def test_index_keys_beside_records_are_fp8_and_the_operators_run(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = v32("bfloat16", **WIDE)
    engine = Engine(wide, attention_backend="dsa", kv_cache_dtype="fp8_e4m3", max_total_tokens=512)
    with record_choices() as ran:
        engine.generate([(11 * i) % 131 for i in range(60)], GREEDY)
    assert {"act_quant", "page_mqa_logits"} <= {choice.operator for choice in ran}
    assert engine.runner.token_to_kv_pool.packs_index_keys
    with pytest.raises(BadArgumentError, match="index_k_dtype: expected 'auto' with a model that has no indexer"):
        Engine("tiny", index_k_dtype="fp8_e4m3", max_total_tokens=512)
    with pytest.raises(BadArgumentError, match="index_head_dim: expected 128 for keys in FP8, got 32"):
        Engine(v32(), index_k_dtype="fp8_e4m3", max_total_tokens=512)


@pytest.mark.parametrize(("page_size", "index_k_dtype"), [(1, "auto"), (1, "fp8_e4m3"), (4, "fp8_e4m3")])
def test_index_keys_come_back_from_the_host(page_size: int, index_k_dtype: str, takes_tiny: None) -> None:
    """Without them a prefix that came back would be chosen from by another request's keys."""
    model, prompt = v32(index_head_dim=128), [(11 * i) % 131 for i in range(60)]
    options = {"attention_backend": "dsa", "page_size": page_size, "index_k_dtype": index_k_dtype}
    wanted = Engine(model, max_total_tokens=512, **options).generate([*prompt, 9, 9], GREEDY).token_ids
    small = {"max_total_tokens": 100, "enable_hierarchical_cache": True, "check_invariants": True}
    engine = Engine(model, **small, **options)
    engine.generate(prompt, GREEDY)
    engine.generate([5 + i for i in range(70)], GREEDY)  # evicts it
    assert engine.generate([*prompt, 9, 9], GREEDY).token_ids == wanted
    assert sum(step.loaded_tokens for step in engine.history.steps) > TOPK


def test_graphs_without_the_choice_are_refused() -> None:
    """A captured decode that looked at lengths would attend as it did at its capture."""
    with pytest.raises(
        BadArgumentError, match="cuda_graph: expected False where an indexer chooses tokens that torch_nat"
    ):
        Engine(v32(), max_total_tokens=512, cuda_graph=True)
    with pytest.raises(
        BadArgumentError, match='Use attention_backend="dsa", or a context_length of at most index_topk'
    ):
        Engine(v32(), max_total_tokens=512, attention_backend="triton", cuda_graph=True)
    Engine(v32(), max_total_tokens=512, cuda_graph=True, cuda_graph_bs=(1,), context_length=TOPK)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("seed", range(3))
def test_index_keys_in_fp8_on_a_gpu(seed: int, takes_tiny: None) -> None:
    """Through the host and back, in captured graphs: the tokens of each request alone."""
    model, (given, options) = v32(device="cuda", index_head_dim=128), drawn(seed)
    pages = {"attention_backend": "dsa", "index_k_dtype": "fp8_e4m3", "page_size": options["page_size"]}
    alone = [Engine(model, max_total_tokens=512, **pages).generate(one, GREEDY).token_ids for one in given]
    options |= {"disable_radix_cache": False, "enable_hierarchical_cache": True}
    engine = Engine(model, check_invariants=True, **{**options, **pages})
    for _ in range(2):
        assert [one.token_ids for one in engine.generate(given, GREEDY)] == alone
    assert engine.worker.graph_runner is not None and engine.worker.graph_runner.replays
