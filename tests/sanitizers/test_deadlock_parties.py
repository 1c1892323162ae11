"""A party named in a deadlock's circle does arrive where the message says: by tcgen05.commit, and without sanitizers.

Instructions that arrive are taken out of the SM100 MLA kernel; what the right kernel's log says is the truth."""

from functools import cache

import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.events.log import MBARRIER
from tests.support.sanitizers.deletions import Deletion, at_source, deletions
from tests.support.sanitizers.mla_batch import Batch, attend

BATCH = Batch([520, 100, 0, 300])
COMMITS = [one for one in deletions("sm_100a") if one.opcode.startswith("tcgen05.commit")]


@cache
def truth() -> tuple[dict[int, str], dict[int, set[str]]]:
    """Of the right kernel: each warp's role, and the roles that arrive at an mbarrier of each shared address."""
    launch, *_ = gpu.capture(lambda: attend("sm_100a", BATCH, sms=2))
    roles = launch.record().roles
    names = {one.object: one.name for one in roles.barriers if one.kind == MBARRIER and "→" in one.name}
    return {warp: role.name for (_, warp), role in roles}, {at: {name.split("→")[0]} for at, name in names.items()}


def deadlock(deletion: Deletion, detectors: bool) -> gpu.KernelError:
    _, error, _ = attend("sm_100a", BATCH, deletion, sms=2, sanitize={"barriers"} if detectors else False)
    assert error is not None and error.fault is not None and error.fault.kind == "deadlock", deletion
    return error


def check_parties(error: gpu.KernelError) -> None:
    roles, arrivers = truth()
    for wait in error.cycle:
        if wait.kind == "mbarrier" and wait.next is not None:
            assert roles[error.cycle[wait.next].warp] in arrivers[wait.object], str(error)


@pytest.mark.parametrize("detectors", [False, True])
@pytest.mark.parametrize("commit", COMMITS, ids=lambda commit: f"line {commit.line}")
def test_without_a_commit_each_party_is_one_that_arrives_there(commit: Deletion, detectors: bool) -> None:
    check_parties(deadlock(commit, detectors))


@pytest.mark.parametrize("detectors", [False, True])
def test_the_chain_ends_where_no_warp_arrives_any_more(detectors: bool) -> None:
    """The load warp's release of the page table's ring, which is the only arrival there."""
    (release,) = at_source("sm_100a", "v_pages.release(lane == 0)")
    error = deadlock(release, detectors)
    check_parties(error)
    last = error.cycle[-1]
    assert (last.role, last.next) == ("page table", None)
    assert "→page table empty" in last.barrier
    assert "nothing is left that could end that" in str(error)
