"""One line of our MLA kernels' PTX changed: what comes of it is named, with who was to do what."""

import re

import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from tests.support.sanitizers.deletions import at_source
from tests.support.sanitizers.mla_batch import decode

ARRIVE = r"mbarrier\.arrive\.shared::cta\.b64 _, \[%r\d+\];"
EXPECT = r"mbarrier\.arrive\.expect_tx\.shared::cta\.b64 _, \[(%r\d+)\], %r\d+;"
INIT = r"mbarrier\.init\.shared::cta\.b64 \[%r\d+\], %r\d+;"
CONSUMERS, PRODUCER = range(8), 8


class Change:
    """Replaces the n-th occurrence of a pattern, and keeps its line."""

    def __init__(self, pattern: str, number: int, replacement: str) -> None:
        self.pattern, self.number, self.replacement, self.line = pattern, number, replacement, 0

    def __call__(self, ptx: str) -> str:
        found = list(re.finditer(self.pattern, ptx))[self.number]
        self.line = ptx.count("\n", 0, found.start()) + 1
        return ptx[: found.start()] + found.expand(self.replacement) + ptx[found.end() :]


# Three requests on one SM, so that all rings of the SM90 kernel go round.
LENGTHS, CHECKED = [400, 100, 200], {"memory", "tensor", "barriers"}


def broken(change: Change, scheduler: str = "fair") -> gpu.KernelError:
    _, error = decode("sm_90a", LENGTHS, change, sms=1, sanitize=CHECKED, scheduler=scheduler)
    assert error is not None
    assert error.fault is not None
    return error


def test_bytes_that_no_barrier_expected() -> None:
    change = Change(EXPECT, 0, r"mbarrier.arrive.shared::cta.b64 _, [\1];")
    error = broken(change, scheduler="random")
    assert error.fault and error.fault.kind == "deadlock"
    consumer, producer = error.cycle
    assert consumer.warp in CONSUMERS and producer.warp == PRODUCER
    assert "bytes too many" in consumer.waits
    assert (consumer.next, consumer.next_line) == (1, change.line)
    assert producer.next == 0


def test_copies_that_stay_in_flight_because_no_barrier_expects_their_bytes() -> None:
    """The same where copies are as late as can be: the phases end without them, and Q is read before it is there."""
    change = Change(EXPECT, 0, r"mbarrier.arrive.shared::cta.b64 _, [\1];")
    (report, *_), error = decode("sm_90a", LENGTHS, change, sms=1, sanitize=CHECKED)
    assert error is None
    assert {"uninitialised_read", "mbarrier_tx_count"} <= {finding.kind for finding in report.findings}
    counted = next(finding for finding in report.findings if finding.kind == "mbarrier_tx_count")
    assert counted.at is not None and counted.at.asynchronous and counted.warp == PRODUCER


def test_an_arrival_left_out() -> None:
    """The consumers' release of Q, by four of the eight warps."""
    change = Change(ARRIVE, 1, "")
    error = broken(change)
    assert error.fault and error.fault.kind == "deadlock"
    producer = next(wait for wait in error.cycle if wait.warp == PRODUCER)
    assert "4 of 8 arrivals missing" in producer.waits
    consumer = next(wait for wait in error.cycle if wait.warp in CONSUMERS)
    assert consumer.object != producer.object
    assert {consumer.next, producer.next} == {0, 1}
    assert (consumer.role, consumer.barrier) == ("math", "load→math full")
    assert (producer.role, producer.barrier) == ("load", "math→load empty")
    assert f"warp {consumer.warp} (math) waits" in str(error)
    assert "for the mbarrier math→load empty at shared address" in str(error)
    finding = error.findings[-1]
    assert (finding.kind, finding.detector) == ("deadlock", "launch")
    assert finding.at is not None and finding.other is not None
    assert {finding.at.warp, finding.other.warp} == {consumer.warp, producer.warp}
    assert {finding.at.role, finding.other.role} == {"math", "load"}
    assert finding.at.source is not None and finding.at.source[0].endswith("ptx/barrier.cuh")


def test_an_arrival_made_twice() -> None:
    """A phase ends before its time, and the two sides lose step for ever."""
    change = Change(f"({ARRIVE})", 3, r"\1 \1")
    error = broken(change)
    assert error.fault and error.fault.kind == "deadlock"
    waits = {wait.object for wait in error.cycle}
    assert len(waits) == len(error.cycle) == 2
    assert change.line in [wait.next_line for wait in error.cycle]


def test_a_barrier_never_initialised() -> None:
    error = broken(Change(INIT, 3, ""))
    finding = error.findings[-1]
    assert (finding.kind, finding.warp) == ("mbarrier_uninitialised", PRODUCER)
    assert finding.at is not None and finding.at.role == "load" and finding.barrier.startswith("load→")
    assert finding.at is not None and finding.at.instruction is not None
    assert finding.at.instruction.opcode.startswith("mbarrier.arrive.expect_tx")


def test_a_copy_left_out() -> None:
    change = Change(r"cp\.async\.bulk\.tensor\.3d\.shared::cluster[^;]*;", 0, "")
    error = broken(change)
    assert error.fault and error.fault.kind == "deadlock"
    waits = next(wait for wait in error.cycle if " bytes missing" in wait.waits)
    assert waits.warp in CONSUMERS
    assert "0 of 1 arrivals and 8192 bytes missing" in waits.waits


SM100_ARRIVE = r"mbarrier\.arrive[^;]*;"  # of any kind


@pytest.mark.parametrize("detectors", [False, True])
def test_the_sm100_kernel_s_roles_stand_in_a_circle(detectors: bool) -> None:
    """The load warps announce no bytes for a stage of K."""
    change = Change(SM100_ARRIVE, 8, "")
    _, error = decode("sm_100a", [400, 100], change, sanitize=detectors)
    assert error is not None and error.fault is not None and error.fault.kind == "deadlock"
    assert {wait.role: wait.barrier.split("[")[0] for wait in error.cycle} == {
        "mma": "load→mma full",
        "load": "mma→load empty",
    }


def test_an_sm100_arrival_made_twice_names_the_barrier_and_both_roles() -> None:
    _, error = decode("sm_100a", [400, 100], Change(f"({SM100_ARRIVE})", 8, r"\1 \1"), sanitize=CHECKED)
    assert error is not None
    finding = error.findings[-1]
    assert finding.kind == "mbarrier_arrival_underflow"
    assert finding.at is not None and finding.other is not None
    assert (finding.at.role, finding.other.role) == ("load", "load")
    assert finding.barrier.startswith("load→mma full[")
    assert f"the mbarrier {finding.barrier}" in finding.message or f"mbarrier {finding.barrier} at" in str(error)


@pytest.mark.parametrize(
    ("wait", "reads", "writes"),
    [
        ("s_buffer.wait_full()", "softmax", "mma"),
        ("scales.wait_full()", "correction", "softmax"),
        ("sums.wait_full()", "epilogue", "softmax"),
        ("k_pages.wait_full()", "load", "page table"),
        ("stage.wait_empty()", "mma", "load"),  # the last of them: V's, too early for the stage's reader
    ],
)
def test_an_sm100_wait_left_out_is_a_race_between_two_roles(wait: str, reads: str, writes: str) -> None:
    *_, deletion = at_source("sm_100a", wait)
    reports, error = decode("sm_100a", [400, 100], deletion, sanitize={"races"})
    findings = error.findings if error else reports[0].findings
    races = [one for one in findings if one.kind == "read_after_write_race"]
    assert (reads, writes) in {(one.at.role, one.other.role) for one in races if one.at and one.other}
    text = next(str(one) for one in races if one.at and one.other and one.at.role == reads)
    assert f"({reads})" in text and f"({writes})" in text


@pytest.mark.parametrize("detectors", [False, True])
def test_the_chain_needs_no_sanitizer(detectors: bool) -> None:
    _, error = decode("sm_90a", [400, 100, 200], Change(ARRIVE, 1, ""), sms=1, sanitize=detectors)
    assert error is not None
    assert PRODUCER in {wait.warp for wait in error.cycle}
    assert "which closes the circle" in str(error)
