"""Questions of the gallery: each is answered by looking into one of its widgets, or by reading what it draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from .code_question import CodeQuestion
from .question import Question

if TYPE_CHECKING:
    from sglab.engine.recording import Recording
    from sglab.events import EventLog
    from sglab.workbench.recorders.experts import RoutingRun
    from sglab.workbench.recorders.speculation import SpeculationRun


def copying_warps(log: EventLog) -> Question:
    """The warps of a CTA that issue TMA copies."""
    warps = {int(warp) for warp in np.unique(log.warp[log.copies.event])}
    return Question(
        truth=lambda: warps,
        because="{truth}: the other warps of a CTA never touch global memory to load; they wait for what it brings.",
        hint="Press a bar in the row copies of Warp roles: the details name the warp that issued it.",
        ideas=(
            ({8}, "That one starts the matrix products."),
            (set(range(11)), "Each warp has a role. Only one of them is called load."),
        ),
    )


def taken_back(recording: Recording) -> Question:
    """How often a request was taken back in a recorded run of the engine."""
    times = sum(len(step.retracted) for step in recording.steps)
    return Question(
        truth=lambda: times,
        because="{truth}: red triangles in the Scheduler. Each gives its pages back and is read again later.",
        hint="The legend of the Scheduler says how a retracted request is marked. Count the marks.",
        ideas=(
            (len(recording.reqs), "So many requests came. Which of them lost their place?"),
            (0, "The pool is very small: look for red triangles."),
        ),
    )


def busiest_expert(routing: RoutingRun, mixture: int) -> Question:
    """The expert that got most tokens in a layer, over all passes."""
    load = routing.load[mixture]
    last = routing.passes[-1].layers[mixture].load
    return Question(
        truth=lambda: int(load.argmax()),
        because=f"{{truth}}: {int(load.max())} of {int(load.sum())} choices, over all passes.",
        hint="routing.load has a row for each layer with experts: the tokens that each of its experts got.",
        ideas=tuple(
            (idea, text)
            for idea, text in (
                (int(load.max()), "So many tokens it got. Which expert is it?"),
                (int(last.argmax()), "So it is in the last pass. Asked for are all of them."),
                (int(load.argmin()), "That one got fewest."),
            )
            if idea != int(load.argmax())
        ),
    )


def tokens_per_pass(speculation: SpeculationRun) -> Question:
    """Tokens that a request gained per verification, on average."""
    kept = [len(tree.kept) for one in speculation.passes for tree in one.trees]
    sizes = [len(tree.tokens) for one in speculation.passes for tree in one.trees]
    mean = sum(kept) / len(kept)
    return Question(
        truth=lambda: mean,
        because="{truth:.2f}: the root of each tree stands for the token that every pass gains, with no draft at all.",
        hint="speculation.passes, and in each its trees; tree.kept is the path that was kept, its root included.",
        ideas=(
            (sum(sizes) / len(sizes), "So many nodes were verified. How many were kept?"),
            (mean - 1, "Those are kept drafts. Each pass gains one token more, after the last of them."),
            (float(sum(kept)), "That is all of them together: divide by the number of trees."),
        ),
    )


def bytes_by_cta() -> CodeQuestion:
    """The exercise of writing bytes_by_cta(cta, event, nbytes): what a widget adds up, from the event log's arrays."""

    def cases(random: torch.Generator) -> list[list[Any]]:
        from sglab.workbench import decode_batch

        from .mla_sm100 import Launched

        drawn = []
        for requests in (1, 2):
            lengths = torch.randint(1, 300, (requests,), generator=random).tolist()
            log = Launched(decode_batch(lengths, num_heads=128, page_size=128, dtype="float16")).record()
            drawn.append([np.asarray(log.cta), np.asarray(log.copies.event), np.asarray(log.copies.nbytes)])
        return drawn

    Array = npt.NDArray[Any]

    def truth(cta: Array, event: Array, nbytes: Array) -> list[int]:
        return [int(each) for each in np.bincount(cta[event], nbytes, int(cta.max()) + 1)]

    return CodeQuestion(
        function="bytes_by_cta",
        cases=cases,
        truth=truth,
        because="Recorded on the emulator just now. Every widget draws arrays like these, and all of them are yours.",
        ideas=(
            (
                lambda cta, event, nbytes: [int(n) for n in np.bincount(cta[event], minlength=int(cta.max()) + 1)],
                "That counts copies. They are of different sizes: add up nbytes.",
            ),
            (
                lambda cta, event, nbytes: [int(nbytes.sum())] * (int(cta.max()) + 1),
                "That is the whole launch. cta[event] says whose copy each is.",
            ),
            (
                lambda cta, event, nbytes: [int(n) for n in np.bincount(cta[: len(event)], nbytes, int(cta.max()) + 1)],
                "cta has an entry for every event, not for every copy: look up cta[event].",
            ),
        ),
    )
