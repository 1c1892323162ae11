"""Item statistics: how hard each criterion was, how it separated strong from weak, which wrong ideas were common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from sglab.labs.coursework import lab

from .grade import Grade

COLUMNS = (
    "lab",
    "exercise",
    "criterion",
    "points",
    "n",
    "mean share",
    "full",
    "none",
    "discrimination",
    "common ideas",
)


def item_statistics(grades: Sequence[Grade]) -> list[list[Any]]:
    """A row per criterion, in COLUMNS.

    The mean share is the item's difficulty index (1: all had it); discrimination is the correlation of its share with
    the rest of the lab's points (item-rest correlation), empty where it is not defined.
    """
    rows = []
    for number in sorted({each.lab for each in grades}):
        one, mine = lab(number), [each for each in grades if each.lab == number]
        marks = [list(each.rows(one)) for each in mine]
        shares = np.array([[mark.share for _, _, mark in row] for row in marks])
        points = np.array([criterion.points for _, criterion, _ in marks[0]])
        for item, (exercise, criterion, _) in enumerate(marks[0]):
            share = shares[:, item]
            rest = shares @ points - share * points[item]
            ideas = Counter(row[item][2].idea for row in marks if row[item][2].idea)
            common = ", ".join(f"{idea} {count}" for idea, count in ideas.most_common(3))
            numbers = [round(float(share.mean()), 3), int((share == 1).sum()), int((share == 0).sum())]
            rows.append(
                [
                    number,
                    exercise,
                    criterion.id,
                    criterion.points,
                    len(mine),
                    *numbers,
                    _correlation(share, rest),
                    common,
                ]
            )
    return rows


def _correlation(share: Any, rest: Any) -> Any:
    if len(share) < 3 or share.std() == 0 or rest.std() == 0:
        return ""
    return round(float(np.corrcoef(share, rest)[0, 1]), 3)
