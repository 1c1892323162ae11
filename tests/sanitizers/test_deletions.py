"""Take any one synchronisation instruction out of our MLA kernels, and some check notices, except for those listed."""

from collections import Counter

import pytest

torch = pytest.importorskip("torch")

from tests.support.emulator.schedulers import SCHEDULERS
from tests.support.sanitizers.deletions import Deletion, deletions, outcome

UNNOTICED = {
    "sm_100a": {
        "tcgen05.fence::before_thread_sync": 4,
        "tcgen05.fence::after_thread_sync": 6,
        "fence.mbarrier_init": 1,
        "bar.warp.sync": 2,
        "tcgen05.relinquish_alloc_permit": 1,
        "griddepcontrol.launch_dependents": 1,
    },
    "sm_90a": {
        "wgmma.fence": 16,
        "wgmma.wait_group": 1,
        "fence.mbarrier_init": 1,
        "griddepcontrol.launch_dependents": 2,
    },
}
"""How many of them, and no more, can be taken out unnoticed; docs/emulator/races.md says why of each."""

SAMPLE = [
    *(("sm_100a", opcode) for opcode in ("bar.sync", "bar.warp.sync", "mbarrier.arrive", "tcgen05.wait::ld")),
    *(("sm_90a", opcode) for opcode in ("bar.sync", "fence.proxy.async", "mbarrier.try_wait", "wgmma.wait_group")),
]


def last(arch: str, opcode: str) -> Deletion:
    return [deletion for deletion in deletions(arch) if deletion.opcode.startswith(opcode)][-1]


@pytest.mark.parametrize(("arch", "opcode"), SAMPLE)
def test_the_last_of_a_kind_is_missed(arch: str, opcode: str) -> None:
    assert outcome(last(arch, opcode), ("fair",))


@pytest.mark.slow
@pytest.mark.parametrize("arch", UNNOTICED)
def test_all_but_the_known_ones_are_missed(arch: str) -> None:
    unnoticed = [deletion for deletion in deletions(arch) if not outcome(deletion, SCHEDULERS)]
    kinds = [next((kind for kind in UNNOTICED[arch] if d.opcode.startswith(kind)), d.opcode) for d in unnoticed]
    assert Counter(kinds) == UNNOTICED[arch], "\n".join(map(str, unnoticed))
