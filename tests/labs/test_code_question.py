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
