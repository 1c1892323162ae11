"""CuTe's layout algebra: what layouts make of layouts. Each result is defined by what it does as a function; where CuTe
demands that shapes and strides divide each other, so do these."""

from __future__ import annotations

from typing import Any

from .layout import Layout, make_layout


def coalesce(layout: Layout) -> Layout:
    """The same function of a linear index with as few modes as possible."""
    made: list[list[int]] = []
    for shape, stride in layout.modes():
        if shape == 1:
            continue
        if made and made[-1][1] * made[-1][0] == stride:
            made[-1][0] *= shape
        else:
            made.append([shape, stride])
    return _flat(made)


def composition(outer: Layout, inner: Layout) -> Layout:
    """`outer o inner`: at every coordinate of `inner`, `outer(inner(at))`. Its shape fits that of `inner`.

    Raises:
        ValueError: shapes and strides do not divide each other, so that no layout is this function.
    """
    if not isinstance(inner.shape, int):
        return make_layout(*(composition(outer, inner[mode]) for mode in range(inner.rank)))
    shape, stride = inner.modes()[0]
    if stride == 0:
        return Layout(shape, 0)
    parts: list[list[int]] = []
    rest, step = shape, stride
    *before, (_, last) = coalesce(outer).modes()
    for extent, distance in before:
        if step % extent and extent % step:
            raise ValueError(_indivisible(outer, inner, f"{extent} and the stride {step} do not divide each other"))
        here = min(max(1, extent // step), rest)
        if rest % here:
            raise ValueError(_indivisible(outer, inner, f"{here} does not divide the shape {rest}"))
        if here > 1:
            parts.append([here, step * distance])
        rest //= here
        step = -(-step // extent)
    if rest > 1 or not parts:
        parts.append([rest, step * last])
    return _flat(parts)


def complement(layout: Layout, size: int = 1) -> Layout:
    """What a layout leaves out: with it, every integer below `size` (and of the layout's extent) is reached once.

    Raises:
        ValueError: the layout reaches an integer twice, so that nothing complements it.
    """
    made: list[list[int]] = []
    reached = 1
    for stride, shape in sorted((stride, shape) for shape, stride in layout.modes() if stride and shape > 1):
        if stride % reached:
            raise ValueError(
                f"complement({layout}): the stride {stride} is no multiple of {reached}, up to where its smaller modes "
                "reach; it overlaps itself"
            )
        made.append([stride // reached, reached])
        reached = shape * stride
    made.append([-(-size // reached), reached])
    return coalesce(_flat(made))


def right_inverse(layout: Layout) -> Layout:
    """The longest layout R with `layout(R(i)) == i`."""
    made: list[list[int]] = []
    reached, index, strided = 1, 1, []
    for shape, stride in layout.modes():
        strided.append((stride, shape, index))
        index *= shape
    for stride, shape, at in sorted(strided):
        if shape == 1:
            continue
        if stride != reached:
            if stride > reached:
                break
            continue
        made.append([shape, at])
        reached = shape * stride
    return coalesce(_flat(made))


def left_inverse(layout: Layout) -> Layout:
    """A layout L with `L(layout(i)) == i` for every index."""
    return right_inverse(make_layout(layout, complement(layout)))


def logical_divide(layout: Layout, tiler: Layout) -> Layout:
    """((tile), (rest)): mode 0 walks one tile, mode 1 the tiles."""
    return composition(layout, make_layout(tiler, complement(tiler, layout.size)))


def zipped_divide(layout: Layout, tilers: tuple[Layout, ...]) -> Layout:
    """Each mode divided by its own tiler: ((tiles of all modes), (rests of all modes))."""
    if len(tilers) > layout.rank:
        raise ValueError(
            f"zipped_divide: {len(tilers)} tilers for {layout.rank} modes of {layout}; give at most as many"
        )
    divided = [logical_divide(layout[mode], tiler) for mode, tiler in enumerate(tilers)]
    others = [layout[mode] for mode in range(len(tilers), layout.rank)]
    return make_layout(
        make_layout(*(each[0] for each in divided)), make_layout(*(each[1] for each in divided), *others)
    )


def logical_product(layout: Layout, tiler: Layout) -> Layout:
    """((layout), (copies of it)): as `tiler` arranges them."""
    return make_layout(layout, composition(complement(layout, layout.size * tiler.cosize), tiler))


def _flat(modes: list[list[int]]) -> Layout:
    if not modes:
        return Layout(1, 0)
    if len(modes) == 1:
        return Layout(modes[0][0], modes[0][1])
    shapes, strides = zip(*modes, strict=True)
    return Layout(tuple(shapes), tuple(strides))


def _indivisible(outer: Any, inner: Any, why: str) -> str:
    return f"composition({outer}, {inner}): {why}; no layout is this function"
