"""The hang of vLLM #26026, put into our SM100 MLA decode: it hangs, is explained, and is mended."""

import pytest

torch = pytest.importorskip("torch")

from sglab.emulator import EmulatedDevice
from sglab.gpu import KernelError
from sglab.kernels import ptx
from sglab.labs import mla_hang as lab
from sglab.labs.question import Question

SOFTMAX, MMA, LOAD = {0, 1, 2, 3}, {8}, {9}


@pytest.mark.parametrize("lengths", [(150, 0, 0, 150), (0, 0, 300), (40, 0, 0, 0, 129)])
def test_requests_without_tokens_make_it_hang(lengths: tuple[int, ...]) -> None:
    with pytest.raises(KernelError, match="no warp can continue"):
        lab.GuardedDecode(seq_lens=lengths).run()


def test_the_circle_has_every_role_that_waits_for_another() -> None:
    session = lab.GuardedDecode().session()
    with pytest.raises(KernelError) as caught:
        session.run()
    waits = {wait.kind if wait.kind == "barrier" else wait.warp: wait for wait in caught.value.cycle}
    assert {wait.warp for wait in caught.value.cycle} <= SOFTMAX | MMA | LOAD
    assert len(waits) == 3
    assert waits["barrier"].warp in LOAD and waits["barrier"].object == lab.BARRIER
    at = {wait.warp: index for index, wait in enumerate(caught.value.cycle)}
    for wait in caught.value.cycle:
        follows = SOFTMAX if wait.warp in LOAD else LOAD if wait.warp in MMA else MMA
        assert wait.next in {at[warp] for warp in follows if warp in at}


def test_the_second_arrival_is_found() -> None:
    session = lab.GuardedDecode().session()
    with pytest.raises(KernelError):
        session.run()
    [first, *_] = [finding for finding in session.findings if finding.kind == "barrier_arrived_twice"]
    assert first.at is not None and first.other is not None
    assert first.at.warp == first.other.warp
    assert first.other.position < first.at.position


def test_a_session_that_reaches_the_hang_again_says_the_same() -> None:
    session = lab.GuardedDecode().session()
    cycles = []
    for _ in range(2):
        with pytest.raises(KernelError) as caught:
            session.run()
        cycles.append(caught.value.cycle)
        session.seek(100)
    assert cycles[0] == cycles[1]


@pytest.mark.parametrize("scheduler", lab.SCHEDULERS)
@pytest.mark.parametrize("empty_unit", [None, "bar.sync"])
@pytest.mark.parametrize("lengths", [(150, 0, 0, 150), (0, 0, 0, 300, 0, 0), (0, 0)])
def test_mended_it_ends_with_the_right_answer(empty_unit: str, scheduler: str, lengths: tuple[int, ...]) -> None:
    launch = lab.GuardedDecode(empty_unit, lengths)  # type: ignore[arg-type]
    launch.run(scheduler=scheduler, sanitize=True)
    assert launch.error() < 2e-3


@pytest.mark.parametrize("empty_unit", lab.CHOICES)
def test_without_empty_requests_nothing_is_wrong(empty_unit: lab.EmptyUnit) -> None:
    launch = lab.GuardedDecode(empty_unit, (130, 128, 257))
    report = launch.run(sanitize=True)
    assert report.findings == ()
    assert launch.error() < 2e-3


def test_only_the_barrier_is_put_in() -> None:
    shipped = ptx.text("mla_decode_sm100").splitlines()
    for empty_unit, number in (("bar.arrive", 5), ("bar.sync", 5), ("nothing", 4)):
        changed = lab.guarded_ptx(empty_unit).splitlines()  # type: ignore[arg-type]
        assert len(changed) == len(shipped) + number
        at = iter(changed)
        assert all(line in at for line in shipped)
    with pytest.raises(ValueError, match=r"empty_unit must be 'bar.arrive', 'bar.sync', 'nothing'; got 'bar.red'"):
        lab.guarded_ptx("bar.red")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        (lab.first_arrival_too_many(), 2, 9),
        (lab.what_ends(), {"bar.sync"}, {"bar.sync", "nothing"}),
    ],
)
def test_answers(question: Question, right: object, wrong: object) -> None:
    assert question.check(right).right is True
    assert question.check(wrong).right is False


def test_as_many_threads_are_missing_as_did_not_come() -> None:
    session = lab.GuardedDecode().session()
    session.break_at(opcode="bar.sync", cta=0)
    session.break_at(opcode="bar.arrive", cta=0)
    came = 0
    with pytest.raises(KernelError):
        while (stop := session.run()).reason == "breakpoint":
            assert stop.at is not None
            came += 32 * (f"{lab.BARRIER}, {lab.THREADS};" in stop.at.instruction.text)
            session.step()
    question = lab.threads_missing()
    assert question.check(lab.THREADS - came % lab.THREADS).right is True
    assert question.check(lab.THREADS).right is False


def test_the_devices_options_are_passed_on() -> None:
    session = lab.GuardedDecode().session(sanitize=False)
    assert isinstance(session.device, EmulatedDevice)
    assert session.findings == ()
