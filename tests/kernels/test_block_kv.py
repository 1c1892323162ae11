"""KV rows with a scale for each block: against the formats in float64, and Triton against the reference."""

import math

import pytest
import torch

from sglab.kernels import ContractError, dequantize_kv_rows, quantize_kv_rows
from sglab.kernels.block_kv import FORMATS, SCALE_LAYOUTS, ScaleLayout, scale_index, scale_shape

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)
PAGE, SLOTS = 32, 96
CASES = [(name, layout) for name in FORMATS for layout in SCALE_LAYOUTS]


def cache(
    name: str, heads: int, dim: int, layout: ScaleLayout, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    made = FORMATS[name]
    codes = torch.zeros((SLOTS, heads, made.row_bytes(dim)), dtype=torch.uint8, device=device)
    shape = scale_shape(layout, SLOTS, heads, made.scales(dim), PAGE)
    return codes, torch.zeros(shape, dtype=torch.uint8, device=device)


def random_rows(tokens: int, heads: int, dim: int, generator: torch.Generator) -> torch.Tensor:
    """Blocks of every size, some of zeros, and values that lie on a format's ties."""
    rows = torch.randn((tokens, heads, dim), generator=generator)
    rows *= (
        torch.exp2(torch.randint(-12, 12, (tokens, heads, dim // 16, 1), generator=generator))
        .expand(-1, -1, -1, 16)
        .reshape(rows.shape)
    )
    rows[0, 0] = 0
    ties = torch.tensor([6, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, -0.25, -0.75, -1.25, -1.75, -2.5, -3.5, -5, -6])
    rows[1, 0, :16] = ties
    return rows


@pytest.mark.parametrize(("name", "layout"), CASES)
def test_what_is_read_is_the_nearest_that_the_format_has(
    name: str, layout: ScaleLayout, device: torch.device, generator: torch.Generator, implementation: str
) -> None:
    made, heads, dim, factor = FORMATS[name], 2, 128, 0.5 if FORMATS[name].has_factor else 1.0
    rows = random_rows(9, heads, dim, generator).to(torch.bfloat16).to(device)
    slots = torch.randperm(SLOTS, generator=generator)[:9].to(device)
    codes, scales = cache(name, heads, dim, layout, device)
    options = {"factor": factor, "layout": layout, "page_size": PAGE, "implementation": implementation}
    quantize_kv_rows(rows, codes, scales, slots, name, **options)  # type: ignore[arg-type]
    read = dequantize_kv_rows(codes, scales, slots, name, dim, dtype=torch.float32, **options)  # type: ignore[arg-type]
    wide = rows.double().cpu().unflatten(-1, (-1, made.block))
    top = wide.abs().amax(-1, keepdim=True)
    if made.power_of_two:
        unit = torch.exp2(torch.ceil(torch.log2(top / made.largest)))
        assert bool((top <= unit * made.largest).all()), "nothing is cut off"
    else:
        stored = (top / 6 / factor).clamp(max=448).float().to(torch.float8_e4m3fn).double()
        unit = stored * factor
    grid = E2M1 if made.bits == 4 else torch.arange(0, 127, dtype=torch.uint8).view(torch.float8_e4m3fn).double()
    values = torch.cat((grid, -grid)) * unit[..., None]
    nearest = (values - wide[..., None]).abs().amin(-1)
    error = (read.double().cpu().unflatten(-1, (-1, made.block)) - wide).abs()
    assert bool((error <= nearest * (1 + 1e-6)).all())


@pytest.mark.parametrize(("name", "layout"), CASES)
def test_triton_writes_the_bytes_of_the_reference(
    name: str, layout: ScaleLayout, device: torch.device, generator: torch.Generator
) -> None:
    heads, dim = 3, 256 if (name, layout) == ("mxfp8", "swizzled") else 192
    rows = random_rows(7, heads, dim, generator).to(device)
    rows[2, 1, 5], rows[3, 2, dim - 2] = math.nan, math.inf
    slots = torch.randperm(SLOTS, generator=generator)[:7].to(device)
    made = {}
    for implementation in ("reference", "triton"):
        codes, scales = cache(name, heads, dim, layout, device)
        options = {"layout": layout, "page_size": PAGE, "implementation": implementation}
        quantize_kv_rows(rows, codes, scales, slots, name, **options)  # type: ignore[arg-type]
        read = dequantize_kv_rows(codes, scales, slots, name, dim, **options)  # type: ignore[arg-type]
        made[implementation] = codes, scales, read.nan_to_num(math.pi).view(torch.int16), read.isnan()
        spoilt = read[2, 1].isnan().nonzero().flatten().tolist()
        block = FORMATS[name].block
        assert spoilt == list(range(block)), "a NaN spoils its block and no other"
        assert bool(read[3, 2, dim - block :].isnan().all())
    for one, other in zip(*made.values(), strict=True):
        assert torch.equal(one, other)


def test_rows_after_the_real_ones_are_zeros_and_their_slots_are_not_read(
    device: torch.device, implementation: str
) -> None:
    codes, scales = cache("mxfp8", 1, 64, "slots", device)
    rows = torch.ones((2, 1, 64), device=device)
    slots = torch.tensor([4, 9, 1 << 20], device=device)
    quantize_kv_rows(rows, codes, scales, slots[:2], "mxfp8", implementation=implementation)
    count = torch.tensor([1], dtype=torch.int32, device=device)
    read = dequantize_kv_rows(codes, scales, slots, "mxfp8", 64, count=count, implementation=implementation)
    assert read[0].eq(1).all()
    assert not read[1:].any()


@pytest.mark.parametrize("layout", SCALE_LAYOUTS)
def test_every_scale_has_a_place_of_its_own(layout: ScaleLayout) -> None:
    places = scale_index(layout, torch.arange(SLOTS), 3, 8, PAGE)
    assert torch.equal(places.flatten().sort().values, torch.arange(SLOTS * 3 * 8))


def test_layouts_are_those_of_the_kernels_that_read_them() -> None:
    """TensorRT-LLM interleaves the scales of four tokens' values; FlashAttention 4 the tokens of an atom."""
    swizzled = scale_index("swizzled", torch.arange(8), 1, 8, 8)[:, 0]
    for token in range(8):
        for block in range(8):
            row, column = token // 4 * 4 + block // 2, block % 2 * 4 + token % 4
            assert swizzled[token, block] == row * 8 + column
    atom = scale_index("interleaved", torch.tensor([1, 33, 127]), 1, 4, 128)[:, 0, 0].tolist()
    assert atom == [1 * 16, 1 * 16 + 4, 31 * 16 + 3 * 4]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kv_format": "mxfp4"}, "kv_format must be one of nvfp4, fp4_mx_block16, mxfp8; got 'mxfp4'"),
        ({"factor": 2.0}, "factor must be positive and finite; 1 but for nvfp4; got 2.0"),
        ({"layout": "interleaved", "page_size": 6}, "page_size must be a multiple of 32"),
        ({"rows": torch.ones(1, 2, 24)}, "heads of a multiple of 32 dims"),
        ({"loc": torch.tensor([SLOTS])}, f"loc|slots.* from 0 to {SLOTS - 1}"),
        ({"codes": torch.zeros(SLOTS, 2, 32, dtype=torch.uint8)}, "codes must be of shape"),
        ({"scales": torch.zeros(SLOTS, 2, 1, dtype=torch.uint8)}, "scales must be"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, object], words: str) -> None:
    codes, scales = cache("mxfp8", 2, 64, "slots", torch.device("cpu"))
    call = {"rows": torch.ones(1, 2, 64), "codes": codes, "scales": scales, "loc": torch.tensor([3])}
    with pytest.raises(ContractError, match=words):
        quantize_kv_rows(**{**call, "kv_format": "mxfp8", **change})  # type: ignore[arg-type]
    assert not codes.any()
