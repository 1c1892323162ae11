"""FlashMLA: dense decoding and sparse attention over a latent cache, on SM90 and SM100.

It is on no index: clone https://github.com/deepseek-ai/FlashMLA with its submodules and name the folder in FLASH_MLA.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import torch

from sglab.cudart import build_extension
from tools.compatibility.case import Case, Check
from tools.compatibility.families import AbsentError, Family
from tools.compatibility.meter import Meter
from tools.compatibility.programs import RELAXED, Calls

FOLDER = "FLASH_MLA"
VALUES, PAGE, WORDS = 512, 64, 8  # width of the values, tokens of a page, ints of a part's schedule
BF16 = (2.01 / 128, 4e-3)  # rtol, atol of outputs; probabilities are rounded to bf16, values are of size 1
LSE = (1e-5, 1e-4)
_FLAGS = ("-O3", "-DNDEBUG", "-D_USE_MATH_DEFINES", "-DFLASH_MLA_DISABLE_FP16", "--use_fast_math")
_ENDS = (
    "smxx/decode/get_decoding_sched_meta/get_decoding_sched_meta.cu",
    "smxx/decode/combine/combine.cu",
)


@dataclass(frozen=True)
class _Library:
    """One kernel of FlashMLA behind a function of plain pointers.

    Attributes:
        kind: the macro of glue/flash_mla.cu.
        header: where the kernel is.
        function: that launches it.
    """

    kind: str
    header: str
    function: str

    def build(self, root: Path, arch: str, meter: Meter) -> Calls:
        define = f'#include "{self.header}"\n#define {self.kind} {self.function}\n'
        return _built(root, f"flash_mla_{self.kind.lower()}", define, arch, meter)


def _built(root: Path, name: str, first: str, arch: str, meter: Meter) -> Calls:
    glue = (Path(__file__).parent / "glue" / "flash_mla.cu").read_text()
    csrc = root / "csrc"
    include = [csrc, csrc / "kerutils/include", csrc / "sm90", csrc / "cutlass/include"]
    extension = build_extension(name, first + glue, arch, (*RELAXED, *_FLAGS), include, {"FlashMLA": _version(root)})
    return Calls(extension, meter)


def _ends(root: Path, arch: str, meter: Meter) -> Calls:
    """The schedule and the combination of splits, which all decode kernels share."""
    lines = [f'#include "{file}"\n' for file in _ENDS]
    return _built(root, "flash_mla_ends", "".join(lines) + "#define ENDS\n", arch, meter)


def family() -> Family:
    root = Path(os.environ.get(FOLDER, ""))
    if not os.environ.get(FOLDER) or not (root / "csrc/cutlass/include").is_dir():
        raise AbsentError(
            f"clone https://github.com/deepseek-ai/FlashMLA with submodules and set {FOLDER} to its folder"
        )
    return Family("FlashMLA", _version(root), [*_dense(root), *_sparse_decodes(root), *_prefills(root)])


def _version(root: Path) -> str:
    found = re.search(r'version="([\d.]+)', (root / "setup.py").read_text())
    return f"FlashMLA {found[1] if found else ''}".strip()


def _dense(root: Path) -> list[Case]:
    library = _Library("DENSE_DECODE", "sm90/decode/dense/splitkv_mla.cuh", "sm90::run_flash_splitkv_mla_kernel<Bf16>")

    def case(s_q: int, lengths: tuple[int, ...], parts: int) -> Case:
        name = f"dense decode, bf16, lengths {' and '.join(map(str, lengths))}, {s_q} tokens, {parts} parts"
        return Case(name, lambda meter: _dense_decode(root, library, meter, s_q, lengths, parts), "sm_90a")

    return [case(1, (70, 300), 1), case(1, (1, 700), 4), case(2, (130, 517), 3)]


def _dense_decode(
    root: Path, library: _Library, meter: Meter, s_q: int, lengths: tuple[int, ...], parts: int
) -> list[Check]:
    b, heads, width = len(lengths), 64, 576
    scale = width**-0.5
    columns = -(-max(lengths) // PAGE)
    q, cache = _drawn(b, s_q, heads, width), _drawn(b * columns + 1, PAGE, width)
    table = torch.randperm(b * columns + 1, dtype=torch.int32)[: b * columns].view(b, columns).contiguous()
    kept = torch.tensor(lengths, dtype=torch.int32)
    ends, splits = _ends(root, "sm_90a", meter), _Splits(b, s_q, heads, parts)
    ends("schedule", kept, splits.schedule, splits.counts, b, s_q, PAGE, 5, -1, parts)
    library.build(root, "sm_90a", meter)(
        "decode",
        *(q, cache, table, kept, *splits.outputs, splits.schedule, splits.counts),
        *(b, s_q, heads, width, len(cache), columns, parts, 1, scale),
    )
    splits.combine(ends, None)
    tokens = [cache[table[i].long()].view(-1, width)[:length].double() for i, length in enumerate(lengths)]
    expected = [_attention(q[i], tokens[i], scale, causal=True) for i in range(b)]
    out, lse = (torch.stack(each) for each in zip(*expected, strict=True))
    return [Check(splits.out, out, *BF16), Check(splits.lse, lse, *LSE)]


class _Splits:
    """What a decode kernel fills: outputs, and the parts of requests that are split, [splits, s_q, heads]."""

    def __init__(self, b: int, s_q: int, heads: int, parts: int) -> None:
        self.sizes = b, s_q, heads, parts
        self.lse = torch.full((b, s_q, heads), torch.nan)
        self.out = torch.full((b, s_q, heads, VALUES), torch.nan, dtype=torch.bfloat16)
        self.lse_parts = torch.full((b + parts, s_q, heads), torch.nan)
        self.out_parts = torch.full((b + parts, s_q, heads, VALUES), torch.nan)
        self.schedule = torch.zeros(parts, WORDS, dtype=torch.int32)
        self.counts = torch.zeros(b + 1, dtype=torch.int32)
        self.outputs = self.lse, self.out, self.lse_parts, self.out_parts

    def combine(self, ends: Calls, sink: torch.Tensor | None) -> None:
        ends("combine", *self.outputs, self.schedule, self.counts, sink, *self.sizes)


def _sparse_decodes(root: Path) -> list[Case]:
    sm90, sm100 = "sm90::decode::sparse_fp8", "sm100::decode::head64"
    small = "sm100::fwd_for_small_topk::head128"
    run = "run_flash_splitkv_mla_fp8_sparse_kernel"
    kernels = (  # GPU, heads, width, header, function
        ("sm_90a", 64, 576, "sm90/decode/sparse_fp8/splitkv_mla.cuh", f"{sm90}::{run}<ModelType::V32, 64>"),
        ("sm_90a", 128, 576, "sm90/decode/sparse_fp8/splitkv_mla.cuh", f"{sm90}::{run}<ModelType::V32, 128>"),
        ("sm_90a", 64, 512, "sm90/decode/sparse_fp8/splitkv_mla.cuh", f"{sm90}::{run}<ModelType::MODEL1, 64>"),
        ("sm_100a", 64, 576, "sm100/decode/head64/kernel.cuh", f"{sm100}::{run}<ModelType::V32>"),
        ("sm_100a", 64, 512, "sm100/decode/head64/kernel.cuh", f"{sm100}::{run}<ModelType::MODEL1>"),
        (
            *("sm_100a", 128, 512, "sm100/prefill/sparse/fwd_for_small_topk/head128/phase1.cuh"),
            f"{small}::run_fwd_for_small_topk_phase1_kernel<SparseAttnFwdMode::DecodeWithSplitKV, 512>",
        ),
    )

    def case(arch: str, heads: int, width: int, library: _Library) -> Case:
        name = f"sparse decode, fp8 cache, {heads} heads of {width}"
        if racing := library.header == "sm100/decode/head64/kernel.cuh":
            name += ", random scheduler"  # turns of 256 instructions let a warp overtake others by more than a GPU does
        return Case(
            *(name, lambda meter: _sparse_decode(root, library, meter, arch, heads, width), arch),
            scheduler="random" if racing else "fair",
        )

    return [
        case(arch, heads, width, _Library("SPARSE_DECODE", header, function))
        for arch, heads, width, header, function in kernels
    ]


def _sparse_decode(root: Path, library: _Library, meter: Meter, arch: str, heads: int, width: int) -> list[Check]:
    b, s_q, topk, pages, parts = 2, 1, 256, 6, 3
    scale = width**-0.5
    q = _drawn(b, s_q, heads, width)
    cache, block_bytes, token_bytes, tokens = _fp8_cache(pages, width)
    indices = torch.stack([torch.randperm(pages * PAGE)[:topk] for _ in range(b * s_q)]).view(b, s_q, topk).int()
    indices[0, :, 200:] = -1
    lengths = torch.tensor([topk, 150], dtype=torch.int32) if width == 512 else None
    sink = torch.randn(heads)
    overhead = 3 if (arch, heads) == ("sm_100a", 128) else 5
    ends, splits = _ends(root, arch, meter), _Splits(b, s_q, heads, parts)
    ends("schedule", lengths, splits.schedule, splits.counts, b, s_q, 64, overhead, topk, parts)
    library.build(root, arch, meter)(
        "decode",
        *(q, cache, indices, lengths, sink, *splits.outputs, splits.schedule, splits.counts),
        *(b, s_q, heads, width, pages, PAGE, block_bytes, token_bytes, topk, parts, scale),
    )
    splits.combine(ends, sink)
    wanted = [each[: lengths[i] if lengths is not None else topk] for i in range(b) for each in indices[i]]
    expected = [
        _attention(rows[None], tokens[one[one >= 0].long()], scale, sink=sink.double())
        for rows, one in zip(q.flatten(0, 1), wanted, strict=True)
    ]
    out, lse = (torch.cat(each).view(b, s_q, heads, *each[0].shape[2:]) for each in zip(*expected, strict=True))
    return [Check(splits.out, out, *BF16), Check(splits.lse, lse, *LSE)]


def _prefills(root: Path) -> list[Case]:
    sm100 = "sm100/prefill/sparse"
    kernels = (  # GPU, heads, width, header, function
        ("sm_90a", 64, 576, "sm90/prefill/sparse/phase1.cuh", "sm90::fwd::run_fwd_phase1_kernel<576, true>"),
        ("sm_100a", 64, 512, f"{sm100}/fwd/head64/phase1.cuh", "sm100::fwd::head64::run_fwd_phase1_kernel<512>"),
        ("sm_100a", 64, 576, f"{sm100}/fwd/head64/phase1.cuh", "sm100::fwd::head64::run_fwd_phase1_kernel<576>"),
        ("sm_100a", 128, 576, f"{sm100}/fwd/head128/phase1.cuh", "sm100::fwd::head128::run_fwd_phase1_kernel<576>"),
        (
            *("sm_100a", 128, 512, f"{sm100}/fwd_for_small_topk/head128/phase1.cuh"),
            "sm100::fwd_for_small_topk::head128::run_fwd_for_small_topk_phase1_kernel<SparseAttnFwdMode::Prefill, 512>",
        ),
    )

    def case(arch: str, heads: int, width: int, library: _Library) -> Case:
        name = f"sparse prefill, bf16, {heads} heads of {width}"
        return Case(name, lambda meter: _prefill(root, library, meter, arch, heads, width), arch)

    return [
        case(arch, heads, width, _Library("SPARSE_PREFILL", header, function))
        for arch, heads, width, header, function in kernels
    ]


def _prefill(root: Path, library: _Library, meter: Meter, arch: str, heads: int, width: int) -> list[Check]:
    s_q, s_kv, topk = 3, 400, 256
    scale = width**-0.5
    q, kv = _drawn(s_q, heads, width), _drawn(s_kv, width)
    indices = torch.stack([torch.randperm(s_kv)[:topk] for _ in range(s_q)]).int()
    indices[1, 100:110] = -1
    lengths = torch.tensor([topk, topk, 77], dtype=torch.int32)
    sink = torch.randn(heads)
    out = torch.full((s_q, heads, VALUES), torch.nan, dtype=torch.bfloat16)
    largest, lse = torch.full((s_q, heads), torch.nan), torch.full((s_q, heads), torch.nan)
    library.build(root, arch, meter)(
        "prefill", q, kv, indices, sink, lengths, out, largest, lse, s_q, s_kv, heads, width, topk, scale
    )
    checks = []
    for i in range(s_q):
        one = indices[i, : lengths[i]]
        tokens = kv[one[one >= 0].long()].double()
        expected, sums = _attention(q[i][None], tokens, scale, sink=sink.double())
        logits = (q[i].double() @ tokens.T * scale).max(-1).values
        checks += [Check(out[i], expected[0], *BF16), Check(lse[i], sums[0], *LSE), Check(largest[i], logits, *LSE)]
    return checks


def _drawn(*shape: int) -> torch.Tensor:
    return torch.randn(shape).bfloat16()


def _attention(
    q: torch.Tensor, tokens: torch.Tensor, scale: float, causal: bool = False, sink: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of [s_q, heads, width] to [length, width] in float64, and its natural LSE without the sink."""
    scores = q.double() @ tokens.T * scale
    if causal:
        seen = torch.ones(len(q), len(tokens), dtype=torch.bool).tril(len(tokens) - len(q))
        scores = scores.masked_fill(~seen[:, None], -torch.inf)
    lse = scores.logsumexp(-1)
    total = lse if sink is None else torch.logaddexp(lse, sink.expand_as(lse))
    return (scores - total[..., None]).exp() @ tokens[:, :VALUES], lse


_LAYOUTS: dict[int, tuple[int, int]] = {576: (512, 128), 512: (448, 64)}  # width: bytes of fp8, of them to one scale


def _fp8_cache(pages: int, width: int) -> tuple[torch.Tensor, int, int, torch.Tensor]:
    """A cache of fp8 with scales and 64 bf16 for the position; its bytes per page and token, and its tokens in float64.

    A token of 576 is 512 fp8, four fp32 scales and the bf16. A page of 512 wide tokens is 448 fp8 and the bf16 of all,
    then eight bytes of scales in e8m0 of each, the last unused; pages are a multiple of 576 bytes apart.
    """
    small, share = _LAYOUTS[width]
    scales = torch.randint(-4, 1, (pages, PAGE, small // share))
    values = (torch.randn(pages, PAGE, small) * 2).to(torch.float8_e4m3fn)
    position = _drawn(pages, PAGE, 64)
    fp8, bf16 = values.view(torch.uint8), position.view(torch.uint8)
    if width == 576:
        factors = torch.exp2(scales.float()).view(torch.uint8)
        cache = torch.cat([fp8, factors, bf16], -1).contiguous()
        token_bytes, block_bytes = cache.shape[-1], PAGE * cache.shape[-1]
    else:
        factors = torch.nn.functional.pad((scales + 127).to(torch.uint8), (0, 1))
        page = torch.cat([torch.cat([fp8, bf16], -1).flatten(1), factors.flatten(1)], -1)
        token_bytes = page.shape[-1] // PAGE
        cache = torch.nn.functional.pad(page, (0, -page.shape[-1] % 576)).contiguous()
        block_bytes = cache.shape[-1]
    large = values.double() * torch.exp2(scales.double()).repeat_interleave(share, -1)
    return cache, block_bytes, token_bytes, torch.cat([large, position.double()], -1).view(-1, width)
