"""Bugs of attention kernels: each fails as the notebook says and no worse, questions judge, mended kernels pass."""

import pytest

torch = pytest.importorskip("torch")

from sglab.compilers.nvcc import find_nvcc
from sglab.gpu import GpuError, KernelError
from sglab.labs import attention_bugs as lab

COUNTED = [
    ("  for (int r = 0; r < requests; ++r) {", "  int count = 0;\n  for (int r = 0; r < requests; ++r) {"),
    ("for (int i = 0; i < rows; ++i) {", "for (int i = 0; i < rows; ++i, ++count) {"),
    ("stage = i % 2, parity = i / 2 % 2;", "stage = count % 2, parity = count / 2 % 2;"),
]
WAIT_FOR_ALL = [("ptx::wgmma_wait<1>();", "ptx::wgmma_wait<0>();")]
RELEASE = "ptx::mbarrier_arrive(empty[stage]);"
RELEASE_LATER = [(RELEASE, "if (i > 0) ptx::mbarrier_arrive(empty[stage ^ 1]);")]
MENDED = [
    ("persistent", COUNTED),
    ("paged_sum", [("    float sum = 0;\n    for (int t", "    float sum = 0;\n    held = -1;\n    for (int t")]),
    ("split_lse", [("  if (first >= last) return;\n", "")]),
    ("merge_states", [("__expf(lse[0] - m)", "exp2f(lse[0] - m)"), ("__expf(lse[1] - m)", "exp2f(lse[1] - m)")]),
    ("product", WAIT_FOR_ALL),
    ("product", RELEASE_LATER),
]
ARRIVE_ONLY = "if (first >= last) {\n    if (lane == 0) ptx::mbarrier_arrive(ready);\n    return;\n  }\n"
HAND_IN_ZEROS = ARRIVE_ONLY.replace(
    "if (lane == 0) ", "part_m[warp] = part_d[warp] = 0;\n    __syncwarp();\n    if (lane == 0) "
)
BEGIN_AGAIN = (
    "  for (int r = 0; r < requests; ++r) {\n    if (threadIdx.x < 2) {\n"
    "      ptx::mbarrier_init(full[threadIdx.x], 32);\n      ptx::mbarrier_init(empty[threadIdx.x], 32);\n    }\n"
    "    __syncthreads();\n"
)
WRONG_MENDS = [
    ("split_lse", [("if (first >= last) return;\n", ARRIVE_ONLY)], "handed in nothing"),
    ("split_lse", [("if (first >= last) return;\n", HAND_IN_ZEROS)], "near -200"),
    ("persistent", [COUNTED[0], COUNTED[1], ("parity = i / 2 % 2;", "parity = count / 2 % 2;")], "all requests"),
    ("persistent", [("  for (int r = 0; r < requests; ++r) {\n", BEGIN_AGAIN)], "must not be initialised again"),
    ("paged_sum", [("t / 4 != held", "t / 4 != held || r == 0")], "Two numbers"),
    ("merge_states", [("__expf(lse[0] - m)", "exp2f(lse[0] - m)")], "same base"),
    ("product", [(RELEASE, "ptx::mbarrier_arrive(empty[stage ^ 1]);")], ""),
    (
        "product",
        [("ptx::mbarrier_arrive(empty[stage]);", "if (i % 2) ptx::mbarrier_arrive(empty[stage]);")],
        "once for each",
    ),
]


def has_nvcc() -> bool:
    try:
        find_nvcc()
    except GpuError:
        return False
    return True


@pytest.mark.parametrize(
    ("name", "seq_lens", "wrong", "kinds"),
    [
        ("persistent", [40, 8], set(), set()),
        ("persistent", [3, 1], set(), set()),
        ("persistent", [2, 40], None, {"deadlock"}),
        ("persistent", [3, 8], {1}, set()),
        ("paged_sum", [5, 40], set(), set()),
        ("paged_sum", [4, 0, 40, 9], {2}, set()),
        ("split_lse", [4, 7, 8, 10, 200], set(), set()),
        ("split_lse", [64, 9], None, {"deadlock"}),
        ("merge_states", [7, 32], set(), set()),
        ("merge_states", [32, 33], {1}, set()),
        ("product", [128], set(), set()),
        ("product", [129], set(), {"missing_wgmma_wait"}),
    ],
)
def test_how_each_fails(name: str, seq_lens: list[int], wrong: set[int] | None, kinds: set[str]) -> None:
    launch = lab.Faulty(name, seq_lens, seed=3)
    try:
        findings = launch.run(sanitize=True).findings
        assert launch.wrong() == wrong
    except KernelError as error:
        assert wrong is None
        findings = error.findings
    assert kinds <= {finding.kind for finding in findings} and bool(kinds) == bool(findings)


def test_the_early_release_does_harm_with_some_seeds() -> None:
    """As the notebook shows."""
    results = [float(lab.outcome("product", [1000], "adversarial", seed)) for seed in range(60)]
    assert 0 < sum(error > lab.RIGHT for error in results) < 60


@pytest.mark.parametrize(
    ("question", "right"),
    [
        (lab.most_scores_that_hang, 9),
        (lab.zero_in_place_of_nothing, -torch.inf),
        (lab.rows_that_do_no_harm, {3, 4, 7, 8, 11, 12}),
        (lab.tokens_of_the_other, 4),
        (lab.weight_of_the_first, 0.881),
        (lab.fewest_keys_that_race, 129),
    ],
)
def test_questions(question: object, right: object) -> None:
    asked = question()  # type: ignore[operator]
    assert asked.check(right).right, asked.check(right)
    assert len(asked.ideas) >= 2
    for idea, feedback in asked.ideas:
        assert asked.check(idea).right is False
        assert asked.check(idea).text == feedback


def test_a_batch_that_catches_all_five() -> None:
    question = lab.a_batch_for_all()
    assert "cannot be done" in question.check([1, 129]).text
    verdict = question.check([3, 200])
    assert verdict.right and "fewer tokens?" in verdict.text
    assert "paged_sum comes through" in question.check([129, 1]).text
    assert "persistent, paged_sum" in question.check([64]).text
    for no_batch in (7, [], [0, 7], [64, 0.5], [2000]):
        assert question.check(no_batch).right is False
    assert question.check().right is None


def right_prediction(seq_lens: list[int]) -> list[int]:
    found, last = [], 0
    for r, n in enumerate(seq_lens):
        if n and 0 < last <= lab.PAGE:
            found.append(r)
        last = n or last
    return found


def test_predictions_are_compared_with_launches() -> None:
    question = lab.wrong_requests()
    verdict = question.check(right_prediction)
    assert verdict.right, verdict
    for idea, feedback in question.ideas:
        assert feedback in question.check(idea).text
    assert question.check().right is None


@pytest.mark.skipif(not has_nvcc(), reason="no nvcc")
@pytest.mark.parametrize(("name", "changes"), MENDED)
def test_mending(name: str, changes: list[tuple[str, str]]) -> None:
    verdict = lab.mended(name).check(changed(name, changes))
    assert verdict.right, verdict


@pytest.mark.skipif(not has_nvcc(), reason="no nvcc")
@pytest.mark.parametrize(("name", "changes", "told"), [*((name, [], "") for name in lab.NAMES), *WRONG_MENDS])
def test_mends_that_are_none(name: str, changes: list[tuple[str, str]], told: str) -> None:
    verdict = lab.mended(name).check(changed(name, changes))
    assert verdict.right is False
    assert told in verdict.text


@pytest.mark.skipif(not has_nvcc(), reason="no nvcc")
def test_a_verdict_is_made_of_sentences() -> None:
    assert "no warp can continue. " in lab.mended("split_lse").check(lab.source("split_lse")).text
    early = changed("product", [(RELEASE, "ptx::mbarrier_arrive(empty[stage ^ 1]);")])
    assert "is missing between them. " in lab.mended("product").check(early).text
    assert "this is of type int." in lab.mended("product").check(3).text


def changed(name: str, changes: list[tuple[str, str]]) -> str:
    text = lab.source(name)
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def test_what_is_no_kernel_and_no_batch() -> None:
    with pytest.raises(ValueError, match="expected one of persistent"):
        lab.mended("ring")
    with pytest.raises(ValueError, match="expected one of persistent"):
        lab.source("ring")
    with pytest.raises(ValueError, match="expected one of persistent"):
        lab.Faulty("ring")
    with pytest.raises(ValueError, match="at least 1 each"):
        lab.Faulty("split_lse", [4, 0])
