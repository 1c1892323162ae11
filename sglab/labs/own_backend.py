"""Notebook "Your own attention backend": calls of a backend in an engine, its rows against float64, its bits across
batches, and what a graph's replay hands to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from sglab.attention import ATTENTION_BACKENDS, AttentionBackend, UnsupportedError, spans
from sglab.engine import ForwardBatch, GraphBatch
from sglab.workbench import attend, decode_batch, reference

from .code_question import CodeQuestion
from .question import Question, Verdict

if TYPE_CHECKING:
    from sglab.serving import Engine
    from sglab.workbench.batch import Batch

RIGHT = 2e-3
"""Largest error that rounding the output to float16 explains here."""
GREEDY = {"temperature": 0, "max_new_tokens": 5}
LENGTHS = (700, 300, 1000, 77, 512, 40, 256, 129)
LONGEST = 256
"""Tokens that a part of a request may have in the exercise on parts."""


def error(batch: Batch, backend: str) -> float:
    """How far a backend's output on a batch is from float64's, at worst."""
    return float((attend(batch, backend=backend).double() - reference(batch).o).abs().max())


@contextmanager
def counted(backend: type[AttentionBackend]) -> Iterator[list[str]]:
    """Within it every call of a backend's `prepare` and `attend` is listed by name."""
    calls: list[str] = []
    kept = {name: backend.__dict__.get(name) for name in ("prepare", "attend")}

    def listed(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: AttentionBackend, *args: Any, **kwargs: Any) -> Any:
            calls.append(name)
            return method(self, *args, **kwargs)

        return call

    for name in kept:
        setattr(backend, name, listed(name, getattr(backend, name)))
    try:
        yield calls
    finally:
        for name, method in kept.items():
            if method is None:
                delattr(backend, name)
            else:
                setattr(backend, name, method)


def first_row(batch: Batch, backend: str) -> torch.Tensor:
    """What a backend gives for the first request."""
    return attend(batch, backend=backend)[0]


def same_row(count: int, seed: int = 0) -> Batch:
    """A decode batch of `count` requests whose first is the same, whatever the others are: 700 tokens."""
    return decode_batch(LENGTHS[:count], num_heads=8, page_size=16, dtype="float32", seed=seed)


def rows_of(backend: str, counts: Sequence[int]) -> dict[int, torch.Tensor]:
    """The first request's output by the number of requests in its batch; its queries and keys are the same in each."""
    alone = same_row(1)
    found = {}
    for count in counts:
        batch = same_row(count)
        batch.q[0] = alone.q[0]
        pool, own = batch.runner.token_to_kv_pool, alone.runner.token_to_kv_pool
        pool.get_key_buffer(0)[batch.slots(0)] = own.get_key_buffer(0)[alone.slots(0)]
        for rows, theirs in ((batch.k, alone.k), (batch.v, alone.v)):
            if rows is not None and theirs is not None:
                rows[0] = theirs[0]
        found[count] = first_row(batch, backend)
    return found


# ---- questions ----


def calls(backend: type[AttentionBackend], engine: Engine, prompt: str) -> Question:
    """Calls of prepare and of attend while an engine reads a prompt and writes five tokens."""

    def truth() -> list[int]:
        engine.flush_cache()
        with counted(backend) as made:
            engine.generate(prompt, GREEDY)
        return [made.count("prepare"), made.count("attend")]

    return Question(
        truth=truth,
        because="{truth}: the pass over the prompt gives the first token, four decode passes the others; prepare once "
        "per pass, attend once per pass and layer.",
        hint="How many passes are five tokens? The prompt's pass gives one already. And the model has four layers.",
        ideas=(
            ([6, 24], "The pass that reads the prompt gives the first token."),
            ([5, 5], "attend comes once for each of the four layers."),
            ([20, 20], "prepare comes once per pass: what it makes, all layers share."),
            ([5, 4], "attend comes once per layer in *every* pass."),
            ([1, 20], "Lengths change in every pass, so prepare comes in every pass."),
        ),
    )


def visible_pairs(batch: ForwardBatch) -> Question:
    """Pairs of a query and a key that it sees, per head, over a batch."""

    def truth() -> int:
        total = 0
        for span in spans(batch):
            queries = torch.arange(span.first_position, len(span.slots))
            total += int((queries + 1).sum())
        return total

    return Question(
        truth=truth,
        because="{truth}: the query at position p sees p + 1 keys, its own among them.",
        hint="A new token at position p sees positions 0 to p. A request's first one stands after its prefix.",
        ideas=(
            (
                sum(len(span.slots) * (span.stop - span.start) for span in spans(batch)),
                "A token does not see those after it.",
            ),
            (
                sum((n := span.stop - span.start) * (n + 1) // 2 for span in spans(batch)),
                "The cached tokens are keys, too: new ones see them.",
            ),
            (
                sum(len(span.slots) * (len(span.slots) + 1) // 2 for span in spans(batch)),
                "The cached tokens have no queries in this pass.",
            ),
        ),
    )


def refused_argument(batch: Batch, backend: str) -> Question:
    """The argument that a refusal names, when a backend is asked for this batch."""

    def truth() -> str:
        try:
            attend(batch, backend=backend)
        except UnsupportedError as refused:
            return refused.argument.rpartition(".")[2]
        return "nothing"

    return Question(
        truth=truth,
        because="{truth}: the prompt is an EXTEND pass, which this backend does not declare. Nothing was written.",
        hint="Run it and read the error: the word before the colon, after the last dot.",
        ideas=(
            ("nothing", "It declares DECODE and IDLE. These are prompts."),
            ("capabilities", "Those are what it declares. The refusal names what in the *call* they do not cover."),
        ),
    )


def same_bits_as(backend: str, count: int) -> Question:
    """The batch sizes of 1 to 8 in which the first request has the same bits as in a batch of `count`."""

    def truth() -> set[int]:
        rows = rows_of(backend, range(1, len(LENGTHS) + 1))
        return {each for each, row in rows.items() if torch.equal(row, rows[count])}

    return Question(
        truth=truth,
        because="{truth}: where the request is cut into as many parts, the same sums are made in the same order.",
        hint="Into how many parts does it cut a request in a batch of 1, 2, 3 …? Equal parts, equal bits.",
        ideas=(
            ({count}, "The same number of parts gives the same bits. Which other batches have as many parts?"),
            (set(range(1, 9)), "So it should be. Here the number of parts depends on the batch."),
        ),
    )


def padded_row(engine: Engine, backend: type[AttentionBackend], prompts: Sequence[str]) -> Question:
    """[length, slot that is written] of the padded row when three requests decode in a graph of four."""

    def truth() -> list[int]:
        seen: list[list[int]] = []
        replay = backend.prepare_replay

        def watched(self: AttentionBackend, graph_batch: GraphBatch) -> None:
            replay(self, graph_batch)
            assert self._runner is not None
            row = self._runner.req_to_token_pool.req_to_token[graph_batch.req_pool_indices[-1]]
            seen.append([int(graph_batch.seq_lens[-1]), int(row[0])])

        backend.prepare_replay = watched
        try:
            engine.flush_cache()
            engine.generate(list(prompts), GREEDY)
        finally:
            backend.prepare_replay = replay
        if not seen:
            raise ValueError("engine: expected one with cuda_graph=True; nothing was replayed")
        return [seen[0][0], 0]

    return Question(
        truth=truth,
        because="{truth}: it attends to one token and writes slot 0, the dummy that no request holds. A length of 0 "
        "would be a softmax over nothing: NaN.",
        hint="AttentionBackend.graph_seq_len_fill_value, and the glossary on slot.",
        ideas=(
            ([0, 0], "A length of 0 would be a softmax over nothing."),
            ([1, 1], "Slot 1 may belong to a request. Which slot belongs to none?"),
            ([0, 1], "The length comes first. A length of 0 would be a softmax over nothing."),
        ),
    )


# ---- exercises ----


def _csr(req_to_token: torch.Tensor, rows: torch.Tensor, lens: torch.Tensor) -> list[torch.Tensor]:
    pairs = list(zip(rows.tolist(), lens.tolist(), strict=True))
    indptr = torch.nn.functional.pad(torch.cumsum(lens, 0), (1, 0))
    return [indptr, torch.cat([req_to_token[row, :length] for row, length in pairs])]


def _tables(random: torch.Generator) -> list[list[Any]]:
    def draw(requests: int, width: int) -> list[Any]:
        table = torch.randperm((requests + 2) * width, generator=random).view(requests + 2, width)
        rows = torch.randperm(requests + 2, generator=random)[:requests]
        return [table, rows, torch.randint(1, width, (requests,), generator=random)]

    return [draw(1, 4), draw(2, 6), draw(5, 9), draw(8, 30)]


def csr() -> CodeQuestion:
    """The exercise of writing csr(req_to_token, rows, lens) -> (kv_indptr, kv_indices)."""
    return CodeQuestion(
        function="csr",
        cases=_tables,
        truth=_csr,
        because="These two arrays are what FlashInfer and SGLang's Triton kernels read.",
        ideas=(
            (
                lambda t, rows, n: [_csr(t, rows, n)[0][1:], _csr(t, rows, n)[1]],
                "kv_indptr begins with 0: B + 1 entries.",
            ),
            (
                lambda t, rows, n: _csr(t, torch.arange(len(rows)), n),
                "A request's row of the table is rows[i], not i: rows are given to requests as they come and go.",
            ),
            (
                lambda t, rows, n: [_csr(t, rows, n)[0], t[rows].flatten()],
                "What lies past a request's length belongs to no request: cut each row at its length.",
            ),
            (lambda t, rows, n: [n, _csr(t, rows, n)[1]], "kv_indptr is the running sum of the lengths, from 0 on."),
        ),
    )


@dataclass(frozen=True)
class PartsQuestion:
    """A backend to write: `Split` with other `parts(length, batch_size)`, so that a row's bits hold in every batch."""

    base: type[AttentionBackend]

    def check(self, given: Any = ...) -> Verdict:
        """Judge a class by its parts, its error and its bits in eight batches."""
        if given is ...:
            return Verdict(None, "Write the class, then replace the ... by its name and run the cell again.")
        if not (isinstance(given, type) and issubclass(given, self.base)) or given is self.base:
            return Verdict(False, f"The answer is a class derived from {self.base.__name__}.")
        mine: Any = given
        if ATTENTION_BACKENDS.get(mine.name) is not given:
            return Verdict(False, f'Register it: @register_attention_backend("…") above class {given.__name__}.')
        parts = mine.__new__(mine).parts
        try:
            for length in (1, 40, 256, 257, 1000):
                said = self._wrong_parts(parts, length)
                if said:
                    return Verdict(False, said)
        except NotImplementedError:
            return Verdict(None, "parts is still to be written.")
        except Exception as failed:  # the reader's code: whatever it raises is what to tell
            return Verdict(False, f"parts raised {type(failed).__name__}: {failed}")
        rows = rows_of(mine.name, range(1, len(LENGTHS) + 1))
        if unequal := [count for count, row in rows.items() if not torch.equal(row, rows[1])]:
            return Verdict(False, f"In batches of {unequal} the first request has other bits than alone.")
        if (worst := error(same_row(4, seed=1), mine.name)) > RIGHT:
            return Verdict(False, f"The bits hold, but the error against float64 is {worst:.1e}.")
        if not mine.capabilities.deterministic:
            return Verdict(False, "Its bits hold in every batch. Say so: Capabilities(…, deterministic=True).")
        return Verdict(True, f"The same bits in {len(rows)} batches, and right to {worst:.0e}: batch-invariant.")

    def _wrong_parts(self, parts: Callable[[int, int], Any], length: int) -> str:
        cut = [tuple(map(int, each)) for each in parts(length, 1)]
        edges = [0, *(stop for _, stop in cut)]
        if [start for start, _ in cut] != edges[:-1] or edges[-1] != length:
            return f"parts({length}, 1) gave {cut}: parts follow each other from 0 to {length}."
        if max(stop - start for start, stop in cut) > LONGEST or min(stop - start for start, stop in cut) < 1:
            return f"parts({length}, 1) gave {cut}: a part has 1 to {LONGEST} tokens."
        others = [parts(length, batch_size) for batch_size in range(2, 9)]
        if any([tuple(map(int, each)) for each in other] != cut for other in others):
            return f"parts({length}, …) depends on the batch's size: another order of sums, other bits."
        return ""
