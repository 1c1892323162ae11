"""The statements of notebook 24: each one's test says what its right answer says; notebook and module agree."""

import json
import re
from pathlib import Path

import nbformat
import pytest

torch = pytest.importorskip("torch")

from sglab.gpu.architecture import B200_SMS
from sglab.labs import myths
from sglab.labs.myths.seen import Mixing, keys_seen, seen
from sglab.labs.myths.statement import Option, Statement, statement
from sglab.workbench import decode_batch, extend_batch

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "24_myths.ipynb"
STATEMENTS = list(myths.STATEMENTS.items())
CELLS = nbformat.read(NOTEBOOK, as_version=4).cells
LINK = re.compile(r'\[\*\*([^*]*)\*\*\]\(\.\./GLOSSARY\.md "[^"]*"\)')
"""A term of the glossary at its first use."""
CLAIM = re.compile(
    r"### (\d+) · [^\n]+\n\n> ([^\n]+)\n\n- \*\*a\*\* (\w+)[^\n]+\n- \*\*b\*\* (\w+)[^\n]+\n- \*\*c\*\* (\w+)[^\n]+"
)


@pytest.mark.parametrize(("name", "each"), STATEMENTS, ids=[name for name, _ in STATEMENTS])
def test_the_run_agrees_with_the_right_answer_and_with_no_contrary_one(name: str, each: Statement) -> None:
    evidence = each.evidence
    assert each.name == name
    assert each.options[each.right].says == evidence.holds, evidence
    assert each.check(each.right).right is True
    for letter, option in each.options.items():
        verdict = each.check(letter)
        assert verdict.text == option.feedback
        assert verdict.right is (letter == each.right)
    assert "<table" in evidence._repr_html_() and evidence.code.startswith("def ") and each.claim not in evidence.code


def test_there_are_forty_myths_and_not_everything_is_one() -> None:
    false = [name for name, each in STATEMENTS if not each.options[each.right].says]
    assert len(false) == 40 and len(STATEMENTS) == 48
    for _, each in STATEMENTS:
        assert list(each.options) == ["a", "b", "c"] and {option.says for option in each.options.values()} == {
            True,
            False,
        }
    letters = [each.right for _, each in STATEMENTS]
    assert max(letters.count(letter) for letter in "abc") <= 20, "no letter is a good guess"


def test_the_notebook_has_each_statement_once_with_these_answers_and_its_test() -> None:
    texts = [cell.source for cell in CELLS]
    claims = [(at, CLAIM.fullmatch(text)) for at, text in enumerate(texts) if text.startswith("### ")]
    assert len(claims) == len(STATEMENTS)
    for number, ((at, match), (name, each)) in enumerate(zip(claims, STATEMENTS, strict=True), start=1):
        assert match, texts[at]
        assert int(match[1]) == number and LINK.sub(r"\1", match[2]) == each.claim
        assert [word == "True" for word in match.groups()[2:]] == [option.says for option in each.options.values()]
        assert texts[at + 1] == f"answer = ...\nlab.{name}.check(answer)"
        assert texts[at + 2] == f"lab.{name}.test()"
        truth = texts[at + 3]
        assert truth.startswith("<details><summary>What is true</summary>")
        assert "](http" in truth or "Computed from the published peaks" in truth, "a source"


def test_what_is_no_answer_is_told_so() -> None:
    each = myths.cache_row_bytes
    assert each.check().right is None
    for given, told in ((False, "The why counts"), ("d", "this is 'd'"), (576, "this is 576"), (None, "this is None")):
        verdict = each.check(given)
        assert verdict.right is False and told in verdict.text
    assert each.check(" C ").right is True


def test_the_run_decides() -> None:
    """A right letter is wrong where the test finds otherwise."""

    @statement("b", a=(True, "yes"), b=(False, "no"))
    def always() -> tuple[bool, dict[str, object]]:
        """It is so."""
        return True, {"found": 1}

    assert always.check("b").right is False and always.claim == "It is so."
    assert always.options["a"] == Option(True, "yes")


def test_tests_take_other_values() -> None:
    assert myths.window_of_w.test(window=3).found["keys that the last of 6 tokens sees"] == [2, 3, 4, 5]
    assert myths.rank_of_eight.evidence.found["FLOP per byte, 16 heads"] == 30.2
    assert str(B200_SMS) in json.dumps(list(myths.splits_before_requests.evidence.found))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        myths.nothing  # noqa: B018


def test_who_sees_whom_is_the_mask_and_leaves_the_pool_as_it_was() -> None:
    batch = extend_batch([9], [4], num_heads=2, kind="mha", head_dim=8, page_size=1)
    values = batch.runner.token_to_kv_pool.get_value_buffer(0)
    before = values.clone()
    found = seen(batch)
    expected = torch.ones(5, 9, dtype=torch.bool).tril(4)
    assert torch.equal(found.matrix, expected) and torch.equal(values, before)
    assert str(found).splitlines()[0] == "■■■■■····" and "query 8 sees key 8" in found._repr_html_()
    two = decode_batch([3, 5], num_heads=2, kind="mha", head_dim=8, page_size=1)
    assert seen(two, request=1).matrix.tolist() == [[True] * 5]


def test_the_exercise() -> None:
    question = myths.who_sees_whom()
    assert question.check(keys_seen).right
    for function, feedback in question.ideas:
        verdict = question.check(function)
        assert verdict.right is False and verdict.text.startswith(feedback)
    assert repr(Mixing("causal", torch.eye(2))) == "<causal>"
