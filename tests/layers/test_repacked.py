"""GPTQ's and AWQ's matrices in Marlin's layout: what they stand for, and products, before and after."""

import random

import pytest
import torch

from sglab.kernels.formats.marlin import marlin_permute_scales
from sglab.layers.quantization.awq import Awq
from sglab.layers.quantization.gptq import Gptq
from sglab.layers.quantization.marlin import Marlin, marlin_pack
from sglab.layers.quantization.repacked import Repacked, repacked
from sglab.layers.quantization.scheme import Scheme
from sglab.layers.quantization.weight import Cut, QuantizedWeight
from tests.support.quantized import awq, gptq, words


def loaded(scheme: Scheme, tensors: dict[str, torch.Tensor], shape: tuple[int, int], rank: int, ranks: int,
           axis: str) -> QuantizedWeight:  # fmt: skip
    """One rank's part of a whole matrix, cut along its input or output features."""
    out, depth = shape
    mine = (out, depth // ranks) if axis == "in" else (out // ranks, depth)
    part = QuantizedWeight(scheme, mine, depth)
    cut = Cut(0 if axis == "in" else rank * mine[0], out, rank * mine[1] if axis == "in" else 0, depth)
    for name, tensor in tensors.items():
        part.load(name, tensor, cut)
    part.check()
    part.settle()
    return part


@pytest.mark.parametrize("seed", range(12))
def test_a_matrix_stands_for_the_same_numbers(seed: int) -> None:
    """Groups of 32 to 128 or one, parts of ranks that are left with one group, zero points, both orders."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    kind = ["gptq", "gptq", "gptq desc_act", "awq"][seed % 4]
    size, ranks, axis = rng.choice([32, 64, -1]), rng.choice([1, 2]), rng.choice(["in", "out"])
    out, depth = 64 * rng.randint(1, 2) * ranks, 64 * rng.randint(1, 2) * ranks
    w = torch.randn(out, depth)
    if kind == "awq":
        scheme: Scheme = Awq(size)
        tensors, wide = awq(w, depth if size < 0 else size)
    else:
        bits, desc_act, version = rng.choice([4, 8]), "desc" in kind and size > 0, rng.choice([1, 2])
        scheme = Gptq(bits, size, desc_act, int(version == 1))
        tensors, wide = gptq(w, depth if size < 0 else size, bits, desc_act, version)
    for rank in range(ranks):
        part = loaded(scheme, tensors, (out, depth), rank, ranks, axis)
        before = part.dense()
        assert torch.equal(before, wide.chunk(ranks, 1 if axis == "in" else 0)[rank])
        part.repack()
        if isinstance(part.scheme, Repacked):
            assert torch.equal(part.dense(), before)
            x = torch.randn(3, part.shape[1])
            assert torch.allclose(part(x), x @ before.T, rtol=1e-4, atol=1e-4 * float(before.abs().max()) * 30)
        else:  # a part of a desc_act checkpoint, whose groups were cut
            assert kind == "gptq desc_act" and ranks == 2 and axis == "in"
            assert torch.equal(part.dense(), before)


@pytest.mark.parametrize("desc_act", [False, True])
def test_the_triton_product_of_a_repacked_matrix(desc_act: bool) -> None:
    tensors, wide = gptq(torch.randn(64, 64), 32, 4, desc_act)
    part = loaded(Gptq(4, 32, desc_act), tensors, (64, 64), 0, 1, "in")
    part.repack()
    assert isinstance(part.scheme, Repacked) and part.scheme.ordered == desc_act and part.scheme.zero_points
    x = torch.randn(3, 64).half()
    out = part.scheme.product(x, part.tensors(), "triton").double()
    wanted = x.double() @ wide.double().T
    assert (out - wanted).abs().max() <= 2e-3 * wanted.abs().max()


def test_symmetric_zero_points_are_not_kept() -> None:
    tensors, _ = gptq(torch.randn(64, 64), 32)
    tensors["qzeros"] = words(torch.full((64, 2), 7), 4).T.contiguous()  # 8, less one
    part = loaded(Gptq(4, 32), tensors, (64, 64), 0, 1, "in")
    before = part.dense()
    part.repack()
    assert isinstance(part.scheme, Repacked) and not part.scheme.zero_points
    assert torch.equal(part.dense(), before) and set(part.tensors()) == {"qweight", "scales"}


@pytest.mark.parametrize(("shape", "size"), [((72, 64), 32), ((64, 72), 24), ((64, 64), 16), ((64, 96), 64)])
def test_what_has_no_place_in_the_layout_stays(shape: tuple[int, int], size: int) -> None:
    tensors, wide = gptq(torch.randn(*shape), size)
    part = loaded(Gptq(4, size), tensors, shape, 0, 1, "in")
    part.repack()
    assert isinstance(part.scheme, Gptq) and torch.equal(part.dense(), wide)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_part_of_a_marlin_checkpoint_with_one_group(ranks: int) -> None:
    """The whole matrix' scales lie in the order of several groups; a part with one group is read in another."""
    q, scales = torch.randint(0, 16, (256, 64)), torch.rand(4, 64)
    wide = ((q - 8) * scales.repeat_interleave(64, 0)).T
    tensors = {"B": marlin_pack(q), "s": marlin_permute_scales(scales)}
    for rank in range(ranks):
        part = loaded(Marlin(64), tensors, (64, 256), rank, ranks, "in")
        assert torch.equal(part.dense(), wide.chunk(ranks, 1)[rank])
        x = torch.randn(2, 256 // ranks)
        assert torch.allclose(part.scheme.product(x, part.tensors()), x @ part.dense().T, rtol=1e-4, atol=1e-3)
    alone = loaded(Marlin(256), {"B": tensors["B"], "s": marlin_permute_scales(scales[:1])}, (64, 256), 0, 1, "in")
    assert torch.equal(alone.dense(), ((q - 8) * scales[:1]).T)


def test_formats_that_are_not_of_these_stay() -> None:
    assert repacked(Marlin(64), {}, (64, 64)) is None
