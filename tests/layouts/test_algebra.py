"""CuTe's algebra against examples of its documentation, and against what each operation is defined by."""

from __future__ import annotations

import contextlib
import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglab.layouts import (
    ComposedLayout,
    Layout,
    Swizzle,
    coalesce,
    complement,
    composition,
    left_inverse,
    logical_divide,
    logical_product,
    make_layout,
    parse,
    right_inverse,
    zipped_divide,
)
from sglab.layouts.layout import congruent, size_of, text_of

DOCUMENTED = [  # CUTLASS, media/docs/cpp/cute/02_layout_algebra.md
    ("coalesce((2,(1,6)):(1,(6,2)))", "12:1"),
    ("composition((6,2):(8,2), (4,3):(3,1))", "((2,2),3):((24,2),8)"),
    ("composition(20:2, (5,4):(4,1))", "(5,4):(8,2)"),
    ("composition((10,2):(16,4), (5,4):(1,5))", "(5,(2,2)):(16,(80,4))"),
    ("complement(4:1, 24)", "6:4"),
    ("complement(6:4, 24)", "4:1"),
    ("complement((4,6):(1,4), 24)", "1:0"),
    ("complement(4:2, 24)", "(2,3):(1,8)"),
    ("complement((2,4):(1,6), 24)", "3:2"),
    ("complement((2,2):(1,6), 24)", "(3,2):(2,12)"),
    ("logical_divide((4,2,3):(2,1,8), 4:2)", "((2,2),(2,3)):((4,1),(2,8))"),
    ("logical_product((2,2):(4,1), 6:1)", "((2,2),(2,3)):((4,1),(2,8))"),
    ("logical_product((2,2):(4,1), (4,2):(2,1))", "((2,2),(4,2)):((4,1),(8,2))"),
]


@pytest.mark.parametrize(("text", "wanted"), DOCUMENTED)
def test_documented_examples(text: str, wanted: str) -> None:
    assert str(parse(text)) == wanted


def test_a_divided_matrix_is_what_the_documentation_draws() -> None:
    divided = zipped_divide(Layout((9, (4, 8)), (59, (13, 1))), (Layout(3, 3), Layout((2, 4), (1, 8))))
    assert str(divided) == "((3,(2,4)),(3,(2,2))):((177,(13,2)),(59,(26,1)))"


sizes = st.sampled_from([1, 2, 3, 4, 6, 8])
shapes = st.recursive(sizes, lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple), max_leaves=4)


@st.composite
def layouts(draw: st.DrawFn, compact: bool = False) -> Layout:
    shape = draw(shapes)

    def strides(each: object) -> object:
        return draw(st.integers(0, 40)) if isinstance(each, int) else tuple(map(strides, each))  # type: ignore[arg-type]

    if not compact:
        return Layout(shape, strides(shape))  # type: ignore[arg-type]
    modes = list(_leaves(shape))
    order = draw(st.permutations(range(len(modes))))
    made, reached = {}, 1
    for mode in order:
        made[mode] = reached
        reached *= modes[mode]
    counter = itertools.count()
    return Layout(shape, _nested(shape, made, counter))  # type: ignore[arg-type]


def _leaves(shape: object) -> list[int]:
    return [shape] if isinstance(shape, int) else [leaf for each in shape for leaf in _leaves(each)]  # type: ignore[attr-defined]


def _nested(shape: object, strides: dict[int, int], counter: itertools.count) -> object:
    if isinstance(shape, int):
        return strides[next(counter)]
    return tuple(_nested(each, strides, counter) for each in shape)  # type: ignore[attr-defined]


def values(layout: Layout | ComposedLayout) -> list[int]:
    return [layout(i) for i in range(layout.size)]


@given(layouts())
def test_coalescing_leaves_the_function_as_it_is(layout: Layout) -> None:
    made = coalesce(layout)
    assert values(made) == values(layout)
    assert made.size == 1 or all(shape > 1 for shape, _ in made.modes())


@given(layouts(), layouts(compact=True))
def test_composition_is_one_function_after_the_other(outer: Layout, inner: Layout) -> None:
    try:
        made = composition(outer, inner)
    except ValueError:
        return
    assert size_of(made.shape) == inner.size
    for i in range(inner.size):
        if inner(i) < outer.size:
            assert made(i) == outer(inner(i)), (str(outer), str(inner))


@given(layouts(compact=True), st.integers(1, 300))
def test_a_layout_and_its_complement_reach_everything_once(layout: Layout, size: int) -> None:
    both = make_layout(layout, complement(layout, size))
    assert sorted(values(both)) == list(range(both.size))
    assert both.size >= size


@given(st.integers(2, 8), st.integers(1, 9), st.integers(1, 200))
def test_the_complement_of_a_strided_vector(shape: int, stride: int, size: int) -> None:
    both = make_layout(Layout(shape, stride), complement(Layout(shape, stride), size))
    assert len(set(values(both))) == both.size >= size


@given(layouts(compact=True))
def test_inverses_undo(layout: Layout) -> None:
    right, left = right_inverse(layout), left_inverse(layout)
    assert [layout(right(i)) for i in range(right.size)] == list(range(right.size))
    assert right.size == layout.size
    assert [left(layout(i)) for i in range(layout.size)] == list(range(layout.size))


@given(layouts(compact=True), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]))
def test_dividing_keeps_every_element(layout: Layout, shape: int, stride: int) -> None:
    try:
        made = logical_divide(layout, Layout(shape, stride))
    except ValueError:
        return
    if made.size == layout.size:
        assert sorted(values(made)) == sorted(values(layout))


@given(layouts(compact=True), st.integers(1, 5))
def test_a_product_has_the_layout_once_per_copy_and_nothing_twice(layout: Layout, copies: int) -> None:
    made = logical_product(layout, Layout(copies))
    assert len(set(values(made))) == made.size == layout.size * copies
    assert values(made)[: layout.size] == values(layout)


@given(layouts())
def test_text_is_read_back(layout: Layout) -> None:
    assert parse(str(layout)) == layout
    assert congruent(layout.shape, layout.stride)


@given(st.integers(0, 4), st.integers(0, 5), st.integers(0, 3), st.integers(0, 1 << 20))
def test_a_swizzle_undoes_itself_and_moves_only_its_bits(bits: int, base: int, more: int, offset: int) -> None:
    swizzle = Swizzle(bits, base, bits + more)
    assert swizzle(swizzle(offset)) == offset
    assert (swizzle(offset) ^ offset) & ~(((1 << bits) - 1) << base) == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(8,4):(1,(2,3))", "nested differently"),
        ("8:", "expected an integer or ( at character 3, got the end"),
        ("(8,4", "expected ')' at character 5"),
        ("banana", "expected an integer or ("),
        ("8;4", "cannot read ';4'"),
        ("Sw<3,4,3>", "'o' and a layout after the swizzle"),
        ("Sw<3,4,2> o 8:1", "source and target overlap"),
        ("8:1 o Sw<3,4,3> o 8:1", "a swizzle may only stand leftmost"),
        ("coalesce(Sw<3,4,3> o 8:1)", "coalesce takes layouts"),
        ("complement(8:1, 2, 3)", "complement takes 1 to 2 arguments, got 3"),
        ("complement((4,4):(1,2))", "it overlaps itself"),
        ("composition((6,2):(8,2), 5:3)", "2 does not divide the shape 5"),
        ("(0,4):(1,1)", "at least 1"),
        ("9999999999:1", "more than 1048576"),
        ("(4,8):(-8,1)", "0 or more here"),
        ("(8,4):(1@0,1@1)", "strides that are coordinates"),
        ("(8,4):(E<0>,E<1>)", "strides that are coordinates"),
        ("Layout<Shape<_8,_4>,", "cannot read"),
    ],
)
def test_what_is_no_layout_is_said(text: str, said: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse(text)
    assert said in str(raised.value)


def test_a_swizzle_stays_before_what_is_composed() -> None:
    made = parse("Sw<2,0,3> o (8,8):(8,1) o (4,2):(1,32)")
    plain = parse("composition((8,8):(8,1), (4,2):(1,32))")
    assert isinstance(made, ComposedLayout) and text_of(made.shape) == "(4,2)"
    assert values(made) == [Swizzle(2, 0, 3)(each) for each in values(plain)]


@pytest.mark.parametrize(
    ("pasted", "plain"),
    [
        ("(_8,_4):(_4,_1)", "(8,4):(4,1)"),
        ("S<3,4,3> o 0 o (8,64):(64,1)", "Sw<3,4,3> o (8,64):(64,1)"),
        ("Sw<3,4,3> o _0 o (_8,(_4,2)):(_64,(_1,32))", "Sw<3,4,3> o (8,(4,2)):(64,(1,32))"),
        ("Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)", "Sw<3,3,3> o (8,64):(64,1)"),
        ("Sw<2,4,3> o smem_ptr[8b](unset) o (_8,_64):(_64,_1)", "Sw<2,4,3> o (8,64):(64,1)"),
        ("Sw<3,4,3> o smem_ptr[32b](0x400) o (_8,_32):(_32,_1)", "Sw<3,2,3> o (8,32):(32,1)"),
        ("Layout<Shape<_8,_4>, Stride<_4,_1>>;", "(8,4):(4,1)"),
        (
            "cute::Layout<cute::Shape<_8, Shape<Int<4>, C<2>>>, Stride<_4,Stride<_1,Int<32>>>>{}",
            "(8,(4,2)):(4,(1,32))",
        ),
        ("make_layout(make_shape(_8{}, Int<4>{}), make_stride(4, 1))", "(8,4):(4,1)"),
        ("cute.make_layout((8, (4, 2)), stride=(4, (1, 32)))", "(8,(4,2)):(4,(1,32))"),
        ("logical_divide(make_layout(16), make_layout(4, 2))", "logical_divide(16:1, 4:2)"),
    ],
)
def test_what_cute_prints_and_its_programs_write_is_read(pasted: str, plain: str) -> None:
    assert parse(pasted) == parse(plain)


@pytest.mark.parametrize("letters", range(40))
def test_pasted_noise_ends_in_a_sentence(letters: int) -> None:
    draw = random.Random(letters)
    parts = [
        "Layout<",
        "Shape<",
        "Stride<",
        "_8",
        "Int<4>",
        "(",
        ")",
        ",",
        ":",
        ">",
        "make_layout(",
        "{}",
        "o",
        "0",
        " ",
    ]
    text = "".join(draw.choices(parts, k=24))
    with contextlib.suppress(ValueError):
        parse(text)


def test_tilers_are_read_as_cute_writes_them() -> None:
    divided = parse("zipped_divide((9,(4,8)):(59,(13,1)), <3:3, (2,4):(1,8)>)")
    assert divided == parse("zipped_divide((9,(4,8)):(59,(13,1)), 3:3, (2,4):(1,8))")
    assert str(divided) == "((3,(2,4)),(3,(2,2))):((177,(13,2)),(59,(26,1)))"
    with pytest.raises(ValueError, match="expected '>'"):
        parse("zipped_divide(8:1, <2:1)")


def test_a_tiles_shape_divides_mode_by_mode() -> None:
    """CuTe's commonest tiler is a shape; read as a layout it cut 24 rows from the 16 of the first mode."""
    for whole in ("(16,24):(24,1)", "(16,24)"):
        divided = parse(f"zipped_divide({whole}, (4,6))")
        assert divided == parse(f"zipped_divide({whole}, <4:1, 6:1>)") and divided.size == 16 * 24
    assert str(parse("zipped_divide((16,24):(24,1), (4,6))")) == "((4,6),(4,4)):((24,1),(96,6))"
    assert str(parse("zipped_divide((16,24):(24,1), (4,6):(1,4))")) != "((4,6),(4,4)):((24,1),(96,6))", "a layout"
    with pytest.raises(ValueError, match="3 tilers for 2 modes"):
        parse("zipped_divide((16,24):(24,1), (4,6,2))")
