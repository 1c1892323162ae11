"""Which split of the KV is fastest for a batch: a cost model over all that differ, and measurements of its best few.

`set_split_kv` answers by the table's width and the batch's size alone. The model knows every length: it places the work
as the planner would launch it and adds what the merge of partial results moves. What it does not know (launches, TMA's
start, L2) a measurement does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from numpy.typing import ArrayLike

from sglab.planning import check
from sglab.planning.arith import ceil_div
from sglab.planning.plan import Plan
from sglab.planning.registry import PLANNERS
from sglab.planning.set_split_kv import MAX_SPLITS, TILE_S

PLANNER = "sglang_cutlass_mla"
KV_BYTES = 2 * 576
"""Of a token's row in a 16-bit latent cache."""


@dataclass(frozen=True)
class SplitCost:
    """One candidate.

    Attributes:
        modelled: time of its attention and its merge in KV tokens, of which a CTA pair reads one after another.
        seconds: as measured; None: it was not.
    """

    num_kv_splits: int
    modelled: float
    seconds: float | None = None


@dataclass(frozen=True)
class SplitTuning:
    """What `tune_num_kv_splits` found.

    Attributes:
        num_kv_splits: the best, to be passed to the kernel.
        costs: of every candidate, ascending by splits.
        heuristic: what set_split_kv would take.
    """

    num_kv_splits: int
    costs: tuple[SplitCost, ...]
    heuristic: int

    def cost(self, num_kv_splits: int) -> SplitCost:
        """Of one candidate.

        Raises:
            ValueError: it was none.
        """
        for each in self.costs:
            if each.num_kv_splits == num_kv_splits:
                return each
        known = ", ".join(str(each.num_kv_splits) for each in self.costs)
        raise check.fail("num_kv_splits", f"a candidate, of {known}", num_kv_splits, "pass it in candidates")

    def why(self) -> str:
        """How the best came to be it, with the numbers."""
        best, measured = self.cost(self.num_kv_splits), [each for each in self.costs if each.seconds is not None]
        if best.seconds is not None:
            others = [each for each in measured if each is not best]
            text = (
                f"{best.num_kv_splits} splits took {best.seconds * 1e6:.1f} µs, the least of {len(measured)} measured"
            )
            listed = ", ".join(f"{each.num_kv_splits}: {(each.seconds or 0) * 1e6:.1f} µs" for each in others)
            return f"{text} ({listed})." if listed else f"{text}."
        text = (
            f"{best.num_kv_splits} splits end after {best.modelled:,.0f} KV tokens by the model, nothing was measured"
        )
        if (own := next((each for each in self.costs if each.num_kv_splits == self.heuristic), None)) is None:
            return f"{text}; set_split_kv would take {self.heuristic}."
        return f"{text}; set_split_kv would take {self.heuristic}, which end after {own.modelled:,.0f}."


def tune_num_kv_splits(
    seq_lens: ArrayLike,
    sm_count: int,
    *,
    num_heads: int = 128,
    page_size: int = 128,
    candidates: Iterable[int] | None = None,
    seconds: Callable[[int], float] | None = None,
    most_measured: int = 5,
) -> SplitTuning:
    """The split of `cutlass_mla_decode` that is fastest for a batch, by a model or by measurement.

    Example:
        def seconds(splits):
            return sglab.roofline.measure(lambda: cutlass_mla_decode(*tensors, num_kv_splits=splits)).median

        tune_num_kv_splits([8192] * 4, 148, seconds=seconds).num_kv_splits

    Args:
        seq_lens: KV tokens of each request.
        sm_count: of the GPU; a B200 has 148.
        num_heads: query heads, at most 128.
        page_size: of the KV cache.
        candidates: splits to compare, at most 256 each; None: the least of those that have the same number of tiles per
            split, for every such number.
        seconds: measures a candidate; None: the model decides.
        most_measured: how many are measured, those that the model puts first, and set_split_kv's if it is a candidate.

    Raises:
        ValueError: naming the argument; of a measurement that is no time, too.
    """
    lengths = check.lengths("seq_lens", seq_lens)
    most_measured = check.integer("most_measured", most_measured, minimum=1)

    def plan(splits: int) -> Plan:
        return PLANNERS[PLANNER](
            lengths, num_heads=num_heads, num_kv_heads=1, sm_count=sm_count, page_size=page_size, num_kv_splits=splits
        )

    heuristic = int(plan(0).scalars["split_kv"])
    if candidates is None:
        wanted = _all_different(ceil_div(int(lengths.max()), TILE_S))
    else:
        wanted = sorted({check.integer("candidates", each, minimum=1) for each in candidates})
        if not wanted or wanted[-1] > MAX_SPLITS:
            got = wanted[-1] if wanted else "none"
            raise check.fail("candidates", f"at least one, of 1 to {MAX_SPLITS}", got, "the reduction merges no more")
    costs = [SplitCost(each, _modelled(plan(each))) for each in wanted]
    ranked = sorted(costs, key=lambda each: (each.modelled, each.num_kv_splits))
    if seconds is None:
        return SplitTuning(ranked[0].num_kv_splits, tuple(costs), heuristic)
    tried = {each.num_kv_splits for each in ranked[:most_measured]} | ({heuristic} & set(wanted))
    timed = {each: _time(each, seconds(each)) for each in sorted(tried)}
    best = min(timed, key=lambda each: (timed[each], each))
    made = (SplitCost(each.num_kv_splits, each.modelled, timed.get(each.num_kv_splits)) for each in costs)
    return SplitTuning(best, tuple(made), heuristic)


def _all_different(tiles: int) -> list[int]:
    """For every number of tiles per split the least splits that have it."""
    return sorted({min(ceil_div(tiles, per_split), MAX_SPLITS) for per_split in range(1, tiles + 1)})


def _modelled(plan: Plan) -> float:
    """The attention's end, then the merge at the rate at which all CTA pairs together read a cache's rows."""
    pairs = plan.launch.num_slots // plan.launch.cluster_size
    return plan.makespan + (plan.merge.bytes_read + plan.merge.bytes_written) / (KV_BYTES * pairs)


def _time(splits: int, value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        raise check.fail("seconds", "a positive number of seconds", f"{value} for {splits} splits", "return the median")
    return value
