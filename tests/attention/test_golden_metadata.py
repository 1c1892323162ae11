"""The index arrays are SGLang's: what its own backends build for the same requests, array by array.

The golden file was written by `golden/read_backend_metadata.py`, which runs SGLang 0.5.9's modules.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sglab.attention import AttentionBackend, create_attention_backend
from sglab.attention.page_table.dual_chunk import DualChunkFlashAttentionBackend
from sglab.attention.sparse.dsa import NativeSparseAttnBackend
from sglab.engine import ForwardBatch, ForwardMode, ModelRunner
from sglab.workbench import decode_batch
from tests.support.attention import Drafts, ancestors

GOLDEN = json.loads((Path(__file__).parent / "golden" / "backend_metadata.json").read_text("utf-8"))
NEWER_FILE = json.loads((Path(__file__).parent / "golden" / "newer_metadata.json").read_text("utf-8"))
"""Of 0.5.23, what 0.5.9 does not build: `golden/read_newer_metadata.py`."""
NEWER = NEWER_FILE["backends"]
TREE = [-1, 0, 0, 1, 2]
ROWS = [2, 0, 4]


def runner_of(page_size: int, kind: str = "mha", dtype: str = "bfloat16") -> ModelRunner:
    """Whose requests have the golden file's slots."""
    shape: dict[str, Any] = {"num_heads": 8, "num_kv_heads": 2, "head_dim": 64} if kind == "mha" else {"num_heads": 4}
    options = {"max_context_len": 384, "max_running_requests": 6, "page_size": page_size, "dtype": dtype}
    batch = decode_batch([9], kind=kind, **shape, **options)  # type: ignore[arg-type]
    batch.runner.req_to_token_pool.req_to_token = torch.tensor(GOLDEN["tables"][str(page_size)], dtype=torch.int32)
    return replace(batch.runner, check_metadata=False, kernel_implementation="reference")


def batch_of(mode: str, runner: ModelRunner) -> ForwardBatch:
    """The same three requests as the golden file's."""
    lengths = [9, 33, 16] if mode == "first" else [9, 130, 64]
    prefixes = [0, 0, 0] if mode == "first" else [4, 100, 63]
    new = [length - prefix for length, prefix in zip(lengths, prefixes, strict=True)]
    names = {"chain": "TARGET_VERIFY", "tree": "TARGET_VERIFY", "first": "EXTEND"}
    parents = {"chain": [-1, 0, 1], "tree": TREE}.get(mode)
    tokens = {"decode": 3, "chain": 9, "tree": 15}.get(mode, sum(new))
    known = torch.tensor(lengths)
    spec = None
    if parents is not None:
        count, seen = len(parents), ancestors(parents)
        masks = [torch.cat((torch.ones(count, p, dtype=torch.bool), seen), 1).flatten() for p in lengths]
        spec = Drafts(count, torch.cat(masks), 1 if mode == "chain" else 2)
    extends = mode in ("extend", "first", "draft_extend")
    return ForwardBatch(
        forward_mode=ForwardMode[names.get(mode, mode.upper())],
        batch_size=3,
        input_ids=torch.zeros(tokens, dtype=torch.int64),
        req_pool_indices=torch.tensor(ROWS),
        seq_lens=known,
        out_cache_loc=torch.zeros(tokens, dtype=torch.int64),
        seq_lens_sum=sum(lengths),
        seq_lens_cpu=known,
        orig_seq_lens=known.to(torch.int32),
        extend_num_tokens=sum(new) if extends else None,
        extend_seq_lens=torch.tensor(new, dtype=torch.int32) if extends else None,
        extend_prefix_lens=torch.tensor(prefixes, dtype=torch.int32) if extends else None,
        extend_seq_lens_cpu=new if extends else None,
        extend_prefix_lens_cpu=prefixes if extends else None,
        spec_info=spec,
        req_to_token_pool=runner.req_to_token_pool,
        token_to_kv_pool=runner.token_to_kv_pool,
    )


def assert_same(ours: Any, golden: Any, what: str, used: int | None = None) -> None:
    """Values and dtype; of an array whose end upstream leaves as it was, the part that is used."""
    if isinstance(golden, dict) and "values" in golden:
        assert isinstance(ours, torch.Tensor), what
        assert str(ours.dtype) == f"torch.{golden['dtype']}", what
        assert ours[:used].tolist() == torch.tensor(golden["values"])[:used].tolist(), what
    elif isinstance(golden, dict) and "shape" in golden:
        assert list(getattr(ours, "shape", ours)) == golden["shape"], what
    else:
        assert int(ours) == golden, what


def assert_fields(made: Any, golden: dict[str, Any], names: dict[str, str], skipped: tuple[str, ...] = ()) -> None:
    """Every array of the golden file, under our name for it."""
    for theirs, value in golden.items():
        if theirs not in skipped:
            assert_same(getattr(made, names.get(theirs, theirs)), value, theirs)


def cases(name: str) -> list[str]:
    return list(GOLDEN["backends"][name])


def prepared(name: str, case: str, kind: str = "mha") -> tuple[AttentionBackend, ForwardBatch]:
    mode, _, page = case.partition(", page ")
    runner = runner_of(int(page), kind)
    made, batch = create_attention_backend(name, runner), batch_of(mode, runner)
    made.prepare(batch)
    return made, batch


@pytest.mark.parametrize("name", ["fa3", "intel_xpu", "trtllm_mha"])
def test_page_table_backends(name: str) -> None:
    for case in cases(name):
        made: Any = prepared(name, case)[0]
        golden = dict(GOLDEN["backends"][name][case])
        expand = golden.pop("expand", None)
        assert_fields(made.forward_metadata, golden, {})
        if expand is not None:
            assert_fields(made.forward_metadata_spec_decode_expand, expand, {}, ("max_seq_len_k",))


def test_fa4_builds_what_fa3_does() -> None:
    """SGLang's fa4 is the same class with other kernels."""
    for case in cases("fa3"):
        assert_fields(
            prepared("fa4", case)[0].forward_metadata,  # type: ignore[attr-defined]
            {name: value for name, value in GOLDEN["backends"]["fa3"][case].items() if name != "expand"},
            {},
        )


def test_trtllm_mla() -> None:
    for name in ("trtllm_mla", "cutedsl_mla"):
        for case in cases("trtllm_mla"):
            made: Any = prepared(name, case, "mla")[0]
            skipped = ("max_seq_len_k", "batch_size", "sum_seq_lens_q", "max_seq_len_q")
            assert_fields(made.forward_metadata, GOLDEN["backends"]["trtllm_mla"][case], {}, skipped)


def test_cutlass_mla() -> None:
    made: Any = prepared("cutlass_mla", "decode, page 128", "mla")[0]
    assert_fields(made.forward_metadata, GOLDEN["backends"]["cutlass_mla"]["decode, page 128"], {})


NSA_NAMES = {
    "nsa_cache_seqlens_int32": "dsa_cache_seqlens_int32",
    "nsa_cu_seqlens_q": "dsa_cu_seqlens_q",
    "nsa_cu_seqlens_k": "dsa_cu_seqlens_k",
    "nsa_seqlens_expanded": "seqlens_expanded",
}


def test_nsa() -> None:
    for case, golden in GOLDEN["backends"]["nsa"].items():
        runner = runner_of(64, "mla")
        made = NativeSparseAttnBackend(runner, index_topk=50)
        made.prepare(batch_of(case.partition(",")[0], runner))
        skipped = ("nsa_max_seqlen_q", "seq_lens_sum", "indexer_seq_lens_cpu")
        assert_fields(made.forward_metadata, golden, NSA_NAMES, skipped)


@pytest.mark.parametrize("mode", ["decode", "extend", "first", "tree", "window decode", "window extend"])
def test_flashinfer(mode: str) -> None:
    runner = runner_of(1)
    made: Any = create_attention_backend("flashinfer", runner)
    batch = batch_of(mode.removeprefix("window "), runner)
    made.prepare(batch)
    metadata = made.forward_metadata
    wrapper = (metadata.decode_wrappers if "decode" in mode else metadata.prefill_wrappers)[0]
    golden = GOLDEN["backends"]["flashinfer"][mode]
    wrappers = [wrapper]
    if mode.startswith("window"):
        build = made.updater.decode if "decode" in mode else lambda *a: made.updater.prefill(a[0], False, *a[1:])
        wrappers = [build(batch, 20), build(batch, -1)]
    assert len(golden) == len(wrappers)
    for told, ours in zip(golden.values(), wrappers, strict=True):
        arrays = [ours.kv_indptr, ours.kv_indices, ours.kv_last_page_len]
        if "decode" not in mode:
            arrays = [ours.qo_indptr, *arrays]
        total = int(ours.kv_indptr[-1])
        for i, (array, value) in enumerate(zip(arrays, told, strict=True)):
            assert_same(array, value, f"{mode}, array {i}", total if array is ours.kv_indices else None)


@pytest.mark.parametrize("mode", ["decode", "extend", "chain"])
def test_flashinfer_mla(mode: str) -> None:
    runner = runner_of(1, "mla")
    made: Any = create_attention_backend("flashinfer", runner)
    made.prepare(batch_of(mode, runner))
    metadata = made.forward_metadata
    ours = metadata.decode_wrapper if mode == "decode" else metadata.prefill_wrapper
    (told,) = GOLDEN["backends"]["flashinfer_mla"][mode].values()
    total = int(ours.kv_indptr[-1])
    for i, array in enumerate((ours.qo_indptr, ours.kv_indptr, ours.kv_indices, ours.kv_indptr.diff())):
        assert_same(array, told[i], f"{mode}, array {i}", total if i == 2 else None)


def test_ascend() -> None:
    for case, golden in GOLDEN["backends"]["ascend"].items():
        made: Any = prepared("ascend", case, "mla")[0]
        assert_fields(made.forward_metadata, golden, {}, ("extend_seq_lens",))


def test_dual_chunk() -> None:
    for case, golden in GOLDEN["backends"]["dual_chunk_flash_attn"].items():
        runner = runner_of(4)
        made = DualChunkFlashAttentionBackend(runner, 48, 16, original_max_position_embeddings=50)
        made.prepare(batch_of(case.partition(",")[0], runner))
        known = {name: value for name, value in golden.items() if hasattr(made.forward_metadata, name)}
        scaling = known.pop("scaling_factor")
        if case.startswith("decode"):  # upstream sums 0, 1, 2 … instead of ones; no decode kernel reads it
            assert known.pop("query_start_loc")["values"] == [0, 0, 1, 3]
        ours = made.forward_metadata
        assert ours is not None and ours.scaling_factor is not None
        assert torch.allclose(ours.scaling_factor, torch.tensor(scaling["values"]))
        intra, succ = (known.pop(f"block_tables_{part}", None) for part in ("intra", "succ"))
        assert_fields(ours, known, {})
        for table, value, lens in (
            (ours.block_tables_intra, intra, ours.seq_lens_intra),
            (ours.block_tables_succ, succ, ours.seq_lens_succ),
        ):
            if value is not None:
                assert table is not None and lens is not None
                for row, theirs, length in zip(table.tolist(), value["values"], lens.tolist(), strict=True):
                    assert row[: -(-length // 4)] == theirs[: -(-length // 4)]


def test_intel_amx_and_double_sparsity() -> None:
    for name in ("intel_amx", "double_sparsity"):
        for case, golden in GOLDEN["backends"][name].items():
            made: Any = prepared(name, case)[0].forward_metadata  # type: ignore[attr-defined]
            if "max_extend_len" in golden:
                assert made.max_extend_len == golden["max_extend_len"]
            if name == "double_sparsity" and case.startswith("decode"):
                assert_fields(made, golden, {"attn_logits": "attn_logits_shape", "mid_out": "mid_out_shape"},
                              ("attn_logits", "mid_out"))  # fmt: skip
                assert made.mid_out_shape == (3, 8, 2, 64)


def test_wave_and_triton() -> None:
    for case, golden in GOLDEN["backends"]["wave"].items():
        made, batch = prepared("wave", case)
        assert_fields(made.forward_metadata, golden, {"kv_indices": "wave_kv_indices"})  # type: ignore[attr-defined]
        triton: Any = create_attention_backend("triton", replace(made._runner, kernel_implementation="reference"))  # type: ignore[type-var]
        triton.prepare(batch)
        assert_fields(triton.forward_metadata, golden, {}, ("kv_indices",))
        assert triton.forward_metadata.kv_indices.tolist() == golden["kv_indices"]["values"]


@pytest.mark.parametrize("kind", ["mha", "mla"])
def test_aiter(kind: str) -> None:
    for case, golden in GOLDEN["backends"]["aiter" if kind == "mha" else "aiter_mla"].items():
        made = prepared("aiter", case, kind)[0].forward_metadata  # type: ignore[attr-defined]
        if case.startswith("extend"):  # upstream's whole buffer, of which three requests use four entries
            golden["kv_indptr"]["values"] = golden["kv_indptr"]["values"][:4]
        assert_fields(made, golden, {})


def test_trees_of_aiter() -> None:
    for case, golden in NEWER["aiter"].items():
        made = prepared("aiter", case)[0].forward_metadata  # type: ignore[attr-defined]
        assert_fields(made, golden, {})


def test_images() -> None:
    """Arrays of prompts whose images no chunk cuts: of others SGLang's fa4 and triton hide what ours show."""
    spans = [[tuple(span) for span in own] for own in NEWER_FILE["images"]]
    made: dict[str, Any] = {}
    for name in ("fa4", "triton", "intel_xpu"):
        runner = runner_of(1)
        backend: Any = create_attention_backend(name, runner)
        backend.prepare(replace(batch_of("extend", runner), image_spans=spans))
        made[name] = backend.forward_metadata
    for name in ("fa4", "triton"):
        assert_fields(made[name], NEWER[name]["images, page 1"], {})
    ids, told, at = made["intel_xpu"].bidirectional_block_ids.tolist(), NEWER["intel_xpu"]["images, page 1"], 0
    for length, own in zip(told["seq_lens"], told["block_spans"], strict=True):
        expected = [-1] * length
        for number, (first, last) in enumerate(own):
            expected[first : last + 1] = [number] * (last + 1 - first)
        assert ids[at : at + length] == expected
        at += length
    assert at == len(ids)
