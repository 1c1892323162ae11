"""Runs the CUDA-graph halves of SGLang's own backends on a CPU (a capture and a replay) and writes what graphs read.

pip download --no-deps sglang==0.5.9 && unzip -d sglang-0.5.9 sglang-0.5.9-*.whl
TRITON_INTERPRET=1 python tests/attention/golden/read_graph_metadata.py sglang-0.5.9

As `read_backend_metadata.py`, whose stand-ins it uses. Four requests, the last of which is a graph's padding.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))

from read_backend_metadata import TREE, Finder, Recorder, Verify, backend, fields, on_the_cpu, pages, plain

from sglab.engine import ForwardMode

OUT = Path(__file__).with_name("graph_metadata.json")
ROWS, LENS = [2, 0, 4, 0], [9, 130, 64, 1]
MOST = 8
MODES = {
    "decode": (ForwardMode.DECODE, 1),
    "chain": (ForwardMode.TARGET_VERIFY, 3),
    "tree": (ForwardMode.TARGET_VERIFY, len(TREE)),
    "draft_extend_v2": (ForwardMode.DRAFT_EXTEND_V2, 3),
}


def replayed(made: Any, mode: str, kernel: Any) -> None:
    """Buffers for the largest graph, a capture of four requests, and a replay of three."""
    forward_mode, tokens = MODES[mode]
    parents = {"chain": [-1, 0, 1], "tree": TREE}.get(mode)
    spec = None if parents is None else Verify(LENS, parents, kernel)
    if mode == "draft_extend_v2":
        accepted = torch.full((len(LENS),), tokens, dtype=torch.int32)
        spec = SimpleNamespace(
            num_accept_tokens=accepted,
            accept_length=accepted,
            accept_length_cpu=accepted.tolist(),
            extend_seq_lens_tensor=accepted,
            extend_seq_lens_cpu=accepted.tolist(),
            num_tokens_per_batch=tokens,
            positions=None,
        )
    if parents is not None:
        spec.positions = torch.zeros(len(LENS) * tokens, dtype=torch.int64)
    if tokens > 1:
        made.speculative_num_draft_tokens = made.num_draft_tokens = tokens
        made.speculative_num_steps, made.topk = tokens - 1, 2 if mode == "tree" else 1
    bs, rows = len(LENS), torch.tensor(ROWS)
    made.init_cuda_graph_state(MOST, MOST * tokens)
    ones = torch.ones(bs, dtype=torch.int64)
    captured = spec if parents is None else Verify([1] * bs, parents, kernel)
    if parents is not None:
        captured.positions = spec.positions
    made.init_forward_metadata_capture_cuda_graph(
        bs, bs * tokens, torch.zeros_like(rows), ones, None, forward_mode, captured
    )
    lens = torch.tensor(LENS)
    made.init_forward_metadata_replay_cuda_graph(bs, rows, lens, sum(LENS), None, forward_mode, spec, lens)


def main(wheels: list[str]) -> None:
    sys.meta_path.insert(0, Finder(Path(wheels[0])))
    on_the_cpu()
    torch.compile = lambda *args, **options: args[0] if args else lambda function: function  # type: ignore[assignment]
    load = lambda name: __import__(f"sglang.srt.{name}", fromlist=["x"])  # noqa: E731
    kernel = load("layers.attention.utils").create_flashinfer_kv_indices_triton
    golden: dict[str, dict[str, Any]] = {}

    def add(name: str, mode: str, page: int, make: Any, read: Any) -> None:
        made = make()
        replayed(made, mode, kernel)
        golden.setdefault(name, {})[f"{mode}, page {page}"] = read(made)

    for case in (*page_tables(load), *csr(load)):
        add(*case)
    print({name: list(cases) for name, cases in golden.items()})
    tables = {str(size): pages(size).tolist() for size in (1, 16, 32, 64, 128)}
    made = {"source": "sglang 0.5.9", "rows": ROWS, "lens": LENS, "tables": tables, "backends": golden}
    OUT.write_text(json.dumps(made) + "\n", "utf-8")


def page_tables(load: Any) -> Any:
    """(backend, mode, page size, make, read): those over a page table."""
    attention = "layers.attention."

    def flash(made: Any) -> dict[str, Any]:
        found = fields(made.forward_metadata)
        expand = getattr(made, "forward_metadata_spec_decode_expand", None)
        return found if expand is None else {**found, "expand": fields(expand)}

    def plainly(made: Any) -> dict[str, Any]:
        return fields(made.forward_metadata)

    fa = load(attention + "flashattention_backend")
    for page in (1, 16):
        for mode in ("decode", "chain", "draft_extend_v2", *(("tree",) if page == 1 else ())):
            yield (
                "fa3",
                mode,
                page,
                lambda page=page: backend(fa.FlashAttentionBackend, page, is_encoder_decoder=False),
                flash,
            )
    found = load(attention + "trtllm_mha_backend")
    for mode in ("decode", "chain"):
        yield "trtllm_mha", mode, 16, lambda: backend(found.TRTLLMHAAttnBackend, 16), plainly
    mla = load(attention + "trtllm_mla_backend").TRTLLMMLABackend
    for mode in ("decode", "chain"):
        options = {"disable_chunked_prefix_cache": False, "num_draft_tokens": 3 if mode != "decode" else None}
        options |= {"q_indptr_decode": torch.arange(MOST + 1, dtype=torch.int32)}
        options |= {"decode_cuda_graph_metadata": {}, "kv_indptr": torch.zeros(MOST + 1, dtype=torch.int32)}
        options |= {"num_q_heads": 4, "kv_lora_rank": 512, "data_type": torch.bfloat16, "kv_cache_dim": 576}
        make = lambda options=options: backend(mla, 32, **options)  # noqa: E731
        yield "trtllm_mla", mode, 32, make, lambda made: fields(made.forward_decode_metadata)
    cutlass = load(attention + "cutlass_mla_backend")
    cutlass.cutlass_mla_get_workspace_size = lambda *args, **options: 0
    table = ("block_kv_indices",)
    make = lambda: backend(cutlass.CutlassMLABackend, 128)  # noqa: E731
    yield "cutlass_mla", "decode", 128, make, lambda made: fields(made.forward_metadata, table)
    flashmla = load(attention + "flashmla_backend")
    flashmla.get_mla_metadata = lambda *args, **options: (torch.zeros(1, 8), torch.zeros(1))
    heads = {"num_draft_tokens": None, "num_q_heads": 4, "num_local_heads": 4, "is_fp8_kvcache": False}
    make = lambda: backend(flashmla.FlashMLABackend, 64, **heads)  # noqa: E731
    yield "flashmla", "decode", 64, make, lambda made: fields(made.forward_metadata, ("block_kv_indices",))
    nsa = load(attention + "nsa_backend")

    def sparse() -> Any:
        made = backend(
            nsa.NativeSparseAttnBackend, 64, real_page_size=64, nsa_index_topk=50, use_mha=False, nsa_decode_impl="fa3",
            nsa_prefill_impl="flashmla_sparse", _arange_buf=torch.arange(16384, dtype=torch.int32),
        )  # fmt: skip
        made.set_nsa_prefill_impl = lambda forward_batch=None: None
        made.get_topk_transform_method = lambda: nsa.TopkTransformMethod.PAGED
        return made

    names = tuple(nsa.NSAMetadata.__annotations__)
    for mode in ("decode", "chain"):
        yield "nsa", mode, 64, sparse, lambda made: fields(made.forward_metadata, names)
    ascend = load("hardware_backend.npu.attention.ascend_backend").AscendAttnBackend
    make = lambda: backend(ascend, 16, use_mla=True, graph_metadata={}, speculative_num_draft_tokens=3)  # noqa: E731
    for mode in ("decode", "chain"):
        yield "ascend", mode, 16, make, plainly


def csr(load: Any) -> Any:
    """(backend, mode, page size, make, read): those over slots in CSR form."""
    shape = {"num_head": 8, "num_kv_head": 2, "max_kv_splits": 8, "v_head_dim": 64, "static_kv_splits": False}
    shape |= {"device_core_count": 132, "use_mla": False, "skip_prefill": False, "sliding_window_size": None}
    shape |= {"enable_deterministic": False, "split_tile_size": None}

    def buffers() -> dict[str, Any]:
        return {
            "kv_indptr": torch.zeros(MOST + 1, dtype=torch.int32),
            "qo_indptr": torch.zeros(MOST + 1, dtype=torch.int32),
            "mask_indptr": torch.zeros(MOST + 1, dtype=torch.int64),
            "kv_last_page_len": torch.ones(MOST, dtype=torch.int32),
            "window_kv_indptr": torch.zeros(MOST + 1, dtype=torch.int32),
        }

    def cut(made: Any) -> dict[str, Any]:
        """The buffers' parts that the graph of four requests reads."""
        meta, bs = made.forward_metadata, len(LENS)
        found = {name: getattr(meta, name, None) for name in ("kv_indptr", "qo_indptr", "mask_indptr")}
        found = {name: plain(value[: bs + 1]) for name, value in found.items() if isinstance(value, torch.Tensor)}
        total = found["kv_indptr"]["values"][-1]
        indices = meta.kv_indices
        found["kv_indices"] = plain(indices[:total])
        return found

    sys.modules["sglang.srt.layers.attention.wave_ops.decode_attention"] = SimpleNamespace(
        decode_attention_intermediate_arrays_shapes=lambda bs, dim, heads, splits: ((1,), (1,))
    )  # type: ignore[assignment]
    for name, module, cls in (
        ("triton", "triton_backend", "TritonAttnBackend"),
        ("wave", "wave_backend", "WaveAttnBackend"),
    ):
        found = load(f"layers.attention.{module}")
        for mode in ("decode", "tree"):
            make = lambda found=found, cls=cls: backend(getattr(found, cls), 1, **shape, **buffers())  # noqa: E731
            yield name, mode, 1, make, cut
    aiter = load("layers.attention.aiter_backend")
    aiter._use_mla_ps_kernel = False
    for mla in (False, True):
        for mode in ("decode", "chain"):

            def make(mla: bool = mla) -> Any:
                made = backend(aiter.AiterAttnBackend, 1, **{**shape, "use_mla": mla}, **buffers())
                made.qo_indptr_, made.num_draft_tokens, made.kv_cache_dtype = (
                    torch.zeros(MOST + 1, dtype=torch.int32),
                    3,
                    None,
                )
                return made

            if mla or mode == "decode":
                yield "aiter_mla" if mla else "aiter", mode, 1, make, cut
    flashinfer = load("layers.attention.flashinfer_backend")
    yield from ragged_wrappers(flashinfer, buffers)


def ragged_wrappers(module: Any, buffers: Any) -> Any:
    """FlashInfer's wrappers record what their plans are told."""

    class Told(Recorder):
        def __init__(self, *args: Any, **options: Any) -> None:
            pass

    module.BatchDecodeWithPagedKVCacheWrapper = module.BatchPrefillWithPagedKVCacheWrapper = Told
    module.fast_decode_plan = lambda self, *args, **options: Recorder.begin_forward(self, *args, **options)

    def make() -> Any:
        parts = buffers()
        made = backend(
            module.FlashInferAttnBackend,
            1,
            num_wrappers=1,
            skip_prefill=False,
            dispatch_reason=None,
            decode_backend="fa2",
        )
        made.kv_indptr, made.qo_indptr = [parts["kv_indptr"]], [parts["qo_indptr"]]
        made.kv_last_page_len, made.decode_use_tensor_cores = parts["kv_last_page_len"], False
        made.decode_cuda_graph_metadata, made.prefill_cuda_graph_metadata, made.draft_extend_cuda_graph_metadata = (
            {},
            {},
            {},
        )
        made.workspace_buffer, made.prefill_backend, made.disable_cuda_graph_kv_split = None, "fa2", False
        for name, cls in (
            ("decode", module.FlashInferIndicesUpdaterDecode),
            ("prefill", module.FlashInferIndicesUpdaterPrefill),
        ):
            updater = cls.__new__(cls)
            vars(updater).update(
                req_to_token=made.req_to_token, kv_indptr=made.kv_indptr, qo_indptr=made.qo_indptr,
                sliding_window_size=None, kv_last_page_len=made.kv_last_page_len, num_qo_heads=8, num_kv_heads=2,
                head_dim=64, data_type=torch.bfloat16, q_data_type=torch.bfloat16, token_to_kv_pool_allocator=None,
                prefill_wrapper_ragged=Told(), attn_backend=made,
            )  # fmt: skip
            updater.update = updater.update_single_wrapper
            setattr(made, f"indices_updater_{name}", updater)
        return made

    def told(made: Any) -> dict[str, Any]:
        metadata = made.forward_metadata
        wrappers = getattr(metadata, "decode_wrappers", None) or metadata.prefill_wrappers
        return {"told": wrappers[0].told}

    for mode in ("decode", "tree"):
        yield "flashinfer", mode, 1, make, told


if __name__ == "__main__":
    main(sys.argv[1:])
