"""Writes docs/backends.md: what each attention backend serves and what is real of it, read from the code.

python docs/update_backends.py            # --check: only say whether it is up to date
"""

import sys
from pathlib import Path

from sglab.attention.origins import ORIGINS
from sglab.attention.selection import VERSIONS
from sglab.attention.table import (
    absent_table,
    cp_table,
    dcp_table,
    matrix_table,
    origins_table,
    reasons_table,
    selection_table,
)

PAGE = Path(__file__).parent / "backends.md"


def page() -> str:
    vendors = ", ".join(f"`{name}` ({origin.vendor})" for name, origin in ORIGINS.items() if origin.vendor)
    return f"""# Attention backends

Written by `python docs/update_backends.py` from the code; `sglab backends` prints the same.

A backend is chosen by SGLang's name: `sglab.attend(batch, backend="fa3")`, `Engine(attention_backend="fa3")`. Each
builds the index arrays that SGLang's builds, for a pass and for a CUDA graph (`tests/attention/test_golden_metadata.py`
and test_golden_graphs.py compare them with arrays that SGLang's own modules built), serves what it declares and refuses
the rest before anything is written, naming the nearest backends that serve it.
`python -m tests.support.attention_matrix` asks every backend for everything, against float64; with `--device cuda` it
does so on a GPU (an H200, 2026-11-29, seed 424242: 942 cells served and right, 1,762 refused, 240 that are of MLA or
MHA alone, none wrong).

## What is real where

No machine here has what these backends' own kernels need, so nothing of theirs ran on such a chip: {vendors}.

{origins_table()}

## What each serves

`other modes`: the backend that serves the modes, drafts and graphs that this one does not. Of the layer options those
named are served; everything else is refused. `drafts`: what TARGET_VERIFY takes, a chain of draft tokens or a tree.
`bits`: fixed where a row's bits are promised to be the same in every batch. Of the KV dtypes, `nvfp4`,
`fp4_mx_block16` and `mxfp8` are pools with a scale for each block of a row (`kv_cache_dtype=` of the engine; their rows
are widened before attention); "in prompts": another backend decodes, through `HybridAttnBackend`. DLLM_EXTEND is a
block of a diffusion model: its tokens see each other where the layer says so (`AttentionType.ENCODER_ONLY`).

{matrix_table()}

## Contexts that ranks share

With `Engine(tp_size=2, dcp_size=2)` (SGLang's decode context parallelism) neighbouring ranks share every request: the
keys of slot s lie on rank s % dcp_size, in row s // dcp_size of its pool, for the KV heads of all these ranks.
Decoding, they gather the queries of all their heads, attend to their own keys, and join what they found by its LSE:
all-gather and reduce-scatter (`dcp_comm_backend="ag_rs"`), or one all-to-all (`"a2a"`). A prompt's new tokens attend to
each other on every rank; to their prefix as in decoding, or its keys are gathered first. With an indexer every rank has
all of its keys, and attends to what it has of the choice; there, and in a chain of drafts, each token is a request of
its own. With `ascend` pages take turns, not tokens. `sglab/attention/dcp` does so around the backend, which builds its
own arrays over its share; `tests/attention/test_dcp.py` compares them with SGLang 0.5.23's, and what ranks find
together with float64.

{dcp_table()}

Everything else is refused there by name: windows, sinks, temperatures, encoders, trees, and the other backends.
SGLang's `triton` refuses windows, sinks, masks and score functions in prompts, too, and checks none in decodes; its
`flashinfer` for MHA counts KV heads for such ranks and reads all ranks' slots as its own. Not here: drafts through the
engine, whose verification these backends have; rows of FP8 with a scale or records in `dsa`; shares in the host's pool;
`dcp_replicate_q_proj`; FlashInfer's own exchange (`fi_a2a`).

## Prompts that ranks share

With `Engine(tp_size=2, attn_cp_size=2)` (SGLang's prefill context parallelism, there `--enable-prefill-cp` besides) a
prompt's new tokens are spread over ranks, each of which has all keys and values, and all heads; with a larger tp_size
neighbours share out the heads. In a zigzag each request's new tokens are 2 · attn_cp_size blocks, the first ones longer
by one where that does not divide; rank r has block r, whose queries see few keys, and the r-th from the end. With `dsa`
the tokens of all requests take turns. A rank computes keys and values of its tokens, gathers the others' into its pool,
padded to the longest share, and attends with its own queries: its blocks, or tokens, are requests of their own to the
backend, as long as what they see. What an MLP or an expert computes over all ranks it computes of all tokens, gathered;
the last hidden states are gathered, too, and every rank has the logits. A pass is not shared, and every rank has all of
it, where a request is shorter than its blocks (in `dsa`: all together than the ranks), and in any mode but EXTEND and
MIXED: decodes, verifications and captured graphs are those of the backend alone. `sglab/attention/cp` does so around a
backend; `tests/attention/test_cp.py` compares shares and arrays with SGLang 0.5.23's, and what ranks find with float64.

{cp_table()}

Everything else is refused there by name: an encoder's layers and tokens, images, chunks, deterministic bits, pools with
scales for blocks, records in `dsa`, and the other backends; in the engine speculation, `dp_size`, `dcp_size`, piecewise
graphs, two-batch overlap, the hierarchical cache and expanded prefixes. Not here: the zigzag in two calls (SGLang's
fa3, fa4 and ascend call once for the early blocks and once for the late ones, its trtllm_mha, as here, once for both);
`ascend` over an indexer's choice; shards rounded up to a multiple for its collectives; `--moe-dp-size`, attention's
weights cut for decodes (`--enable-cp-decode-attn-tp`), layers of keys dealt out to ranks, graphs of prompts.

## Beside SGLang 0.5.23

Its modules were compared with the table where they branch and refuse: modes, drafts, graphs, page sizes, dtypes, layer
options. What that comparison found of theirs that ours refused is served by now, but what the sections above name.

What runs only in a chip's own kernels there is computed here in Triton, PyTorch or C++.

## Names that are not here

SGLang's other names are refused with these words.

{absent_table()}

## One of your own

```python
@register_attention_backend("mine")  # then: Engine(attention_backend="mine"), sglab.attend(batch, backend="mine")
class Mine(AttentionBackend):
    capabilities = Capabilities(kinds=("mla",), modes=(ForwardMode.DECODE, ForwardMode.IDLE))

    def prepare(self, forward_batch): ...  # once per pass; spans(forward_batch) are its requests' rows and slots

    def attend(self, inputs): ...  # once per layer; keys, values = save_and_get_kv(inputs), attend_rows(...)
```

Notebook [22](../notebooks/22_own_backend.ipynb) builds some, up to batch-invariant splits and a captured graph. A
shipped backend is replaced only with `replace=True`. `sglab backends mine --load my_file.py` runs a file first, and
shows what it registered.

## Made of others

In `sglab.attention.combined`: `HybridAttnBackend` (prompts through one, decoding through another),
`TboAttnBackend` (two micro-batches), `HybridLinearAttnBackend` (layers with linear attention), `attn_backend_wrapper`.

## What SGLang would choose

`select_attention_backend(hardware, model, settings, version)` follows the rules of {", ".join(VERSIONS)}: by device, by
model, by arguments, by the general table, then page sizes, fall-backs and refusals. Without arguments:

{selection_table()}

The rules that decided there, and what each gave by version (`-`: not this version's rule):

{reasons_table()}
"""


if __name__ == "__main__":
    if "--check" not in sys.argv:
        PAGE.write_text(page(), "utf-8")
    elif page() != PAGE.read_text("utf-8"):
        sys.exit("docs/backends.md is out of date: run python docs/update_backends.py")
