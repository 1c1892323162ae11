"""The questions of notebook 14 know their answers, and its launches compute what they say."""

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from sglab.labs import tensor_cores as lab
from sglab.labs.question import Question

EXACT = 1e-4


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        (lab.rows_of_exchanged_lanes(0, 4), {0, 1, 8, 9}, {0, 4}),
        (lab.right_rows(), 8, 0),
        (lab.right_rows(stored_b="plain"), 512, 64),
        (lab.wrong_field(lab.strange_tile()), ["N", 32], ["M", 64]),
        (lab.commit_first(), -1, 0),
        (lab.columns_left(), 128, 0),
        (lab.place_of_element(200, 100), [1, 72, 100], [0, 200, 100]),
        (lab.scaled_by(5, 1, 2), [37, 2], [5, 1]),
    ],
)
def test_answers(question: Question, right: object, wrong: object) -> None:
    assert question.check(right).right is True
    assert question.check(wrong).right is False


def pack(where: Callable[[int, int, int], tuple[int, int]]) -> Callable[[torch.Tensor], torch.Tensor]:
    """A packing by what each (lane, register, half) holds."""

    def packed(a: torch.Tensor) -> torch.Tensor:
        out = torch.zeros(32, 4, 2)
        for lane in range(32):
            for register in range(4):
                for half in range(2):
                    out[lane, register, half] = a[where(lane, register, half)]
        return out

    return packed


def test_packing_is_judged_by_the_product() -> None:
    question = lab.packed_fragment()
    right = pack(lambda lane, r, half: (lane // 4 + 8 * (r % 2), lane % 4 * 2 + half + 8 * (r // 2)))
    swapped = pack(lambda lane, r, half: (lane // 4 + 8 * (r // 2), lane % 4 * 2 + half + 8 * (r % 2)))
    turned = pack(lambda lane, r, half: (lane // 4 + 8 * (r % 2), lane % 4 * 2 + 1 - half + 8 * (r // 2)))
    assert question.check(right).right is True
    for wrong, told in (
        (swapped, "Registers 1 and 2 are exchanged"),
        (turned, "halves of each register are exchanged"),
        (lambda a: a.view(32, 4, 2), "row by row"),
        (lambda a: a, r"expected (32, 4, 2)"),
        (torch.zeros(32, 4, 2), "function itself"),
    ):
        verdict = question.check(wrong)
        assert verdict.right is False and told in verdict.text
    assert question.check(...).right is None


def test_the_descriptor_is_judged() -> None:
    codes = {"none": 0, "32B": 6, "64B": 4, "128B": 2}

    def right(start: int, stride: int, swizzle: str) -> int:
        return start // 16 | stride // 16 << 32 | 1 << 46 | codes[swizzle] << 61

    question = lab.smem_descriptor()
    assert question.check(right).right is True
    for wrong, told in (
        (lambda *case: right(*case) & ~(1 << 46), "version"),
        (lambda start, stride, swizzle: start | stride << 32 | 1 << 46 | codes[swizzle] << 61, "units of 16"),
        (lambda start, stride, swizzle: right(start, 0, swizzle) | stride // 16 << 16, "SBO"),
    ):
        verdict = question.check(wrong)
        assert verdict.right is False and told in verdict.text


def test_products_are_right() -> None:
    hopper = lab.WarpgroupTile(*lab.random_operands(64))
    single = lab.Tile(*lab.random_operands(128, seed=1), a_descriptor=lab.descriptor(0, 1024, "128B"))
    pair = lab.Tile(*lab.random_operands(256, 128, seed=2), pair=True)
    for tile in (hopper, single, pair):
        assert tile.run(sanitize=True).findings == ()
        assert float((tile.result() - tile.product()).abs().max()) < EXACT


@pytest.mark.parametrize("order", ["no wait", "commit first"])
def test_a_wrong_order_reads_what_was_there(order: str) -> None:
    tile = lab.Tile(*lab.random_operands(), order=order)
    assert tile.run(sanitize=True).findings
    assert (tile.d == -1).all()


@pytest.mark.parametrize(("kind", "bits", "worst"), [("mxf8", 8.25, 0.06), ("mxf4", 4.25, 0.2), ("nvf4", 4.5, 0.16)])
def test_block_scaled_products_are_those_of_the_rounded_matrices(kind: str, bits: float, worst: float) -> None:
    tile = lab.ScaledTile(*lab.random_operands(128, 64, 128, seed=4), kind=kind)
    assert tile.run(sanitize=True).findings == ()
    assert float((tile.result() - tile.dequantized()).abs().max()) < EXACT
    assert float((tile.result() - tile.product()).abs().mean() / tile.product().abs().mean()) < worst
    assert tile.bits_per_value() == bits


@pytest.mark.parametrize(
    ("queries", "keys", "causal", "threshold", "polynomial"),
    [(128, 64, False, 0, 0), (200, 300, True, 0, 0), (200, 300, False, 8, 16), (64, 330, True, 8, 4)],
)
def test_attention_in_tensor_memory(queries: int, keys: int, causal: bool, threshold: int, polynomial: int) -> None:
    tile = lab.AttentionTile(queries, keys, causal, threshold=threshold, polynomial=polynomial, spread=2.0)
    for scheduler in ("fair", "adversarial"):
        assert tile.run(scheduler=scheduler, sanitize=True).findings == ()
        assert tile.error() < 1e-3


def test_attention_refuses_what_no_prompt_has() -> None:
    with pytest.raises(ValueError, match="queries: expected at most keys"):
        lab.AttentionTile(queries=200, keys=100, causal=True)
    with pytest.raises(ValueError, match="polynomial: expected one of"):
        lab.AttentionTile(polynomial=3)
