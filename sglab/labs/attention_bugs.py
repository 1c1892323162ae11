"""Notebook 25: bugs of attention kernels: phases, a page of another request, an empty split, a base, a release."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from sglab.gpu import KernelError

from .code_question import CodeQuestion
from .faulty_attention import NAMES, PAGE, SOURCE, TILE, Faulty, hung, outcome
from .mend_question import RIGHT, SCHEDULERS, MendQuestion, kernel_source
from .question import Question, Verdict

__all__ = ["NAMES", "PAGE", "RIGHT", "SCHEDULERS", "SOURCE", "TILE", "Faulty", "outcome", "table"]


def table(batches: Sequence[Sequence[int]], names: Sequence[str] = NAMES, scheduler: str = "fair") -> str:
    """What becomes of each kernel with each batch, as text."""
    lines = [f"{'':14}" + "".join(f"{list(batch)!s:>14}" for batch in batches)]
    for name in names:
        cells = [f"{outcome(name, batch, scheduler=scheduler):>14}" for batch in batches]
        lines.append(f"{name:14}{''.join(cells)}")
    return "\n".join(lines)


def source(name: str) -> str:
    """The CUDA C++ of one of the kernels, with its comment and the headers it includes."""
    if name not in NAMES:
        raise ValueError(f"name: expected one of {', '.join(NAMES)}; got {name!r}")
    more = ("tma.cuh", "wgmma.cuh") if name == "product" else ()
    return kernel_source(SOURCE, name, ("address.cuh", "barrier.cuh", "fence.cuh", *more))


def most_scores_that_hang() -> Question:
    """The largest number of a request's scores with which split_lse hangs."""
    return Question(
        truth=lambda: max(n for n in range(1, 40) if outcome("split_lse", [n]) == "hangs"),
        because="{truth}: a share is 3 scores, and three warps take all of them. With ten the fourth warp has one.",
        hint="A share is (n + 3) / 4, rounded down. When do three shares cover all n? Look at n = 5, 6, 9, 10.",
        ideas=(
            (3, "With three or fewer, a warp is left over; but shares are rounded up, so there are larger n, too."),
            (5, "Five hangs: shares of 2, 2, 1, and none. Go on: shares grow with n, so is there a larger one?"),
            (6, "Six hangs: shares of 2, 2, 2, and none. Is there no larger n whose shares of 3 leave one warp out?"),
        ),
    )


def zero_in_place_of_nothing() -> Question:
    """What three scores of -200 give where the warp without scores hands in m = 0, d = 0, in float32."""

    def truth() -> float:
        m, d = torch.tensor([-200.0, -200.0, -200.0, 0.0]), torch.tensor([1.0, 1.0, 1.0, 0.0])
        return float(m.max() + torch.log2((d * torch.exp2(m - m.max())).sum()))

    return Question(
        truth=truth,
        because=(
            "{truth}: the zero wins the maximum, 2^-200 is less than float32's smallest number, and the logarithm of "
            "0 is left. What changes no maximum is -inf."
        ),
        hint="Which m does warp 0 find? What is 2^(-200 - m) in float32, whose smallest positive number is 2^-149?",
        tolerance=1e-3,
        ideas=(
            (
                -200 + math.log2(3),
                "It should be. But the maximum that warp 0 finds is 0: what is 2^-200 in float32?",
            ),
            (-200, "One score alone would have that LSE. Three have more; but first: which maximum does warp 0 find?"),
            (0, "The maximum is 0, right. But what is added to it? log2 of a sum of three numbers that are 2^-200."),
        ),
    )


def rows_that_do_no_harm() -> Question:
    """Of 1 to 12 rows in the first request: those after which a request of one row is right in persistent."""

    def truth() -> set[int]:
        return {n for n in range(1, 13) if _right("persistent", (n, 1))}

    return Question(
        truth=truth,
        because="{truth}: a row needs stage 0 alone, and after so many rows it has been used an even number of times.",
        hint="One row uses stage 0 only. How often has it been used after n rows? A phase has passed for each use.",
        ideas=(
            ({4, 8, 12}, "After these both stages are where they began. But one row needs only one stage."),
            (
                {2, 4, 6, 8, 10, 12},
                "After two rows each stage has been used once: it is in phase 1, the wait says 0.",
            ),
            ({1, 3, 5, 7, 9, 11}, "After one row stage 0 has been used once: its phase is 1, and the wait says 0."),
            (set(), "There are some. When is a stage's phase the same as at the beginning?"),
        ),
    )


def _right(name: str, seq_lens: Sequence[int]) -> bool:
    """Under every scheduler."""
    results = [outcome(name, seq_lens, scheduler) for scheduler in SCHEDULERS]
    return "hangs" not in results and all(float(error) <= RIGHT for error in results)


def tokens_of_the_other() -> Question:
    """How many of the second request's 40 tokens paged_sum takes from a page of the first, whose length is 3."""

    def truth() -> int:
        launch = Faulty("paged_sum", (3, 40))
        kv, pages, *_ = launch.arguments
        kv.zero_()[int(pages[0, 0])] = 1
        launch.run()
        return int(launch.out[1, 0])

    return Question(
        truth=truth,
        because="{truth}: the first four tokens. Then t / 4 is 1, which is not what was held, and the table is asked.",
        hint="Let t run from 0, with held == 0 left over from the request before. At which t is the table asked again?",
        ideas=(
            (40, "At t = 4 the number of the page changes, so the table is asked again. From there on all is right."),
            (3, "The first request has 3 tokens, but its page has room for more: what is read there is no request's."),
            (1, "The page is held for all of its tokens, not for one."),
        ),
    )


def weight_of_the_first() -> Question:
    """The weight that merge_states gives the first of two partials with LSE 3 and 1, base 2."""

    def truth() -> float:
        launch = Faulty("merge_states", (40,))
        o, lse, _ = launch.arguments
        o.zero_()[0, 0] = 1
        lse[0] = torch.tensor([3.0, 1.0])
        launch.run()
        return float(launch.out[0, 0])

    return Question(
        truth=truth,
        because="{truth:.3f}, that is e^2 / (e^2 + 1): to e the difference of 2 is worth 7.4, to base 2 it is worth 4.",
        hint="The weights are e^(3 - m) and e^(1 - m), divided by their sum; m is the larger LSE.",
        tolerance=0.002,
        ideas=(
            (0.8, "That is right for base 2, 4 / (4 + 1). The kernel takes powers of e."),
            (0.75, "An LSE is a logarithm: weights are powers, not the LSEs themselves."),
        ),
    )


def fewest_keys_that_race() -> Question:
    """The smallest number of keys with which product's early release is a race."""

    def truth() -> int:
        lengths = (n for n in range(1, 400, 64) if Faulty("product", [n]).run(sanitize=True).findings)
        return next(lengths)

    return Question(
        truth=truth,
        because="{truth}, three tiles: the third is the first to be loaded where another has been.",
        hint="Two stages. Which tile is the first that is loaded over another one? With which key does it begin?",
        ideas=(
            (65, "The second tile goes to the other stage, which is not read yet."),
            (64, "One tile: nothing is loaded after it."),
            (128, "These are two whole tiles, one for each stage; nothing is overwritten yet. One more key?"),
            (192, "Three tiles, yes; but the third is there as soon as it has one key."),
            (3, "Three tiles, yes. The question was how many keys those have, at least."),
        ),
    )


@dataclass(frozen=True)
class BatchQuestion:
    """A batch to find: one with which each of the kernels fails, or is caught by a sanitizer."""

    most: int = 1000

    def check(self, given: Any = ...) -> Verdict:
        """Judge a list of lengths."""
        if given is ...:
            return Verdict(None, "Replace the ... by a list of lengths, such as [64, 64], and run the cell again.")
        lengths = given.tolist() if hasattr(given, "tolist") else given
        if not isinstance(lengths, (list, tuple)) or not all(type(n) is int for n in lengths) or not lengths:
            return Verdict(False, f"The answer is a list of lengths, such as [64, 64]; this is {given!r}.")
        if min(lengths) < 1 or sum(lengths) > self.most:
            return Verdict(False, f"Lengths of 1 or more, {self.most} tokens in all at most, please.")
        through = [name for name in NAMES if not caught(name, lengths)]
        if through:
            what = f"{', '.join(through)} {'come' if len(through) > 1 else 'comes'} through"
            return Verdict(False, f"With {list(lengths)} {what}: right under four schedulers, and no findings.")
        fewest = "With fewer it cannot be done." if sum(lengths) == 130 else "Can it be done with fewer tokens?"
        return Verdict(True, f"All five are caught, with {sum(lengths)} tokens. {fewest}")


def caught(name: str, seq_lens: Sequence[int]) -> bool:
    """Whether one of four launches is wrong, hangs, or has a finding."""
    for scheduler in SCHEDULERS:
        launch = Faulty(name, seq_lens)
        try:
            if launch.run(scheduler=scheduler, sanitize=True).findings or launch.error() > RIGHT:
                return True
        except KernelError as error:
            if not hung(error):
                raise
            return True
    return False


def a_batch_for_all() -> BatchQuestion:
    """The exercise of finding a batch."""
    return BatchQuestion()


def wrong_requests() -> CodeQuestion:
    """The exercise of predicting which requests paged_sum gets wrong: judged by launches of it."""

    def cases(random: torch.Generator) -> list[list[Any]]:
        drawn = [torch.randint(0, 13, (8,), generator=random).tolist() for _ in range(6)]
        return [[[5, 9]], [[3, 9]], [[4, 9, 9]], [[3, 0, 9]], [[0, 3, 0, 0, 2, 8]], *([each] for each in drawn)]

    def truth(seq_lens: Sequence[int]) -> list[int]:
        launch = Faulty("paged_sum", seq_lens)
        launch.run()
        return sorted(launch.wrong())

    def short_before(seq_lens: Sequence[int]) -> list[int]:
        return [r for r in range(1, len(seq_lens)) if seq_lens[r - 1] <= PAGE]

    def blind_to_empty(seq_lens: Sequence[int]) -> list[int]:
        return [r for r in short_before(seq_lens) if seq_lens[r - 1] and seq_lens[r]]

    def less_than_a_page(seq_lens: Sequence[int]) -> list[int]:
        return [r for r in truth(seq_lens) if _held_before(seq_lens, r) != PAGE]

    def all_after(seq_lens: Sequence[int]) -> list[int]:
        first = next((r for r, n in enumerate(seq_lens) if 0 < n <= PAGE), len(seq_lens))
        return [r for r in range(first + 1, len(seq_lens)) if seq_lens[r]]

    return CodeQuestion(
        function="wrong_requests",
        cases=cases,
        truth=truth,
        because="What is held is the page of the last request that had tokens, and it is wrong if that had one page.",
        ideas=(
            (short_before, "Requests without tokens have no page: they cannot be wrong, nor change what is held."),
            (
                blind_to_empty,
                "What is held outlives a request without tokens: look back to the last with any.",
            ),
            (less_than_a_page, "A request of exactly four tokens also ends on its page 0."),
            (all_after, "A request of several pages ends on another page, and sets things right for the next."),
        ),
    )


def _held_before(seq_lens: Sequence[int], request: int) -> int:
    """The length of the last request with tokens before this one."""
    return next((n for n in reversed(seq_lens[:request]) if n), 0)


FEEDBACK: dict[str, dict[str, str]] = {
    "persistent": {
        "missing_init_fence": "A barrier in use must not be initialised again: count rows over all requests.",
        "deadlock": "The barriers remember all rows that have passed, of all requests. Does your parity?",
        "wrong": "The barriers remember all rows that have passed, of all requests. Do your stage and your parity?",
    },
    "paged_sum": {"wrong": "Two numbers say which page it is: the request's and the page's place in it."},
    "split_lse": {
        "uninitialised_read": "It arrives now, but has handed in nothing: warp 0 reads a part that was never written.",
        "deadlock": "Four arrivals are expected. A warp without scores has to arrive as well, or not to be expected.",
        "wrong": "Scores may lie near -200. Which m and d change nothing, whatever the others' are?",
    },
    "merge_states": {"wrong": "These LSEs are in base 2, and the weights must be powers of the same base."},
    "product": {
        "missing_wgmma_wait": "A stage may be released when the product that reads it is complete: wait_group<1> "
        "leaves the newest one running. Wait for all, or release the stage before.",
        "deadlock": "Each stage must be released once for each time that it is filled.",
    },
}


def mended(name: str) -> MendQuestion:
    """The exercise of mending a kernel, by its name."""
    if name not in NAMES:
        raise ValueError(f"name: expected one of {', '.join(NAMES)}; got {name!r}")
    batches = (
        ((64, 64), (3, 1, 7, 40), (1, 5, 9, 2), (130, 330))
        if name == "product"
        else ((64, 64), (3, 1, 7, 40), (4, 9, 1, 2), (200, 33))
    )
    cases: dict[str, Any] = {f"seq_lens {list(batch)}": (batch, 0.0) for batch in batches}
    if name == "split_lse":
        cases["seq_lens [3, 9], scores near -200"] = ((3, 9), -200.0)
    return MendQuestion(
        name, cases, lambda case, seed, kernel: Faulty(name, case[0], seed, kernel, case[1]), FEEDBACK[name]
    )
