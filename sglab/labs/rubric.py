"""A lab's rubric as Markdown: what earns points, which wrong ideas are known, what hints cost."""

from __future__ import annotations

from .lab import Exercise, Lab


def rubric(lab: Lab) -> str:
    parts = [f"# {lab.id} {lab.title} ({lab.points:g} points)", lab.goal, *map(_exercise, lab.exercises)]
    return "\n\n".join(parts) + "\n"


def _exercise(one: Exercise) -> str:
    lines = [f"## {one.id}: {one.title} ({one.file}, {one.points:g} points)", "", "| Points | For |", "|---|---|"]
    lines += [f"| {each.points:g} | {each.text} |" for each in one.criteria]
    if one.ideas:
        lines += ["", "| Known wrong idea | The student reads |", "|---|---|"]
        lines += [f"| {each.id} | {each.feedback} |" for each in one.ideas]
    if one.hints:
        lines += ["", *(f"- hint, {each.cost:g} points: {each.text}" for each in one.hints)]
    return "\n".join(lines)
