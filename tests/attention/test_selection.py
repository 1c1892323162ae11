"""Which backend SGLang runs where, and why: pinned outcomes of its server arguments, version by version.

The values were obtained by executing SGLang's own `server_args.py` functions on these machines, models and arguments.
"""

import json
from pathlib import Path

import pytest

from sglab.attention.selection import (
    HARDWARE,
    VERSIONS,
    Model,
    SelectionError,
    Settings,
    select_attention_backend,
    this_machine,
    v0_5_23,
)

MHA, MLA = Model(use_mla=False), Model(use_mla=True)
V3 = Model(use_mla=True, architecture="DeepseekV3ForCausalLM")
V32 = Model(use_mla=True, architecture="DeepseekV3ForCausalLM", sparse=True)


def pick(machine: str, model: Model, version: str = "0.5.9", **settings: object) -> str:
    return select_attention_backend(HARDWARE[machine], model, Settings(**settings), version).decode


@pytest.mark.parametrize(
    ("machine", "mha", "mla", "v3"),
    [
        ("A100", "flashinfer", "triton", "triton"),
        ("L40S", "flashinfer", "triton", "triton"),
        ("H100", "fa3", "fa3", "fa3"),
        ("H200", "fa3", "fa3", "fa3"),
        ("B200", "trtllm_mha", "flashinfer", "trtllm_mla"),
        ("B300", "trtllm_mha", "flashinfer", "trtllm_mla"),
        ("RTX 5090", "flashinfer", "triton", "triton"),
        ("MI300X", "aiter", "triton", "triton"),
        ("Ascend 910", "ascend", "ascend", "ascend"),
        ("Gaudi", "torch_native", "torch_native", "torch_native"),
        ("Xeon with AMX", "intel_amx", "intel_amx", "intel_amx"),
        ("CPU", "torch_native", "torch_native", "torch_native"),
    ],
)
def test_the_0_5_9_defaults_by_machine(machine: str, mha: str, mla: str, v3: str) -> None:
    assert [pick(machine, model) for model in (MHA, MLA, V3)] == [mha, mla, v3]


def test_0_5_5_takes_fa3_on_hopper_for_listed_architectures_and_has_no_trtllm_mha_default() -> None:
    assert pick("H100", MHA, "0.5.5.post1") == "flashinfer"
    assert pick("H100", Model(False, "LlamaForCausalLM"), "0.5.5.post1") == "fa3"
    assert pick("B200", MHA, "0.5.5.post1") == "flashinfer"
    assert pick("B200", V3, "0.5.5.post1") == "trtllm_mla"


@pytest.mark.parametrize(
    ("architecture", "h100", "b200", "a100"),
    [
        ("GptOssForCausalLM", "fa3", "trtllm_mha", "triton"),
        ("Llama4ForConditionalGeneration", "fa3", "trtllm_mha", "triton"),
        ("Olmo2ForCausalLM", "fa3", "trtllm_mha", "fa3"),
        ("Qwen3NextForCausalLM", "fa3", "triton", "flashinfer"),
        ("Lfm2ForCausalLM", "fa3", "flashinfer", "flashinfer"),
    ],
)
def test_architectures_with_rules_of_their_own(architecture: str, h100: str, b200: str, a100: str) -> None:
    model = Model(False, architecture)
    assert [pick(machine, model) for machine in ("H100", "B200", "A100")] == [h100, b200, a100]


def test_a_draft_tree_moves_mha_off_fa3_and_trtllm() -> None:
    tree = {"speculative_algorithm": "EAGLE", "speculative_eagle_topk": 4}
    chain = {"speculative_algorithm": "EAGLE", "speculative_eagle_topk": 1}
    assert pick("H100", MHA, **tree) == pick("B200", MHA, **tree) == "flashinfer"
    assert pick("H100", MHA, **chain) == "fa3"
    assert pick("H100", MHA, **chain, page_size=32) == "flashinfer", "a chain needs page size 1"
    assert pick("B200", MHA, speculative_algorithm="NGRAM") == "flashinfer"
    assert pick("H100", MLA, **tree) == "fa3"


TREE = {"speculative_algorithm": "EAGLE", "speculative_eagle_topk": 4}


@pytest.mark.parametrize(
    ("version", "takers"),
    [("0.5.5.post1", {"flashinfer"}), ("0.5.9", {"flashinfer", "fa3"}), ("0.5.23", {"flashinfer", "fa3", "triton"})],
)
def test_a_tree_over_pages_of_several_tokens_is_for_few(version: str, takers: set[str]) -> None:
    """server_args.py of 0.5.9 and 0.5.5.post1, arg_groups/speculative_hook.py of 0.5.23."""
    names = ("flashinfer", "fa3", "triton", "torch_native")
    served = set()
    for name in names:
        assert pick("H100", MHA, version, attention_backend=name, **TREE) == name, "pages of one token"
        try:
            served.add(pick("H100", MHA, version, attention_backend=name, page_size=16, **TREE))
        except SelectionError as refused:
            assert f"over pages of 16 tokens is for {', '.join(sorted(takers, key=names.index))} only" in str(refused)
    assert served == takers
    with pytest.raises(SelectionError, match="over pages of 64 tokens"):  # trtllm_mla sets 64 itself
        pick("B200", V3, version, **TREE)
    with pytest.raises(SelectionError, match="trtllm_mha verifies chains of drafts only"):
        pick("B200", MHA, version, attention_backend="trtllm_mha", **TREE)
    assert pick("B200", V3, version, **{**TREE, "speculative_eagle_topk": 1}) == "trtllm_mla"


def test_amd_takes_aiter_for_mla_with_16_or_128_heads() -> None:
    assert pick("MI300X", Model(True, num_kv_heads=16)) == "aiter"
    assert pick("MI300X", Model(True, num_kv_heads=64)) == "triton"


@pytest.mark.parametrize(
    ("machine", "model", "settings", "page_size"),
    [
        ("B200", MLA, {"attention_backend": "cutlass_mla"}, 128),
        ("B200", MLA, {"decode_attention_backend": "cutlass_mla", "page_size": 64}, 128),
        ("H100", MLA, {"attention_backend": "flashmla", "page_size": 1}, 64),
        ("B200", V3, {}, 64),
        ("B200", V3, {"page_size": 32}, 32),
        ("B200", MHA, {"page_size": 16}, 16),
        ("B200", MHA, {"page_size": 128}, 64),
        ("H100", MHA, {}, 1),
        ("H100", V32, {}, 64),
        ("B200", MHA, {"prefill_attention_backend": "fa4", "decode_attention_backend": "trtllm_mha"}, 128),
    ],
)
def test_backends_drag_their_page_size_along(
    machine: str, model: Model, settings: dict[str, object], page_size: int
) -> None:
    selection = select_attention_backend(HARDWARE[machine], model, Settings(**settings))
    assert selection.page_size == page_size
    assert (page_size != (settings.get("page_size") or 1)) == bool(selection.notes)


def test_prefill_and_decode_may_differ() -> None:
    selection = select_attention_backend(
        HARDWARE["B200"], MLA, Settings(attention_backend="flashinfer", decode_attention_backend="cutlass_mla")
    )
    assert (selection.prefill, selection.decode) == ("flashinfer", "cutlass_mla")
    assert "cutlass_mla takes page_size 128 only" in str(selection)


def test_sparse_attention_takes_nsa_with_page_64() -> None:
    assert pick("H100", V32) == pick("B200", V32) == "nsa"


def test_graphs_are_off_for_the_torch_backends() -> None:
    for name, graph in (("torch_native", False), ("flex_attention", False), ("triton", True)):
        selection = select_attention_backend(HARDWARE["H100"], MHA, Settings(attention_backend=name))
        assert selection.cuda_graph == graph and selection.reason == "requested by name"


@pytest.mark.parametrize(
    ("machine", "model", "settings", "message"),
    [
        ("H100", MLA, {"attention_backend": "trtllm_mla"}, "trtllm_mla runs on Blackwell"),
        ("RTX 5090", MHA, {"attention_backend": "trtllm_mha"}, "trtllm_mha runs on SM100"),
        ("B200", MHA, {"attention_backend": "trtllm_mla"}, "trtllm_mla serves MLA models only"),
        ("B200", MLA, {"decode_attention_backend": "trtllm_mha"}, "trtllm_mha serves non-MLA models only"),
        ("B200", V3, {"kv_cache_dtype": "fp8_e5m2"}, "kv_cache_dtype of fp8_e4m3, fp4_e2m1, auto, bf16, not fp8_e5m2"),
        ("H100", Model(False, "GptOssForCausalLM"), {"attention_backend": "flashinfer"}, "GPT-OSS takes triton"),
        ("H100", Model(False, "Llama4ForCausalLM"), {"attention_backend": "flashinfer"}, "Llama 4 takes fa3"),
        ("A100", Model(False, "Olmo2ForCausalLM"), {"attention_backend": "flashinfer"}, "refuse flashinfer"),
        ("A100", Model(False, "Lfm2ForCausalLM"), {"attention_backend": "triton"}, "refuses triton"),
        ("H100", V32, {"kv_cache_dtype": "fp8_e5m2"}, "bf16 or fp8_e4m3 KV cache"),
        ("H100", MHA, {"attention_backend": "flex_attention", "speculative_algorithm": "EAGLE"}, "speculative"),
        ("B200", MHA, {"enable_deterministic_inference": True}, "deterministic inference takes .*not trtllm_mha"),
    ],
)
def test_what_sglang_refuses(machine: str, model: Model, settings: dict[str, object], message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        select_attention_backend(HARDWARE[machine], model, Settings(**settings))


def test_an_fp8_e5m2_cache_moves_fa3_to_triton() -> None:
    assert pick("H100", MHA, kv_cache_dtype="fp8_e5m2") == "triton"


def test_every_choice_has_a_reason_and_versions_are_checked() -> None:
    for hardware in HARDWARE.values():
        for model in (MHA, MLA, V3, V32):
            for version in VERSIONS:
                assert select_attention_backend(hardware, model, version=version).reason
    with pytest.raises(KeyError, match=r"0\.4"):
        select_attention_backend(HARDWARE["H100"], MHA, version="0.4")


@pytest.mark.parametrize(
    ("machine", "mha", "mla", "v3", "v32"),
    [
        ("A100", "flashinfer", "triton", "triton", "dsa"),
        ("H100", "fa3", "fa3", "fa3", "dsa"),
        ("B200", "trtllm_mha", "flashinfer", "trtllm_mla", "dsa"),
        ("RTX 5090", "flashinfer", "triton", "triton", "dsa"),
        ("MI300X", "aiter", "triton", "triton", "dsa"),
        ("Ascend 910", "ascend", "ascend", "ascend", "ascend"),
        ("Gaudi", "torch_native", "torch_native", "torch_native", "torch_native"),
        ("CPU", "torch_native", "torch_native", "torch_native", "torch_native"),
    ],
)
def test_the_0_5_23_defaults_by_machine(machine: str, mha: str, mla: str, v3: str, v32: str) -> None:
    """By 0.5.23's `get_default_attn_backend` and its model overrides, read."""
    assert [pick(machine, model, "0.5.23") for model in (MHA, MLA, V3, V32)] == [mha, mla, v3, v32]


def test_what_0_5_23_decides_otherwise_than_0_5_9() -> None:
    sinks, wide = Model(False, attention_sinks=True), Model(False, asymmetric_kv=True)
    assert pick("A100", sinks, "0.5.23") == "triton" and pick("A100", sinks) == "flashinfer"
    assert pick("B200", wide, "0.5.23") == "fa4" and pick("B200", wide) == "trtllm_mha"
    assert pick("B200", Model(False, "GraniteMoeHybridForCausalLM"), "0.5.23") == "flashinfer"
    assert pick("MI300X", Model(False, "GptOssForCausalLM"), "0.5.23") == "aiter"
    deterministic = {"enable_deterministic_inference": True}
    assert pick("B200", MHA, "0.5.23", **deterministic) == "flashinfer"
    assert pick("B200", V3, "0.5.23", attention_backend=None, prefill_attention_backend="triton", **deterministic)
    assert pick("H100", MHA, "0.5.23", **deterministic) == "fa3"
    newer = select_attention_backend(HARDWARE["B200"], MHA, Settings(page_size=128), "0.5.23")
    assert newer.page_size == 128, "trtllm_mha takes 128 now"
    cute = select_attention_backend(HARDWARE["B200"], MLA, Settings(attention_backend="cutedsl_mla"), "0.5.23")
    assert (cute.prefill, cute.decode, cute.page_size) == ("trtllm_mla", "cutedsl_mla", 64)
    assert select_attention_backend(HARDWARE["H100"], MHA, Settings("trtllm_mha"), "0.5.23").decode == "trtllm_mha"
    assert pick("B200", Model(False, "Qwen3NextForCausalLM"), "0.5.23") == "triton"


@pytest.mark.parametrize(
    ("machine", "model", "settings", "message"),
    [
        ("B200", MLA, {"attention_backend": "cutlass_mla"}, "SGLang 0.5.23 has no cutlass_mla"),
        ("A100", MLA, {"attention_backend": "fa3"}, "fa3 runs on SM9x, and on SM8x without MLA"),
        ("A100", MHA, {"attention_backend": "trtllm_mha"}, "trtllm_mha runs on Hopper"),
        ("H100", MLA, {"attention_backend": "cutedsl_mla"}, "cutedsl_mla runs on SM100"),
        ("B200", MLA, {"prefill_attention_backend": "cutedsl_mla"}, "cutedsl_mla decodes only"),
        ("B200", V3, {"kv_cache_dtype": "fp4_e2m1"}, "trtllm_mla takes a kv_cache_dtype of fp8_e4m3, bf16, auto"),
        ("H100", MHA, {"attention_backend": "aiter", "enable_deterministic_inference": True}, "not aiter"),
        ("H100", MHA, {"attention_backend": "hpc_ops", "speculative_algorithm": "EAGLE"}, "hpc_ops does not support"),
    ],
)
def test_what_0_5_23_refuses(machine: str, model: Model, settings: dict[str, object], message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        select_attention_backend(HARDWARE[machine], model, Settings(**settings), "0.5.23")


GOLDEN = json.loads((Path(__file__).parent / "golden" / "selection.json").read_text())
GOLDEN_MODELS = {
    "MHA": MHA,
    "MHA with sinks": Model(False, attention_sinks=True),
    "MHA, keys wider than values": Model(False, asymmetric_kv=True),
    "MLA": MLA,
    "MLA with 16 heads": Model(True, num_kv_heads=16),
    "GptOssForCausalLM": Model(False, "GptOssForCausalLM", attention_sinks=True),
}
"""Those that are more than an architecture's name."""


@pytest.mark.parametrize("machine", HARDWARE)
def test_what_0_5_23_itself_chooses(machine: str) -> None:
    """Every model with every set of arguments, as `golden/read_selection.py` asked SGLang's own functions; what the
    registry refuses when a backend is made comes later, and is not in there."""
    hardware = HARDWARE[machine]
    for name, row in GOLDEN["answers"][machine].items():
        model = GOLDEN_MODELS.get(name) or Model(name.startswith(("Deepseek", "Longcat")), name)
        for given, told in zip(GOLDEN["settings"], GOLDEN["rows"][row], strict=True):
            try:
                chosen, _ = v0_5_23.choose(hardware, model, Settings(**given))
                chosen = v0_5_23.adjust(hardware, model, chosen, [])
            except SelectionError:
                assert told == "refused", (name, given, told)
                continue
            prefill = chosen.prefill_attention_backend or chosen.attention_backend
            decode = chosen.decode_attention_backend or chosen.attention_backend
            assert f"{prefill} {decode} {chosen.page_size or 1}" == told, (name, given, told)


def test_this_machine_is_described() -> None:
    here = this_machine("cpu")
    assert here.device == "cpu" and select_attention_backend(here, MHA).decode in ("intel_amx", "torch_native")
