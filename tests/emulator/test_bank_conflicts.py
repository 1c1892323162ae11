"""Bank conflicts counted from real launches, against counting by hand and against known patterns."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import sglab
from sglab._core import tma
from sglab.emulator.bank_conflicts import PERMUTATIONS, InstructionBanks, bank_conflicts, count_passes, permute
from sglab.gpu import KernelError
from sglab.labs.shared_memory import Prefill
from tests.support.compilers import has_nvcc
from tests.support.launches.memory_sessions import corpus, failing, mla_sm90, mla_sm100


def by_hand(addresses: list[int], lanes: int, nbytes: int) -> tuple[int, int]:
    size = {4: 32, 8: 16, 16: 8}[max(4, nbytes)]
    passes = least = 0
    for first in range(0, 32, size):
        words = {
            addresses[lane] // 4 + word
            for lane in range(first, first + size)
            if lanes >> lane & 1
            for word in range(max(1, nbytes // 4))
        }
        busiest = max((sum(word % 32 == bank for word in words) for bank in range(32)), default=0)
        passes, least = passes + busiest, least + (busiest > 0)
    return passes, least


@pytest.mark.parametrize("nbytes", [1, 4, 8, 16])
def test_passes_are_those_of_counting_by_hand(nbytes: int) -> None:
    draw = np.random.default_rng()
    addresses = draw.integers(0, 512 if draw.random() < 0.5 else 1 << 16, (40, 32)) // nbytes * nbytes
    lanes = draw.integers(0, 1 << 32, 40)
    lanes[:3] = [0, 1, 0xFFFFFFFF]
    passes, least = count_passes(addresses, lanes, nbytes)
    expected = [by_hand(row.tolist(), int(mask), nbytes) for row, mask in zip(addresses, lanes, strict=True)]
    assert list(zip(passes.tolist(), least.tolist(), strict=True)) == expected


ATOMICS = """
extern "C" __global__ void bins(const int* x, int* out) {
    __shared__ int sums[64]; __shared__ int counts[2]; __shared__ unsigned long long wide[2];
    int t = threadIdx.x;
    sums[t] = 0;
    if (t < 2) { counts[t] = 0; wide[t] = 0; }
    __syncthreads();
    atomicAdd(&sums[x[t] * 32], x[t] + 2);
    atomicAdd(&counts[x[t]], 1);
    atomicMax(&wide[x[t]], 3ull + t);
    __syncthreads();
    out[t] = sums[t] + counts[t & 1] + (int)wide[t & 1];
}
"""


@pytest.mark.skipif(not has_nvcc(), reason="no nvcc")
def test_lanes_that_change_the_same_word_take_turns_as_modelled_time_has_it() -> None:
    kernel = sglab.cuda(ATOMICS)["bins"]
    x = torch.tensor([0] * 20 + [1] * 12 + [0] * 31 + [1], dtype=torch.int32)
    session = sglab.step(kernel[1, 64], x, torch.zeros(64, dtype=torch.int32)).session()
    found = [one for one in bank_conflicts(session) if one.instruction.opcode.startswith("atom")]
    # both sums lie in bank 0: 32 turns a warp; counting is one pass; a half warp of 8-byte words, the turns of each
    assert [(one.turns, one.passes, one.least) for one in found] == [
        (True, 64, 2),
        (False, 2, 2),
        (True, 16 + 12 + 16 + 15, 4),
    ]
    log = session.log
    for one in bank_conflicts(session):
        mine = np.isin(log.accesses.event, np.flatnonzero(log.pc == one.instruction.pc))
        assert one.passes == log.accesses.wavefronts[mine].sum(), one.instruction.text


@pytest.mark.parametrize("name", PERMUTATIONS)
def test_permutations_undo_themselves_inside_a_row(name: str) -> None:
    addresses = np.random.default_rng().integers(0, 1 << 18, 500)
    there = permute(addresses, name)
    assert (permute(there, name) == addresses).all()
    width = 128 if name.endswith("B") else int(name.split("B")[0])
    assert (there // width == addresses // width).all() and (there % 16 == addresses % 16).all()
    if name in ("32B", "64B", "128B"):
        number = ("none", "32B", "64B", "128B").index(name)
        assert there.tolist() == [tma.swizzle_address(number, int(address)) for address in addresses]
    else:
        assert (there % width // 16 == addresses % width // 16 ^ addresses // width % 8).all()


def matrices(found: list[InstructionBanks]) -> list[InstructionBanks]:
    return [one for one in found if one.instruction.opcode.startswith("ldmatrix")]


def test_the_permuted_prefill_reads_matrices_without_conflicts_and_the_linear_one_eight_ways() -> None:
    permuted, linear = (matrices(bank_conflicts(Prefill(name).session())) for name in ("permuted", "linear"))
    assert permuted and all(one.passes == one.least == 4 * one.executions for one in permuted)
    assert linear and all(one.passes == 8 * one.least == 32 * one.executions for one in linear)
    # Undone, the permutation of one is the other.
    assert all(one.permuted["256B_rows"] == 8 * one.least for one in permuted)
    assert all(one.permuted["256B_rows"] == one.least for one in linear)
    assert sum(one.executions for one in permuted) == sum(one.executions for one in linear)


def test_the_tensor_core_kernels_write_p_without_conflicts_thanks_to_the_swizzle() -> None:
    for session, opcode in ((mla_sm90(64), "stmatrix"), (mla_sm100(128), "st.shared.v4.u32")):
        stores = [one for one in bank_conflicts(session) if one.instruction.opcode.startswith(opcode)]
        assert stores and all(one.passes == one.least for one in stores)
        assert all(one.permuted["128B"] == 8 * one.least for one in stores)
        assert not any(one.reads for one in stores)


def test_every_execution_of_every_warp_is_counted_and_the_session_stays() -> None:
    session = corpus("mma_gemm_f16.sm_80")
    session.step(count=100)
    moment = session.moment
    found = matrices(bank_conflicts(session))
    assert session.moment == moment
    counted = sum(session.log.cta[session.log.pc == one.instruction.pc].tolist().count(0) for one in found)
    assert sum(one.executions for one in found) == counted > 0
    assert all(session.log.pc[one.first] == one.instruction.pc for one in found)


def test_a_launch_that_fails_is_counted_up_to_the_fault() -> None:
    session = failing()
    with pytest.raises(KernelError):
        session.run()
    position = session.now
    (one,) = bank_conflicts(session)
    assert (session.now, session.fault is None) == (position, False)
    assert (one.executions, one.nbytes, one.passes, one.reads) == (1, 4, 1, False)
