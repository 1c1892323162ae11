"""Runs SGLang's own LocalAttentionMetadataBuilder on a CPU and writes the virtual batches of Llama 4's chunks.

pip download --no-deps sglang==0.5.23 && unzip -d sglang-0.5.23 sglang-0.5.23-*.whl
python tests/attention/golden/read_local_attention.py sglang-0.5.23

The file under test needs nothing of SGLang's: it is executed as it is.
"""

import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))

from read_backend_metadata import pages, plain

OUT = Path(__file__).with_name("local_attention.json")
MOST = 8
ROWS = [2, 0, 4]
PASSES = {
    "decode": ([1, 1, 1], [9, 130, 64]),
    "extend": ([5, 30, 1], [9, 130, 64]),
    "first": ([9, 33, 16], [9, 33, 16]),
    "chain": ([3, 3, 3], [12, 133, 67]),
}
"""Query rows and keys of each request."""
CHUNKS = [(4, 1), (16, 1), (48, 1), (16, 16), (32, 16), (256, 16)]
"""Tokens of a chunk and of a page: chunks that end within a request, within its new tokens, and behind it."""
NAMES = (
    "local_query_start_loc",
    "local_seqused_k",
    "local_block_table",
    "local_max_query_len",
    "local_max_seq_len",
)


def builder(module: Any, chunk: int, page: int) -> Any:
    return module.LocalAttentionMetadataBuilder(
        attention_chunk_size=chunk, page_size=page, max_context_len=384, device=torch.device("cpu"), swa_translate=None
    )


def eager(module: Any, chunk: int, page: int, new: list[int], lens: list[int]) -> dict[str, Any]:
    cu_q = torch.nn.functional.pad(torch.tensor(new).cumsum(0), (1, 0)).to(torch.int32)
    table = pages(page)[torch.tensor(ROWS), : max(lens)]
    made = builder(module, chunk, page).build(
        cu_seqlens_q=cu_q,
        cache_seqlens_int32=torch.tensor(lens, dtype=torch.int32),
        page_table=table,
        device=torch.device("cpu"),
    )
    return {name: plain(getattr(made, name)) for name in NAMES}


def replayed(module: Any, chunk: int, page: int) -> dict[str, Any]:
    """A decode graph of four requests, the last of which is padding: the captured views after a replay."""
    made, rows, lens = builder(module, chunk, page), torch.tensor([*ROWS, 0]), torch.tensor([9, 130, 64, 1])
    buffers = made.alloc_cuda_graph_buffers(MOST)
    metadata = SimpleNamespace(
        cu_seqlens_q=torch.arange(5, dtype=torch.int32),
        cache_seqlens_int32=torch.ones(4, dtype=torch.int32),
        page_table=pages(page)[torch.zeros_like(rows), ::page] // page,
    )
    metadata.local_attn_metadata = None
    metadata.local_attn_metadata = made.build_for_capture(metadata, 4, buffers=buffers)
    metadata.cache_seqlens_int32 = lens.to(torch.int32)
    metadata.page_table = pages(page)[rows, ::page] // page
    made.update_for_replay(metadata, 4, buffers=buffers)
    return {name: plain(getattr(metadata.local_attn_metadata, name)) for name in NAMES[:3]}


def main(wheel: str) -> None:
    file = Path(wheel) / "sglang/srt/layers/attention/local_attention.py"
    spec = importlib.util.spec_from_file_location("local_attention", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["local_attention"] = module  # its dataclasses look their module up
    spec.loader.exec_module(module)
    cases = [
        {"mode": mode, "chunk": chunk, "page": page, "new": new, "lens": lens}
        | {"made": eager(module, chunk, page, new, lens)}
        for chunk, page in CHUNKS
        for mode, (new, lens) in PASSES.items()
    ]
    graphs = [{"chunk": chunk, "page": page, "made": replayed(module, chunk, page)} for chunk, page in CHUNKS]
    golden = {"source": "sglang 0.5.23", "rows": ROWS, "cases": cases, "graphs": graphs}
    OUT.write_text(json.dumps(golden) + "\n", "utf-8")
    print(len(cases), len(graphs))


if __name__ == "__main__":
    main(sys.argv[1])
