"""Requests, and the batches they are put in on their way to the kernels. Each type is made from the one before it:

- `Req`: one request, its tokens and what it holds of the pools; `SamplingParams`: how its tokens are chosen; `Finish…`:
  why it ended.
- `ScheduleBatch`: requests that run together, mostly host data; allocates their slots. The scheduler makes it.
- `ModelWorkerBatch`: what of it one forward pass needs; `ScheduleBatch.get_model_worker_batch` makes it.
- `ForwardBatch`: the pass's tensors on the device, with positions: what models and attention backends read;
  `ForwardBatch.init_new` makes it.
- `GraphBatch`: what a CUDA graph's metadata is made from, at one captured size; `GraphBatch.of` or a graph runner.

The names are SGLang's. `sglab.workbench.Batch` is none of these stages: it is the batch to look at and to edit, which
keeps requests, pools and query rows together and makes a new `ForwardBatch` after every edit.
"""

from sglab.engine.batch.finish import FinishAbort, FinishLength, FinishMatchedStr, FinishMatchedToken, FinishReason
from sglab.engine.batch.forward_batch import AttnBackend, ChoosingBackend, ForwardBatch
from sglab.engine.batch.forward_mode import ForwardMode
from sglab.engine.batch.graph_batch import GraphBatch
from sglab.engine.batch.req import Req
from sglab.engine.batch.sampling_params import SamplingParams
from sglab.engine.batch.schedule_batch import AdvancingBatch, ModelWorkerBatch, ScheduleBatch
from sglab.engine.batch.token_logprob import TokenLogprob

__all__ = [
    "AdvancingBatch",
    "AttnBackend",
    "ChoosingBackend",
    "FinishAbort",
    "FinishLength",
    "FinishMatchedStr",
    "FinishMatchedToken",
    "FinishReason",
    "ForwardBatch",
    "ForwardMode",
    "GraphBatch",
    "ModelWorkerBatch",
    "Req",
    "SamplingParams",
    "ScheduleBatch",
    "TokenLogprob",
]
