"""Questions of notebook 03: one pass over the scores, partials and their merges, and what goes wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from sglab.kernels import merge_state, merge_state_v2
from sglab.workbench.recorders.online_softmax import record_online_softmax
from sglab.workbench.recorders.online_softmax_formulas import FORMULAS, Truth, follow

from .code_question import CodeQuestion
from .question import Question

if TYPE_CHECKING:
    from sglab.workbench.batch import Batch

LOG2_E = math.log2(math.e)
NEARLY_RIGHT = 1e-3
MERGES: dict[str, Callable[..., tuple[torch.Tensor, torch.Tensor]]] = {
    "merge_state": merge_state,
    "merge_state_v2": merge_state_v2,
    "guarded": partial(merge_state_v2, guarded=True),
}
"""The three merges of two partials; `guarded` is merge_state_v2(..., guarded=True)."""


def scores_of(batch: Batch, request: int, head: int) -> torch.Tensor:
    """Scaled scores of all keys for one head, float64, natural."""
    keys, _ = batch.runner.token_to_kv_pool.get_kv_buffer(batch.layer.layer_id)
    kv_head = head * batch.num_kv_heads // batch.num_heads
    return keys[batch.slots(request), kv_head].double() @ batch.q[request, head].double() * batch.sm_scale


def values_of(batch: Batch, request: int, head: int) -> torch.Tensor:
    """The values that belong to `scores_of`, (tokens, v_dim)."""
    _, values = batch.runner.token_to_kv_pool.get_kv_buffer(batch.layer.layer_id)
    return values[batch.slots(request), head * batch.num_kv_heads // batch.num_heads]


def largest_exponents() -> Question:
    """The largest whole numbers whose exp is finite in float32 and in float16."""

    def truth() -> list[int]:
        whole = torch.arange(200.0)
        return [int(whole.exp().to(dtype).isfinite().sum()) - 1 for dtype in (torch.float32, torch.float16)]

    return Question(
        truth=truth,
        because="{truth}: float32 ends at 3.4e38 = exp(88.72), float16 at 65504 = exp(11.09).",
        hint="Print torch.tensor(x).exp() and the same .half() for growing whole x, until you see inf.",
        ideas=(
            ([88, 88], "float16 has fewer bits for the exponent: it ends at 65,504."),
            ([89, 12], "Those are the first that overflow. Asked for are the last that do not."),
            ([709, 11], "709 is float64's."),
            ([11, 88], "float32's comes first."),
        ),
    )


def times_the_maximum_grew(scores: torch.Tensor, tile: int) -> Question:
    """How often a later tile raises the running maximum."""

    def truth() -> int:
        running = torch.stack([each.max() for each in scores.split(tile)]).cummax(0).values
        return int((running.diff() > 0).sum())

    return Question(
        truth=truth,
        because="{truth}: only there is α below 1. Each time, all that was summed before is multiplied once.",
        hint="Count the steps of the line over the scores in the widget: the slider has a mark at each of them.",
        ideas=(
            (
                -(-len(scores) // tile) - 1,
                "So many later tiles there are. Only those count whose largest score is above all before.",
            ),
            (
                1 + sum(bool(scores[:i].max() < scores[i : i + tile].max()) for i in range(tile, len(scores), tile)),
                "The first tile raises the maximum from −∞; asked for are those after it.",
            ),
        ),
    )


def rescale_factor(old: float, new: float) -> Question:
    """α when the maximum grows."""
    return Question(
        truth=lambda: math.exp(old - new),
        because=f"{{truth:.4f}} = exp({old:g} − {new:g}): weights relative to {old:g} become relative to {new:g}.",
        hint="What turns exp(s − old) into exp(s − new), for any s?",
        ideas=(
            (
                math.exp(new - old),
                "The other way round: what was summed is too large for the new maximum, so α is below 1.",
            ),
            (old / new, "Maxima are exponents: their difference counts, not their quotient."),
            (old - new, "That is the exponent. α is e to that power."),
        ),
    )


def d_starts_at_1(batch: Batch, request: int, head: int) -> Question:
    """Whether a d that starts at 1 spoils the result: "myth" or "fact"."""

    def truth() -> str:
        right, other = (_error(batch, request, head, name) for name in ("online", "d_starts_at_1"))
        return "fact" if other > right + NEARLY_RIGHT else "myth"

    return Question(
        truth=truth,
        because=(
            "{truth}: m starts at −inf, so the first α is exp(−inf) = 0, and 0 · 1 = 0. The 1 only matters for a state "
            "that never sees a key: 0 / 1 = 0 instead of 0 / 0."
        ),
        hint="What is α at the first tile? What does it do to the 1? Choose this recurrence in the widget.",
        ideas=(("fact", "The 1 is there, but what becomes of it at the first tile? α = exp(m − m') with m = −∞."),),
    )


def heads_that_do_not_notice(batch: Batch, request: int) -> Question:
    """Heads of a request whose output is right although the rescale is left out."""

    def truth() -> int:
        errors = [_error(batch, request, head, "no_rescale") for head in range(batch.num_heads)]
        return sum(error < NEARLY_RIGHT for error in errors)

    return Question(
        truth=truth,
        because=(
            f"{{truth}} of {batch.num_heads}: their largest score is in the first tile, so no α is below 1. "
            "A test on such data passes; a test needs a maximum that grows."
        ),
        hint="For which heads does no later tile exceed the maximum of the first 64 scores?",
        ideas=(
            (0, "Without the rescale only those heads go wrong whose maximum grows in the second tile."),
            (batch.num_heads, "Try a head whose largest score is among the last 13 keys."),
        ),
    )


def to_base_2(lse: float) -> Question:
    """A natural LSE in base 2."""
    return Question(
        truth=lambda: float(lse) * LOG2_E,
        because="{truth:.4f}: log2(x) = ln(x) · log2(e), and log2(e) = 1.4427.",
        hint="Both are the logarithm of the same sum of exponentials.",
        ideas=(
            (float(lse) / LOG2_E, "The other way round: 2 is smaller than e, so it takes more of them."),
            (float(lse), "It is the same sum, but another logarithm."),
            (2.0 ** float(lse), "Asked for is a logarithm, in base 2, not a power of 2."),
        ),
    )


def weights_in_the_wrong_base(lse: torch.Tensor) -> Question:
    """The weights that a natural merge gives to partials whose LSE are in base 2."""
    return Question(
        truth=lambda: torch.softmax(lse.double() * LOG2_E, 0),
        because="{truth}: every difference of LSE is stretched by 1.44, so the heavier partial gets too much.",
        hint="Convert the LSE to base 2, then weigh them with exp as if they were natural: a softmax.",
        ideas=(
            (torch.softmax(lse.double(), 0), "Those are the right ones. What if exp is applied to LSEs in base 2?"),
            (torch.softmax(lse.double() / LOG2_E, 0), "LSEs in base 2 are larger than natural ones, not smaller."),
        ),
    )


def wrong_merges(lse: torch.Tensor, o: torch.Tensor) -> dict[str, torch.Tensor]:
    """Merges of all partials at once that look right and are wrong, in float64. lse (n,) natural, o (n, v_dim)."""
    lse, o = lse.double(), o.double()
    top, total, accumulated = lse[0], torch.tensor(1.0).double(), o[0]
    for one_lse, one_o in zip(lse[1:], o[1:], strict=True):
        new_top = torch.maximum(top, one_lse)
        accumulated = accumulated * (top - new_top).exp() + one_o  # exp(one_lse − new_top) is missing
        total = total * (top - new_top).exp() + (one_lse - new_top).exp()
        top = new_top
    return {
        "divide_by_max": (lse - lse.max()).exp() @ o,
        "newcomer_unweighted": accumulated / total,
        "base2_in_natural": torch.softmax(lse * LOG2_E, 0) @ o,
    }


def worst_merge(lse: torch.Tensor, o: torch.Tensor) -> Question:
    """The name of the wrong merge with the largest error."""

    def truth() -> str:
        right = torch.softmax(lse.double(), 0) @ o.double()
        errors = {name: float((wrong - right).norm()) for name, wrong in wrong_merges(lse, o).items()}
        return max(errors, key=lambda name: errors[name])

    return Question(
        truth=truth,
        because="{truth}: its weights add up to far more than 1, so the output is not a mean any more, it is inflated.",
        hint="Choose each wrong merge in the widget, order 'all at once', go to the end and read the error.",
        ideas=(
            (
                "newcomer_unweighted",
                "It is off, but its denominator is right. Compare it with the one whose weights do not even have "
                "a sum in common with 1.",
            ),
            (
                "base2_in_natural",
                "Its weights are wrong, but they still add up to 1: the output stays a mean of the partials.",
            ),
        ),
    )


def nan_for_two_empty() -> Question:
    """Which of MERGES makes NaN of two empty partials."""
    return Question(
        truth=lambda: next(name for name in MERGES if bool(_merge(name, 0.0, -math.inf, 0.0, -math.inf)[0].isnan())),
        because="{truth}: its maximum is −inf, and exp(−inf − (−inf)) is exp(NaN).",
        hint="Their maximum is −inf. What is −inf − (−inf), and which of the three looks out for it?",
        ideas=(
            ("merge_state", "There a difference that is not a number counts as −∞, and 0 / 0 as 0."),
            ("guarded", "It looks out for just that: 0 / 0 counts as 0."),
        ),
    )


def safe_with_garbage() -> Question:
    """Which of MERGES survives an empty partial whose O was never written."""
    return Question(
        truth=lambda: next(name for name in MERGES if not bool(_merge(name, math.nan, -math.inf, 1.0, 2.0)[0].isnan())),
        because="{truth}: it does not read an O whose LSE is −inf. The others multiply it by 0, and 0 · NaN is NaN.",
        hint="Its weight is 0 in all three. What is 0 · NaN, and who does not multiply?",
        ideas=(
            ("merge_state", "Its weight is 0, but the O is multiplied all the same, and 0 · NaN is NaN."),
            ("merge_state_v2", "It multiplies the O by its weight, 0, and 0 · NaN is NaN."),
        ),
    )


def masked_split(batch: Batch, request: int, head: int) -> Question:
    """LSE of a split whose scores are all −inf, as [without the guard, with it]."""

    def truth() -> list[float]:
        run = record_online_softmax(batch, request, head, 5, 64, batch.sm_scale, "reference", order="masked")
        last = run.last_steps[0]
        states = (run.states["online"], run.states["guarded"])
        return [float((one.top[last] + one.total[last].log2()) / LOG2_E) for one in states]

    return Question(
        truth=truth,
        because="{truth}: exp(−inf − (−inf)) is NaN, and a NaN stays. Guarded, the split counts as empty.",
        hint='float("nan") and float("-inf") are answers, too. Choose a recurrence, select split s0 in the widget.',
        ideas=(
            ([-math.inf, -math.inf], "Without the guard the maximum is −∞, and a score less the maximum is −∞ − (−∞)."),
            ([-math.inf, math.nan], "The other way round: the guard is what keeps the NaN away."),
            ([math.nan, math.nan], "With the guard the split counts as empty. What is the logarithm of an empty sum?"),
        ),
    )


def merge_table() -> str:
    """What MERGES make of infinities, run here: one row per case, "O, LSE" (natural) per merge."""
    inf, nan = math.inf, math.nan
    cases = {
        "both empty": (0.0, -inf, 0.0, -inf),
        "one empty": (0.0, -inf, 1.0, 2.0),
        "one empty, O never written": (nan, -inf, 1.0, 2.0),
        "one with LSE = +inf": (0.0, inf, 1.0, 2.0),
    }
    lines = [f"{'O, LSE':28}" + "".join(f"{name:>18}" for name in MERGES)]
    for case, parts in cases.items():
        cells = [", ".join(f"{float(x):.3g}" for x in _merge(name, *parts)) for name in MERGES]
        lines.append(f"{case:28}" + "".join(f"{cell:>18}" for cell in cells))
    return "\n".join(lines)


def _merge(name: str, o_a: float, lse_a: float, o_b: float, lse_b: float) -> tuple[torch.Tensor, torch.Tensor]:
    """One row, one dimension; natural LSE in and out, for any base of the merge."""
    unit = LOG2_E if name == "merge_state" else 1.0
    v_a, v_b = (torch.full((1, 1, 1), o) for o in (o_a, o_b))
    s_a, s_b = (torch.full((1, 1), lse * unit) for lse in (lse_a, lse_b))
    v, s = MERGES[name](v_a, s_a, v_b, s_b)
    return v.flatten()[0], s.flatten()[0] / unit


def _error(batch: Batch, request: int, head: int, formula: str, tile: int = 64) -> float:
    """Error of a whole request's output, in one split, against float64."""
    exact = scores_of(batch, request, head) * LOG2_E
    tiles = [(0, start, min(start + tile, len(exact))) for start in range(0, len(exact), tile)]
    values = values_of(batch, request, head).float()
    states = follow(
        FORMULAS[formula], exact.float(), Truth.of(exact, values, tiles), values, tiles, lambda weight: weight
    )
    return float(states.error[-1])


def in_one_pass() -> CodeQuestion:
    """The exercise of writing attend(scores, values, tile): online softmax that bears tiles that are hidden whole."""

    def cases(random: torch.Generator) -> list[list[Any]]:
        drawn = []
        for keys, moved, hidden in ((8, 0, 0), (40, 0, 0), (40, -2000, 0), (40, 900, 0), (40, 0, 17), (24, 0, 24)):
            scores = 3 * torch.randn(keys, generator=random) + torch.arange(keys) / 4 + moved
            scores[:hidden] = -math.inf
            drawn.append([scores.double(), torch.randn(keys, 4, generator=random).double(), 8])
        return drawn

    return CodeQuestion(
        function="attend",
        cases=cases,
        truth=_attend,
        because="Rising scores, scores far from 0, tiles without a key that is seen, and nothing at all.",
        ideas=(
            (
                lambda s, v, n: _attend(s, v, n, guard=False),
                "Where a tile hides all of its keys, m is −inf and so is the "
                "maximum: −inf − (−inf) is NaN. Subtract 0 where the maximum is −inf.",
            ),
            (
                lambda s, v, n: _attend(s, v, n, empty=math.nan),
                "A row that sees no key has d = 0, and 0 / 0 is NaN: its O is 0, by convention.",
            ),
            (
                lambda s, v, n: _attend(s, v, n, rescale=False),
                "d is rescaled and O is not: both are sums relative to the old maximum.",
            ),
            (
                lambda s, v, n: _attend(s, v, n, start=0.0),
                "m starts at 0. Where all scores are far below, every weight is 0; start at −inf.",
            ),
            (
                lambda s, v, n: [_attend(s, v, n)[0], _attend(s - s.max(), v, n)[1]],
                "The LSE is m + ln d: what was subtracted belongs to it.",
            ),
        ),
    )


def _attend(
    scores: torch.Tensor,
    values: torch.Tensor,
    tile: int,
    guard: bool = True,
    rescale: bool = True,
    start: float = -math.inf,
    empty: float = 0.0,
) -> list[Any]:
    """[O, LSE], natural; the switches make known wrong ones."""
    m, d, o = torch.tensor(start).double(), torch.tensor(0.0).double(), torch.zeros(values.shape[1]).double()
    for s, v in zip(scores.split(tile), values.split(tile), strict=True):
        new = torch.maximum(m, s.max())
        base = torch.tensor(0.0).double() if guard and new == -math.inf else new
        alpha, p = torch.exp(m - base), torch.exp(s - base)
        m, d, o = new, alpha * d + p.sum(), (alpha if rescale else 1.0) * o + p @ v
    return [o / d if d != 0 else torch.full_like(o, empty), float(m + d.log())]
