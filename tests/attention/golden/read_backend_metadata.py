"""Runs SGLang's own backends on a CPU, as far as they make metadata, and writes the arrays that they build.

pip download --no-deps sglang==0.5.9 && unzip -d sglang-0.5.9 sglang-0.5.9-*.whl
TRITON_INTERPRET=1 python tests/attention/golden/read_backend_metadata.py sglang-0.5.9

The modules under test are executed as they are, their Triton index kernels under Triton's interpreter; whatever else
they import is a stand-in. Backends are made without their constructors, which start kernels, and given the attributes
that their `init_forward_metadata` reads. Wrappers of FlashInfer record what they are told.
"""

import importlib.abc
import importlib.machinery
import json
import sys
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest.mock import MagicMock

import torch

from sglab.engine import ForwardMode

OUT = Path(__file__).with_name("backend_metadata.json")
REAL = (
    "sglang.srt.layers.attention.utils",
    "sglang.srt.layers.attention.base_attn_backend",
    "sglang.srt.layers.attention.flashattention_backend",
    "sglang.srt.layers.attention.flashinfer_backend",
    "sglang.srt.layers.attention.flashinfer_mla_backend",
    "sglang.srt.layers.attention.trtllm_mha_backend",
    "sglang.srt.layers.attention.trtllm_mla_backend",
    "sglang.srt.layers.attention.cutlass_mla_backend",
    "sglang.srt.layers.attention.flashmla_backend",
    "sglang.srt.layers.attention.nsa_backend",
    "sglang.srt.layers.attention.nsa.nsa_backend_mtp_precompute",
    "sglang.srt.layers.attention.triton_backend",
    "sglang.srt.layers.attention.wave_backend",
    "sglang.srt.layers.attention.aiter_backend",
    "sglang.srt.layers.attention.xpu_backend",
    "sglang.srt.layers.attention.intel_amx_backend",
    "sglang.srt.layers.attention.double_sparsity_backend",
    "sglang.srt.layers.attention.dual_chunk_flashattention_backend",
    "sglang.srt.hardware_backend.npu.attention.ascend_backend",
)
STANDINS = ("sglang", "sgl_kernel", "sgl_kernel_npu", "flashinfer", "aiter", "wave_lang", "torch_npu", "flash_attn")
TREE = [-1, 0, 0, 1, 2]


class StandIn(types.ModuleType):
    """A module that has everything, as mocks; classes that are derived from are plain ones."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made: Any = type(name, (), {}) if name[0].isupper() else MagicMock(name=name)
        setattr(self, name, made)
        return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The real modules from an unpacked wheel, stand-ins for the rest."""

    def __init__(self, wheel: Path) -> None:
        self.wheel = wheel

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name.split(".")[0] not in STANDINS:
            return None
        if name in REAL:
            file = self.wheel / (name.replace(".", "/") + ".py")
            return importlib.util.spec_from_file_location(name, file)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> StandIn:
        return StandIn(spec.name)

    def exec_module(self, module: Any) -> None:
        if module.__name__ == "sglang.srt.model_executor.forward_batch_info":
            module.ForwardMode = ForwardMode
        if module.__name__ == "sglang.srt.utils":
            module.is_hip = module.is_npu = module.is_cuda = module.is_cpu = lambda: False
            module.get_bool_env_var = lambda name, default="false": default == "true"
        if module.__name__ == "sglang.srt.layers.attention.nsa.utils":
            module.compute_nsa_seqlens = lambda original_seq_lens, nsa_index_topk: original_seq_lens.clamp(
                max=nsa_index_topk
            )
            module.can_nsa_prefill_cp_round_robin_split = module.is_nsa_enable_prefill_cp = lambda *args: False
            module.pad_nsa_cache_seqlens = lambda batch, lens: lens
        if module.__name__ == "sglang.srt.speculative.spec_info":
            module.SpecInput = object


def on_the_cpu() -> None:
    """Upstream allocates some arrays on "cuda" by name."""
    for name in ("empty", "zeros", "ones", "full", "tensor", "arange"):
        plain = getattr(torch, name)

        def made(*args: Any, _plain: Any = plain, **options: Any) -> torch.Tensor:
            if str(options.get("device", "")).startswith("cuda"):
                options["device"] = "cpu"
            return _plain(*args, **options)

        setattr(torch, name, made)


def pages(page_size: int) -> torch.Tensor:
    """req_to_token of 6 rows and 384 columns: every request's pages lie apart, in an order of its own."""
    count = 384 // page_size
    generator = torch.Generator().manual_seed(page_size)
    order = torch.randperm(6 * count, generator=generator).view(6, count) + 1
    return (order[:, :, None] * page_size + torch.arange(page_size)).view(6, 384).to(torch.int32)


class Verify:
    """EagleVerifyInput, with its own generate_attn_arg_prefill."""

    def __init__(self, prefixes: list[int], parents: list[int], kernel: Any) -> None:
        self.draft_token_num, self.topk, self.kernel = len(parents), 1 if parents == [-1, 0, 1] else 2, kernel
        seen = torch.eye(len(parents), dtype=torch.bool)
        for token, parent in enumerate(parents):
            seen[token] |= seen[parent] if parent >= 0 else seen[token]
        parts = [torch.cat((torch.ones(len(parents), p, dtype=torch.bool), seen), 1).flatten() for p in prefixes]
        self.custom_mask = torch.cat(parts)

    def generate_attn_arg_prefill(self, rows: Any, lens: Any, total: Any, req_to_token: Any) -> Any:
        """The source is `EagleVerifyInput.generate_attn_arg_prefill`, whose module needs a GPU to be imported."""
        drafts, count = self.draft_token_num, len(rows)
        qo_indptr = torch.arange(0, (1 + count) * drafts, step=drafts, dtype=torch.int32)
        indptr = torch.zeros(count + 1, dtype=torch.int32)
        indptr[1:] = torch.cumsum(lens + drafts, 0)
        indices = torch.empty(int(indptr[-1]), dtype=torch.int32)
        self.kernel[(count,)](req_to_token, rows, lens + drafts, indptr, None, indices, req_to_token.size(1))
        return indices, indptr, qo_indptr, self.custom_mask


def batch_of(mode: str, req_to_token: torch.Tensor, kernel: Any) -> SimpleNamespace:
    """Three requests in rows 2, 0 and 4; verification's lengths are without the drafts."""
    lens = {"decode": [9, 130, 64], "extend": [9, 130, 64], "first": [9, 33, 16], "draft_extend": [9, 130, 64]}
    lengths, prefixes = lens.get(mode, [9, 130, 64]), {"first": [0, 0, 0]}.get(mode, [4, 100, 63])
    new = [length - prefix for length, prefix in zip(lengths, prefixes, strict=True)]
    modes = {
        "decode": ForwardMode.DECODE,
        "extend": ForwardMode.EXTEND,
        "first": ForwardMode.EXTEND,
        "chain": ForwardMode.TARGET_VERIFY,
        "tree": ForwardMode.TARGET_VERIFY,
        "draft_extend": ForwardMode.DRAFT_EXTEND,
    }
    tensor = torch.tensor(lengths)
    extends = mode in ("extend", "first", "draft_extend")
    parents = {"chain": [-1, 0, 1], "tree": TREE}.get(mode)
    return SimpleNamespace(
        forward_mode=modes[mode],
        batch_size=3,
        req_pool_indices=torch.tensor([2, 0, 4]),
        seq_lens=tensor,
        seq_lens_cpu=tensor,
        seq_lens_sum=sum(lengths),
        orig_seq_lens=tensor.to(torch.int32),
        extend_seq_lens=torch.tensor(new, dtype=torch.int32) if extends else None,
        extend_prefix_lens=torch.tensor(prefixes, dtype=torch.int32) if extends else None,
        extend_seq_lens_cpu=new if extends else None,
        extend_prefix_lens_cpu=prefixes if extends else None,
        extend_num_tokens=sum(new) if extends else None,
        encoder_lens=None,
        spec_info=None if parents is None else Verify(lengths, parents, kernel),
        req_to_token_pool=SimpleNamespace(req_to_token=req_to_token),
        token_to_kv_pool=SimpleNamespace(dtype=torch.bfloat16, size=4096, page_size=1),
        attn_attend_prefix_cache=None,
    )


def plain(value: Any) -> Any:
    """Tensors as lists, with their dtype; what is neither a number nor a tensor is left out."""
    if isinstance(value, torch.Tensor):
        name = str(value.dtype).removeprefix("torch.")
        return {"dtype": name, "values": value.tolist()} if value.numel() < 9000 else {"shape": list(value.shape)}
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def fields(made: Any, names: tuple[str, ...] = ()) -> dict[str, Any]:
    found = {name: plain(getattr(made, name, None)) for name in names or vars(made)}
    return {name: value for name, value in found.items() if value is not None}


class Recorder:
    """A FlashInfer wrapper that keeps what it is told."""

    is_cuda_graph_enabled = False

    def begin_forward(self, *args: Any, **options: Any) -> None:
        self.told = [plain(each) for each in args if isinstance(each, torch.Tensor)]
        self.mask = plain(options.get("custom_mask"))

    def plan(self, *args: Any, **options: Any) -> None:
        self.begin_forward(*args, **options)


def backend(cls: Any, page_size: int, **attributes: Any) -> Any:
    made = cls.__new__(cls)
    common = {
        "device": "cpu",
        "page_size": page_size,
        "topk": 0,
        "speculative_num_draft_tokens": None,
        "speculative_step_id": 0,
        "use_sliding_window_kv_pool": False,
        "has_swa": False,
        "has_local_attention": False,
        "attention_chunk_size": None,
        "is_hybrid_swa": False,
        "_swa_kv_pool": None,
        "req_to_token": pages(page_size),
        "max_context_len": 384,
    }
    for name, value in {**common, **attributes}.items():
        setattr(made, name, value)
    return made


def run(golden: dict[str, Any], name: str, made: Any, page: int, modes: str, kernel: Any, read: Any) -> None:
    for mode in modes.split():
        batch = batch_of(mode, pages(page), kernel)
        if batch.spec_info is not None:
            made.speculative_num_draft_tokens = made.num_draft_tokens = batch.spec_info.draft_token_num
            made.topk = batch.spec_info.topk
        made.init_forward_metadata(batch)
        golden.setdefault(name, {})[f"{mode}, page {page}"] = read(made)


def main(wheels: list[str]) -> None:
    sys.meta_path.insert(0, Finder(Path(wheels[0])))
    on_the_cpu()
    load = lambda name: __import__(f"sglang.srt.{name}", fromlist=["x"])  # noqa: E731
    kernel = load("layers.attention.utils").create_flashinfer_kv_indices_triton
    golden: dict[str, Any] = {}
    attention = "layers.attention."

    def flash(made: Any) -> dict[str, Any]:
        found = fields(made.forward_metadata)
        expand = getattr(made, "forward_metadata_spec_decode_expand", None)
        return found if expand is None else {**found, "expand": fields(expand)}

    for name, module, cls, modes in (
        ("fa3", "flashattention_backend", "FlashAttentionBackend", "decode extend first chain draft_extend tree"),
        ("intel_xpu", "xpu_backend", "XPUAttentionBackend", "decode extend first draft_extend"),
        ("trtllm_mha", "trtllm_mha_backend", "TRTLLMHAAttnBackend", "decode extend first chain draft_extend"),
    ):
        found = getattr(load(attention + module), cls)
        for page in (16,) if name == "trtllm_mha" else (1, 16):
            for mode in modes.split():
                run(golden, name, backend(found, page), page, mode, kernel, flash)

    found = load(attention + "trtllm_mla_backend").TRTLLMMLABackend
    for mode in ("decode", "chain", "draft_extend"):
        made = backend(found, 32, disable_chunked_prefix_cache=False, num_draft_tokens=3)
        run(golden, "trtllm_mla", made, 32, mode, kernel, lambda made: fields(made.forward_decode_metadata))
    module = load(attention + "cutlass_mla_backend")
    module.cutlass_mla_get_workspace_size = lambda *args, **options: 0
    made = backend(module.CutlassMLABackend, 128)
    table = ("block_kv_indices",)
    run(golden, "cutlass_mla", made, 128, "decode", kernel, lambda made: fields(made.forward_metadata, table))

    module = load(attention + "nsa_backend")
    for mode in ("decode", "extend", "first", "chain", "draft_extend"):
        made = backend(
            module.NativeSparseAttnBackend,
            64,
            real_page_size=64,
            nsa_index_topk=50,
            use_mha=False,
            nsa_decode_impl="fa3",
            nsa_prefill_impl="flashmla_sparse",
            _arange_buf=torch.arange(16384, dtype=torch.int32),
        )
        made.set_nsa_prefill_impl = lambda batch: None
        made.get_topk_transform_method = lambda: module.TopkTransformMethod.PAGED
        run(
            golden,
            "nsa",
            made,
            64,
            mode,
            kernel,
            lambda made: fields(made.forward_metadata, tuple(module.NSAMetadata.__annotations__)),
        )

    golden_flashinfer(golden, load, kernel)
    golden_vendors(golden, load, kernel)
    sizes = {name: len(cases) for name, cases in golden.items()}
    print(sizes)
    tables = {str(size): pages(size).tolist() for size in (1, 4, 16, 32, 64, 128)}
    OUT.write_text(json.dumps({"source": "sglang 0.5.9", "tables": tables, "backends": golden}) + "\n", "utf-8")


def golden_flashinfer(golden: dict[str, Any], load: Any, kernel: Any) -> None:
    """The index updaters of both FlashInfer backends, with recording wrappers."""
    mha, mla = (load(f"layers.attention.flashinfer{part}_backend") for part in ("", "_mla"))
    for mode in ("decode", "extend", "first", "tree", "window decode", "window extend"):
        table, wrappers = pages(1), [Recorder(), Recorder()]
        indptr = lambda: [torch.zeros(7, dtype=torch.int32) for _ in range(2)]  # noqa: E731
        parent = SimpleNamespace(kv_indptr=indptr(), qo_indptr=indptr(), prefill_wrapper_ragged=Recorder())
        decoding = "decode" in mode
        cls = mha.FlashInferIndicesUpdaterDecode if decoding else mha.FlashInferIndicesUpdaterPrefill
        made = cls.__new__(cls)
        vars(made).update(
            req_to_token=table, kv_indptr=parent.kv_indptr, qo_indptr=parent.qo_indptr, sliding_window_size=20,
            kv_last_page_len=torch.ones(6, dtype=torch.int32), num_qo_heads=8, num_kv_heads=2, head_dim=64,
            data_type=torch.bfloat16, q_data_type=torch.bfloat16, token_to_kv_pool_allocator=None,
            prefill_wrapper_ragged=parent.prefill_wrapper_ragged,
        )  # fmt: skip
        batch = batch_of(mode.removeprefix("window "), table, kernel)
        common = [batch.req_pool_indices, batch.seq_lens, batch.seq_lens_cpu, batch.seq_lens_sum]
        update = made.update_sliding_window if mode.startswith("window") else made.update_single_wrapper
        if decoding:
            update(*common, decode_wrappers=wrappers, encoder_lens=None, spec_info=None)
        else:
            ragged = mode in ("extend", "first")
            update(*common, batch.extend_prefix_lens, prefill_wrappers=wrappers, use_ragged=ragged, encoder_lens=None,
                   spec_info=batch.spec_info)  # fmt: skip
        told = {f"wrapper {i}": each.told for i, each in enumerate(wrappers) if hasattr(each, "told")}
        golden.setdefault("flashinfer", {})[mode] = told
    for mode in ("decode", "extend", "first", "chain"):
        table, wrapper = pages(1), Recorder()
        cls = mla.FlashInferMLAIndicesUpdaterDecode if mode == "decode" else mla.FlashInferMLAIndicesUpdaterPrefill
        made = cls.__new__(cls)
        vars(made).update(
            req_to_token=table, kv_indptr=torch.zeros(7, dtype=torch.int32),
            qo_indptr=torch.zeros(7, dtype=torch.int32), q_indptr=torch.arange(7, dtype=torch.int32), num_local_heads=4,
            kv_lora_rank=512, qk_rope_head_dim=64, scaling=0.1, data_type=torch.bfloat16,
            q_data_type=torch.bfloat16, prefill_wrapper_ragged=Recorder(), qk_nope_head_dim=128, v_head_dim=128,
        )  # fmt: skip
        batch = batch_of(mode, table, kernel)
        common = [batch.req_pool_indices, batch.seq_lens, batch.seq_lens_sum]
        if mode == "decode":
            made.update(*common, decode_wrapper=wrapper)
        else:
            made.update(*common, batch.extend_prefix_lens, prefill_wrapper_paged=wrapper, use_ragged=mode == "first",
                        spec_info=batch.spec_info)  # fmt: skip
        told = wrapper.told if hasattr(wrapper, "told") else []
        golden.setdefault("flashinfer_mla", {})[mode] = {"wrapper 0": told}


def golden_vendors(golden: dict[str, Any], load: Any, kernel: Any) -> None:
    found = load("hardware_backend.npu.attention.ascend_backend").AscendAttnBackend
    for mode in ("extend", "chain"):
        made = backend(found, 16, use_mla=True)
        run(golden, "ascend", made, 16, mode, kernel, lambda made: fields(made.forward_metadata))
    found = load("layers.attention.dual_chunk_flashattention_backend").DualChunkFlashAttentionBackend
    for mode in ("decode", "extend"):
        made = backend(found, 4, chunk_size=48, local_size=16, original_max_position_embeddings=50)
        run(golden, "dual_chunk_flash_attn", made, 4, mode, kernel, lambda made: fields(made.forward_metadata))
    found = load("layers.attention.intel_amx_backend").IntelAMXAttnBackend
    names = ("attn_logits", "max_extend_len")
    for mode in ("decode", "extend"):
        run(golden, "intel_amx", backend(found, 1, num_head=8, v_head_dim=63), 1, mode, kernel,
            lambda made: fields(SimpleNamespace(**dict(zip(names, made.forward_metadata, strict=True)))))  # fmt: skip
    found = load("layers.attention.double_sparsity_backend").DoubleSparseAttnBackend
    names = ("start_loc", "attn_logits", "max_seq_len", "min_seq_len", "max_extend_len", "ds_req_to_token")
    for mode in ("decode", "extend"):
        made = backend(
            found, 1, num_head=8, head_dim=64, heavy_token_num=256, BLOCK_SEQ=128, reduce_dtype=torch.float32
        )
        run(golden, "double_sparsity", made, 1, mode, kernel,
            lambda made: fields(SimpleNamespace(**dict(zip(names, made.forward_metadata, strict=True)),
                                                mid_out=made.__dict__.get("mid_out"))))  # fmt: skip
    csr = {"kv_indptr": torch.zeros(7, dtype=torch.int32), "qo_indptr": torch.zeros(7, dtype=torch.int32),
           "mask_indptr": torch.zeros(7, dtype=torch.int64), "num_head": 8, "num_kv_head": 2, "max_kv_splits": 8,
           "v_head_dim": 64, "static_kv_splits": False, "device_core_count": 132, "kv_last_page_len": torch.ones(
               6, dtype=torch.int32), "use_mla": False}  # fmt: skip
    found = load("layers.attention.wave_backend").WaveAttnBackend
    names = ("num_kv_splits", "kv_indptr", "kv_indices", "qo_indptr", "mask_indptr", "max_extend_len")
    sys.modules["sglang.srt.layers.attention.wave_ops.decode_attention"] = SimpleNamespace(
        decode_attention_intermediate_arrays_shapes=lambda bs, dim, heads, splits: ((1,), (1,))
    )  # type: ignore[assignment]
    for mode in ("decode", "extend", "tree"):
        made = backend(found, 1, **{**csr, "kv_indptr": torch.zeros(7, dtype=torch.int32)})
        run(golden, "wave", made, 1, mode, kernel, lambda made: fields(made.forward_metadata, names))
    module = load("layers.attention.aiter_backend")
    module._use_mla_ps_kernel = False
    names = ("kv_indptr", "kv_indices", "qo_indptr", "kv_last_page_len", "max_q_len", "max_kv_len")
    for mla in (False, True):
        made = backend(module.AiterAttnBackend, 1, **csr, is_multimodal=False)
        made.use_mla, made.qo_indptr_ = mla, torch.zeros(7, dtype=torch.int32)
        if not mla:
            updater = module.AiterIndicesUpdaterPrefill.__new__(module.AiterIndicesUpdaterPrefill)
            vars(updater).update(kv_indptr=made.kv_indptr.clone(), qo_indptr=made.qo_indptr.clone(),
                                 req_to_token=made.req_to_token)  # fmt: skip
            updater.update = updater.update_single_wrapper
            made.indices_updater_prefill = updater
        for mode in ("decode", "chain") if mla else ("decode", "extend"):
            run(golden, "aiter_mla" if mla else "aiter", made, 1, mode, kernel,
                lambda made: fields(made.forward_metadata, names))  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
