"""Runs SGLang 0.5.23's own functions for contexts that ranks share (dcp_size) on a CPU, and writes their arrays.

pip download --no-deps sglang==0.5.23 && unzip -d sglang-0.5.23 sglang-0.5.23-*.whl
TRITON_INTERPRET=1 python tests/attention/golden/read_dcp_metadata.py sglang-0.5.23

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

OUT = Path(__file__).with_name("dcp_metadata.json")
REAL = (
    "sglang.kernels.ops.attention.dcp_kernels",
    "sglang.kernels.ops.attention.kv_indices",
    "sglang.srt.layers.dcp.comm",
    "sglang.srt.layers.dcp.layout",
    "sglang.srt.layers.dcp.metadata",
    "sglang.srt.layers.dcp.planner",
    "sglang.kernels.ops.attention.dsa.transform_index",
    "sglang.srt.hardware_backend.npu.attention.ascend_backend",
    "sglang.srt.layers.attention.triton_backend",
    "sglang.srt.layers.attention.xpu_backend",
)
ROWS, LENS = [2, 0, 4], [1, 130, 64]
CHOSEN = [[0, -1, -1, -1, -1, -1], [129, 3, 64, 65, 2, 100], [7, 63, 5, 4, -1, -1]]
"""Positions in the requests of the decode that an indexer chose, −1 for none."""
DRAFTS = 3
PREFIXES, NEW = [8, 96, 60], [3, 34, 10]
"""SGLang gathers prefixes of whole pages of the ranks' together."""


def list_of(tensor: torch.Tensor) -> list[Any]:
    return tensor.tolist()


def of_rank(load: Any, page: int, size: int, rank: int) -> dict[str, Any]:
    """The arrays of one rank, whose pages have `page` slots."""
    table, rows, lens = pages(page * size), torch.tensor(ROWS), torch.tensor(LENS)
    parallel = SimpleNamespace(dcp_size=size, dcp_rank=rank, dcp_enabled=True)
    layout, planner = load("srt.layers.dcp.layout"), load("srt.layers.dcp.planner")
    layout.get_parallel = planner.get_parallel = lambda: parallel
    planner.get_device = lambda: SimpleNamespace(device="cpu")
    translate = SimpleNamespace(translate_dcp_read_ids=lambda ids: ids // size)
    planner.get_attn_backend = lambda: SimpleNamespace(kv_index_translator=translate)
    kernels, indices = load("kernels.ops.attention.dcp_kernels"), load("kernels.ops.attention.kv_indices")
    made: dict[str, Any] = {}

    triton = load("srt.layers.attention.triton_backend")
    triton.create_triton_kv_indices_for_dcp_triton = kernels.create_triton_kv_indices_for_dcp_triton
    triton.get_dcp_lens = layout.get_dcp_lens
    backend = SimpleNamespace(dcp_size=size, dcp_rank=rank, req_to_token=table, device="cpu")
    backend._dcp_lens = lambda *args: triton.TritonAttnBackend._dcp_lens(backend, *args)
    for mode, counts in (("decode", lens), ("extend", torch.tensor(PREFIXES))):
        indptr = torch.zeros(7, dtype=torch.int32)
        found = triton.TritonAttnBackend._dcp_kv_indices(backend, rows, counts, indptr)
        made[f"triton, {mode}"] = dict(zip(("kv_indptr", "kv_indices"), map(list_of, found[:2]), strict=True))

    kv_lens, kv_indptr = lens.to(torch.int32), torch.zeros(4, dtype=torch.int32)
    kv_indptr[1:] = torch.cumsum(kv_lens, 0)
    slots = torch.cat([table[row, :length] for row, length in zip(ROWS, LENS, strict=True)])
    count = planner.plan_dcp_decode_metadata(kv_lens, kv_indptr, slots, False, {}, 3)
    made["flashinfer, decode"] = {"kv_indptr": list_of(kv_indptr), "kv_indices": list_of(slots[:count] // size)}

    prefix = planner.prepare_decode_context_parallel_metadata(
        torch.tensor([p + n for p, n in zip(PREFIXES, NEW, strict=True)]),
        torch.tensor(PREFIXES, dtype=torch.int32),
        PREFIXES,
        torch.tensor(NEW, dtype=torch.int32),
        rows,
        table,
        sum(PREFIXES) + sum(NEW),
        torch.Size((8, 1, 576)),
        torch.bfloat16,
        "cpu",
        indices.create_chunked_prefix_cache_kv_indices,
    )
    names = ("dcp_kv_indptr", "dcp_kv_indices", "dcp_local_prefix_kv_indices")
    made["gathered, extend"] = {name: list_of(getattr(prefix, name)) for name in names}

    local = layout.get_dcp_lens(lens, size, rank).to(torch.int32)
    blocks = torch.full((3, 384 // page // size), -1, dtype=torch.int32)
    kernels.create_mla_kv_page_table_for_dcp[(3, 1)](
        *(table, rows, local, blocks, None, table.stride(0), blocks.stride(0)),
        PHYSICAL_PAGE_SIZE=page,
        DCP_SIZE=size,
        DCP_RANK=rank,
        PAGES_PER_BLOCK=512,
        HAS_V2P=False,
    )
    made["trtllm_mla, decode"] = {"block_kv_indices": list_of(blocks), "seq_lens_k": list_of(local)}

    xpu = load("srt.layers.attention.xpu_backend")
    for mode, counts in (("decode", lens), ("extend", torch.tensor(PREFIXES))):
        local = layout.get_dcp_lens(counts, size, rank)
        found = xpu._dcp_shard_page_table(table, rows, page, size, rank, int(local.max()))
        made[f"intel_xpu, {mode}"] = {"cache_seqlens_int32": list_of(local), "page_table": list_of(found)}
    chosen = torch.tensor(CHOSEN, dtype=torch.int32)
    slots = torch.where(chosen >= 0, table[rows].gather(1, chosen.clamp(min=0).long()), -1)
    transform = load("kernels.ops.attention.dsa.transform_index").transform_index_page_table_dcp
    made["dsa, chosen"] = dict(zip(("slots", "counts"), map(list_of, transform(slots, size, rank)), strict=True))

    ascend = load("srt.hardware_backend.npu.attention.ascend_backend")
    ascend.get_parallel = lambda: SimpleNamespace(attn_dcp_size=size, attn_dcp_rank=rank)
    ascend.get_dcp_lens, ascend.get_dcp_chain_spec_lens = layout.get_dcp_lens, layout.get_dcp_chain_spec_lens
    backend = SimpleNamespace(page_size=page, req_to_token=table, speculative_num_draft_tokens=DRAFTS)
    tables = ascend.AscendAttnBackend._get_kv_lens_and_block_tables
    both = ("seq_lens", "block_tables")
    made["ascend, decode"] = dict(zip(both, map(list_of, tables(backend, lens, rows)), strict=True))
    drafted = map(list_of, tables(backend, lens + DRAFTS, rows, is_spec=True))
    made["ascend, chain"] = dict(zip(both, drafted, strict=True))
    made["ascend, chosen"] = {"positions": list_of(layout.remap_dcp_sparse_indices(chosen, size, rank, page))}
    return made


def merged(load: Any) -> dict[str, Any]:
    """Partial results of three ranks for six heads, one of them without a key, and what each rank makes of them."""
    comm, size = load("srt.layers.dcp.comm"), 3
    generator = torch.Generator().manual_seed(0)
    o = torch.randn((size, 4, 6, 2), generator=generator)
    lse = torch.randn((size, 4, 6), generator=generator) * 3
    lse[1, 2], o[1, 2] = float("-inf"), 0
    scaled: list[torch.Tensor] = []
    for rank in range(size):
        group = SimpleNamespace(world_size=size, rank_in_group=rank)
        group.all_gather = lambda x, dim: lse.flatten(0, 1)
        group.all_reduce = lambda x: (x, scaled.append(x.clone()))[0]  # type: ignore[func-returns-value]
        comm.cp_lse_ag_out_rs_mha(o[rank].clone(), lse[rank], group)
    whole = sum(scaled)
    assert isinstance(whole, torch.Tensor)
    finite = lse.nan_to_num(neginf=-1e30)
    return {"o": list_of(o), "lse": list_of(finite), "merged": list_of(whole)}


def main(wheel: str) -> None:
    stand_ins.REAL = REAL
    sys.meta_path.insert(0, Finder(Path(wheel)))
    on_the_cpu()
    load = lambda name: __import__(f"sglang.{name}", fromlist=["x"])  # noqa: E731
    golden: dict[str, dict[str, Any]] = {
        f"page {page}, rank {rank} of {size}": {
            "page": page,
            "size": size,
            "rank": rank,
            "arrays": of_rank(load, page, size, rank),
        }
        for page, size in ((1, 2), (4, 4), (32, 4), (64, 2))
        for rank in range(size)
    }
    tables = {
        str(size): list_of(pages(size)) for size in sorted({each["page"] * each["size"] for each in golden.values()})
    }
    given = {"rows": ROWS, "lens": LENS, "prefixes": PREFIXES, "new": NEW, "chosen": CHOSEN, "drafts": DRAFTS}
    made = {"source": "sglang 0.5.23", **given, "tables": tables, "ranks": golden, "merged": merged(load)}
    OUT.write_text(json.dumps(made) + "\n", "utf-8")
    print({name: list(each["arrays"]) for name, each in golden.items()})


if __name__ == "__main__":
    main(sys.argv[1])
