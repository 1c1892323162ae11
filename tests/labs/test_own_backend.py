"""Your own attention backend: the questions judge what backends really do, and known wrong ones are told apart."""

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

import sglab
from sglab.attention import (
    ATTENTION_BACKENDS,
    AttentionBackend,
    AttentionInputs,
    Capabilities,
    Span,
    save_and_get_kv,
    spans,
)
from sglab.attention import register_attention_backend as register
from sglab.engine import ForwardBatch, ForwardMode, GraphBatch
from sglab.labs import own_backend as lab

MODES = (ForwardMode.EXTEND, ForwardMode.DECODE, ForwardMode.MIXED, ForwardMode.IDLE)
ENGINE = {"page_size": 4, "max_total_tokens": 256, "disable_overlap_schedule": True}


class Plain(AttentionBackend):
    """One request after the other, its keys in `parts`."""

    capabilities = Capabilities(modes=MODES)

    def prepare(self, forward_batch: ForwardBatch) -> None:
        super().prepare(forward_batch)
        self.spans = [] if forward_batch.forward_mode.is_idle() else list(spans(forward_batch))

    def parts(self, length: int, batch_size: int) -> list[tuple[int, int]]:
        step = -(-length // max(1, 8 // batch_size))
        return [(start, min(start + step, length)) for start in range(0, length, step)]

    def attend(self, inputs: AttentionInputs) -> torch.Tensor:
        keys, values = save_and_get_kv(inputs)
        out = inputs.q.new_empty(*inputs.q.shape[:2], inputs.layer.v_head_dim)
        for span in self.spans:
            q, k, v = inputs.q[span.start : span.stop].float(), keys[span.slots].float(), values[span.slots].float()
            k, v = (rows.repeat_interleave(q.shape[1] // rows.shape[1], 1) for rows in (k, v))
            outs, lses = [], []
            for start, stop in self.parts(len(k), len(self.spans)):
                scores = torch.einsum("nhd,mhd->nhm", q, k[start:stop]) * inputs.layer.scaling
                later = torch.arange(start, stop) > span.first_position + torch.arange(len(q))[:, None]
                scores = scores.masked_fill(later[:, None], -torch.inf)
                lses.append(scores.logsumexp(-1, keepdim=True))
                outs.append(torch.einsum("nhm,mhd->nhd", (scores - lses[-1]).exp().nan_to_num(0.0), v[start:stop]))
            weights = torch.stack(lses).softmax(0)
            out[span.start : span.stop] = (torch.stack(outs) * weights).sum(0)
        return out


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    before = dict(ATTENTION_BACKENDS)
    yield
    ATTENTION_BACKENDS.clear()
    ATTENTION_BACKENDS.update(before)


def made(name: str, **attributes: object) -> type[Plain]:
    return register(name)(type(name.title(), (Plain,), attributes))


def test_calls_are_counted_and_the_class_is_left_as_it_was() -> None:
    plain = made("plain")
    methods = dict(vars(plain))
    engine = sglab.Engine("tiny", attention_backend="plain", **ENGINE)
    question = lab.calls(plain, engine, "The robot")
    assert question.check([5, 20]).right and question.check([6, 24]).right is False
    assert dict(vars(plain)) == methods


def test_it_says_what_the_shipped_backend_says() -> None:
    made("plain")
    greedy = {"temperature": 0, "max_new_tokens": 8}
    engines = [sglab.Engine("tiny", attention_backend=name, **ENGINE) for name in ("plain", "torch_native")]
    said = [engine.generate("The robot", greedy).text for engine in engines]
    assert said[0] == said[1]


def test_visible_pairs() -> None:
    batch = sglab.extend_batch(seq_lens=[8, 4], prefix_lens=[3, 0], num_heads=4, page_size=4)
    assert lab.visible_pairs(batch.forward_batch).check(40).right
    assert lab.visible_pairs(batch.forward_batch).check(25 + 16).right is False


def test_the_refusal_names_the_mode() -> None:
    made("decodes", capabilities=Capabilities(modes=(ForwardMode.DECODE, ForwardMode.IDLE)))
    question = lab.refused_argument(sglab.extend_batch(seq_lens=[8], num_heads=4), "decodes")
    assert question.check("forward_mode").right and question.check("spec_info").right is False


def test_bits_follow_the_number_of_parts() -> None:
    made("split")
    question = lab.same_bits_as("split", count=3)
    assert question.check({3, 4}).right and question.check({1, 3}).right is False
    assert lab.error(lab.same_row(3), "split") < 1e-4


def fixed(step: int) -> object:
    return lambda self, length, batch_size: [(i, min(i + step, length)) for i in range(0, length, step)]


@pytest.mark.parametrize(
    ("parts", "declared", "said"),
    [
        (fixed(256), True, None),
        (fixed(100), True, None),
        (fixed(256), False, "Say so"),
        (fixed(512), True, "a part has 1 to 256"),
        (lambda self, n, batch_size: fixed(256 // batch_size)(self, n, batch_size), True, "depends on the batch"),
        (lambda self, length, batch_size: [(0, length // 2), (length // 2, length)], True, "a part has 1 to 256"),
        (lambda self, n, batch_size: [(i, i + 256) for i in range(0, n, 256)], True, "parts follow each other"),
        (lambda self, length, batch_size: 1 / 0, True, "ZeroDivisionError"),
    ],
)
def test_a_batch_invariant_backend(parts: object, declared: bool, said: str | None) -> None:
    split = made("split")
    mine = register("mine")(
        type("Mine", (split,), {"parts": parts, "capabilities": Capabilities(modes=MODES, deterministic=declared)})
    )
    verdict = lab.PartsQuestion(split).check(mine)
    assert verdict.right is (said is None), verdict
    assert said is None or said in verdict.text


def test_a_backend_with_other_bits_in_another_batch_is_found_out() -> None:
    split = made("split")

    def attend(self: Plain, inputs: AttentionInputs) -> torch.Tensor:
        return Plain.attend(self, inputs) * (1 + 1e-6 * len(self.spans))

    own = {"parts": fixed(256), "attend": attend, "capabilities": Capabilities(modes=MODES, deterministic=True)}
    verdict = lab.PartsQuestion(split).check(register("mine")(type("Mine", (split,), own)))
    assert verdict.right is False and "other bits than alone" in verdict.text


def test_what_is_no_answer() -> None:
    split = made("split")
    assert lab.PartsQuestion(split).check().right is None
    assert lab.PartsQuestion(split).check(split).right is False
    assert "Register it" in lab.PartsQuestion(split).check(type("Mine", (split,), {})).text

    def parts(self: Plain, length: int, batch_size: int) -> list[tuple[int, int]]:
        raise NotImplementedError

    assert lab.PartsQuestion(split).check(register("mine")(type("Mine", (split,), {"parts": parts}))).right is None


def test_csr() -> None:
    question = lab.csr()
    assert question.check(lab._csr).right
    for function, feedback in question.ideas:
        verdict = question.check(function)
        assert verdict.right is False and verdict.text.startswith(feedback)


def test_the_padded_row() -> None:
    class Graphed(Plain):
        capabilities = Capabilities(modes=MODES, graph_modes=(ForwardMode.DECODE, ForwardMode.IDLE))

        def _fill(self, batch: GraphBatch) -> None:
            table = self._runner.req_to_token_pool.req_to_token  # type: ignore[union-attr]
            rows = zip(batch.req_pool_indices.tolist(), batch.seq_lens.tolist(), strict=True)
            self.spans = [
                Span(i, i + 1, length - 1, table[row, :length].long()) for i, (row, length) in enumerate(rows)
            ]

        def prepare_capture(self, graph_batch: GraphBatch) -> None:
            super().prepare_capture(graph_batch)
            self._fill(graph_batch)

        def prepare_replay(self, graph_batch: GraphBatch) -> None:
            super().prepare_replay(graph_batch)
            self._fill(graph_batch)

    register("graphed")(Graphed)
    engine = sglab.Engine("tiny", attention_backend="graphed", cuda_graph=True, cuda_graph_bs=(4,), **ENGINE)
    question = lab.padded_row(engine, Graphed, ["The robot", "Once", "2 + 3 ="])
    assert question.check([1, 0]).right and question.check([0, 0]).right is False
    eager = sglab.Engine("tiny", attention_backend="graphed", **ENGINE)
    with pytest.raises(ValueError, match="nothing was replayed"):
        lab.padded_row(eager, Graphed, ["The robot"]).answer()
