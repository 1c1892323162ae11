"""The matrix of backends and what may be asked of them: every cell is computed and compared, or refused.

`python -m tests.support.attention_matrix --rounds 20` draws fresh random batches and runs the implementations that
each backend would take on this machine; `tests/attention/test_matrix.py` runs every cell once.
"""

import argparse
import math
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from sglab.attention import Demand, UnsupportedError, create_attention_backend
from sglab.attention.arithmetic.score_functions import alibi, relative_bias
from sglab.attention.capabilities import unserved
from sglab.engine import AttentionType, ForwardBatch, ForwardMode, ScoreMod
from sglab.engine.rank_group import RankGroup
from sglab.workbench import Batch, decode_batch, extend_batch, max_error
from tests.support.attention import (
    declared,
    every_backend,
    float64_attention,
    quantize_pool,
    shape_of,
    verify_batch,
)
from tests.support.prompts import attend_share
from tests.support.spread import attend_one, on_threads

TOLERANCE = {"float32": 5e-6, "float16": 3e-3, "bfloat16": 2.5e-2}
"""For scores of 128 products; see `limit_of`."""
TREE = [-1, 0, 0, 1, 2]
GROUPS = {"hpc_ops": (4, 8)}
"""Query heads per KV head, of a backend that takes only some."""


@dataclass
class Cell:
    """A batch, and what is asked beside it."""

    batch: Batch
    forward_batch: ForwardBatch | None = None
    sinks: torch.Tensor | None = None
    slopes: torch.Tensor | None = None
    score_mod: ScoreMod | None = None
    parents: list[int] | None = None
    ranks: int = 1
    """That share the requests' context, each with its pages of the batch's."""
    prompt: bool = False
    """They share the new tokens instead."""

    @property
    def asked(self) -> ForwardBatch:
        return self.forward_batch or self.batch.forward_batch


@dataclass
class Draw:
    """What a case makes its batch from: the backend's shape, and random lengths."""

    name: str
    kind: str
    rng: random.Random
    keywords: dict[str, Any] = field(default_factory=dict)

    def shape(self, **changes: Any) -> dict[str, Any]:
        given = {key: changes.pop(key) for key in ("page_size", "dtype") if key in changes}
        made = {**shape_of(self.name, self.kind, **given), **self.keywords, **changes}
        return {**made, "layout": self.rng.choice(("contiguous", "fragmented")), "seed": self.rng.randrange(1000)}

    def lengths(self, count: int = 3, most: int = 40) -> list[int]:
        return [self.rng.randint(1, most) for _ in range(count)]

    def prefixes(self, count: int = 3) -> list[int]:
        return [0, *self.lengths(count - 1, 30)]

    def decode(self, **changes: Any) -> Batch:
        return decode_batch(self.lengths(), **self.shape(**changes))

    def extend(self, decoding: bool = False, **changes: Any) -> Batch:
        prefixes, new = self.prefixes(), self.lengths(most=12)
        lens = [p + n for p, n in zip(prefixes, new, strict=True)]
        return extend_batch(
            lens, prefixes, decode_seq_lens=self.lengths(1) if decoding else [], **self.shape(**changes)
        )

    def long(self) -> Batch:
        """An extend of enough tokens that ranks share each request's."""
        prefixes, new = self.prefixes(), [self.rng.randint(8, 20) for _ in range(3)]
        return extend_batch([p + n for p, n in zip(prefixes, new, strict=True)], prefixes, **self.shape())

    def verify(self, parents: list[int]) -> Cell:
        prefixes = self.lengths(2)
        batch = extend_batch([p + len(parents) for p in prefixes], prefixes, max_context_len=128, **self.shape())
        return Cell(batch, verify_batch(batch, prefixes, parents), parents=parents)


def _layer(batch: Batch, **fields: Any) -> Cell:
    for name, value in fields.items():
        setattr(batch.layer, name, value)
    return Cell(batch)


def _windowed(cell: Cell) -> Cell:
    cell.batch.layer.sliding_window_size = 3
    return cell


def _chunked(cell: Cell, chunk: int = 8) -> Cell:
    """Llama 4's layers, in a model whose chunks are short."""
    runner, layer = cell.batch.runner, cell.batch.layer
    runner.model_config = replace(runner.model_config, attention_chunk_size=max(chunk, runner.page_size))
    layer.use_irope = True
    return cell


def _ahead(cell: Cell) -> Cell:
    cell.batch.layer.attn_type = AttentionType.ENCODER_ONLY
    return cell


def _draft_extend(draw: Draw) -> Cell:
    batch = draw.extend()
    return Cell(batch, replace(batch.forward_batch, forward_mode=ForwardMode.DRAFT_EXTEND))


def _diffusion(draw: Draw, block: int = 4, **layer: Any) -> Cell:
    """A diffusion model's pass: one block of every request, whose tokens see each other and all before them."""
    prefixes = draw.prefixes()
    batch = extend_batch([prefix + block for prefix in prefixes], prefixes, **draw.shape())
    _layer(batch, **{"attn_type": AttentionType.ENCODER_ONLY, **layer})
    return Cell(batch, replace(batch.forward_batch, forward_mode=ForwardMode.DLLM_EXTEND))


def _sinks(draw: Draw) -> Cell:
    return _sunk(draw.extend())


def _sunk(batch: Batch) -> Cell:
    return Cell(batch, sinks=torch.linspace(-2, 3, batch.num_heads, device=batch.device))


def _images(batch: Batch, window: int = -1) -> Cell:
    """Two images in a request, one of which its prefix or its end may cut."""
    spans = []
    for length in batch.seq_lens:
        middle = length // 2
        spans.append([(0, middle - 2), (middle, length + 3)] if length > 5 else [])
    batch.forward_batch.image_spans = spans
    return _layer(batch, sliding_window_size=window)


def _alibi(cell: Cell) -> Cell:
    cell.slopes = torch.linspace(0.5, 0.01, cell.batch.num_heads, device=cell.batch.device)
    return cell


def _scored(cell: Cell) -> Cell:
    """A bias by distance, of every query token and head."""
    batch = cell.batch
    generator = torch.Generator().manual_seed(7)
    cell.score_mod = relative_bias(torch.randn(len(batch.q), batch.num_heads, 6, generator=generator).to(batch.device))
    return cell


def _fp8(dtype: torch.dtype) -> Callable[[Draw], Cell]:
    def make(draw: Draw) -> Cell:
        batch = draw.extend() if draw.rng.random() < 0.5 else draw.decode()
        scales = (None, None) if draw.kind == "mla" else (0.5, 0.25)
        quantize_pool(batch, dtype, *scales)
        return Cell(batch)

    return make


def _blocks(kv_format: str, decode: bool, **options: Any) -> Callable[[Draw], Cell | None]:
    """A pool with a scale for each block of a row."""

    def make(draw: Draw) -> Cell | None:
        if draw.kind == "mla" and kv_format != "fp4_mx_block16":
            return None
        dims = {} if draw.kind == "mla" else {"head_dim": 64, "v_head_dim": 64}
        if kv_format == "mxfp8":
            dims = {"head_dim": 128, "v_head_dim": 128, "page_size": 128}
        batch = draw.decode(**dims) if decode else draw.extend(**dims)
        scales = (0.5, 0.25) if kv_format == "nvfp4" else (None, None)
        given = options if batch.runner.page_size % 4 == 0 else {}  # native scales need pages of four
        quantize_pool(batch, torch.uint8, *scales, kv_format=kv_format, **given)
        return Cell(batch)

    return make


def _records(make: Callable[[Draw], Cell]) -> Callable[[Draw], Cell | None]:
    def made(draw: Draw) -> Cell | None:
        if draw.kind != "mla":
            return None
        cell = make(draw)
        quantize_pool(cell.batch, torch.float8_e4m3fn, records=True)
        pool = cell.batch.runner.token_to_kv_pool
        if cell.forward_batch is not None:
            cell.forward_batch = replace(cell.forward_batch, token_to_kv_pool=pool)
        return cell

    return made


def _heads(heads: int, kv_heads: int) -> Callable[[Draw], Cell | None]:
    def make(draw: Draw) -> Cell | None:
        if draw.kind == "mla":
            return Cell(draw.decode(num_heads=heads)) if kv_heads == 1 else None
        return Cell(draw.extend(num_heads=heads, num_kv_heads=kv_heads))

    return make


def _dims(head_dim: int, v_head_dim: int) -> Callable[[Draw], Cell | None]:
    def make(draw: Draw) -> Cell | None:
        if draw.kind == "mla":
            return None
        return Cell(draw.decode(head_dim=head_dim, v_head_dim=v_head_dim))

    return make


def _pages(size: int) -> Callable[[Draw], Cell]:
    return lambda draw: Cell(draw.decode(page_size=size))


def _shared(make: Callable[[Draw], Cell], ranks: int = 2) -> Callable[[Draw], Cell]:
    """Over ranks, whose pages are those that the backend would have alone."""

    def made(draw: Draw) -> Cell:
        draw.keywords["page_size"] = draw.shape()["page_size"] * ranks
        return replace(make(draw), ranks=ranks)

    return made


def _prompt(make: Callable[[Draw], Cell], ranks: int = 2) -> Callable[[Draw], Cell]:
    """A prompt whose new tokens are spread over ranks."""
    return lambda draw: replace(make(draw), ranks=ranks, prompt=True)


CASES: dict[str, Callable[[Draw], Cell | None]] = {
    "decode": lambda draw: Cell(draw.decode()),
    "extend": lambda draw: Cell(draw.extend()),
    "extend without a prefix": lambda draw: Cell(extend_batch(draw.lengths(), **draw.shape())),
    "mixed": lambda draw: Cell(draw.extend(decoding=True)),
    "draft extend": _draft_extend,
    "verify a chain": lambda draw: draw.verify([-1, 0, 1, 2]),
    "verify a tree": lambda draw: draw.verify(TREE),
    "window in decode": lambda draw: _layer(draw.decode(), sliding_window_size=3),
    "window in extend": lambda draw: _layer(draw.extend(), sliding_window_size=3),
    "window in a chain": lambda draw: _windowed(draw.verify([-1, 0, 1, 2])),
    "window in a tree": lambda draw: _windowed(draw.verify(TREE)),
    "chunks in decode": lambda draw: _chunked(Cell(draw.decode())),
    "chunks in extend": lambda draw: _chunked(Cell(draw.extend())),
    "chunks in a mixed pass": lambda draw: _chunked(Cell(draw.extend(decoding=True))),
    "chunks and a window": lambda draw: _windowed(_chunked(Cell(draw.extend()))),
    "chunks in a chain": lambda draw: _chunked(draw.verify([-1, 0, 1, 2]), 4),
    "chunks in a tree": lambda draw: _chunked(draw.verify(TREE), 4),
    "chunks in a draft extend": lambda draw: _chunked(_draft_extend(draw)),
    "chunks, sees ahead": lambda draw: _chunked(_layer(draw.extend(), attn_type=AttentionType.ENCODER_ONLY)),
    "sees ahead": lambda draw: _layer(draw.extend(), attn_type=AttentionType.ENCODER_ONLY),
    "sees ahead, mixed": lambda draw: _layer(draw.extend(decoding=True), attn_type=AttentionType.DECODER_BIDIRECTIONAL),
    "window both ways": lambda draw: _layer(draw.extend(), attn_type=AttentionType.ENCODER_ONLY, sliding_window_size=3),
    "drafts see ahead": lambda draw: _ahead(draw.verify([-1, 0, 1, 2])),
    "drafts see ahead, tree": lambda draw: _ahead(draw.verify(TREE)),
    "drafts see ahead, window": lambda draw: _windowed(_ahead(draw.verify([-1, 0, 1, 2]))),
    "diffusion block": _diffusion,
    "diffusion block, causal": lambda draw: _diffusion(draw, attn_type=AttentionType.DECODER),
    "soft cap": lambda draw: _layer(draw.extend(), logit_cap=1.5),
    "sinks": _sinks,
    "images": lambda draw: _images(draw.extend()),
    "images without a prefix": lambda draw: _images(extend_batch(draw.lengths(), **draw.shape())),
    "images in a mixed pass": lambda draw: _images(draw.extend(decoding=True)),
    "images and a window": lambda draw: _images(draw.extend(), 3),
    "images, sees ahead": lambda draw: _ahead(_images(draw.extend())),
    "images in chunks": lambda draw: _chunked(_images(draw.extend())),
    "images, scored": lambda draw: _scored(_images(draw.extend())),
    "images in decode": lambda draw: _images(draw.decode()),
    "ALiBi in decode": lambda draw: _alibi(Cell(draw.decode())),
    "ALiBi in extend": lambda draw: _alibi(Cell(draw.extend())),
    "ALiBi in a chain": lambda draw: _alibi(draw.verify([-1, 0, 1, 2])),
    "ALiBi and a window": lambda draw: _alibi(_windowed(Cell(draw.extend()))),
    "scored in decode": lambda draw: _scored(Cell(draw.decode())),
    "scored in extend": lambda draw: _scored(Cell(draw.extend())),
    "scored in a mixed pass": lambda draw: _scored(Cell(draw.extend(decoding=True))),
    "scored in a chain": lambda draw: _scored(draw.verify([-1, 0, 1, 2])),
    "scored in a tree": lambda draw: _scored(draw.verify(TREE)),
    "scored in a window": lambda draw: _scored(_windowed(Cell(draw.extend()))),
    "scored, sees ahead": lambda draw: _scored(_ahead(Cell(draw.extend()))),
    "1 head per KV head": _heads(4, 4),
    "2 heads per KV head": _heads(4, 2),
    "4 heads per KV head": _heads(8, 2),
    "8 heads per KV head": _heads(8, 1),
    "16 heads per KV head": _heads(16, 1),
    "head dim 64": _dims(64, 64),
    "head dim 128": _dims(128, 128),
    "head dim 256": _dims(256, 256),
    "head dims 192 and 128": _dims(192, 128),
    "page size 1": _pages(1),
    "page size 16": _pages(16),
    "page size 32": _pages(32),
    "page size 64": _pages(64),
    "page size 128": _pages(128),
    "FP8 KV e4m3": _fp8(torch.float8_e4m3fn),
    "FP8 KV e5m2": _fp8(torch.float8_e5m2),
    "nvfp4 KV in decode": _blocks("nvfp4", True, native_scales=True),
    "nvfp4 KV in extend": _blocks("nvfp4", False),
    "fp4_mx_block16 KV in decode": _blocks("fp4_mx_block16", True),
    "fp4_mx_block16 KV in extend": _blocks("fp4_mx_block16", False),
    "mxfp8 KV in decode": _blocks("mxfp8", True),
    "mxfp8 KV in extend": _blocks("mxfp8", False),
    "records in decode": _records(lambda draw: Cell(draw.decode())),
    "records in extend": _records(lambda draw: Cell(draw.extend())),
    "records with sinks": _records(_sinks),
    "records in a chain": _records(lambda draw: draw.verify([-1, 0, 1, 2])),
    "shared by ranks, decode": _shared(lambda draw: Cell(draw.decode())),
    "shared by ranks, extend": _shared(lambda draw: Cell(draw.extend())),
    "shared by ranks, mixed": _shared(lambda draw: Cell(draw.extend(decoding=True)), 4),
    "shared by ranks, chain": _shared(lambda draw: draw.verify([-1, 0, 1, 2])),
    "shared by ranks, tree": _shared(lambda draw: draw.verify(TREE)),
    "shared by ranks, window": _shared(lambda draw: _layer(draw.extend(), sliding_window_size=3)),
    "shared by ranks, soft cap": _shared(lambda draw: _layer(draw.extend(), logit_cap=1.5)),
    "shared by ranks, sinks": _shared(_sinks),
    "shared by ranks, sees ahead": _shared(lambda draw: _ahead(Cell(draw.extend()))),
    "shared prompt": _prompt(lambda draw: Cell(draw.long())),
    "shared prompt, three ranks": _prompt(lambda draw: Cell(draw.long()), 3),
    "shared prompt, mixed": _prompt(lambda draw: Cell(draw.extend(decoding=True))),
    "shared prompt, window": _prompt(lambda draw: _layer(draw.long(), sliding_window_size=3)),
    "shared prompt, soft cap": _prompt(lambda draw: _layer(draw.long(), logit_cap=1.5)),
    "shared prompt, sinks": _prompt(lambda draw: _sunk(draw.long())),
    "shared prompt, sees ahead": _prompt(lambda draw: _ahead(Cell(draw.long()))),
    "shared prompt, decode": _prompt(lambda draw: Cell(draw.decode())),
    "shared prompt, chain": _prompt(lambda draw: draw.verify([-1, 0, 1, 2])),
}


def demand_of(cell: Cell, kind: str) -> Demand:
    runner, asked = cell.batch.runner, cell.asked
    return Demand(
        kind=kind,
        page_size=runner.page_size if cell.prompt else runner.page_size // cell.ranks,
        mode=asked.forward_mode,
        spec_info=asked.spec_info,
        dtype=cell.batch.dtype,
        kv_dtype=runner.stored_apart,
        kv_records=runner.token_to_kv_pool.records,
        layer=cell.batch.layer,
        image_spans=asked.image_spans,
        attention_chunk_size=runner.model_config.attention_chunk_size,
        sinks=cell.sinks,
        slopes=cell.slopes,
        score_mod=cell.score_mod,
        dcp_size=1 if cell.prompt else cell.ranks,
        attn_cp_size=cell.ranks if cell.prompt else 1,
    )


def is_served(name: str, kind: str, cell: Cell) -> bool:
    """By the backend's capabilities, or its fallback's where it leaves the mode or the drafts to that."""
    takes, demand = declared(name, kind), demand_of(cell, kind)
    config = cell.batch.runner.model_config
    if name in GROUPS and config.num_attention_heads // config.num_key_value_heads not in GROUPS[name]:
        return False
    if unserved(takes, demand) is None:
        return True
    if cell.ranks > 1:  # whose own arrays are those of a share, or nobody's
        return False
    mode = Demand(mode=demand.mode, spec_info=demand.spec_info)
    own = {"kv_dtype": demand.kv_dtype, "kv_records": demand.kv_records}
    made_for = Demand(kind=kind, page_size=demand.page_size, **own)
    leaves = bool(takes.fallback) and unserved(takes, mode) is not None and unserved(takes, made_for) is None
    return leaves and unserved(declared(takes.fallback, kind), demand) is None


def attended(name: str, cell: Cell, implementation: str = "auto") -> torch.Tensor:
    batch, asked = cell.batch, cell.asked
    if cell.prompt:
        own = partial(attend_share, name=name, batch=batch, asked=asked, implementation=implementation)
        return on_threads(cell.ranks, partial(own, sinks=cell.sinks))[0]
    if cell.ranks > 1:
        given = None if cell.sinks is None else cell.sinks[: batch.num_heads // cell.ranks]

        def one(group: RankGroup) -> torch.Tensor:
            return attend_one(group, name, batch, implementation=implementation, asked=asked, sinks=given)

        return torch.cat(on_threads(cell.ranks, one), 1)
    made = create_attention_backend(name, replace(batch.runner, kernel_implementation=implementation))
    made.prepare(asked)
    layer = batch.layer  # an FP8 pool's rows are read back as they were before they were stored
    k, v = (
        rows.to(batch.dtype) * (1.0 if batch.runner.token_to_kv_pool.kv_format else scale or 1.0)
        for rows, scale in ((batch.k, layer.k_scale), (batch.v, layer.v_scale))
    )
    options: dict[str, Any] = {
        "sinks": cell.sinks,
        "slopes": cell.slopes,
        "score_mod": cell.score_mod,
        "save_kv_cache": batch.runner.kv_cache_dtype == batch.dtype,
    }
    out = made.forward(batch.q, k, v, batch.layer, asked, **options)
    return out.view(-1, batch.num_heads, batch.layer.v_head_dim)


def limit_of(made: Cell) -> float:
    """The error that rounding may make. In float32 a score's own rounding counts: it grows as the root of the number of
    its products (576 with MLA), and a GPU adds them in another order than a CPU."""
    dtype = str(made.batch.dtype).removeprefix("torch.")
    products = made.batch.layer.head_dim if dtype == "float32" else 0
    return TOLERANCE[dtype] * math.sqrt(max(products / 128, 1))


def check(name: str, kind: str, case: str, seed: int, implementation: str = "auto", device: str = "cpu") -> str:
    """Compute or be refused; "served", "refused" or "" (the case is not of this kind).

    Raises:
        AssertionError: a wrong number, a refusal of what is declared, or no refusal of what is not.
    """
    rng = random.Random(f"{name} {kind} {case} {seed}")
    made = CASES[case](Draw(name, kind, rng, {"device": device}))
    if made is None:
        return ""
    pool = made.batch.runner.token_to_kv_pool
    before = {key: buffer.view(torch.uint8).clone() for key, buffer in pool.named_buffers(0).items()}
    if not is_served(name, kind, made):
        try:
            attended(name, made, implementation)
        except UnsupportedError as refused:
            after = {key: buffer.view(torch.uint8) for key, buffer in pool.named_buffers(0).items()}
            assert all(torch.equal(before[key], after[key]) for key in before), "nothing was written"
            assert "for " in str(refused) and str(refused).endswith("."), str(refused)
            return "refused"
        raise AssertionError(f"{name} ({kind}), {case}: expected a refusal")
    out = attended(name, made, implementation)
    added = made.score_mod if made.slopes is None else alibi(made.slopes)
    error = max_error(out, float64_attention(made.batch, made.sinks, made.parents, added))
    limit = limit_of(made)
    assert error <= limit, f"{name} ({kind}), {case}, seed {seed}: error {error:.2e}, above {limit}"
    return "served"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--backend", default="")
    parser.add_argument("--implementation", default="auto")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    failed = 0
    print(f"seed {options.seed}")
    for name, kind in every_backend():
        if options.backend not in ("", name):
            continue
        for case in CASES:
            answers = set()
            for seed in range(options.seed, options.seed + options.rounds):
                try:
                    answers.add(check(name, kind, case, seed, options.implementation, options.device))
                except AssertionError as error:
                    failed += 1
                    answers.add(f"FAILED: {error}")
            print(f"{name:24} {kind:4} {case:24} {', '.join(sorted(answers)) or '-'}", flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
