"""Who sees whom: the keys that an output depends on, found by disturbing values; a picture, and an exercise."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from sglab.labs.code_question import CodeQuestion
from sglab.workbench import attend

if TYPE_CHECKING:
    from sglab.workbench.batch import Batch

Attend = Callable[[torch.Tensor], torch.Tensor]
STEP = 100.0
"""Large enough that 16-bit outputs change, too."""


def keys_seen(attend: Attend, values: torch.Tensor) -> torch.Tensor:
    """Which keys each row of an output depends on: every key's value is disturbed in turn.

    Args:
        attend: a function of the values (keys, …) that gives an output (rows, …).
        values: to begin with; finite.

    Returns:
        bool (rows, keys).
    """
    before = attend(values)
    columns = []
    for key in range(len(values)):
        disturbed = values.clone()
        disturbed[key] += STEP
        columns.append((attend(disturbed) != before).flatten(1).any(1))
    return torch.stack(columns, 1)


@dataclass(frozen=True)
class Seen:
    """Which keys the new tokens of a request see. matrix: bool (new tokens, keys)"""

    matrix: torch.Tensor
    backend: str

    def __str__(self) -> str:
        return "\n".join("".join("■" if each else "·" for each in row) for row in self.matrix.tolist())

    def _repr_html_(self) -> str:
        rows, keys = self.matrix.shape
        size, left, top = 22, 64, 40
        parts = [f'<text x="{left}" y="14">keys, by position: a filled one changes the output ({self.backend})</text>']
        parts += [
            f'<text x="{left + (key + 0.5) * size}" y="32" text-anchor="middle">{key}</text>' for key in range(keys)
        ]
        for row in range(rows):
            position = keys - rows + row
            parts.append(f'<text x="0" y="{top + (row + 0.7) * size}">query {position}</text>')
            for key in range(keys):
                visible = bool(self.matrix[row, key])
                place = f'x="{left + key * size}" y="{top + row * size}" width="{size - 2}" height="{size - 2}" rx="3"'
                tip = f"query {position} {'sees' if visible else 'does not see'} key {key}"
                parts.append(
                    f'<rect {place} fill="var(--jp-brand-color1, #1976d2)" fill-opacity="{0.85 if visible else 0.08}">'
                    f"<title>{html.escape(tip)}</title></rect>"
                )
        style = "font:12px var(--jp-ui-font-family, sans-serif);fill:var(--jp-content-font-color1, currentColor)"
        width, height = max(left + keys * size, 460), top + rows * size
        label = f"{rows} query tokens and the keys that each of them sees"
        head = f'<svg role="img" aria-label="{label}" width="{width}" height="{height}" style="{style}">'
        return f"{head}{''.join(parts)}</svg>"


def seen(batch: Batch, backend: str = "torch_native", request: int = 0) -> Seen:
    """Disturbs the values of one request in the pool, attends, and compares. The pool is as it was afterwards.

    Args:
        backend: as `sglab.attend` takes it.
    """
    values, slots = batch.runner.token_to_kv_pool.get_value_buffer(batch.layer.layer_id), batch.slots(request)
    first = sum(batch.new_tokens[:request])
    rows = slice(first, first + batch.new_tokens[request])
    kept = values[slots].clone()

    def output(given: torch.Tensor) -> torch.Tensor:
        values[slots] = given
        return attend(batch, backend=backend)[rows].clone()

    try:
        return Seen(keys_seen(output, kept), backend)
    finally:
        values[slots] = kept


@dataclass(frozen=True)
class Mixing:
    """An attention whose weights are known: a function of the values. name: what it is; weights: (rows, keys)"""

    name: str
    weights: torch.Tensor

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        return self.weights @ values

    def __repr__(self) -> str:
        return f"<{self.name}>"


def _cases(random: torch.Generator) -> list[list[Any]]:
    cases = []
    for name, rows, keys in (("causal", 4, 4), ("a window of 3", 6, 6), ("some pages", 3, 8)):
        position = torch.arange(keys)[None] - torch.arange(rows)[:, None]
        masks = {"causal": position <= 0, "a window of 3": (position <= 0) & (position > -3)}
        mask = masks.get(name, torch.rand(rows, keys, generator=random) < 0.5)
        weights = (0.5 + torch.rand(rows, keys, generator=random)) * mask
        values = torch.randn(keys, 4, generator=random)
        values[int(torch.randint(keys, (1,), generator=random))] = 0
        cases.append([Mixing(name, weights.double()), values.double()])
    return cases


def _zeroed(attend: Attend, values: torch.Tensor) -> torch.Tensor:
    before, columns = attend(values), []
    for key in range(len(values)):
        disturbed = values.clone()
        disturbed[key] = 0
        columns.append((attend(disturbed) != before).flatten(1).any(1))
    return torch.stack(columns, 1)


def _never_restored(attend: Attend, values: torch.Tensor) -> torch.Tensor:
    before, columns, disturbed = attend(values), [], values.clone()
    for key in range(len(values)):
        disturbed[key] += 1
        columns.append((attend(disturbed) != before).flatten(1).any(1))
    return torch.stack(columns, 1)


def who_sees_whom() -> CodeQuestion:
    """The exercise of writing `keys_seen`."""
    return CodeQuestion(
        function="sees",
        cases=_cases,
        truth=keys_seen,
        because="It needs to know nothing of masks, pages or windows: any attention can be asked so.",
        ideas=(
            (_zeroed, "A value that is 0 already does not change when it is set to 0. Add something."),
            (_never_restored, "Disturb one key at a time: take the first change back before the second."),
            (
                lambda attend, values: keys_seen(attend, values).T,
                "Rows of the answer are the output's, columns the keys.",
            ),
        ),
    )
