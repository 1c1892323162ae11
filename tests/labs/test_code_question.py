"""Coding exercises of notebooks: behaviour is judged, on inputs that the function may spoil, whatever it raises."""

import pytest

torch = pytest.importorskip("torch")

from sglab.labs.code_question import CodeQuestion


def doubled() -> CodeQuestion:
    return CodeQuestion(
        function="double",
        cases=lambda random: [[torch.randn(3, generator=random), n] for n in (1, 2)],
        truth=lambda x, n: (2 * x.double(), n),
        because="Twice.",
        ideas=((lambda x, n: (x + 2, n), "Times, not plus."),),
    )


def test_right_whatever_the_type_and_though_it_spoils_its_arguments() -> None:
    def spoils(x: torch.Tensor, n: int) -> list[object]:
        x *= 2
        return [x.tolist(), torch.tensor(n)]

    assert doubled().check(lambda x, n: (x * 2, n)).right
    assert doubled().check(spoils).right


def test_nothing_yet() -> None:
    def later(x: torch.Tensor, n: int) -> None:
        raise NotImplementedError

    assert doubled().check().right is None
    assert doubled().check(later).right is None


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (lambda x, n: (x + 2, n), "Times, not plus."),
        (lambda x, n: (x * 2, n + 1), "0 of 2 cases are right. double("),
        (lambda x, n: (x * 2 if n == 1 else x * float("nan"), n), "1 of 2 cases are right."),
        (lambda x, n: 1 / 0, "raised ZeroDivisionError"),
        (lambda x, n: None, "gave None"),
        (lambda x, n: (x[:2] * 2, n), "0 of 2"),
        ([1, 2], "The answer is the function itself: double"),
    ],
)
def test_wrong(given: object, text: str) -> None:
    verdict = doubled().check(given)
    assert verdict.right is False and text in verdict.text


def filled(hole: tuple[int, int], value: float) -> CodeQuestion:
    def truth(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[hole] = value
        return y

    return CodeQuestion(
        function="fill",
        cases=lambda random: [[torch.randn(40, 30, generator=random)]],
        truth=truth,
        because="Filled.",
    )


def test_where_long_results_part_is_said_as_what_is_shown_of_both_may_be_the_same() -> None:
    verdict = filled((31, 7), 5.0).check(lambda x: x.masked_fill(x != x, 0))
    assert "1 of 1200 numbers differ, the first at [31, 7]: " in verdict.text
    assert verdict.text.endswith(", expected 5.0.")
    assert "nan, expected 0.0." in filled((39, 29), 0.0).check(lambda x: _with_nan(x)).text
    assert "The shapes differ: [39, 30], expected [40, 30]." in filled((0, 0), 1.0).check(lambda x: x[1:]).text


def _with_nan(x: torch.Tensor) -> torch.Tensor:
    x[39, 29] = float("nan")
    return x


def test_of_several_long_results_the_one_that_differs_is_named() -> None:
    question = CodeQuestion(
        function="both",
        cases=lambda random: [[torch.randn(500, generator=random)]],
        truth=lambda x: (x, -x),
        because="Both.",
    )
    text = question.check(lambda x: (x, torch.cat((-x[:-1], torch.ones(1))))).text
    assert "Of the results, number 1 differs. 1 of 500 numbers differ, the first at [499]: 1.0, expected" in text


def test_right_results_may_be_objected_to() -> None:
    question = CodeQuestion("same", lambda random: [[1]], lambda x: x, "Right.", objection=lambda f: "Too slow.")
    assert question.check(lambda x: x).right is False
    assert question.check(lambda x: x).text == "All 1 cases are right. Too slow."
