"""What a mixture's router does, pass by pass and layer by layer: logits, choices, weights, and the load they make."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from sglab.engine import ForwardBatch
from sglab.engine.errors import BadArgumentError
from sglab.kernels import fused_experts, moe_align_block_size
from sglab.layers.moe import ExpertLocation, FusedMoE, TopK, rebalance_experts
from sglab.layers.moe.topk import Routing
from sglab.models import CausalLM
from sglab.serving import Engine
from sglab.words import plural


@dataclass(frozen=True, eq=False)
class Mixture:
    """A layer with experts.

    Attributes:
        name: of the module; layer: its number in the model.
        experts: what computes; its forward takes rows and a Routing.
        topk: how it routes; num_experts: of all ranks.
        bias: float32 [experts], added to the scores for choosing; None: there is none.
    """

    name: str
    layer: int
    experts: nn.Module
    gate: nn.Module
    topk: TopK
    bias: torch.Tensor | None

    @property
    def num_experts(self) -> int:
        held = getattr(self.experts, "num_experts", None)
        return int(held) if held is not None else len(self.experts.w13)  # type: ignore[arg-type]

    @property
    def groups(self) -> int:
        """Groups that experts are chosen by; 1: none."""
        return max(1, self.topk.num_expert_group)


@dataclass(frozen=True, eq=False)
class Routed:
    """One layer's routing in one pass of T tokens.

    Attributes:
        logits: float32 [T, experts], of the router. ids: int64 [T, topk]; weights: float32 [T, topk].
        x: [T, hidden], what the experts computed on.
    """

    mixture: Mixture
    logits: torch.Tensor
    ids: torch.Tensor
    weights: torch.Tensor
    x: torch.Tensor

    @property
    def scores(self) -> torch.Tensor:
        """float32 [T, experts], without the bias."""
        return self.mixture.topk.scores(self.logits)

    @property
    def kept_groups(self) -> torch.Tensor:
        """bool [T, groups]: those that experts could be chosen from; all, where there are no groups."""
        mixture, choice = self.mixture, self.scores
        if mixture.groups == 1:
            return torch.ones(len(choice), 1, dtype=torch.bool)
        biased = mixture.bias is not None
        return mixture.topk.kept_groups(choice + mixture.bias if mixture.bias is not None else choice, biased)

    @property
    def load(self) -> torch.Tensor:
        """int64 [experts], tokens that each expert got."""
        return torch.bincount(self.ids[self.ids >= 0], minlength=self.mixture.num_experts)

    def align(self, block_size: int) -> Aligned:
        """The choices as a grouped GEMM takes them: sorted by expert, each expert's padded to whole blocks."""
        made = moe_align_block_size(self.ids, block_size, self.mixture.num_experts)
        return Aligned(*made)

    def compute(self) -> torch.Tensor:
        """The layer's experts again, in Triton: for `sglab.gpu.capture`. Returns [T, hidden].

        Raises:
            BadArgumentError: its weights are quantised or cut over ranks.
        """
        experts = self.mixture.experts
        if not isinstance(experts, FusedMoE) or experts.quantized is not None or experts.tp.size > 1:
            remedy = "Choose a layer of an unquantised model on one rank."
            raise BadArgumentError("layer", "experts whose weights are plain and whole", type(experts).__name__, remedy)
        return fused_experts(self.x, experts.w13, experts.w2, self.weights, self.ids, implementation="triton")


class Aligned(NamedTuple):
    """See `sglab.kernels.moe_align_block_size`."""

    sorted_token_ids: torch.Tensor
    expert_ids: torch.Tensor
    num_tokens_post_pad: torch.Tensor


@dataclass(frozen=True)
class RoutedPass:
    """A pass of the model over T tokens.

    Attributes:
        mode: ForwardMode's name.
        tokens, positions: int64 [T]; requests: int64 [T], each token's row of the batch.
        layers: of the model's mixtures, in order.
        rids: of each row of the batch its request; empty where they are not known.
    """

    number: int
    mode: str
    tokens: torch.Tensor
    positions: torch.Tensor
    requests: torch.Tensor
    layers: list[Routed]
    rids: tuple[str, ...] = ()


class Spread(NamedTuple):
    """Experts on ranks.

    Attributes:
        physical: [places] the expert in each place, rank after rank.
        rank_load: float64 [ranks], choices that each rank computes, copies sharing an expert's evenly.
    """

    physical: np.ndarray
    rank_load: np.ndarray


@dataclass(repr=False)
class RoutingRun:
    """What `record_experts` saw.

    Attributes:
        model: its name; mixtures: its layers with experts; passes: in their order.
        texts: of every token that occurs; empty without a tokenizer.
    """

    model: str
    mixtures: list[Mixture]
    passes: list[RoutedPass] = field(default_factory=list)
    texts: dict[int, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<{', '.join(self.described())}>"

    def described(self) -> tuple[str, str]:
        """A title and its sizes, for lists."""
        tokens = sum(len(one.tokens) for one in self.passes)
        mixtures, experts = plural(len(self.mixtures), "mixture"), plural(self.mixtures[0].num_experts, "expert")
        passes = plural(len(self.passes), "pass", "passes")
        return f"routing of {self.model}", f"{mixtures} of {experts}, {passes}, {plural(tokens, 'token')}"

    @property
    def load(self) -> torch.Tensor:
        """int64 [mixtures, experts], tokens that each expert got in all passes: what EPLB balances."""
        zero = torch.zeros(len(self.mixtures), self.mixtures[0].num_experts, dtype=torch.int64)
        return sum((torch.stack([routed.load for routed in one.layers]) for one in self.passes), zero)

    def place(self, ranks: int, redundant: int) -> tuple[list[Spread], list[Spread]]:
        """Each mixture's experts on so many ranks: in order, and as EPLB places them with redundant copies.

        Args:
            ranks: a divisor of the experts.
            redundant: copies beyond the one that every expert has.

        Raises:
            BadArgumentError: sizes that do not divide each other.
        """
        load = self.load
        experts = load.shape[1]
        if experts % ranks:
            raise BadArgumentError("ranks", f"a divisor of the {experts} experts", ranks, "Each rank holds as many.")
        if (experts + redundant) % ranks:
            fitting = redundant + -(experts + redundant) % ranks
            remedy = f"With {fitting} all hold as many."
            raise BadArgumentError("redundant", f"a number of copies that {ranks} ranks share", redundant, remedy)
        even = ExpertLocation.even(experts, ranks)
        before = torch.tensor(even.physical_to_logical)
        placed = rebalance_experts(load, experts + redundant, 1, 1, ranks, hierarchical=False)
        after = placed.rank_loads(load, ranks)
        plain = load.double().unflatten(1, (ranks, -1)).sum(-1)
        return (
            [Spread(before.numpy(), plain[i].numpy()) for i in range(len(load))],
            [Spread(placed.physical_to_logical[i].numpy(), after[i].double().numpy()) for i in range(len(load))],
        )


@contextmanager
def record_experts(source: Engine | CausalLM) -> Iterator[RoutingRun]:
    """Keep the routing of every pass inside the block; the model has no hooks outside it.

    Args:
        source: an engine, or a model whose passes are run by hand.

    Raises:
        BadArgumentError: a model without experts, an engine that replays graphs, in which no hook is called, or one in
            which layers do not route a pass's tokens, all of them and no others.
    """
    if not isinstance(source, Engine | nn.Module):
        remedy = 'The shipped model has experts: Engine("tiny").'
        raise BadArgumentError("source", "an engine or a model", type(source).__name__, remedy)
    if isinstance(source, Engine):
        _refuse(source)
    model = source.model if isinstance(source, Engine) else source
    mixtures = find_mixtures(model)
    if not mixtures:
        remedy = 'The shipped model has some: Engine("tiny").'
        raise BadArgumentError("source", "a model with experts", type(model).__name__, remedy)
    decode = source.tokenizer.decode if isinstance(source, Engine) and source.tokenizer is not None else None
    run = RoutingRun(source.model_name if isinstance(source, Engine) else type(model).__name__, mixtures)
    ends = model.register_forward_hook(
        _ends(run, decode), always_call=True
    )  # also after an error, whose pass is dropped
    hooks = [model.register_forward_pre_hook(_begins(run)), ends]
    for mixture in mixtures:
        seen: dict[str, torch.Tensor] = {}
        hooks.append(mixture.gate.register_forward_hook(_scored(seen)))
        hooks.append(mixture.experts.register_forward_pre_hook(_routed(run, mixture, seen)))
    try:
        yield run
    finally:
        for hook in hooks:
            hook.remove()


def _refuse(engine: Engine) -> None:
    """Raise BadArgumentError for engines whose layers would be recorded wrongly, or not at all."""
    if engine.worker.graph_runner is not None:
        remedy = "Make it with cuda_graph=False."
        raise BadArgumentError("source", "an engine that runs every operation", "one that replays graphs", remedy)
    # rank 0 knows its group's tokens, but its experts see those of all groups, or with DeepEP travellers
    if engine.config.dp_size > 1:
        got, remedy = f"dp_size {engine.config.dp_size}", "Make it with dp_size=1: tokens choose the same experts."
        raise BadArgumentError("source", "an engine whose experts see one group's tokens", got, remedy)
    if engine.config.enable_two_batch_overlap:
        remedy = "Make it without enable_two_batch_overlap: tokens choose the same experts."
        raise BadArgumentError("source", "an engine that runs whole passes", "one that runs halves in turns", remedy)


def find_mixtures(model: nn.Module) -> list[Mixture]:
    """A model's layers with experts, in order."""
    found: list[Mixture] = []
    for name, block in model.named_modules():
        gate = getattr(block, "gate", None) or getattr(block, "router", None)
        topk, experts = getattr(block, "topk", None), getattr(block, "experts", None)
        if not isinstance(topk, TopK) or not isinstance(gate, nn.Module) or not isinstance(experts, nn.Module):
            continue
        bias = getattr(gate, "e_score_correction_bias", None)
        number = re.search(r"layers\.(\d+)", name)
        layer = int(number[1]) if number else len(found)
        found.append(Mixture(name, layer, experts, gate, topk, None if bias is None else bias.detach().float().cpu()))
    return found


def _begins(run: RoutingRun) -> Any:
    def hook(model: nn.Module, args: tuple[Any, ...]) -> None:
        input_ids, positions, batch = args[0], args[1], args[2]
        ids = input_ids.detach().cpu().clone()
        where = positions.detach().cpu().clone()
        mode, requests, rids = batch.forward_mode.name, _rows(batch, len(ids)), tuple(batch.rids or ())
        run.passes.append(RoutedPass(len(run.passes), mode, ids, where, requests, [], rids))

    return hook


def _ends(run: RoutingRun, decode: Any) -> Any:
    def hook(model: nn.Module, args: Any, output: Any) -> None:
        if output is None or not len(run.passes[-1].tokens):
            run.passes.pop()  # ended by an error, or of no tokens
        elif decode is not None:
            met = set(run.passes[-1].tokens.tolist()) - run.texts.keys()
            run.texts.update({token: decode([token]) for token in met})

    return hook


def _scored(seen: dict[str, torch.Tensor]) -> Any:
    def hook(module: nn.Module, args: Any, output: torch.Tensor) -> None:
        seen["logits"] = output.detach().float().cpu().clone()

    return hook


def _routed(run: RoutingRun, mixture: Mixture, seen: dict[str, torch.Tensor]) -> Any:
    def hook(module: nn.Module, args: tuple[torch.Tensor, Routing]) -> None:
        x, routing = args
        ids, weights = routing.ids.detach().cpu().clone(), routing.weights.detach().float().cpu().clone()
        kept = Routed(mixture, seen.pop("logits"), ids, weights, x.detach().cpu().clone())
        run.passes[-1].layers.append(kept)

    return hook


def _rows(batch: ForwardBatch, tokens: int) -> torch.Tensor:
    """int64 [tokens], each token's row of the batch."""
    lengths = batch.extend_seq_lens_cpu
    if lengths is None:
        per_row = max(1, tokens // max(1, batch.batch_size))
        return torch.arange(tokens) // per_row
    return torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
