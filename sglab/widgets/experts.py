"""Experts: how a mixture routes its tokens, what its GEMMs get of it, and how evenly experts lie on ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import traitlets

from sglab import gpu
from sglab.engine import arguments
from sglab.engine.errors import BadArgumentError
from sglab.words import plural
from sglab.workbench.recorders.experts import Routed, RoutingRun

from .base import asset, command
from .kernel_debugger import KernelDebugger
from .opening import Opener, of_launch

BLOCKS = (4, 16, 32, 64, 128)


class Experts(Opener):
    """Routing of a mixture of experts: tokens × experts, load per expert and rank, padded blocks, EPLB's copies.

    Args:
        run: what `sglab.workbench.record_experts` kept of an engine or a model.
        step: which pass to show first.
        layer: which of the model's mixtures.
        ranks: ranks that experts are dealt out to.
        redundant: copies that EPLB may place beyond every expert's one; None: one per rank.
        block_size: rows of a grouped GEMM's tile, to which each expert's tokens are padded.
    """

    bundle = "experts"
    format = 1
    _module = asset("experts.js")
    _css = asset("experts.css")

    shown = traitlets.Dict(help="what is chosen: step, layer, ranks, redundant, block").tag(sync=True)
    passes = traitlets.List(traitlets.Dict(), help="number, mode and tokens of each").tag(sync=True)
    layers = traitlets.List(traitlets.Dict(), help="number and name of each mixture").tag(sync=True)
    rule = traitlets.Dict(help="how the layer routes: see TopK").tag(sync=True)
    texts = traitlets.Dict(help="token -> how the tokenizer writes it").tag(sync=True)

    def __init__(
        self,
        run: RoutingRun,
        step: int = 0,
        layer: int = 0,
        *,
        ranks: int = 2,
        redundant: int | None = None,
        block_size: int = 16,
    ) -> None:
        if not isinstance(run, RoutingRun):
            expected = "what sglab.workbench.record_experts gives"
            raise BadArgumentError("run", expected, type(run).__name__, "Record a model with experts.")
        if not run.passes:
            raise BadArgumentError("run", "one pass at least", "none", "Run the model inside the block.")
        super().__init__()
        self.recorded = run
        spare = ranks if redundant is None else redundant
        self._show({"step": step, "layer": layer, "ranks": ranks, "redundant": spare, "block": block_size})

    @property
    def routed(self) -> Routed:
        """What is shown: one layer's routing in one pass."""
        return self.recorded.passes[self.shown["step"]].layers[self.shown["layer"]]

    def kernel_debugger(self) -> KernelDebugger:
        """Steps the fused MoE Triton kernel on the shown pass and layer: its rows, its weights, its sorted choices.

        Raises:
            BadArgumentError: the layer's weights are quantised or cut over ranks.
        """
        return KernelDebugger(gpu.capture(self.routed.compute)[0].session())

    @command
    def open_widget(self, widget: str) -> dict[str, Any]:
        """Opens a widget on the shown layer's grouped GEMM."""
        shown, name = self.shown, self.routed.mixture.name
        made = of_launch(widget, gpu.capture(self.routed.compute)[0])
        return self.opened(made, f"{name}, pass {self.recorded.passes[shown['step']].number}")

    @command
    def show(
        self,
        step: int | None = None,
        layer: int | None = None,
        ranks: int | None = None,
        redundant: int | None = None,
        block: int | None = None,
    ) -> int:
        """Shows another pass or layer, or other sizes. A refused call changes nothing. Returns the revision."""
        asked = {"step": step, "layer": layer, "ranks": ranks, "redundant": redundant, "block": block}
        self._show({**self.shown, **{name: value for name, value in asked.items() if value is not None}})
        return self.revision

    def _show(self, asked: dict[str, int]) -> None:
        run = self.recorded
        arguments.integer(
            "step", asked["step"], 0, len(run.passes) - 1, f"Recorded: {plural(len(run.passes), 'pass', 'passes')}."
        )
        most = len(run.mixtures) - 1
        arguments.integer("layer", asked["layer"], 0, most, f"The model has {plural(most + 1, 'mixture')}.")
        experts = run.mixtures[0].num_experts
        arguments.integer("ranks", asked["ranks"], 1, experts, f"The model has {plural(experts, 'expert')}.")
        arguments.integer("redundant", asked["redundant"], 0, 8 * experts, "As many as ranks is a start.")
        arguments.integer("block_size", asked["block"], 1, 1024, "Kernels take 16 to 128.")
        one = run.passes[asked["step"]]
        routed = one.layers[asked["layer"]]
        mixture = routed.mixture
        tensors = {**routing_tensors(routed), **self._spread(asked)}
        tensors["tokens"] = np.stack((one.tokens, one.positions, one.requests), -1).astype(np.int32)
        aligned = routed.align(asked["block"])
        end = int(aligned.num_tokens_post_pad)
        tensors["sorted_token_ids"] = aligned.sorted_token_ids[:end].numpy()
        tensors["expert_ids"] = aligned.expert_ids[: end // asked["block"]].numpy()
        tensors["num_tokens_post_pad"] = aligned.num_tokens_post_pad.numpy()
        rule = mixture.topk
        groups = f", {rule.topk_group} of {mixture.groups} groups" if mixture.groups > 1 else ""
        tokens = plural(len(one.tokens), "token")
        mode = one.mode.lower().replace("_", " ")
        experts_of = plural(mixture.num_experts, "expert")
        subject = f"{mixture.name}, pass {one.number} ({mode}): {tokens} to {rule.top_k} of {experts_of}{groups}"
        badge = {"text": "recorded run", "title": f"A real forward of {run.model}; the placement is EPLB's plan"}
        self.publish(
            tensors,
            shown=dict(asked),
            passes=[
                {"number": p.number, "mode": p.mode, "tokens": len(p.tokens), "rids": list(p.rids)} for p in run.passes
            ],
            layers=[{"layer": m.layer, "name": m.name} for m in run.mixtures],
            rule={
                "topK": rule.top_k,
                "scoring": rule.scoring,
                "renormalize": rule.renormalize,
                "scale": rule.routed_scaling_factor,
                "groups": mixture.groups,
                "topkGroup": rule.topk_group if mixture.groups > 1 else 1,
                "biased": mixture.bias is not None,
                "experts": mixture.num_experts,
                "blocks": sorted({*BLOCKS, asked["block"]}),
            },
            texts={str(token): text for token, text in run.texts.items()},
            header={"title": "Experts", "subject": subject, "badge": badge},
        )

    def _spread(self, asked: dict[str, int]) -> dict[str, Any]:
        before, after = self.recorded.place(asked["ranks"], asked["redundant"])
        at = asked["layer"]
        return {
            "load": self.recorded.load.numpy().astype(np.int32),
            "even.physical": before[at].physical.astype(np.int32),
            "even.load": before[at].rank_load,
            "eplb.physical": after[at].physical.astype(np.int32),
            "eplb.load": after[at].rank_load,
        }


def routing_tensors(routed: Routed) -> dict[str, np.ndarray]:
    """A layer's routing as columns.

    Returns:
        logits, scores float32 [T, experts]; bias float32 [experts], zeros without one; kept uint8 [T, groups]; ids
        int32 and weights float32 [T, topk].
    """
    mixture = routed.mixture
    bias = np.zeros(mixture.num_experts, np.float32) if mixture.bias is None else mixture.bias.numpy()
    return {
        "logits": routed.logits.numpy(),
        "scores": routed.scores.numpy(),
        "bias": bias,
        "kept": routed.kept_groups.numpy().astype(np.uint8),
        "ids": routed.ids.numpy().astype(np.int32),
        "weights": routed.weights.numpy(),
    }
