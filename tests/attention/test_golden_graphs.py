"""What a CUDA graph reads is what SGLang's own backends put there: buffers, a capture and a replay, array by array.

The golden file was written by `golden/read_graph_metadata.py`, which runs SGLang 0.5.9's modules. Of page tables the
entries that a request's length covers are compared, of CSR indices those up to the last request's: a graph reads no
others, and upstream leaves there what an earlier replay wrote.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sglab.attention import create_attention_backend
from sglab.attention.sparse.dsa import NativeSparseAttnBackend
from sglab.engine import ForwardMode, GraphBatch
from sglab.workbench import decode_batch
from tests.support.attention import Drafts, ancestors

GOLDEN = json.loads((Path(__file__).parent / "golden" / "graph_metadata.json").read_text("utf-8"))
CASES = [(name, case) for name, cases in GOLDEN["backends"].items() for case in cases]
LENS: list[int] = GOLDEN["lens"]
MOST = 8
PARENTS = {"chain": [-1, 0, 1], "tree": [-1, 0, 0, 1, 2]}
MLA = ("trtllm_mla", "cutlass_mla", "flashmla", "nsa", "ascend", "aiter_mla")
OURS = {"aiter_mla": "aiter"}
NSA_NAMES = {
    "nsa_cache_seqlens_int32": "dsa_cache_seqlens_int32",
    "nsa_cu_seqlens_q": "dsa_cu_seqlens_q",
    "nsa_cu_seqlens_k": "dsa_cu_seqlens_k",
    "nsa_seqlens_expanded": "seqlens_expanded",
}
LEFT_OUT = {
    "max_seq_len_k": "a graph is captured for the longest there can be; its kernels read the lengths",
    "encoder_max_seq_len_k": "no encoder",
    "nsa_max_seqlen_q": "ours follows from the mode",
    "page_size": "the pool's",
    "actual_seq_lengths_q": "steps of the query rows, which the NPU's operator takes on the host",
}


def replayed(name: str, case: str) -> Any:
    """Our backend after the same capture and replay."""
    mode, _, page = case.partition(", page ")
    shape: dict[str, Any] = {"num_heads": 8, "num_kv_heads": 2, "head_dim": 64, "kind": "mha"}
    if name in MLA:
        shape = {"num_heads": 4, "kind": "mla"}
    options = {"max_context_len": 384, "max_running_requests": 6, "page_size": int(page), "dtype": "bfloat16"}
    runner = decode_batch([9], **shape, **options).runner
    runner.req_to_token_pool.req_to_token = torch.tensor(GOLDEN["tables"][page], dtype=torch.int32)
    runner = replace(runner, check_metadata=False, kernel_implementation="reference")
    made: Any = (
        NativeSparseAttnBackend(runner, index_topk=50)
        if name == "nsa"
        else create_attention_backend(OURS.get(name, name), runner)
    )
    parents = PARENTS.get(mode)
    tokens = 3 if mode == "draft_extend_v2" else len(parents or [-1])
    made.init_graph(MOST, MOST * tokens)
    ones, rows = [1] * len(LENS), torch.tensor(GOLDEN["rows"])
    for lens, places in ((ones, torch.zeros_like(rows)), (LENS, rows)):
        spec = None
        if parents is not None:
            seen = ancestors(parents)
            masks = [torch.cat((torch.ones(tokens, n, dtype=torch.bool), seen), 1).flatten() for n in lens]
            spec = Drafts(tokens, torch.cat(masks), 1 if mode == "chain" else 2)
        batch = GraphBatch(
            bs=len(lens),
            num_tokens=len(lens) * tokens,
            forward_mode=ForwardMode.TARGET_VERIFY if parents is not None else ForwardMode[mode.upper()],
            req_pool_indices=places,
            seq_lens=torch.tensor(lens),
            seq_lens_sum=sum(lens),
            seq_lens_cpu=torch.tensor(lens),
            spec_info=spec,
        )
        (made.prepare_capture if lens is ones else made.prepare_replay)(batch)
    return made


def compared(name: str, ours: torch.Tensor, golden: dict[str, Any], keys: list[int]) -> None:
    """Equal values of one dtype, where a graph reads them.

    Args:
        keys: of each row of a table.
    """
    theirs = torch.tensor(golden["values"])
    if ours.dim() == 2 and theirs.dim() == 2:
        assert len(ours) == len(theirs), name
        for row, (mine, other, count) in enumerate(zip(ours, theirs, keys, strict=True)):
            assert mine[:count].tolist() == other[:count].tolist(), f"{name}, row {row}"
        return
    assert ours[: len(theirs)].tolist() == theirs.tolist(), name


@pytest.mark.parametrize(("name", "case"), CASES)
def test_a_replay_fills_what_sglangs_fills(name: str, case: str) -> None:
    golden = dict(GOLDEN["backends"][name][case])
    mode, _, page = case.partition(", page ")
    made = replayed(name, case)
    meta = made.forward_metadata
    if name == "flashinfer":
        (wrapper,) = meta.decode_wrappers if mode == "decode" else meta.prefill_wrappers
        arrays = [wrapper.kv_indptr, wrapper.kv_indices, wrapper.kv_last_page_len]
        arrays = arrays if mode == "decode" else [wrapper.qo_indptr, *arrays]
        for array, told in zip(arrays, golden["told"], strict=True):
            compared(name, array, told, [])
            assert str(array.dtype) == f"torch.{told['dtype']}"
        return
    expand = golden.pop("expand", None)
    drafts = len(PARENTS.get(mode, [])) if mode == "chain" else 0
    keys = [length + drafts for length in LENS]
    pages = [-(-each // int(page)) for each in keys]
    seen = 0
    for theirs, value in golden.items():
        if theirs in LEFT_OUT:
            continue
        ours = getattr(meta, NSA_NAMES.get(theirs, theirs))
        if name == "ascend" and theirs == "seq_lens":  # ours counts drafts when it attends
            ours = ours + drafts
        seen += 1
        if not isinstance(value, dict):
            assert int(ours) == value, theirs
            continue
        rows = pages
        if name == "nsa" and theirs in ("page_table_1", "real_page_table"):
            each = keys if theirs == "page_table_1" else pages
            rows = [count for count in each for _ in range(max(drafts, 1))]
        compared(theirs, ours, value, rows)
        if name != "ascend":
            assert str(ours.dtype) == f"torch.{value['dtype']}", theirs
    assert seen
    if expand is not None:
        own = made.forward_metadata_spec_decode_expand
        lens = expand["cache_seqlens_int32"]["values"]
        for theirs in ("cache_seqlens_int32", "cu_seqlens_q", "cu_seqlens_k", "page_table"):
            compared(f"expand {theirs}", getattr(own, theirs), expand[theirs], lens)


def test_twelve_builders_are_held() -> None:
    assert len(GOLDEN["backends"]) >= 12
