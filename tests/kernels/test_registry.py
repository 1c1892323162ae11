"""How an implementation is chosen, and what is recorded about it."""

from dataclasses import dataclass

import pytest
import torch

from sglab.kernels.registry import EVERYWHERE, GPU, Implementation, Operator, last_choice, record_choices


@dataclass(frozen=True)
class Doubling:
    x: torch.Tensor

    @property
    def device(self) -> torch.device:
        return self.x.device


def double(arguments: Doubling) -> tuple[()]:
    arguments.x.mul_(2)
    return ()


def operator(refusal: str | None = None) -> Operator:
    here = f"{__name__}:double"
    return Operator(
        "double",
        Implementation("fast", here, GPU, lambda arguments: refusal),
        Implementation("reference", here, EVERYWHERE),
    )


def test_auto_takes_the_first_at_home_and_says_why_not_the_others() -> None:
    choice = operator()(Doubling(torch.ones(1)))
    assert choice.implementation == "reference"
    assert choice.reason == "the first that is at home on cpu tensors"
    assert choice.passed_over == {"fast": "on cpu tensors it runs only when requested by name"}
    assert operator("it needs float16")(Doubling(torch.ones(1))).passed_over == {"fast": "it needs float16"}


def test_a_name_is_obeyed_or_refused_with_the_reason() -> None:
    assert operator()(Doubling(torch.ones(1)), "fast").reason == "named by the caller"
    with pytest.raises(
        ValueError, match=r"double: implementation 'fast' cannot run this call: it needs float16.*another of reference$"
    ):
        operator("it needs float16")(Doubling(torch.ones(1)), "fast")
    with pytest.raises(ValueError, match=r"must be one of 'auto', 'fast', 'reference'; got 'quick'"):
        operator()(Doubling(torch.ones(1)), "quick")


def test_a_registered_implementation_comes_first_and_needs_a_new_name() -> None:
    doubling = operator()
    doubling.register(Implementation("faster", f"{__name__}:double", EVERYWHERE))
    assert doubling.implementations == ("faster", "fast", "reference")
    assert doubling(Doubling(torch.ones(1))).implementation == "faster"
    with pytest.raises(ValueError, match="registered already"):
        doubling.register(Implementation("fast", f"{__name__}:double", EVERYWHERE))


def test_choices_are_recorded_and_nest() -> None:
    with record_choices() as outer:
        operator()(Doubling(torch.ones(1)))
        with record_choices() as inner:
            operator()(Doubling(torch.ones(1)), "fast")
    operator()(Doubling(torch.ones(1)))
    assert [choice.implementation for choice in outer] == ["reference", "fast"]
    assert [choice.implementation for choice in inner] == ["fast"]
    assert last_choice() is not None
    assert last_choice().implementation == "reference"


def test_a_failed_call_records_nothing() -> None:
    operator()(Doubling(torch.ones(1)))
    before = last_choice()
    with record_choices() as log, pytest.raises(ValueError, match="cannot run"):
        operator("it is out of order")(Doubling(torch.ones(1)), "fast")
    assert log == []
    assert last_choice() is before
