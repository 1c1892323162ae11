"""A question judges answers against what it computes from live objects."""

import math

import numpy as np
import pytest

from sglab.labs import Question
from sglab.labs.question import sentence


def ask(truth: object, tolerance: float = 0.01) -> Question:
    return Question(lambda: truth, because="It is {truth}.", hint="Look again.", tolerance=tolerance)


@pytest.mark.parametrize(
    ("truth", "given", "right"),
    [
        (7, 7, True),
        (7, np.int32(7), True),
        (7, 7.0, True),
        (7, 8, False),
        (7, "7", False),
        (1, True, False),
        (True, True, True),
        (True, False, False),
        (0.25, 0.2501, True),
        (0.25, 0.26, False),
        (float("nan"), float("nan"), True),
        (float("nan"), 0.0, False),
        ("Triton", " triton ", True),
        ("Triton", "cuda", False),
        ([1, 2], np.array([1, 2]), True),
        ([1, 2], (1, 2), True),
        ([1, 2], [2, 1], False),
        ([1, 2], [1], False),
        ({3, 1}, {1, 3}, True),
        ("S0 S1 O0", "s0, S1,  O0", True),
        ("S0 S1 O0", "S0 O0 S1", False),
        ("yes", None, None),
        (7, ..., None),
    ],
)
def test_verdict(truth: object, given: object, right: bool | None) -> None:
    assert ask(truth).check(given).right is right


def test_right_answer_explains_and_wrong_answer_hints_without_telling() -> None:
    question = ask(41)
    assert "It is 41." in str(question.check(41))
    assert "41" not in str(question.check(5))
    assert "Look again." in question.check(5)._repr_html_()


def test_a_right_answer_is_shown_as_a_reader_would_write_it() -> None:
    assert "It is {1, 3}." in str(ask({3, 1}).check([1, 3]))
    assert "It is [0.3333, -inf, 2]." in str(ask([1 / 3, -math.inf, 2]).check([1 / 3, -math.inf, 2]))
    assert ask({3, 1}).check([1, 2]).text == ask({3, 1}).check({1, 2}).text == "Look again."


def test_no_value_is_distinguished_from_no_answer() -> None:
    assert "Replace the ..." in ask(1).check(...).text
    assert "None" in ask(1).check(None).text


def test_truth_is_computed_when_answered_not_before() -> None:
    live = [1]
    question = Question(lambda: len(live), because="", hint="")
    live.append(2)
    assert question.check(2).right is True


@pytest.mark.parametrize(
    ("truth", "given", "says"),
    [
        (41, "forty", "The answer is a number; this is a text in quotes."),
        ([1, 2], 3, "The answer is a list of numbers; this is a number."),
        ([1, 2], ["a"], "The answer is a list of numbers; this is a list of texts in quotes."),
        ({"fair"}, "fair", "The answer is a set of texts in quotes; this is a text in quotes."),
        ("fair", {1: 2}, "The answer is a text in quotes; this is of type dict."),
        (True, 1, "The answer is True or False; this is a number."),
        (3, {3}, "The answer is a number; this is a set of numbers."),
    ],
)
def test_an_answer_of_another_form_is_called_so(truth: object, given: object, says: str) -> None:
    verdict = ask(truth).check(given)
    assert verdict.right is False
    assert verdict.text == f"{says} Look again."


@pytest.mark.parametrize("given", [[], [[1]], {1, "a"}, object(), b"x", print, float("nan"), [1, 2, 3]])
def test_no_answer_breaks_a_question(given: object) -> None:
    assert ask([1, 2]).check(given).right is False


def test_a_truth_that_is_an_array_of_one_number_asks_for_a_number() -> None:
    question = ask(np.asarray(513))
    assert "The answer is a number; this is a text in quotes. Look again." in str(question.check("513"))
    assert question.check(513).right


@pytest.mark.parametrize(
    ("given", "right"),
    [("flash_mla", True), ("FlashMLA", True), ("Flash-MLA", True), ("flash mla", True), ("flashinfer_mla", False)],
)
def test_a_name_may_be_written_as_a_widget_writes_it(given: str, right: bool) -> None:
    assert ask("flash_mla").check(given).right is right


@pytest.mark.parametrize(
    ("truth", "given", "right"),
    [
        ("a b", "ab", False),
        ("a b", " A,   b ", True),
        ("a b", "a_b", True),
        ("S0 S1 O0", "S0S1O0", False),
        ("1 12", "11 2", False),
        ("ab", "a b", False),
        ("online", "on line", False),
        ("FlashMLA", "flash_mla", True),
        ("write-write race", "write_write  race", True),
        ("write-write race", "writewriterace", False),
        ("(32,64)", "(3264)", False),
        ("a.c", "abc", False),
        ("fair", "", False),
        ("", "fair", False),
    ],
)
def test_words_stay_apart_and_the_parts_of_a_name_may_be_joined(truth: str, given: str, right: bool) -> None:
    assert ask(truth).check(given).right is right


def test_a_set_of_names_is_compared_in_any_order_and_case() -> None:
    assert ask({"fair", "adversarial"}).check({"Fair", "adversarial"}).right
    assert ask({"in_order", "in"}).check({"In order", "IN"}).right


@pytest.mark.parametrize(
    ("given", "right"), [(" ran.", True), ("ran.", False), (" Ran.", False), (" r an.", False), ([" ran."], False)]
)
def test_a_piece_of_text_is_compared_letter_by_letter(given: object, right: bool) -> None:
    question = Question(lambda: " ran.", "{truth}", "Look.", ideas=(("ran.", "The space counts."),), exact=True)
    assert question.check(given).right is right
    if given == "ran.":
        assert question.check(given).text == "The space counts."


def test_a_known_wrong_idea_gets_its_own_feedback() -> None:
    question = Question(lambda: 8, "{truth}.", "Look again.", ideas=((9, "Count the bonus token."), ([1], "One each.")))
    assert question.check(9).text == "Count the bonus token."
    assert question.check([1]).text == "One each."
    assert question.check(7).text == "Look again." and question.check(8).right


def test_a_message_becomes_a_sentence_that_feedback_may_follow() -> None:
    assert sentence("wgmma.wait_group is missing between") == "wgmma.wait_group is missing between them."
    assert sentence("no warp can continue") == sentence("no warp can continue.") == "no warp can continue."
