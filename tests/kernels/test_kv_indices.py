"""The index kernels: which entries they read, which they write, which they leave alone."""

import pytest
import torch

from sglab.kernels import ContractError, create_flashinfer_kv_indices, create_flashmla_kv_indices, last_choice

CONTEXT = 9000


def paged_table(lens: list[int], page_size: int, generator: torch.Generator) -> torch.Tensor:
    """req_to_token of requests whose pages lie in random order, page 0 excepted; unused entries hold slot 0."""
    pages = [-(-length // page_size) for length in lens]
    order = torch.randperm(sum(pages), generator=generator) + 1
    table = torch.zeros(len(lens), CONTEXT, dtype=torch.int32)
    for row, (length, own) in enumerate(zip(lens, order.split(pages), strict=True)):
        position = torch.arange(length)
        table[row, :length] = (own[position // page_size] * page_size + position % page_size).int()
    return table


def indptr(lens: torch.Tensor) -> torch.Tensor:
    return torch.cat([lens.new_zeros(1), lens.cumsum(0)]).int()


def ints(values: list[int], device: torch.device, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype, device=device)


class TestFlashInfer:
    @pytest.mark.parametrize("lens", [[1], [0, 5, 0], [511, 512, 513, 1025], [2000, 3]])
    @pytest.mark.parametrize("index", [torch.int32, torch.int64])
    def test_concatenates_the_slots_of_the_batch(
        self, lens: list[int], index: torch.dtype, implementation: str, device: torch.device, generator: torch.Generator
    ) -> None:
        table = paged_table(lens, 1, generator).to(device)
        rows = torch.randperm(len(lens), generator=generator)
        wanted = torch.cat([table[row, : lens[row]] for row in rows.tolist()])
        batch_lens = torch.tensor(lens, dtype=index)[rows].to(device)
        result = create_flashinfer_kv_indices(
            table, rows.to(device), batch_lens, indptr(batch_lens), implementation=implementation
        )
        assert torch.equal(result, wanted)
        assert last_choice().implementation == implementation

    def test_starts_at_kv_start_idx(self, implementation: str, device: torch.device) -> None:
        table = torch.arange(3 * CONTEXT, dtype=torch.int32, device=device).view(3, CONTEXT)
        lens, start = ints([4, 600, 2], device), ints([7, 0, 8998], device)
        result = create_flashinfer_kv_indices(
            table, ints([2, 0, 1], device), lens, indptr(lens), start, implementation=implementation
        )
        wanted = [*range(2 * CONTEXT + 7, 2 * CONTEXT + 11), *range(600), CONTEXT + 8998, CONTEXT + 8999]
        assert result.tolist() == wanted

    def test_leaves_entries_past_a_request_alone(self, implementation: str, device: torch.device) -> None:
        """A CUDA graph's buffer is longer than the batch, and kv_indptr may leave gaps."""
        table = torch.arange(CONTEXT, dtype=torch.int32, device=device).view(1, -1) + 100
        out = torch.full((12,), -7, dtype=torch.int64, device=device)
        given = create_flashinfer_kv_indices(
            table,
            ints([0, 0], device),
            ints([3, 2], device),
            ints([0, 5, 8, 99], device),
            kv_indices=out,
            implementation=implementation,
        )
        assert given is out
        assert out.tolist() == [100, 101, 102, -7, -7, 100, 101, -7, -7, -7, -7, -7]

    def test_reads_a_table_through_its_stride(self, implementation: str, device: torch.device) -> None:
        pool = torch.arange(40, dtype=torch.int32, device=device).view(4, 10)
        table = pool[:, :6]
        lens = ints([6, 1], device)
        result = create_flashinfer_kv_indices(
            table, ints([3, 1], device), lens, indptr(lens), implementation=implementation
        )
        assert result.tolist() == [30, 31, 32, 33, 34, 35, 10]

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"req_to_token": torch.zeros(2, 10)}, ["req_to_token must be int32", "float32"]),
            ({"req_to_token": [[1, 2]]}, ["req_to_token must be a torch.Tensor", "list"]),
            ({"page_kernel_lens": torch.tensor([3])}, ["page_kernel_lens", "batch = 2", "req_pool_indices"]),
            ({"kv_indptr": torch.tensor([0, 3])}, ["kv_indptr must be at least batch + 1 = 3 long", "length 2"]),
            ({"req_pool_indices": torch.tensor([0, 2])}, ["req_pool_indices", "from 0 to 1", "[1] = 2"]),
            ({"page_kernel_lens": torch.tensor([3, 11])}, ["page_kernel_lens", "at most 10", "max_context_len"]),
            ({"page_kernel_lens": torch.tensor([-1, 2])}, ["page_kernel_lens", "0 or more", "[0] = -1"]),
            ({"kv_start_idx": torch.tensor([8, 0])}, ["page_kernel_lens", "kv_start_idx", "at most 10"]),
            ({"kv_start_idx": torch.tensor([-1, 0])}, ["kv_start_idx must be 0 or more"]),
            ({"kv_indptr": torch.tensor([0, 2, 5])}, ["page_kernel_lens[0] = 3", "Recompute kv_indptr"]),
            ({"kv_indptr": torch.tensor([0, 3, 9])}, ["kv_indptr must be at most len(kv_indices) = 5"]),
            ({"kv_indices": torch.zeros(5)}, ["kv_indices must be int32 or int64"]),
        ],
    )
    def test_explains_bad_input_and_changes_nothing(self, change: dict, words: list[str]) -> None:
        arguments = {
            "req_to_token": torch.ones(2, 10, dtype=torch.int32),
            "req_pool_indices": torch.tensor([0, 1]),
            "page_kernel_lens": torch.tensor([3, 2]),
            "kv_indptr": torch.tensor([0, 3, 5]),
            "kv_indices": torch.full((5,), -7, dtype=torch.int32),
        }
        with pytest.raises(ContractError) as error:
            create_flashinfer_kv_indices(**{**arguments, **change})
        assert all(word in str(error.value) for word in words), str(error.value)
        assert arguments["kv_indices"].tolist() == [-7] * 5


class TestFlashMLA:
    @pytest.mark.parametrize("page_size", [1, 16, 32, 64, 128])
    @pytest.mark.parametrize("lens", [[1, 0, 300], [4095, 4096, 4097], [8200]])
    def test_lists_the_page_of_every_pages_first_token(
        self, lens: list[int], page_size: int, implementation: str, device: torch.device, generator: torch.Generator
    ) -> None:
        table = paged_table(lens, page_size, generator)
        rows = torch.arange(len(lens))
        result = create_flashmla_kv_indices(
            table.to(device),
            rows.to(device),
            torch.tensor(lens, device=device),
            page_size=page_size,
            implementation=implementation,
        )
        assert result.shape == (len(lens), -(-max(lens) // page_size))
        for row, length in enumerate(lens):
            num_pages = -(-length // page_size)
            slots = table[row, :length]
            pages = result[row, :num_pages].cpu()
            position = torch.arange(length)
            assert torch.equal(pages[position // page_size] * page_size + position % page_size, slots)
            assert (result[row, num_pages:] == -1).all()

    def test_leaves_entries_past_num_pages_alone(self, implementation: str, device: torch.device) -> None:
        table = torch.arange(64, 64 + 256, dtype=torch.int32, device=device).view(1, -1)
        out = torch.full((2, 9), 12345, dtype=torch.int32, device=device)
        create_flashmla_kv_indices(
            table, ints([0, 0], device), ints([65, 0], device), None, out, page_size=64, implementation=implementation
        )
        assert out.tolist() == [[1, 2] + [12345] * 7, [12345] * 9]

    def test_honours_kv_start_idx_and_a_strided_output(self, implementation: str, device: torch.device) -> None:
        table = torch.arange(1024, dtype=torch.int32, device=device).view(2, 512)
        out = torch.full((2, 8), -1, dtype=torch.int32, device=device)
        create_flashmla_kv_indices(
            table,
            ints([1, 0], device),
            ints([200, 64], device),
            ints([128, 448], device),
            out[:, :4],
            page_size=64,
            implementation=implementation,
        )
        assert out.tolist() == [[10, 11, 12, 13, -1, -1, -1, -1], [7, -1, -1, -1, -1, -1, -1, -1]]

    def test_an_unaligned_table_yields_wrong_pages_and_is_explained(self, implementation: str) -> None:
        """Position 0 sits in slot 14: an attention kernel would read row 0 of page 0 instead. The contract says why."""
        table = torch.arange(14, 14 + 257, dtype=torch.int32).view(1, -1)
        call = {
            "req_to_token": table,
            "req_pool_indices": torch.tensor([0]),
            "page_kernel_lens": torch.tensor([257]),
            "page_size": 128,
            "implementation": implementation,
        }
        with pytest.raises(ContractError, match=r"page-aligned .* got slot 14 at position 0"):
            create_flashmla_kv_indices(**call)
        assert create_flashmla_kv_indices(**call, check_values=False).tolist() == [[0, 1, 2]]

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"page_size": 48}, ["page_size must be a power of two from 1 to 4096", "got 48"]),
            ({"page_size": 8192}, ["page_size", "got 8192"]),
            ({"page_kernel_lens": torch.tensor([129, 1])}, ["at most 128 tokens, the 2 pages of 64", "next row"]),
            ({"kv_indices": torch.full((3, 2), -7).int()}, ["kv_indices", "batch = 2", "(3, 2)"]),
            ({"kv_indices": torch.full((2, 2), -7)}, ["kv_indices must be int32", "int64"]),
            ({"req_pool_indices": torch.tensor([0, -1])}, ["req_pool_indices[1] = -1"]),
            ({"kv_start_idx": torch.tensor([64, 10])}, ["kv_start_idx must be a multiple of page_size 64", "[1] = 10"]),
            ({"kv_indices": torch.full((2, 2), -7).int().T}, ["kv_indices must be contiguous in its last dimension"]),
        ],
    )
    def test_explains_bad_input_and_changes_nothing(self, change: dict, words: list[str]) -> None:
        arguments = {
            "req_to_token": torch.arange(512, dtype=torch.int32).view(2, 256),
            "req_pool_indices": torch.tensor([0, 1]),
            "page_kernel_lens": torch.tensor([100, 2]),
            "kv_indices": torch.full((2, 2), -7, dtype=torch.int32),
            "page_size": 64,
        }
        with pytest.raises(ContractError) as error:
            create_flashmla_kv_indices(**{**arguments, **change})
        assert all(word in str(error.value) for word in words), str(error.value)
        assert (arguments["kv_indices"] == -7).all()
