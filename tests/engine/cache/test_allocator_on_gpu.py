"""On a GPU the device looks at what is freed: no call waits for it, and a later one raises."""

import pytest
import torch

from sglab.engine import BadArgumentError, PagedTokenToKVPoolAllocator, TokenToKVPoolAllocator

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")]


@pytest.mark.parametrize("wrong", [(3, 3), (12,), (0,), (-1,), (99,)], ids=str)
def test_a_gpu_finds_wrong_frees_without_waiting(wrong: tuple[int, ...]) -> None:
    allocator = TokenToKVPoolAllocator(16, "cuda")
    slots = allocator.alloc(8)
    never = torch.tensor(wrong, device="cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        allocator.free(slots[:2])
        allocator.free(never)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    with pytest.raises(BadArgumentError, match="free_index"):
        allocator.check()


def test_a_gpu_takes_right_frees_and_finds_wrong_last_locations() -> None:
    allocator = PagedTokenToKVPoolAllocator(16, 4, "cuda")
    slots = allocator.alloc(8)
    allocator.free(slots[:4])
    allocator.check()
    lens = torch.tensor([4], device="cuda")
    allocator.alloc_decode(lens, lens.cpu(), torch.tensor([7], device="cuda"))
    with pytest.raises(BadArgumentError, match="last_loc"):
        allocator.check()
