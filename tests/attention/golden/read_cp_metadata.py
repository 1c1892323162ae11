"""Runs SGLang 0.5.23's own functions for prompts that ranks share (attn_cp_size) on a CPU, and writes their arrays.

pip download --no-deps sglang==0.5.23 && unzip -d sglang-0.5.23 sglang-0.5.23-*.whl
TRITON_INTERPRET=1 python tests/attention/golden/read_cp_metadata.py sglang-0.5.23

As `read_backend_metadata.py`, whose stand-ins it uses.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))

import read_backend_metadata as stand_ins
from read_backend_metadata import Finder, on_the_cpu, pages

from sglab.engine import ForwardMode

OUT = Path(__file__).with_name("cp_metadata.json")
REAL = (
    "sglang.srt.layers.cp.base",
    "sglang.srt.layers.cp.interleave",
    "sglang.srt.layers.cp.padding",
    "sglang.srt.layers.cp.utils",
    "sglang.srt.layers.cp.zigzag",
    "sglang.kernels.ops.attention.dsa.cp_split",
    "sglang.srt.layers.attention.trtllm_mha_backend",
)
PAGE = 16
CASES = {
    "two requests": ([2, 0], [0, 96], [37, 34]),
    "one, a prefix": ([4], [60], [8]),
    "three": ([1, 5, 3], [3, 0, 16], [16, 9, 100]),
}
"""Rows of req_to_token, prefixes and new tokens."""
SHORT = ([8, 7], [4, 40], [3], [1, 1, 1], [1])
"""New tokens of batches that some number of ranks does not share."""
ZIGZAG = (
    "per_rank_actual_token",
    "kv_len_prev_tensor",
    "kv_len_next_tensor",
    "cu_seqlens_q_prev_tensor",
    "cu_seqlens_q_next_tensor",
    "kv_len_combined_tensor",
    "cu_seqlens_q_combined_tensor",
    "cu_seqlens_kv_combined_tensor",
    "max_seqlen_q_combined",
)


def plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, torch.Tensor) else value


class Gathering:
    """A group whose ranks' rows are all here: what each gives is what its own `shard_hidden_states` kept."""

    def __init__(self, parts: list[torch.Tensor]) -> None:
        self.parts = parts

    def all_gather_into_tensor(self, out: torch.Tensor, x: torch.Tensor) -> None:
        rows = len(out) // len(self.parts)
        padded = [torch.nn.functional.pad(part[:rows], (0, 0, 0, rows - len(part[:rows]))) for part in self.parts]
        out.copy_(torch.cat(padded))


def batch_of(new: list[int], mode: ForwardMode = ForwardMode.EXTEND) -> SimpleNamespace:
    return SimpleNamespace(forward_mode=mode, extend_seq_lens_cpu=new, input_ids=torch.zeros(sum(new)))


def of_strategy(load: Any, kind: str, size: int, case: tuple[list[int], ...]) -> list[dict[str, Any]]:
    """What each rank makes of a batch."""
    rows, prefixes, new = case
    module = load(f"srt.layers.cp.{kind}")
    strategy = {"zigzag": "ZigzagCPStrategy", "interleave": "InterleaveCPStrategy"}[kind]
    ranks = []
    for rank in range(size):
        parallel = SimpleNamespace(attn_cp_size=size, attn_cp_rank=rank)
        for each in (load("srt.layers.cp.base"), load("srt.layers.cp.padding"), module):
            each.get_parallel = lambda parallel=parallel: parallel
        made = getattr(module, strategy)(cp_size=size)
        lens = [p + n for p, n in zip(prefixes, new, strict=True)]
        batch = batch_of(new)
        batch.attn_cp_metadata = meta = made.build_metadata(sum(new), lens, list(new))
        ids = torch.arange(sum(new))[:, None]
        ranks.append((parallel, made, batch, meta, made.shard_hidden_states(ids, batch)))
    found = []
    for parallel, made, batch, meta, own in ranks:
        group = Gathering([each[-1] for each in ranks])
        parallel.attn_cp_group = group
        for each in (load("srt.layers.cp.base"), load("srt.layers.cp.padding"), module):
            each.get_parallel = lambda parallel=parallel: parallel
        module.attn_cp_all_gather_into_tensor = group.all_gather_into_tensor
        module.use_symmetric_memory = lambda *args, **options: __import__("contextlib").nullcontext()
        arrays = {name: plain(getattr(meta, name)) for name in ZIGZAG if hasattr(meta, name)}
        arrays["own"] = own[:, 0].tolist()
        arrays["gathered"] = made.gather_kv_cache(own, batch)[:, 0].tolist()
        if kind == "interleave":
            seen = torch.tensor([p + i + 1 for p, n in zip(prefixes, new, strict=True) for i in range(n)])
            arrays["seqlens_expanded"] = made.shard_local_tokens(seen).tolist()
            per_request = made.shard_per_request(new, torch.tensor(new, dtype=torch.int32))
            arrays["q_lens"], arrays["requests"] = plain(per_request[0]), plain(per_request[2])
        else:
            trtllm, table = load("srt.layers.attention.trtllm_mha_backend"), pages(PAGE)
            trtllm.is_cp_active = lambda batch: True
            own_pages = table[rows][:, ::PAGE] // PAGE
            built = SimpleNamespace(page_table=own_pages, swa_page_table=None)
            trtllm.TRTLLMHAAttnBackend._maybe_build_cp_zigzag_page_tables(None, built, batch)
            arrays["zigzag_page_table"] = built.zigzag_page_table.tolist()
        found.append(arrays)
    return found


def shared(load: Any, kind: str, size: int) -> dict[str, bool]:
    """Which batches are spread over ranks at all."""
    module = load(f"srt.layers.cp.{kind}")
    strategy = {"zigzag": "ZigzagCPStrategy", "interleave": "InterleaveCPStrategy"}[kind]
    made = getattr(module, strategy)(cp_size=size)
    modes = ("EXTEND", "MIXED", "DECODE", "TARGET_VERIFY", "DRAFT_EXTEND_V2", "SPLIT_PREFILL", "IDLE")
    found = {f"{mode} [40, 40]": made.can_apply(80, batch_of([40, 40], ForwardMode[mode])) for mode in modes}
    return found | {f"EXTEND {new}": made.can_apply(sum(new), batch_of(new)) for new in SHORT}


def main(wheel: str) -> None:
    stand_ins.REAL = REAL
    sys.meta_path.insert(0, Finder(Path(wheel)))
    on_the_cpu()
    ForwardMode.is_context_parallel_extend = lambda mode: (
        mode
        in (  # type: ignore[attr-defined]
            ForwardMode.EXTEND,
            ForwardMode.MIXED,
        )
    )
    load = lambda name: __import__(f"sglang.{name}", fromlist=["x"])  # noqa: E731
    kinds, sizes = ("zigzag", "interleave"), (2, 4)
    made: dict[str, Any] = {"source": "sglang 0.5.23", "page": PAGE, "cases": CASES, "table": pages(PAGE).tolist()}
    made["ranks"] = {
        f"{kind}, {size}, {name}": of_strategy(load, kind, size, case)
        for kind in kinds
        for size in sizes
        for name, case in CASES.items()
        if kind == "interleave" or min(case[2]) >= 2 * size
    }
    made["shared"] = {f"{kind}, {size}": shared(load, kind, size) for kind in kinds for size in sizes}
    OUT.write_text(json.dumps(made) + "\n", "utf-8")
    print(json.dumps(made["ranks"]["zigzag, 2, two requests"]), made["shared"])


if __name__ == "__main__":
    main(sys.argv[1])
