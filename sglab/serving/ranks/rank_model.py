"""RankModel: one rank's part of a pass. All ranks run the same passes in the same order."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import distributed

from sglab.attention import AttentionBackend, create_attention_backend
from sglab.engine import ForwardBatch, ForwardMode, HiRadixCache, HostKVPool, ModelRunner
from sglab.engine.batch import ModelWorkerBatch
from sglab.engine.batch.two_batch import cut_of, halves
from sglab.layers import LogitsProcessor, TensorParallel, collectives
from sglab.layers.dp_attention import DpBatch, DpPaddingMode
from sglab.layers.overlap import run_alternately
from sglab.models import CausalLM
from sglab.serving.batch_invariant import batch_invariant
from sglab.serving.config import EngineConfig
from sglab.serving.encoders import has_encoder
from sglab.serving.execution import InlineExecution
from sglab.serving.graph_runner import CudaGraphRunner, captures_decodes
from sglab.serving.piecewise_runner import PiecewiseGraphRunner
from sglab.serving.pools import make_pools
from sglab.serving.prompt_logprobs import PromptRows

Table = tuple[tuple[int, int, torch.Tensor], ...]
"""Of each request its row of req_to_token, where it begins, and slots from there on."""


@dataclass(frozen=True)
class GroupPass:
    """A group's pass as every rank of it runs it; tensors are on the CPU.

    Attributes:
        batch: its input_ids are tokens, not placeholders.
        table: what of req_to_token ranks may not know.
        samples: whether logits are wanted.
        prompt: rows that are read for log probabilities of prompts; None: none.
        positions: of a verification, whose tree is the batch's `spec_info`; None: as the lengths say.
    """

    batch: ModelWorkerBatch
    table: Table
    samples: bool
    prompt: PromptRows | None = None
    positions: torch.Tensor | None = None

    @property
    def rows(self) -> int:
        """Of the logits: one per request."""
        return len(self.batch.seq_lens) if self.samples else 0


@dataclass(frozen=True)
class Found:
    """What a pass of a group found.

    Attributes:
        logits: float32 [requests, vocab_size]; None: none are wanted.
        prompt: as `PromptRows.read` has it; None: none are wanted.
        graph_bs: the captured size that was replayed; None: no graph was.
    """

    logits: torch.Tensor | None = None
    prompt: torch.Tensor | None = None
    graph_bs: int | None = None


Message = tuple[GroupPass | None, ...]
"""What each group runs; None: it is idle."""


@dataclass(frozen=True)
class Moves:
    """Instead of a pass: copy KV rows from slots `sources` to `targets`, which accepted drafts now have."""

    targets: torch.Tensor
    sources: torch.Tensor


@dataclass(frozen=True)
class HostCopy:
    """Instead of a pass: copy KV rows between the device and the host's pool, on the ranks of `group`."""

    group: int
    host_slots: torch.Tensor
    device_slots: torch.Tensor
    back: bool
    """From the host to the device."""


@dataclass(frozen=True)
class Recording:
    """Instead of a pass: begin to note collectives, or end it and send what was noted with this rank's shards."""

    on: bool


class RankModel:
    """A shard with its own KV pool.

    Args:
        overlap: cut passes in two halves that take turns at collectives.

    Attributes:
        switches: of the last pass that was cut, how often the turn passed.
        graph_runner, piecewise_runner: as a ModelWorker's; every rank captures and replays its part.
        states: as a ModelWorker's, on the rank that drafts from them.
        host_pool: where rows go that the device has no room for; None: nowhere, or another object sees to it.
    """

    def __init__(
        self, model: CausalLM, runner: ModelRunner, make_backend: Callable[[], AttentionBackend], overlap: bool
    ) -> None:
        self.model, self.runner, self.switches = model, runner, 0
        self.backends = [make_backend() for _ in range(1 + overlap)]
        self.graph_runner: CudaGraphRunner | None = None
        self.piecewise_runner: PiecewiseGraphRunner | None = None
        self.states: torch.Tensor | None = None
        self.host_pool: HostKVPool | None = None

    @classmethod
    def over(cls, model: CausalLM, config: EngineConfig) -> RankModel:
        """A shard over pools and a backend of its own."""
        pools = make_pools(model, config, InlineExecution().submit)
        made = cls.on(model, pools.runner, config)
        if isinstance(pools.tree_cache, HiRadixCache):
            made.host_pool = pools.tree_cache.host_pool
        return made

    @classmethod
    def on(cls, model: CausalLM, runner: ModelRunner, config: EngineConfig) -> RankModel:
        """A shard over pools that there are. Captures graphs where they are asked for, as all ranks must at once."""
        name, two = config.backend(model.device.type), config.enable_two_batch_overlap
        made = cls(model, runner, partial(create_attention_backend, name, runner), two)
        with batch_invariant(config.enable_deterministic_inference):
            if captures_decodes(config, made.backends[0], model.device.type, has_encoder(model)):
                made.graph_runner = CudaGraphRunner(model, runner, made.backends[0], config.capture_sizes())
            if config.enable_piecewise_cuda_graph:
                sizes = config.capture_tokens()
                made.piecewise_runner = PiecewiseGraphRunner(model, runner, made.backends[0], sizes)
        return made

    @torch.inference_mode()
    def run(self, message: Message) -> list[Found]:
        """Run a pass.

        Returns:
            On rank 0 what each group's pass found; elsewhere nothing of use.
        """
        tp, device = self.model.tp, self.runner.device
        collectives.begin_pass(lambda: pass_start(message, tp))
        found = [Found()] * len(message)
        parts = split(message) if len(self.backends) > 1 else None
        if parts is None:
            found[tp.dp_rank] = self._share(message, self.backends[0])
        else:
            runs = [partial(self._share, part.message, backend) for part, backend in zip(parts, self.backends)]  # noqa: B905
            first, second, self.switches = run_alternately(runs[0], runs[1])
            found[tp.dp_rank] = parts[0].joined(tp.dp_rank, first, second)
        for group, one in enumerate(message):
            leader = group * (tp.size // tp.dp_size)
            if one is None or leader == 0 or tp.rank not in (0, leader):
                continue
            logits = prompt = None
            if one.samples:
                shape = (one.rows, self.model.config.vocab_size)
                logits = to_rank_0(found[group].logits, torch.empty(shape, device=device), leader, tp, "logits")
            if one.prompt is not None:
                empty = torch.empty(len(one.prompt.rows), one.prompt.columns, dtype=torch.float64, device=device)
                prompt = to_rank_0(found[group].prompt, empty, leader, tp, "log probabilities")
            found[group] = Found(logits, prompt)
        return found

    def _share(self, message: Message, backend: AttentionBackend) -> Found:
        """This rank's part of a pass."""
        mine = message[self.model.tp.dp_rank]
        batch = self._forward_batch(mine)
        batch.attn_backend = backend
        if self.model.tp.dp_size > 1:
            batch.dp = dp_batch(message, self.model.tp)
        with batch_invariant(self.runner.enable_deterministic_inference):
            if self.graph_runner is not None and self.graph_runner.can_run(batch):
                output = self.graph_runner.replay(batch)
                return Found(output.logits, graph_bs=output.graph_bs)
            if mine is not None:
                backend.prepare(batch)
            assert batch.positions is not None
            if self.piecewise_runner is not None and self.piecewise_runner.can_run(batch):
                hidden = self.piecewise_runner.replay(batch)
            else:
                hidden = self.model(batch.input_ids, batch.positions, batch)
            if mine is None:
                return Found()
            if self.states is not None:
                self.states[batch.out_cache_loc] = hidden
            prompt = None if mine.prompt is None else mine.prompt.read(hidden, self.model.compute_logits)
            if not mine.samples:
                return Found(None, prompt)
            return Found(self.model.compute_logits(LogitsProcessor.sampled_rows(hidden, batch)), prompt)

    def _forward_batch(self, mine: GroupPass | None) -> ForwardBatch:
        if mine is None:
            empty = torch.empty(0, dtype=torch.int64)
            idle = ModelWorkerBatch(ForwardMode.IDLE, empty, empty, empty, empty, empty, 0)
            batch = ForwardBatch.init_new(idle, self.runner)
        else:
            table = self.runner.req_to_token_pool.req_to_token
            for row, start, slots in mine.table:
                table[row, start : start + len(slots)] = slots.to(table.device, table.dtype)
            batch = ForwardBatch.init_new(mine.batch, self.runner)
            if mine.positions is not None:
                batch.positions = mine.positions.to(self.runner.device)
                mask = batch.spec_info.custom_mask.to(self.runner.device)
                batch.spec_info = replace(batch.spec_info, custom_mask=mask)
        return batch

    def close(self) -> None:
        """Destroy its graphs: NCCL waits, without end, before it leaves a group whose collectives a graph still has."""
        for captured in (self.graph_runner, self.piecewise_runner):
            if captured is not None:
                captured.close()

    def move_rows(self, moves: Moves) -> None:
        """Carry accepted drafts to where they are from now on."""
        device = self.runner.device
        self.runner.token_to_kv_pool.move_kv_cache(moves.targets.to(device), moves.sources.to(device))

    def copy_rows(self, copy: HostCopy) -> None:
        """Bring rows to the host or back."""
        if self.host_pool is None or copy.group != self.model.tp.dp_rank:
            return
        slots = copy.device_slots.to(self.runner.device)
        (self.host_pool.load if copy.back else self.host_pool.backup)(copy.host_slots, slots)


@dataclass(frozen=True)
class Half:
    """One of the two passes that a pass was cut into; `cut_through` says of which groups a request was cut."""

    message: Message
    cut_through: tuple[bool, ...]

    def joined(self, group: int, first: Found, second: Found) -> Found:
        """What both halves of a group found; logits are one row per request: of one that was cut the second half's."""
        prompts = [one.prompt for one in (first, second) if one.prompt is not None]
        prompt = torch.cat(prompts) if prompts else None
        if first.logits is None or second.logits is None:
            return Found(second.logits, prompt)
        logits = torch.cat((first.logits[: len(first.logits) - self.cut_through[group]], second.logits))
        return Found(logits, prompt)


def split(message: Message) -> tuple[Half, Half] | None:
    """Two halves of every group's pass; None: some group has not enough for two. All ranks come to the same."""
    pairs: list[tuple[GroupPass | None, GroupPass | None]] = []
    through = []
    for one in message:
        if one is None:
            pairs.append((None, None))
            through.append(False)
            continue
        cut = cut_of(one.batch.extend_seq_lens, len(one.batch.seq_lens))
        if cut is None:
            return None
        first, second = halves(one.batch, cut)
        rows = one.prompt
        before = None if rows is None else rows.part(0, cut.tokens)
        after = None if rows is None else rows.part(cut.tokens, len(one.batch.input_ids))
        one = replace(one, prompt=before)
        pairs.append((replace(one, batch=first), replace(one, batch=second, table=(), prompt=after)))
        through.append(cut.through)
    return Half(tuple(a for a, _ in pairs), tuple(through)), Half(tuple(b for _, b in pairs), tuple(through))


def to_rank_0(
    mine: torch.Tensor | None, empty: torch.Tensor, leader: int, tp: TensorParallel, what: str
) -> torch.Tensor:
    """Send a group's tensor from its first rank to rank 0, which receives it in `empty`."""
    what += " to rank 0"
    if tp.rank != leader:
        with collectives.noted("recv", empty, what=what, ranks=(leader, 0)):
            distributed.recv(empty, leader)
        return empty
    assert mine is not None
    with collectives.noted("send", mine, what=what, ranks=(leader, 0)):
        distributed.send(mine.contiguous(), 0)
    return mine


def dp_batch(message: Message, tp: TensorParallel) -> DpBatch:
    """How the groups' tokens are laid out."""
    counts = tuple(0 if one is None else len(one.batch.input_ids) for one in message)
    extends = any(one is not None and one.batch.forward_mode.is_extend() for one in message)
    return DpBatch(counts, DpPaddingMode.get_dp_padding_mode(extends, counts), tp, extends)


def pass_start(message: Message, tp: TensorParallel) -> collectives.PassStart:
    """A pass as this rank's recording has it."""
    layout = dp_batch(message, tp)
    mine, rows = message[tp.dp_rank], 0
    if tp.dp_size > 1:
        sums = layout.mode is DpPaddingMode.SUM_LEN
        rows = sum(layout.num_tokens) if sums else layout.rows * tp.dp_size
    tokens: tuple[tuple[int, ...], ...] = ()
    if mine is not None and mine.batch.extend_seq_lens and not any(mine.batch.extend_prefix_lens or (1,)):
        parts = mine.batch.input_ids.split(list(mine.batch.extend_seq_lens))
        tokens = tuple(tuple(part.tolist()) for part in parts)
    mode = "IDLE" if mine is None else mine.batch.forward_mode.name
    padding = layout.mode.name if tp.dp_size > 1 else ""
    return collectives.PassStart(mode, layout.num_tokens, padding, rows, time.monotonic_ns(), tokens)


def table_of(batch: ModelWorkerBatch, runner: ModelRunner) -> Table:
    """The slots of a planned pass's requests that ranks may not know, on the CPU: of drafts, too.

    Of a decode these are its tokens', and all of a row in which the radix tree had other slots for the same tokens.
    """
    pool, rows = runner.req_to_token_pool, batch.req_pool_indices.tolist()
    table, replaced = pool.req_to_token, pool.replaced
    lengths: Sequence[int] = batch.seq_lens_cpu.tolist()
    if batch.encoder_lens_cpu is not None:  # rows begin with the encoder's tokens
        lengths = [length + encoded for length, encoded in zip(lengths, batch.encoder_lens_cpu, strict=True)]
    drafts = len(batch.out_cache_loc) // len(rows) if batch.forward_mode.is_target_verify() else 0
    known = batch.forward_mode.is_decode() or drafts
    spans = [
        (row, length - 1 if known and row not in replaced else 0, length + drafts)
        for row, length in zip(rows, lengths, strict=True)
    ]
    replaced.difference_update(rows)
    return tuple((row, start, table[row, start:end].cpu().clone()) for row, start, end in spans)


def on_cpu(batch: ModelWorkerBatch, **changes: torch.Tensor) -> ModelWorkerBatch:
    """A planned pass with its tensors where they can be sent from; `changes`: others in their place."""
    tensors = {name: one for name, one in vars(batch).items() if isinstance(one, torch.Tensor)}
    moved: dict[str, Any] = {name: one.cpu() for name, one in (tensors | changes).items()}
    if batch.encoder_input_ids is not None:
        moved["encoder_input_ids"] = [tokens.cpu() for tokens in batch.encoder_input_ids]
    return replace(batch, **moved)
