"""What a backend was prepared for: a plan belongs to one pass, a graph to the sizes that were captured.

Index arrays and splits of another pass give finite, plausible, wrong numbers, so `AttentionBackend` compares, from what
the host knows alone: nothing here waits for a device.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.engine import BadArgumentError, ForwardBatch, ForwardMode, GraphBatch


@dataclass(frozen=True)
class PreparedPass:
    """An eager pass.

    Attributes:
        lens, rows: the requests' lengths and rows of req_to_token; None where only the device knows them.
        tokens: query rows; None where only the device knows them.
        seen: the tensors that lengths and rows were read from, and how often each had been written to by then; None:
            that is not counted.
    """

    mode: ForwardMode
    batch_size: int
    lens: list[int] | None
    rows: list[int] | None
    tokens: int | None
    seen: tuple[tuple[torch.Tensor | None, int], ...] | None = None

    @classmethod
    def of(cls, batch: ForwardBatch) -> PreparedPass:
        lens = _on_host(batch.seq_lens)
        if lens is None and batch.seq_lens_cpu is not None:
            lens = batch.seq_lens_cpu.tolist()
        rows = _on_host(batch.req_pool_indices)
        return cls(batch.forward_mode, batch.batch_size, lens, rows, _tokens(batch), _versions(batch))

    def is_of(self, batch: ForwardBatch) -> bool:
        """Whether nothing can have changed: every layer of a pass asks, so contents are not read again."""
        if self.seen is None or self.mode is not batch.forward_mode or self.batch_size != batch.batch_size:
            return False
        for (tensor, version), now in zip(self.seen, _sources(batch), strict=True):
            if tensor is not now or (now is not None and now._version != version):
                return False
        return True

    def refuse_another(self, batch: ForwardBatch, tokens: int) -> None:
        """
        Args:
            tokens: query rows that were passed.

        Raises:
            BadArgumentError: the batch is of another pass, or has another number of query rows.
        """
        remedy = "Call prepare for this batch first: index arrays and plans are those of the other."
        now = self if self.is_of(batch) else PreparedPass.of(batch)
        for name, mine, others in (
            ("forward_mode", self.mode.name, now.mode.name),
            ("batch_size", self.batch_size, now.batch_size),
            ("seq_lens", self.lens, now.lens),
            ("req_pool_indices", self.rows, now.rows),
        ):
            if mine != others and mine is not None and others is not None:
                raise BadArgumentError(f"forward_batch.{name}", f"{mine}, as in prepare", others, remedy)
        if self.tokens is not None and tokens != self.tokens:
            expected = f"{self.tokens} rows, one per new token of the batch"
            raise BadArgumentError("q", expected, tokens, "Pass the rows of all its tokens and no others.")


class GraphSizes:
    """The buffers of a backend's graphs, and what was captured over them.

    Args:
        max_bs, max_num_tokens: the largest graph's.
    """

    def __init__(self, max_bs: int, max_num_tokens: int) -> None:
        self.max_bs, self.max_num_tokens = max_bs, max_num_tokens
        self._captured: set[tuple[str, int, int]] = set()

    def capture(self, batch: GraphBatch) -> None:
        """Note a size that is captured.

        Raises:
            BadArgumentError: the buffers are too small for it, or its tensors shorter than it says.
        """
        for name, size, most in (("bs", batch.bs, self.max_bs), ("num_tokens", batch.num_tokens, self.max_num_tokens)):
            if size > most:
                remedy = "Call init_graph for the largest batch that is captured."
                raise BadArgumentError(f"graph_batch.{name}", f"at most {most}, as init_graph was told", size, remedy)
        self._check_lengths(batch)
        self._captured.add(self._key(batch))

    def replay(self, batch: GraphBatch) -> None:
        """
        Raises:
            BadArgumentError: no graph of this mode and size was captured: the one that would run reads fewer rows.
        """
        self._check_lengths(batch)
        mode, bs, tokens = self._key(batch)
        if (mode, bs, tokens) not in self._captured:
            sizes = sorted(each[1:] for each in self._captured if each[0] == mode)
            expected = f"a captured size of {mode}, (bs, num_tokens) one of {sizes}"
            remedy = "Pad the batch to the next captured size, or capture this one."
            raise BadArgumentError("graph_batch.bs", expected, (bs, tokens), remedy)

    @staticmethod
    def _check_lengths(batch: GraphBatch) -> None:
        for name in ("seq_lens", "req_pool_indices"):
            length = len(getattr(batch, name))
            if length < batch.bs:
                remedy = "Pad the batch's tensors, too."
                raise BadArgumentError(f"graph_batch.{name}", f"at least {batch.bs} entries", length, remedy)

    @staticmethod
    def _key(batch: GraphBatch) -> tuple[str, int, int]:
        """An idle worker replays the graphs of decode."""
        mode = ForwardMode.DECODE if batch.forward_mode.is_decode_or_idle() else batch.forward_mode
        return mode.name, batch.bs, batch.num_tokens


def _on_host(values: torch.Tensor) -> list[int] | None:
    return values.tolist() if values.device.type == "cpu" else None


def _tokens(batch: ForwardBatch) -> int | None:
    mode = batch.forward_mode
    if mode.is_decode():
        return batch.batch_size
    if mode.is_target_verify():
        count = getattr(batch.spec_info, "draft_token_num", None)
        return None if count is None else batch.batch_size * count
    return None if batch.extend_seq_lens_cpu is None else sum(batch.extend_seq_lens_cpu)


def _sources(batch: ForwardBatch) -> tuple[torch.Tensor | None, ...]:
    return batch.seq_lens, batch.seq_lens_cpu, batch.req_pool_indices


def _versions(batch: ForwardBatch) -> tuple[tuple[torch.Tensor | None, int], ...] | None:
    """None where a tensor was made in inference mode, which does not count writes."""
    sources = _sources(batch)
    if any(each is not None and each.is_inference() for each in sources):
        return None
    return tuple((each, 0 if each is None else each._version) for each in sources)
