"""ModelWorker: runs a planned pass through the model and samples. After SGLang's TpModelWorker and ModelRunner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch

from sglab.attention import AttentionBackend
from sglab.engine import ForwardBatch, ModelRunner, Req
from sglab.engine.batch import AdvancingBatch, ModelWorkerBatch
from sglab.engine.scheduler import PassResult, ScheduledPass
from sglab.layers import LogitsProcessor
from sglab.models import CausalLM
from sglab.serving.batch_invariant import batch_invariant
from sglab.serving.graph_runner import CudaGraphRunner
from sglab.serving.host_tokens import HostTokens
from sglab.serving.logits_adjuster import LogitsAdjuster
from sglab.serving.model_output import ModelOutput
from sglab.serving.piecewise_runner import PiecewiseGraphRunner
from sglab.serving.prompt_logprobs import PromptScores
from sglab.serving.sampler import Sampled, Sampler
from sglab.serving.sampling_info import SamplingInfo


@dataclass(frozen=True)
class PassInputs:
    """A pass as the worker takes it: nothing in it changes afterwards."""

    batch: ModelWorkerBatch
    reqs: list[Req]
    starting: list[tuple[int, Req]]
    """Rows of the request pool whose prefill this pass ends."""
    lengths: list[int]
    """The batch's `seq_lens_cpu`."""
    samples: bool
    """False: every request is in mid-prefill."""
    scores: PromptScores | None = None
    """Log probabilities of prompts that are wanted."""

    @cached_property
    def generated(self) -> list[int]:
        """Output tokens of each request before the one that this pass samples."""
        drafts = int(self.batch.forward_mode.is_target_verify())  # lengths are without the root, which was generated
        prompts = [len(req.origin_input_ids) - req.encoder_len for req in self.reqs]
        return [length - prompt + drafts for length, prompt in zip(self.lengths, prompts, strict=True)]


class Others(Protocol):
    """The ranks that hold the other shards of a model."""

    def verify(self, batch: ForwardBatch) -> torch.Tensor:
        """As ModelWorker's, on all ranks."""
        ...

    def move_rows(self, targets: torch.Tensor, sources: torch.Tensor) -> None:
        """As ModelWorker's, on the other ranks."""
        ...


class ModelWorker:
    """One model with its pools and its backend.

    Attributes:
        output_tokens: int64 [rows of the request pool + 1], what each row's last pass sampled: the input of its next
            decode, which the host need not have seen. The last entry is that of graphs' padded rows.
        graph_runner: replays decode passes; None: they run operation by operation.
        piecewise_runner: replays extend passes in pieces between their attention; None: as they are.
        others: what verifies drafts on all ranks together; None: this process has the whole model.
        states: [slots, hidden], the last hidden state of the token in each slot, for a drafter that reads them; None:
            there is none.
    """

    def __init__(self, model: CausalLM, runner: ModelRunner, backend: AttentionBackend, seed: int = 0) -> None:
        self.model, self.runner, self.backend = model, runner, backend
        device, rows = runner.device, runner.req_to_token_pool.size
        self.output_tokens = torch.zeros(rows + 1, dtype=torch.int64, device=device)
        self.sampler = Sampler(device, seed)
        self.host_tokens = HostTokens()
        self.adjuster = LogitsAdjuster(rows, model.config.vocab_size, device)
        self.graph_runner: CudaGraphRunner | None = None
        self.piecewise_runner: PiecewiseGraphRunner | None = None
        self.others: Others | None = None
        self.states: torch.Tensor | None = None
        self._sampling: tuple[list[Req], SamplingInfo] | None = None

    def inputs(self, scheduled: ScheduledPass) -> PassInputs:
        """What a pass needs of its requests, taken now."""
        batch, entries = scheduled.worker_batch, scheduled.entries
        lengths = batch.lengths if isinstance(batch, AdvancingBatch) else batch.seq_lens_cpu.tolist()
        decodes = batch.forward_mode.is_decode()
        ending = [
            (entry.req.req_pool_idx, entry.req)
            for entry in (() if decodes else entries)
            if entry.samples and not entry.decodes and entry.req.req_pool_idx is not None
        ]
        return PassInputs(
            batch=batch,
            reqs=scheduled.reqs,
            starting=ending,
            lengths=lengths,
            samples=scheduled.samples,
            scores=PromptScores.of(scheduled, self.model.config.vocab_size),
        )

    def forward(self, inputs: PassInputs) -> Callable[[], PassResult]:
        """Run a pass. Returns what waits for its tokens."""
        runner = self.graph_runner
        if runner is not None and inputs.batch.forward_mode.is_decode() and runner.advances(len(inputs.reqs)):
            return self._advance(runner, inputs)
        return self._forward(inputs)

    @torch.inference_mode()
    def _forward(self, inputs: PassInputs) -> Callable[[], PassResult]:
        batch, read = self.forward_batch(inputs.batch), None
        with batch_invariant(self.runner.enable_deterministic_inference):
            if inputs.samples:
                output = self.run_model(batch)
                hidden = output.hidden
            else:
                hidden = self.hidden_states(batch)
            if inputs.scores is not None:
                read = inputs.scores.rows.read(hidden, self.model.compute_logits)
        if not inputs.samples:
            return on_host(None, inputs, read=read)
        return on_host(self._sample_and_keep(output, batch, inputs), inputs, output.graph_bs, read)

    def _advance(self, runner: CudaGraphRunner, inputs: PassInputs) -> Callable[[], PassResult]:
        """A decode in a graph that needs no ForwardBatch."""
        batch, info = inputs.batch, self.sampling_info(inputs.reqs)
        with batch_invariant(self.runner.enable_deterministic_inference):
            output = runner.advance(batch, inputs.lengths)
            if isinstance(batch, AdvancingBatch):
                batch.rows_written = True
            if not info.is_plain_greedy or (info.may_ban and self.adjuster.bans(inputs.reqs, inputs.generated)):
                with torch.inference_mode():
                    return on_host(self._sample_and_keep(output, batch, inputs), inputs, output.graph_bs)
            tokens = runner.choose_greedily()
        waiting, graph_bs = self.host_tokens.start(tokens), output.graph_bs
        return lambda: PassResult([[token] for token in waiting()], graph_bs=graph_bs)

    def _sample_and_keep(
        self, output: ModelOutput, batch: ForwardBatch | ModelWorkerBatch, inputs: PassInputs
    ) -> Sampled:
        """Choose tokens, and have them where the next decode looks for them."""
        runner = self.graph_runner
        if runner is not None and runner.last_tokens is not None and output.graph_bs is not None:
            info = self.sampling_info(inputs.reqs)
            if info.is_plain_greedy and not self.adjuster.bans(inputs.reqs, inputs.generated):
                return Sampled(runner.sample_greedily(output))
        sampled = self.sample(output.logits, batch, inputs)
        self.output_tokens.index_copy_(0, batch.req_pool_indices, sampled.tokens)
        return sampled

    def forward_batch(self, worker_batch: ModelWorkerBatch) -> ForwardBatch:
        """The pass's tensors, with placeholders replaced by tokens; a graph that finds them itself is given none."""
        if isinstance(worker_batch, AdvancingBatch) and not worker_batch.rows_written:
            worker_batch.write_rows()
        runner = self.graph_runner
        derived = runner is not None and runner.derives(worker_batch.forward_mode, len(worker_batch.seq_lens))
        batch = ForwardBatch.init_new(worker_batch, self.runner, positions=not derived)
        if not derived:
            batch.input_ids = self._resolve(batch)
        batch.attn_backend = self.backend
        return batch

    def run_model(self, batch: ForwardBatch) -> ModelOutput:
        """A pass through the model, from a captured graph where there is one for it."""
        if self.graph_runner is not None and self.graph_runner.can_run(batch):
            return self.graph_runner.replay(batch)
        hidden = self.hidden_states(batch)
        return ModelOutput(hidden, self.model.compute_logits(LogitsProcessor.sampled_rows(hidden, batch)))

    def hidden_states(self, batch: ForwardBatch) -> torch.Tensor:
        """[tokens, hidden] after the last norm; attention always runs as it is."""
        self.backend.prepare(batch)
        assert batch.positions is not None
        if self.piecewise_runner is not None and self.piecewise_runner.can_run(batch):
            hidden = self.piecewise_runner.replay(batch)
        else:
            hidden = self.model(batch.input_ids, batch.positions, batch)
        if self.states is not None:
            self.states[batch.out_cache_loc] = hidden
        return hidden

    def verify(self, batch: ForwardBatch) -> torch.Tensor:
        """[nodes, vocab] logits of drafts."""
        if self.others is not None:
            return self.others.verify(batch)
        with batch_invariant(self.runner.enable_deterministic_inference):
            return self.model.compute_logits(self.hidden_states(batch))

    def move_rows(self, targets: torch.Tensor, sources: torch.Tensor) -> None:
        """Copy what the pools have at slots `sources` to `targets`."""
        self.runner.token_to_kv_pool.move_kv_cache(targets, sources)
        if self.states is not None:
            self.states[targets] = self.states[sources]
        if self.others is not None:
            self.others.move_rows(targets, sources)

    def sample(self, logits: torch.Tensor, batch: ForwardBatch | ModelWorkerBatch, inputs: PassInputs) -> Sampled:
        """Choose a token per request from [B, vocab] logits."""
        info = self.sampling_info(inputs.reqs)
        for row, req in inputs.starting:
            self.adjuster.start(row, req)
        adjusted = self.adjuster.adjust(logits, info, batch.req_pool_indices, inputs.reqs, inputs.generated)
        sampled = self.sampler(logits, adjusted, None if info.seeds is None else batch.seq_lens, info)
        self.adjuster.count(info, batch.req_pool_indices, sampled.tokens)
        return sampled

    def sampling_info(self, reqs: list[Req]) -> SamplingInfo:
        """The parameters of these requests; made again only when they are others than the last time."""
        if self._sampling is None or self._sampling[0] != reqs:
            self._sampling = (list(reqs), SamplingInfo.of(reqs, self.runner.device))
        return self._sampling[1]

    def _resolve(self, batch: ForwardBatch) -> torch.Tensor:
        """Input tokens, with placeholders (-1 - row) replaced by what the row's last pass sampled."""
        if batch.forward_mode.is_decode():
            return self.output_tokens.index_select(0, batch.req_pool_indices)
        if not batch.forward_mode.is_mixed():
            return batch.input_ids
        sampled = self.output_tokens[(-1 - batch.input_ids).clamp(min=0)]
        return torch.where(batch.input_ids < 0, sampled, batch.input_ids)


def on_host(
    sampled: Sampled | None, inputs: PassInputs, graph_bs: int | None = None, read: torch.Tensor | None = None
) -> Callable[[], PassResult]:
    """Start the copy to the host; the returned function waits for it.

    Args:
        sampled: None: every request is in mid-prefill.
        read: what was read for `inputs.scores`.
    """
    tensors = (*(sampled or (None,) * len(Sampled._fields)), read)
    parts = [part if part is None else part.to("cpu", non_blocking=True) for part in tensors]
    event = None
    if any(part is not None and part.is_cuda for part in tensors):
        event = torch.cuda.Event()
        event.record()

    def result() -> PassResult:
        if event is not None:
            event.synchronize()
        tokens, logprobs, top_tokens, top_logprobs, ids_logprobs, scores = parts
        ids = [[0]] * len(inputs.reqs) if tokens is None else [[token] for token in tokens.tolist()]
        found = PassResult(ids, graph_bs=graph_bs)
        if scores is not None and inputs.scores is not None:
            found.input_logprobs = inputs.scores.results(scores.tolist())
        if logprobs is None:
            return found
        found.logprobs = [[value] for value in logprobs.tolist()]
        if top_tokens is not None and top_logprobs is not None:
            rows = zip(top_tokens.tolist(), top_logprobs.tolist(), strict=True)
            found.top_logprobs = [[list(zip(*row, strict=True))] for row in rows]
        if ids_logprobs is not None:
            found.token_ids_logprobs = [[row] for row in ids_logprobs.tolist()]
        return found

    return result
