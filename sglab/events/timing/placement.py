"""On which SM each CTA of a launch starts on an empty GPU, as %smid showed in launches on an H100 (132 SMs, 600 CTAs).
Which GPC comes first after the one in two parts differs from launch to launch; here it is always the same."""

from __future__ import annotations

from itertools import cycle

import numpy as np

from sglab.events.tables import Array

# SMs that get CTAs one after another, in TPCs of two: GPCs, of which one is in two parts.
_GROUPS = (
    (128, 129, 130, 131, 124, 125, 126, 127),
    (4, 5, 20, 21, 36, 37, 52, 53, 66, 67, 80, 81, 94, 95, 108, 109),
    (6, 7, 22, 23, 38, 39, 54, 55, 68, 69, 82, 83, 96, 97, 110, 111),
    (8, 9, 24, 25, 40, 41, 56, 57, 70, 71, 84, 85, 98, 99, 112, 113),
    (10, 11, 26, 27, 42, 43, 58, 59, 72, 73, 86, 87, 100, 101, 114, 115),
    (12, 13, 28, 29, 44, 45, 60, 61, 74, 75, 88, 89, 102, 103, 116, 117, 120, 121),
    (14, 15, 30, 31, 46, 47, 62, 63, 76, 77, 90, 91, 104, 105, 118, 119, 122, 123),
    (0, 1, 16, 17, 32, 33, 48, 49),
    (2, 3, 18, 19, 34, 35, 50, 51, 64, 65, 78, 79, 92, 93, 106, 107),
)
_ORDER = (0, 1, 2, 3, 4, 5, 0, 6, 7, 8, 1, 2, 3, 0, 4, 5, 6, 7, 8, 1, 0, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0)
_SMS = sum(map(len, _GROUPS))


def placement(ctas: int, per_sm: int, sms: int) -> Array:
    """SMs of the first CTAs, as many as are resident at once; the others follow where one ends.

    CTAs are spread evenly: no SM has more than its share rounded up. The last round, if it is not a whole one, begins
    with one SM of each TPC. SMs are numbered as they get CTAs.

    Args:
        ctas: of the grid.
        per_sm: that an SM has room for.
        sms: of the GPU. Any other number than an H100's: in turn, which was not measured.
    """
    most = min(per_sm, -(-ctas // sms))
    resident = min(ctas, sms * most)
    if sms != _SMS:
        return np.arange(resident, dtype=np.uint32) % np.uint32(sms)
    placed: list[int] = []
    count = [0] * sms
    for group in cycle(_ORDER):
        free = [sm for one in _GROUPS for sm in one if count[sm] < most]
        rest = resident - len(placed)
        last = most > 1 and rest < len(free) and all(count[sm] == most - 1 for sm in free)
        first, others = [sm for sm in free if sm in _GROUPS[0]], [sm for sm in free if sm not in _GROUPS[0]]
        own = [sm for sm in _GROUPS[group] if count[sm] < most]
        chosen = first + others[::2] + others[1::2] if last else own
        for sm in chosen[:rest]:
            placed.append(sm)
            count[sm] += 1
        if len(placed) == resident:
            return in_order_of_use(np.array(placed, np.uint32))
    raise AssertionError("cycle has no end")


def in_order_of_use(sms: Array) -> Array:
    """The same with SMs numbered from 0 as they appear."""
    _, first, number = np.unique(sms, return_index=True, return_inverse=True)
    renamed: Array = np.argsort(np.argsort(first)).astype(np.uint32)[number]
    return renamed
