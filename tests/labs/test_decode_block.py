"""FlashInfer's block mapping for decode, held against the addresses that threads of a launch copy from."""

import pytest

torch = pytest.importorskip("torch")

from sglab.labs import decode_block as lab


@pytest.mark.parametrize(
    ("group", "sizes"), [(1, (8, 16, 1, 8)), (4, (8, 16, 4, 2)), (8, (8, 16, 8, 1))], ids=lambda each: str(each)
)
def test_every_thread_copies_the_key_and_the_dims_that_the_mapping_states(
    group: int, sizes: tuple[int, int, int, int]
) -> None:
    block = lab.DecodeBlock(group=group, tokens=60, seed=group)
    size = block.mapping
    assert (size.vec, size.bdx, size.bdy, size.bdz) == sizes
    recorded = block.recorded()
    stated = [block.stated(thread) for thread in range(128)]
    assert list(zip(recorded.token.tolist(), recorded.dim.tolist(), strict=True)) == stated
    assert {size.place(thread) for thread in range(128)} == {
        (x, y, z) for x in range(size.bdx) for y in range(size.bdy) for z in range(size.bdz)
    }


def test_wide_heads_take_wider_loads() -> None:
    assert lab.Mapping.of(head_dim=512, group=2) == lab.Mapping(vec=16, bdx=32, bdy=2, bdz=2)
    assert lab.Mapping.of(head_dim=64, group=1, itemsize=1) == lab.Mapping(vec=16, bdx=4, bdy=1, bdz=32)


def test_questions_know_their_answers() -> None:
    block = lab.DecodeBlock(group=4)
    assert lab.place_of_thread(block, 77).check([13, 0, 1]).right is True
    assert lab.place_of_thread(block, 77).check((1, 0, 13)).right is False
    assert lab.key_of_lane(block, warp=1, lane=20).check([3, 32]).right is True
    assert lab.rows_of_keys(group=8).check(1).right is True
    assert lab.rows_of_keys(group=1).check(4).right is False
    assert block.table().count("the same") == 9
