"""Which tile sizes are fastest on this GPU: python benchmarks/tune_tiles.py [--only SECTION ...]

Replaces the tile that a kernel would choose by each candidate in turn. Candidates that do not compile or do not fit
the shared memory are reported and passed over. The winners belong into `grouped_tile` and `extend_tile`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from unittest.mock import patch

import cases
import torch
from timing import Case, difference, microseconds

from sglab.kernels.decode_attention.tiles import DecodeTile
from sglab.kernels.extend_attention.triton import ExtendTile

GROUPED = "sglab.kernels.decode_attention.triton.grouped_tile"
MLA = "sglab.kernels.cutlass_mla.triton.grouped_tile"
EXTEND = "sglab.kernels.extend_attention.triton.extend_tile"


def decode_tiles(heads: Iterable[int], keys: Iterable[int]) -> Iterator[DecodeTile]:
    for each in product(heads, keys, (4, 8), (2, 3, 4, 5)):
        yield DecodeTile(*each)


def extend_tiles(rows: Iterable[int], keys: Iterable[int]) -> Iterator[ExtendTile]:
    for each in product(rows, keys, (4, 8), (1, 2, 3)):
        yield ExtendTile(*each)


SECTIONS: dict[str, tuple[str, Callable[[], Case], Callable[[], Iterator[object]]]] = {
    "gqa": (GROUPED, lambda: cases.decode(32, 4096, 32, 8, 128), lambda: decode_tiles((16,), (32, 64, 128))),
    "mla16": (MLA, lambda: cases.mla(128, 4096, 16), lambda: decode_tiles((16,), (32, 64))),
    "mla128": (MLA, lambda: cases.mla(32, 4096, 128), lambda: decode_tiles((16, 32, 64, 128), (32, 64))),
    "extend64": (EXTEND, lambda: cases.extend(4, 0, 4096, 16, 16, 64), lambda: extend_tiles((64, 128), (32, 64, 128))),
    "extend128": (
        EXTEND,
        lambda: cases.extend(4, 4096, 1024, 32, 8, 128),
        lambda: extend_tiles((64, 128), (32, 64, 128)),
    ),
    "extend256": (EXTEND, lambda: cases.extend(2, 1024, 1024, 16, 2, 256), lambda: extend_tiles((64, 128), (32, 64))),
}


def measure(target: str, case: Case, tile: object) -> float | str:
    """Microseconds with this tile, or why there are none."""
    with patch(target, lambda *arguments: tile):
        try:
            if difference(case.ours(), case.peer()) > case.tolerance:
                return "wrong result"
            return microseconds(case.ours)
        except Exception as error:
            return f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS), help="which sections")
    chosen = parser.parse_args().only
    if not torch.cuda.is_available():
        raise SystemExit("benchmarks/tune_tiles.py needs an NVIDIA GPU; none was found")
    torch.manual_seed(0)
    for name in chosen:
        target, make_case, tiles = SECTIONS[name]
        case = make_case()
        print(f"\n{name}: {case.name}; as it is: {microseconds(case.ours):.1f} µs")
        results = [(measure(target, case, tile), tile) for tile in tiles()]
        timed = sorted((time, str(tile)) for time, tile in results if isinstance(time, float))
        for time, tile in timed[:8]:
            print(f"  {time:9.1f} µs  {tile}")
        refused = [f"{tile}: {why}" for why, tile in results if isinstance(why, str)]
        print(f"  {len(refused)} of {len(results)} candidates did not run", *refused[:3], sep="\n    ")


if __name__ == "__main__":
    main()
