"""Has CuTe DSL's host code build tensor maps, which it does in hardware's own form, without a driver or a GPU.

    python -m tests.emulator.golden.make_tensor_maps        (needs nvidia-cutlass-dsl, as tools.compatibility does)

Writes tensor_maps.json beside this file: what cuTensorMapEncodeTiled or cuTensorMapEncodeIm2col would be given, at
address 0, and the map's first eight 64-bit words. The DSL leaves the other eight as they are: hardware does not read
them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import Any

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.runtime import from_dlpack

from sglab.compilers.cute import compiled_cute
from sglab.compilers.cute_host import OnDevice, host_launches

GOLDEN = Path(__file__).parent / "tensor_maps.json"
TYPES = {
    torch.uint8: 0, torch.int16: 1, torch.int32: 2, torch.int64: 4, torch.float16: 6, torch.float32: 7,
    torch.float64: 8, torch.bfloat16: 9,
}  # fmt: skip
"""CUtensorMapDataType; the DSL takes signed integers for unsigned ones."""
SWIZZLES = {None: 0, (1, 4, 3): 1, (2, 4, 3): 2, (3, 4, 3): 3, (2, 5, 2): 4}
"""CuTe's swizzles and CUtensorMapSwizzle."""
F16 = torch.float16


@cute.kernel
def kernel(atom: cute.CopyAtom, tensor: cute.Tensor) -> None:
    cpasync.prefetch_descriptor(atom)


def first_fastest(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    return torch.zeros(*reversed(shape), dtype=dtype).permute(*reversed(range(len(shape))))


def words(host: Callable[[Any], None], tensor: torch.Tensor) -> list[str]:
    taken = from_dlpack(OnDevice(tensor), 16)
    (launch,) = host_launches(compiled_cute(host, [taken], "sm_100a"), [taken], "golden", no_driver)
    made = struct.unpack("<8Q", max(launch.arguments, key=len)[:64])
    assert made[0] == tensor.data_ptr()
    return [f"{word:016x}" for word in (0, *made[1:])]


def no_driver(*_: Any) -> bytes:
    raise AssertionError("the DSL calls the driver for this map")


def common(shape: Sequence[int], dtype: torch.dtype, swizzle: tuple[int, int, int] | None) -> dict[str, Any]:
    strides = [count * dtype.itemsize for count in accumulate(shape[:-1], mul)]
    return {
        "data_type": TYPES[dtype],
        "global_dim": list(shape),
        "global_strides": strides,
        "swizzle": SWIZZLES[swizzle],
        "l2_promotion": 2,
    }


def tiled(
    shape: Sequence[int], box: Sequence[int], dtype: torch.dtype = F16, swizzle: tuple[int, int, int] | None = None
) -> dict[str, Any]:
    @cute.jit
    def host(tensor: cute.Tensor) -> None:
        layout = cute.make_ordered_layout(box, order=tuple(range(len(box))))
        if cutlass.const_expr(swizzle is not None):
            layout = cute.make_composed_layout(cute.make_swizzle(*swizzle), 0, layout)
        atom, coordinates = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), tensor, layout, box)
        kernel(atom, coordinates).launch(grid=(1, 1, 1), block=(32, 1, 1))

    steps = {"box_dim": list(box), "element_strides": [1] * len(box)}
    return {**common(shape, dtype, swizzle), **steps, "words": words(host, first_fastest(shape, dtype))}


def im2col(
    shape: Sequence[int], column: tuple[int, int], lower: Sequence[int], upper: Sequence[int], steps: Sequence[int]
) -> dict[str, Any]:
    """Of an (channels, w, h, d, images) array; `column` is pixels and channels, `steps` the pixels' strides."""
    bits = {64: 3, 32: 2, 16: 1}[column[1]]
    ones, zeros = tuple(1 for _ in lower), tuple(0 for _ in lower)
    reach = tuple(-corner for corner in lower)

    @cute.jit
    def host(tensor: cute.Tensor) -> None:
        shape, stride = tensor.layout.shape, tensor.layout.stride
        pixels_first = cute.make_layout((tuple(shape[1:]), shape[0]), stride=(tuple(stride[1:]), stride[0]))
        layout = cute.make_ordered_layout(column, order=(1, 0))
        made = cpasync.make_im2col_tma_atom(
            cpasync.CopyBulkTensorIm2ColG2SOp(), cute.make_tensor(tensor.iterator, pixels_first),
            cute.make_composed_layout(cute.make_swizzle(bits, 4, 3), 0, layout), column,
            tuple(lower), tuple(upper), reach, reach, tuple(steps), zeros, ones,
        )  # fmt: skip
        kernel(made.atom, made.tma_tensor).launch(grid=(1, 1, 1), block=(32, 1, 1))

    corners = {"lower_corner": list(lower), "upper_corner": list(upper)}
    sizes = {"channels_per_pixel": column[1], "pixels_per_column": column[0], "element_strides": [1, *steps, 1]}
    return {**common(shape, F16, (bits, 4, 3)), **corners, **sizes, "words": words(host, first_fastest(shape, F16))}


def main() -> None:
    deep = ((1024,), (64,)), ((64, 96, 3), (32, 16, 2)), ((64, 96, 3, 5), (32, 16, 2, 3))
    maps = [
        *(tiled((64, 96), (32, 16), dtype) for dtype in TYPES),
        *(tiled(*one) for one in deep),
        tiled((64, 96, 3, 5, 7), (32, 16, 2, 3, 4)),
        *(tiled((64, 96), (16 << bits[0] - 1, 16), swizzle=bits) for bits in SWIZZLES if bits and bits[1] == 4),
        tiled((64, 96), (32, 16), swizzle=(2, 5, 2)),
        tiled((4096, 4096), (128, 256), torch.uint8),
        im2col((64, 200, 3), (32, 64), [-5], [-3], [1]),
        im2col((64, 20, 18, 3), (32, 64), [-1, -2], [-3, -4], [1, 1]),
        im2col((64, 20, 18, 3), (128, 32), [-1, -1], [-1, -1], [2, 1]),
        im2col((64, 20, 18, 16, 3), (32, 64), [-1, -2, -3], [-3, -4, -5], [1, 2, 3]),
        im2col((64, 20, 18, 16, 3), (256, 16), [-1, -2, -3], [-3, -4, -5], [1, 1, 1]),
    ]
    GOLDEN.write_text("[\n" + ",\n".join(json.dumps(one) for one in maps) + "\n]\n")


if __name__ == "__main__":
    main()
