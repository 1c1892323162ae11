"""cutlass_mla_decode: the wrapper's contract, and what the SM100 kernel reads and computes beyond the call."""

from dataclasses import replace

import pytest
import torch

from sglab.kernels import ContractError, cutlass_mla_decode, cutlass_mla_get_workspace_size, devices, last_choice
from sglab.kernels.cutlass_mla import contract, dispatch, operator, pad_heads, slice_heads
from sglab.planning import split_ranges
from tests.support.kernels.compare import ROUNDING, assert_close
from tests.support.kernels.cutlass_mla import SCALE, attention, call


@pytest.fixture(params=["reference", "triton", "sglab"])
def implementation(request: pytest.FixtureRequest) -> str:
    return request.param


def lengths(device: torch.device) -> list[int]:
    return [1, 127, 0, 300] if device.type == "cpu" else [1, 127, 128, 129, 0, 1000, 5000, 64]


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("heads", [16, 128])
@pytest.mark.parametrize("page_size", [128, 32])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_matches_float64(splits, heads, page_size, dtype, implementation, device, generator) -> None:
    if device.type == "cpu":
        heads = min(heads, 40)  # one full block of heads and a part of one
    arguments = call(lengths(device), heads, page_size, splits, device, generator, dtype)
    lse = torch.full((len(arguments["seq_lens"]), heads), torch.nan, device=device)
    o = cutlass_mla_decode(**arguments, lse=lse, implementation=implementation)
    wanted_o, wanted_lse = attention(arguments)
    assert_close(o, wanted_o, ROUNDING[dtype])
    assert_close(lse, wanted_lse, 2e-5)


@pytest.mark.parametrize("page_size", [1, 2, 4, 8, 16, 64])
def test_every_page_size(page_size, implementation, device, generator) -> None:
    arguments = call([130, 7], 8, page_size, 2, device, generator)
    if implementation == "sglab" and page_size < 16:
        with pytest.raises(ValueError, match=f"no kernel for page size {page_size}, only for 16, 32, 64, 128"):
            cutlass_mla_decode(**arguments, implementation=implementation)
        return
    assert_close(cutlass_mla_decode(**arguments, implementation=implementation), attention(arguments)[0], 2e-3)


@pytest.mark.parametrize("splits", [1, 2])
def test_a_request_of_length_zero_gives_zero_and_minus_infinity(splits, implementation, device, generator) -> None:
    arguments = call([0, 200], 16, 64, splits, device, generator)
    lse = torch.full((2, 16), torch.nan, device=device)
    o = cutlass_mla_decode(**arguments, lse=lse, implementation=implementation)
    assert not o[0].any()
    assert (lse[0] == -torch.inf).all()
    assert o[1].any()


def test_on_the_cpu_our_own_kernel_runs_on_the_emulator_and_says_why(generator) -> None:
    arguments = call([300, 5], 16, 128, 2, torch.device("cpu"), generator)
    cutlass_mla_decode(**arguments)
    choice = last_choice()
    assert choice is not None and choice.implementation == "sglab"
    assert [each.kernel for each in choice.launches] == ["mla_decode_sm100_f16", "split_kv_combine_few_f16"]
    assert {each.route for each in choice.launches} == {"emulator"}
    assert "our kernel for Blackwell, on an emulated sm_100a" in str(choice)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("lens", [[300, 0, 5, 64], [5000]])
def test_our_hopper_kernel_is_planned_by_the_host_or_on_the_device(lens, known, generator, monkeypatch) -> None:
    """On the host where it knows the lengths; nothing waits for a GPU to learn them."""
    monkeypatch.setattr(devices, "device_of", devices.hopper_of)
    arguments = call(lens, 16, 64, 1, torch.device("cpu"), generator)
    lse = torch.full((len(lens), 16), torch.nan)
    o = cutlass_mla_decode(**arguments, lse=lse, seq_lens_cpu=lens if known else None)
    wanted_o, wanted_lse = attention(arguments)
    assert_close(o, wanted_o, 2e-3)
    assert_close(lse, wanted_lse, 2e-5)
    choice = last_choice()
    assert choice is not None and "our kernel for Hopper, on an emulated sm_90a" in str(choice)
    planned = [] if known else ["get_mla_metadata", "flash_mla_works"]
    assert [each.kernel for each in choice.launches][: len(planned) + 1] == [*planned, "mla_decode_sm90_f16"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
def test_a_captured_graph_follows_the_lengths_of_each_replay(generator) -> None:
    """Lengths that the host knew at capture must not be planned into the graph."""
    if torch.cuda.get_device_capability() not in {(9, 0), (10, 0)}:
        pytest.skip("no GPU that our kernels are for")
    arguments = call([5000, 1000, 64], 128, 64, 2, torch.device("cuda"), generator)
    lse = torch.empty(3, 128, device="cuda")
    lens = arguments["seq_lens"].tolist()
    cutlass_mla_decode(**arguments, lse=lse, seq_lens_cpu=lens, implementation="sglab")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = cutlass_mla_decode(**arguments, lse=lse, seq_lens_cpu=lens, implementation="sglab")
    for changed in ([5000, 1000, 64], [17, 999, 0], [4999, 1, 63]):
        arguments["seq_lens"].copy_(torch.tensor(changed, dtype=torch.int32))
        graph.replay()
        wanted_o, wanted_lse = attention(arguments)
        assert_close(o, wanted_o, ROUNDING[torch.float16])
        assert_close(lse, wanted_lse, 2e-5)


def test_what_our_own_kernel_cannot_do_goes_to_the_next_implementation(generator) -> None:
    arguments = call([30], 4, 8, 1, torch.device("cpu"), generator)
    cutlass_mla_decode(**arguments)
    choice = last_choice()
    assert choice is not None and choice.implementation == "reference"
    assert "no kernel for page size 8" in choice.passed_over["sglab"]
    arguments = call([30], 4, 128, 1, torch.device("cpu"), generator)
    with pytest.raises(ValueError, match="sm_scale must be positive and finite"):
        cutlass_mla_decode(**{**arguments, "sm_scale": -SCALE}, implementation="sglab")
    joint = torch.randn(1, 4, 580, dtype=torch.float16)
    arguments["q_nope"] = joint[..., 1:513]
    with pytest.raises(ValueError, match="TMA needs every row of q_nope"):
        cutlass_mla_decode(**arguments, implementation="sglab")


def test_splits_are_chosen_when_asked_to(device, generator) -> None:
    """On a B200: 3 tiles and 148 SMs for 2 requests give one split per tile."""
    arguments = call([300, 5], 16, 128, -1, device, generator)
    o = cutlass_mla_decode(**arguments, implementation="triton")
    assert_close(o, attention(arguments)[0], 2e-3)
    assert len(arguments["workspace"]) == (4 * 512 + 4) * 128 * 3 * 2


def test_partials_lie_in_the_workspace_as_cutlass_lays_them_out(device, generator) -> None:
    """O (batch, 128, splits, 512), then LSE (batch, splits, 128): each split attends to its own tiles."""
    arguments = call([300], 16, 128, 2, device, generator)
    cutlass_mla_decode(**arguments, implementation="triton")
    checked = contract.check(**arguments, lse=None, check_values=False)
    o, lse = checked.partials()
    kv = arguments["kv_c_and_k_pe_cache"][arguments["page_table"][0].long()].flatten(0, 1).double()
    q = torch.cat([arguments["q_nope"][0], arguments["q_pe"][0]], dim=-1).double()
    ranges = split_ranges([300], 2)
    for split, (first, end) in enumerate(zip(ranges.token_start[0], ranges.token_end[0], strict=True)):
        logits = q @ kv[first:end].T * SCALE
        assert_close(o[0, :16, split], logits.softmax(-1) @ kv[first:end, :512], 2e-3)
        assert_close(lse[0, split, :16], logits.logsumexp(-1), 2e-5)


class TestHeadPadding:
    """The SM100 kernel computes 128 heads; heads are independent, so whatever fills the padding stays there."""

    @pytest.mark.filterwarnings("ignore:All-NaN slice:RuntimeWarning")
    @pytest.mark.parametrize("heads", [1, 16, 100])
    def test_nan_in_padded_heads_stays_in_padded_heads(self, heads, implementation, device, generator) -> None:
        arguments = call([200, 33], heads, 64, 2, device, generator)
        lse = torch.empty(2, heads, device=device)
        plain = contract.check(**arguments, lse=lse, check_values=True)
        operator(plain, implementation)
        padded = pad_heads(plain, fill=torch.nan)
        operator(padded, implementation)
        assert padded.out.shape == (2, 128, 512)
        assert padded.out[:, heads:].isnan().all()
        sliced = replace(plain, out=torch.empty_like(plain.out), lse=torch.empty_like(lse))
        slice_heads(padded, sliced)
        assert_close(sliced.out, plain.out, 1e-3)
        assert_close(sliced.lse, lse, 1e-5)

    def test_128_heads_need_no_copy(self, generator) -> None:
        arguments = call([5], 128, 128, 1, torch.device("cpu"), generator)
        checked = contract.check(**arguments, lse=None, check_values=None)
        assert pad_heads(checked) is checked


class TestWorkspace:
    @pytest.mark.parametrize(
        ("batch", "splits", "size"),
        [(8, 4, 8_404_992), (32, 4, 33_619_968), (8, 1, 2_101_248), (64, 1, 16_809_984)],
    )
    def test_golden_sizes(self, batch: int, splits: int, size: int) -> None:
        assert cutlass_mla_get_workspace_size(4096, batch, num_kv_splits=splits) == size

    def test_splits_chosen_by_the_planner(self) -> None:
        """B=4, K=8192 on 148 SMs: upstream's set_split_kv takes 32."""
        size = cutlass_mla_get_workspace_size(8192, 4, sm_count=148, num_kv_splits=-1)
        assert size == (4 * 512 + 4) * 128 * 32 * 4

    def test_one_split_needs_none(self, implementation, device, generator) -> None:
        arguments = call([40], 16, 128, 1, device, generator)
        arguments["workspace"] = arguments["workspace"][:0]
        o = cutlass_mla_decode(**arguments, implementation=implementation)
        assert_close(o, attention(arguments)[0], 2e-3)


class TestDispatch:
    @pytest.mark.parametrize(
        ("dtype", "page_size", "splits", "loader", "scheduler", "out", "shared"),
        [
            (torch.float16, 128, 1, "TMA", "persistent", torch.float16, 210_944),
            (torch.bfloat16, 128, -1, "TMA", "persistent", torch.bfloat16, 210_944),
            (torch.bfloat16, 128, 2, "TMA", "individual", torch.bfloat16, 210_944),
            (torch.float16, 64, 1, "cp.async", "persistent", torch.float16, 217_088),
            (torch.float16, 1, 8, "cp.async", "individual", torch.float16, 217_088),
            (torch.float8_e4m3fn, 128, 1, "TMA", "persistent", torch.bfloat16, 174_080),
            (torch.float8_e4m3fn, 16, 1, "cp.async", "persistent", torch.bfloat16, 186_368),
        ],
    )
    def test_table(self, dtype, page_size, splits, loader, scheduler, out, shared) -> None:
        variant = dispatch(dtype, page_size, splits)
        assert (variant.loader, variant.scheduler) == (loader, scheduler)
        assert (variant.out_dtype, variant.shared_storage) == (out, shared)

    def test_explains_what_has_no_kernel(self) -> None:
        with pytest.raises(ContractError, match=r"float16, bfloat16 or float8_e4m3fn; got float32"):
            dispatch(torch.float32, 128)
        with pytest.raises(ContractError, match=r"power of two up to 128 .* got page size 96"):
            dispatch(torch.float16, 96)


class TestContract:
    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"q_nope": torch.ones(2, 129, 512).half(), "q_pe": torch.ones(2, 129, 64).half()}, ["1 to 128 heads"]),
            ({"q_nope": torch.ones(2, 4, 128).half()}, ["q_nope must be of shape (batch, heads, 512)", "(2, 4, 128)"]),
            ({"q_pe": torch.ones(2, 5, 64).half()}, ["q_pe", "heads = 4, as q_nope has"]),
            ({"q_nope": torch.ones(2, 4, 512)}, ["q_nope must be float16 or bfloat16", "float32"]),
            ({"q_pe": torch.ones(2, 4, 64).bfloat16()}, ["q_pe must be float16, as q_nope is", "bfloat16"]),
            ({"kv_c_and_k_pe_cache": torch.ones(9, 64, 1, 576).half()}, ["must be 3-dimensional"]),
            ({"kv_c_and_k_pe_cache": torch.ones(9, 48, 576).half()}, ["a power of two up to 128", "page size 48"]),
            ({"kv_c_and_k_pe_cache": torch.ones(9, 256, 576).half()}, ["page size 256"]),
            ({"page_table": torch.ones(2, 3).int()}, ["page_table", "positive multiple of 2 pages", "width 3"]),
            ({"page_table": torch.ones(2, 0).int()}, ["page_table", "positive multiple of 2", "width 0"]),
            ({"page_table": torch.ones(3, 2).int()}, ["page_table", "batch = 2, as q_nope has"]),
            ({"page_table": torch.ones(2, 2)}, ["page_table must be int32"]),
            ({"seq_lens": torch.tensor([5, 6])}, ["seq_lens must be int32", "int64"]),
            ({"seq_lens": torch.tensor([5, 129]).int()}, ["seq_lens", "from 0 to 128, the 2 pages of 64", "= 129"]),
            ({"page_table": torch.tensor([[1, 2], [3, 9]]).int()}, ["page_table", "from 0 to 8", "[1, 1] = 9"]),
            ({"page_table": torch.tensor([[1, 2], [3, -1]]).int()}, ["[1, 1] = -1", "valid page, not −1"]),
            ({"num_kv_splits": 257}, ["num_kv_splits must be at most 256", "257"]),
            ({"num_kv_splits": 2}, ["workspace must be at least 1050624 bytes", "0 bytes"]),
            ({"workspace": torch.empty(4)}, ["workspace must be uint8"]),
            ({"sm_scale": 0.0}, ["sm_scale must be positive and finite", "0.0"]),
            ({"seq_lens_cpu": [5]}, ["seq_lens_cpu must be 2 lengths; got 1"]),
            ({"seq_lens_cpu": torch.tensor([5, 99])}, ["seq_lens_cpu must be equal to seq_lens, (5, 100)", "(5, 99)"]),
        ],
    )
    def test_explains_bad_input(self, change: dict, words: list[str]) -> None:
        arguments = {
            "q_nope": torch.ones(2, 4, 512).half(),
            "q_pe": torch.ones(2, 4, 64).half(),
            "kv_c_and_k_pe_cache": torch.ones(9, 64, 576).half(),
            "seq_lens": torch.tensor([5, 100], dtype=torch.int32),
            "page_table": torch.tensor([[1, 2], [3, 4]], dtype=torch.int32),
            "workspace": torch.empty(0, dtype=torch.uint8),
            "sm_scale": SCALE,
        }
        with pytest.raises(ContractError) as error:
            cutlass_mla_decode(**{**arguments, **change})
        assert all(word in str(error.value) for word in words), str(error.value)

    def test_minus_one_is_harmless_after_the_last_real_page_of_128(self, implementation, device, generator) -> None:
        arguments = call([100, 300], 16, 128, 1, device, generator)
        assert (arguments["page_table"][0, 1:] == -1).all()
        o = cutlass_mla_decode(**arguments, implementation=implementation)
        assert_close(o, attention(arguments)[0], 2e-3)

    def test_nan_past_the_end_of_a_request_is_refused(self, generator) -> None:
        """All 128 rows of V are multiplied on the SM100 kernel, and 0 · NaN is NaN: pools must stay finite."""
        arguments = call([100], 16, 128, 1, torch.device("cpu"), generator)
        arguments["kv_c_and_k_pe_cache"][arguments["page_table"][0, 0], 127] = torch.nan
        with pytest.raises(ContractError, match=r"finite in every row of the pages that are read; got NaN .* page"):
            cutlass_mla_decode(**arguments)
        weights = torch.zeros(1, 128, dtype=torch.float16)
        weights[0, 0] = 1
        page = arguments["kv_c_and_k_pe_cache"][arguments["page_table"][0, 0]]
        assert (weights @ page).isnan().all(), "what a kernel without predicates would compute"
        o = cutlass_mla_decode(**arguments, check_values=False, implementation="triton")
        assert o.isfinite().all(), "the Triton kernel does not load rows past the end"
