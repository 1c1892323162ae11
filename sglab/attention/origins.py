"""Where each backend comes from, whose kernels SGLang runs in it, and what is real of it here."""

from __future__ import annotations

from dataclasses import dataclass

_ARRAYS = (
    "index arrays, refusals, graphs; arithmetic in Triton on a GPU, on a CPU in our C++ kernels for its vector units"
)


@dataclass(frozen=True)
class Origin:
    """One backend.

    Attributes:
        kernels: whose kernels SGLang runs in it.
        machine: where those run.
        source: SGLang's module, under `layers/attention` unless a path says otherwise.
        here: what is real here.
        differs: what is otherwise than in SGLang; "" where nothing is known to be.
        vendor: the chip that its kernels need, where no machine of ours has one; "" else.
    """

    kernels: str
    machine: str
    source: str
    here: str = _ARRAYS
    differs: str = ""
    vendor: str = ""


ORIGINS: dict[str, Origin] = {
    "torch_native": Origin(
        "PyTorch's scaled_dot_product_attention",
        "any",
        "torch_native_backend.py",
        "all of it: the same library call",
        "soft caps and temperatures are refused (SGLang ignores them); trees and sinks are served",
    ),
    "flex_attention": Origin(
        "PyTorch's flex_attention", "any", "torch_flex_backend.py", "all of it; unfused on a CPU", ""
    ),
    "triton": Origin(
        "SGLang's Triton kernels",
        "NVIDIA, AMD, Intel GPUs",
        "triton_backend.py",
        "all of it, with our Triton kernels: on a GPU, on the emulator, under Triton's interpreter",
        "a window of w is w + 1 keys, as elsewhere (SGLang's triton takes w), and w keys ahead where tokens see ahead "
        "(SGLang's new tokens of DECODER_BIDIRECTIONAL layers have none); score functions run in PyTorch; images "
        "as fa4; of an FP4 cache the rows read are widened, not the whole pool",
    ),
    "flashinfer": Origin(
        "FlashInfer 0.7 (MHA: fa2 wrappers; MLA: BatchMLAPagedAttentionWrapper)",
        "NVIDIA from SM80",
        "flashinfer_backend.py, flashinfer_mla_backend.py",
        "index arrays, plans (`Wrapper.plan()`), routes and merges, multi-item scoring, graphs; arithmetic in Triton "
        "or our C++ kernels; "
        'with `implementation="flashinfer"` on a GPU the library\'s own kernels (fa2, fa3, MLA), '
        "in CUDA graphs, too",
        "layers with a window take the paged route; MLA follows a tree's mask; no translation into a window's own "
        "pool; encoders' keys are stored where asked for (SGLang drops them); rows of a 4-bit cache are widened to "
        "the queries' dtype (SGLang's workspace of nvfp4 is e4m3)",
    ),
    "llada2_cfg_flashinfer": Origin(
        "FlashInfer's ragged prefill under a mask; else as flashinfer",
        "NVIDIA from SM80",
        "llada2_cfg_flashinfer_backend.py",
        "the conditioning mask, its refusals; arithmetic in Triton or our C++ kernels; else as flashinfer",
        "keys and values are stored where asked for (SGLang drops them); no LLaDA model is here to make such batches",
    ),
    "fa3": Origin(
        "FlashAttention-3 (sgl-kernel)",
        "SM8x, SM9x",
        "flashattention_backend.py",
        f'{_ARRAYS}; with `implementation="flash_attn"` on a GPU the kernels of an installed package, graphs included',
        differs="sinks count once in a tree's cascade; a draft model drafts through TARGET_VERIFY; chunks are seen in "
        "mixed passes, catching up, trees and graphs of drafts, too (SGLang's layers see everything there)",
    ),
    "fa4": Origin(
        "FlashAttention-4 (CuTe DSL)",
        "SM90, SM100",
        "flashattention_backend.py",
        differs="chunks as fa3; beside an MXFP8 cache queries stay in 16 bit (0.5.23 quantises them), and rows are "
        "widened first; a diffusion model's blocks attend as any extend (0.5.23: triton's arrays, "
        "FlashAttention 4 over packed rows); score functions run in PyTorch; of an image that a chunk cuts what is "
        "there is seen (SGLang: as text)",
    ),
    "trtllm_mha": Origin(
        "TensorRT-LLM's, through FlashInfer",
        "SM100; 0.5.23 also SM90 and SM12x",
        "trtllm_mha_backend.py",
        differs="soft caps are refused (SGLang ignores them); pages of 128 also serve one query head per KV head and "
        "keys wider than values (TensorRT-LLM's kernel of SM100 does not); beside nvfp4 queries stay in 16 bit, and "
        "rows are widened first (the kernel reads them as they are); its scales lie as the kernel's do or by slot",
    ),
    "trtllm_mla": Origin(
        "TensorRT-LLM's, through FlashInfer",
        "SM100, SM12x",
        "trtllm_mla_backend.py",
        differs="queries stay in 16 bit beside an FP8 cache; absorbed prompts go to flashinfer",
    ),
    "cutedsl_mla": Origin(
        "FlashInfer's CuTe DSL kernel",
        "SM100",
        "cutedsl_mla_backend.py (0.5.23)",
        f'{_ARRAYS}; with `implementation="flashinfer"` FlashInfer\'s own kernel, on the emulator',
    ),
    "cutlass_mla": Origin(
        "CUTLASS's SM100 MLA decode",
        "SM100",
        "cutlass_mla_backend.py",
        "decode: our own SM100 and SM90 kernels under its contract, CUTLASS's own where FlashInfer is installed; other "
        "modes: flashinfer",
        "page sizes below 128 are served (SGLang sets 128)",
    ),
    "flashmla": Origin(
        "FlashMLA",
        "SM90, SM100",
        "flashmla_backend.py",
        "decode, chains and catching up: our own SM90 kernel under FlashMLA's plan, or the package's own with "
        '`implementation="flash_mla"`; other modes: flashinfer',
        "an FP8 cache is attended to in Triton or PyTorch",
    ),
    "dsa": Origin(
        "DeepGEMM's indexer, FlashMLA's sparse kernels",
        "SM90, SM100, MI300",
        "nsa_backend.py (0.5.23: dsa_backend.py)",
        "index arrays, the indexer's logits and top-k in Triton or PyTorch, attention over chosen tokens, graphs; over "
        "records FlashMLA's sparse operators in Triton or PyTorch, over rows arithmetic in Triton or our C++ kernels",
        "an FP8 pool of rows is served, too; soft caps are over rows alone; prompts are absorbed, never expanded into "
        "heads (MHA one-shot)",
    ),
    "nsa": Origin("as dsa", "as dsa", "nsa_backend.py", "the name that dsa had until 0.5.9"),
    "double_sparsity": Origin(
        "SGLang's Triton kernels",
        "NVIDIA",
        "double_sparsity_backend.py (until 0.5.9; a flag, not a name)",
        "metadata, thresholds, all three steps; in PyTorch",
        "grouped queries take the channels of their KV head; labels are gathered from the keys, not stored",
    ),
    "dual_chunk_flash_attn": Origin(
        "FlashAttention, vertical-slash sparse attention",
        "SM80 and later",
        "dual_chunk_flashattention_backend.py (until 0.5.9)",
        "index arrays, three queries, their merge, graphs of decode, and sparse prompts: lines chosen in PyTorch, "
        "attended to by our block-sparse operators in Triton or PyTorch",
        "scores that choose are float32 (SGLang's are 16 bit); a rank's first head is an argument",
    ),
    "intel_amx": Origin(
        "sgl-kernel's CPU kernels",
        "CPUs with AMX",
        "intel_amx_backend.py",
        "metadata, and our own C++ kernels under its operators' contracts: AVX2, AVX-512 and bfloat16 dot products "
        "ran; AMX's tiles are compiled, and the code around them ran on a model of the tiles",
        "every split's partial result stays (SGLang merges into the first one's place); runs without AMX",
        vendor="AMX",
    ),
    "aiter": Origin(
        "AMD's aiter",
        "MI300 and later",
        "aiter_backend.py",
        differs="no persistent-scheduling buffers of its MLA kernel; a window of w is w + 1 keys, as elsewhere "
        "(SGLang's is w in aiter's unified kernel, which alone has windows); sinks count in trees, too (SGLang drops "
        "them), and windows are refused there (SGLang drops them)",
        vendor="an AMD GPU",
    ),
    "wave": Origin("IREE's Wave", "MI300 and later", "wave_backend.py", vendor="an AMD GPU"),
    "ascend": Origin(
        "CANN's, torch_npu",
        "Ascend NPUs",
        "hardware_backend/npu/attention/ascend_backend.py",
        differs="windows are served without sinks, too; a model with an encoder and a soft cap, which SGLang leaves to "
        "PyTorch, are attended to as the rest; ALiBi has grouped queries, windows and drafts, too, and sees a cached "
        "prefix whole (SGLang's mask is that of a prompt without one)",
        vendor="an Ascend NPU",
    ),
    "intel_xpu": Origin(
        "sgl-kernel-xpu",
        "Intel GPUs with XMX",
        "xpu_backend.py",
        differs="MLA, drafts and graphs as in 0.5.23 (0.5.9 has none of them); chunks as fa3, and as long as the model "
        "says (SGLang shortens them to whole pages of the longest request); images hold in layers with a window, too "
        "(SGLang drops them where the window hides a key)",
        vendor="an Intel GPU",
    ),
    "hpc_ops": Origin("Tencent's HPC-Ops", "SM90", "hpc_ops_backend.py (0.5.23)"),
}
"""Registered name -> where it comes from."""
