"""Model solutions score full marks, starters none, known wrong ideas get the feedback meant for them.

Everything here is ours, so it runs in this process; `python labs/selftest.py` tries every wrong idea of every lab.
"""

from itertools import islice

import pytest

from sglab.labs.coursework import MODULES, lab, labs
from sglab.labs.exercises.answers import AnswerExercise
from sglab.labs.lab import seed_of, total
from sglab.labs.sandbox import OpenBench
from tests.support.compilers import has_nvcc
from tests.support.labs import ROOT, selftest

PYTHON = [number for number in MODULES if not lab(number).needs]
WITH_NVCC = [number for number in MODULES if "nvcc" in lab(number).needs]
WITH_TRITON = [number for number in MODULES if "triton" in lab(number).needs]
KERNELS_TRIED = 1
"""Wrong ideas per lab of kernels; each is compiled."""


def test_there_are_fifteen_labs_in_order() -> None:
    assert [each.id for each in labs()] == [f"{n:02d}" for n in range(1, 16)]
    assert lab("3") is lab("03") is lab("radix_tree") is lab("03_radix_tree")


@pytest.mark.parametrize("number", MODULES)
def test_a_lab_is_complete(number: str) -> None:
    one = lab(number)
    assert one.points > 0 and one.goal.endswith(".")
    assert sum(len(each.ideas) for each in one.exercises) >= 10
    assert len(list(selftest.wrongs(one))) >= 10
    page = (ROOT / one.folder / "instructor.md").read_text()
    assert page == selftest.page(one), "python labs/selftest.py --pages brings the rubric up to date"
    assert one.title in page
    for exercise in one.exercises:
        assert exercise.starter(one, "ada")
        assert len({each.id for each in exercise.criteria}) == len(exercise.criteria)
        ids = [each.id for each in exercise.ideas]
        assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("seed", [7, 13])
@pytest.mark.parametrize("number", PYTHON)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_python_labs_keep_their_word(number: str, seed: int) -> None:
    """A wrong idea is known by what was drawn once: on other inputs it must be known, too."""
    assert selftest.check(lab(number), OpenBench(), seed) == []


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_the_split_planners_solution_has_full_marks_whatever_batches_are_drawn(seed: int) -> None:
    """Of some batches FlashInfer's plan is the best that a search over chunk lengths finds: nobody is to beat it."""
    one = lab("04")
    outcomes = selftest.judged(one, selftest.solution(one), OpenBench(), seed)
    assert total(one, outcomes) == one.points


@pytest.mark.parametrize("seed", range(7, 17))
def test_the_radix_tree_that_locks_only_the_last_node_is_caught_whatever_is_drawn(seed: int) -> None:
    one = lab("03")
    files = next(files for _, idea, files in selftest.wrongs(one) if idea == "locks_last")
    marks = selftest.judged(one, files, OpenBench(), seed, only=("tree",))["tree"].marks
    assert "locks_last" in {mark.idea for mark in marks}


def check_kernels(number: str, tried: int) -> None:
    one, bench = lab(number), OpenBench()
    assert total(one, selftest.judged(one, selftest.solution(one), bench)) == one.points
    assert total(one, selftest.judged(one, selftest.starters(one), bench)) == 0
    for exercise, idea, files in islice(selftest.wrongs(one), tried):
        marks = selftest.judged(one, files, bench, only=(exercise,))[exercise].marks
        assert idea in {mark.idea for mark in marks}


@pytest.mark.skipif(not has_nvcc(), reason="needs nvcc")
@pytest.mark.parametrize("number", WITH_NVCC)
def test_labs_in_cuda_keep_their_word(number: str) -> None:
    check_kernels(number, KERNELS_TRIED)


@pytest.mark.parametrize("number", WITH_TRITON)
def test_labs_in_triton_keep_their_word(number: str) -> None:
    pytest.importorskip("triton")
    check_kernels(number, 0)


@pytest.mark.parametrize("number", MODULES)
def test_questions_are_each_students_own_and_the_known_slips_are_seen(number: str) -> None:
    (exercise,) = [each for each in lab(number).exercises if isinstance(each, AnswerExercise)]
    assert len({exercise.starter(lab(number), f"student{n}") for n in range(9)}) > 1
    for asked in exercise.asked:
        for idea, feedback, slip in asked.slips:
            seeds = [seed_of(lab(number).id, f"student{n}") for n in range(5)]
            found = [
                exercise.judge(f"{asked.name} = {slip(exercise._random(seed, asked))!r}", 0, OpenBench(), seed)
                for seed in seeds
            ]
            marks = [mark for outcome in found for mark in outcome.marks if mark.criterion == asked.name]
            assert (0.0, feedback, idea) in [(mark.share, mark.feedback, mark.idea) for mark in marks]


def test_a_formula_is_no_answer() -> None:
    (exercise,) = [each for each in lab("01").exercises if isinstance(each, AnswerExercise)]
    outcome = exercise.judge("pages = __import__('os').system('true')", 0, OpenBench(), 1)
    assert "write the result, not a formula" in outcome.marks[0].feedback
