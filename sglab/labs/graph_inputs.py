"""The coding exercise of notebook 17: filling a graph's inputs in place, judged by what a replay reads and writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from sglab.engine.graphs import RecordedGraph

from .question import Verdict

Prepare = Callable[[dict[str, torch.Tensor], list[int], list[int], list[int]], Any]
"""(buffers, input_ids, seq_lens, out_cache_loc)."""


@dataclass(frozen=True)
class PrepareQuestion:
    """A function that fills a graph's inputs, judged by what a recorded graph then reads and writes."""

    slots: int = 32

    def check(self, given: Prepare | Any = ...) -> Verdict:
        """Judge a function; `...` means that there is none yet."""
        if given is ...:
            return Verdict(None, "Write prepare, then replace the ... by its name and run the cell again.")
        if not callable(given):
            return Verdict(False, "The answer is the function itself: prepare.")
        random = torch.Generator()
        random.seed()
        cases = 8
        for case in range(cases):
            try:
                told = self._try(given, random, bs=8, raw=8 if case == 0 else 1 + case % 7)
            except NotImplementedError:
                return Verdict(None, "prepare is still to be written.")
            except Exception as error:  # the reader's code: whatever it raises is what to tell
                return Verdict(False, f"prepare raised {type(error).__name__}: {error}")
            if told:
                return Verdict(False, told)
        return Verdict(True, f"{cases} replays: every request is seen, and padding touches slot 0 alone.")

    def _try(self, prepare: Prepare, random: torch.Generator, bs: int, raw: int) -> str:
        """What is wrong after one replay; empty: nothing."""

        def draw(most: int, count: int) -> torch.Tensor:
            return torch.randint(1, most, (count,), generator=random)

        free = torch.randperm(self.slots - 1, generator=random) + 1
        slots, stale = free[:raw], free[raw : raw + bs]  # apart, so that each mistake shows as what it is
        buffers = {"input_ids": draw(99, bs), "seq_lens": 1 + draw(998, bs), "out_cache_loc": stale.clone()}
        addresses = {name: tensor.data_ptr() for name, tensor in buffers.items()}
        pool = torch.zeros(self.slots, dtype=torch.int64)
        held = dict(buffers)  # the graph's own, whatever becomes of the dict
        graph = RecordedGraph()
        with graph.capture():
            pool.index_put_((held["out_cache_loc"],), held["input_ids"])
            read = held["seq_lens"] * 1
        tokens, lens = draw(99, raw), draw(999, raw)
        pool.fill_(-1)
        prepare(buffers, tokens.tolist(), lens.tolist(), slots.tolist())
        graph.replay()
        batch = f"A batch of {raw} in a graph of {bs}"
        moved = [name for name, tensor in buffers.items() if tensor.data_ptr() != addresses[name]]
        if moved:
            return f"{batch}: {', '.join(moved)} now names a new tensor. The graph reads the old one: write into it."
        if not torch.equal(pool[slots], tokens) or not torch.equal(read[:raw], lens):
            return f"{batch}: the replay did not see the batch's own values. Copy them into the first {raw} entries."
        others = torch.ones(self.slots, dtype=torch.bool)
        others[slots] = others[0] = False
        if bool((pool[others] != -1).any()):
            return f"{batch}: a padded row wrote to a slot that is not the batch's. Padded rows belong to slot 0."
        if bool((read[raw:] != 1).any()):
            return f"{batch}: padded rows have the lengths {read[raw:].tolist()}; they should attend to one token each."
        return ""
