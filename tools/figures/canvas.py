"""Drawing figures of the course: boxes, arrows, rows of cells, on a light card that is legible in light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

INK, MUTED, PAPER, LINE = "#1d2733", "#566371", "#f6f7f9", "#c3cad3"
BLUE, ORANGE, GREEN, PURPLE, RED, GREY = "#2f6fb5", "#b9651b", "#2b7a4b", "#7650a0", "#b3393f", "#6b7785"
TINTS = {
    BLUE: "#d9e7f6",
    ORANGE: "#fbe6d0",
    GREEN: "#d8eee0",
    PURPLE: "#e8def4",
    RED: "#f8dcdd",
    GREY: "#e6e9ed",
}
FONT = "DejaVu Sans, Liberation Sans, Arial, sans-serif"
MONO = "DejaVu Sans Mono, Liberation Mono, monospace"


class Canvas:
    """An SVG of a given size; coordinates in pixels from the top left, text by its baseline."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._parts: list[str] = []

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float = 14,
        colour: str = INK,
        anchor: str = "start",
        bold: bool = False,
        mono: bool = False,
    ) -> None:
        """One line, or several divided by newlines; anchor: start, middle or end."""
        weight = ' font-weight="bold"' if bold else ""
        for i, line in enumerate(text.split("\n")):
            self._parts.append(
                f'<text x="{x}" y="{y + i * size * 1.3}" font-size="{size}" fill="{colour}" text-anchor="{anchor}"'
                f' font-family="{MONO if mono else FONT}" xml:space="preserve"{weight}>{escape(line)}</text>'
            )

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        text: str = "",
        colour: str = BLUE,
        size: float = 14,
        bold: bool = False,
        empty: bool = False,
        dashed: bool = False,
        mono: bool = False,
    ) -> None:
        """A rectangle with its text in the middle; `empty` leaves the inside as paper."""
        fill = "none" if empty else TINTS[colour]
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5" fill="{fill}" stroke="{colour}"'
            f' stroke-width="1.4"{dash}/>'
        )
        lines = text.count("\n")
        middle = y + height / 2 + size * 0.35 - lines * size * 0.65
        self.text(x + width / 2, middle, text, size, INK, "middle", bold, mono)

    def cells(
        self,
        x: float,
        y: float,
        texts: Sequence[str],
        size: float = 26,
        colour: str = BLUE,
        height: float = 0,
        font: float = 12,
        marked: Sequence[int] = (),
        mark: str = ORANGE,
    ) -> None:
        """Neighbouring cells of one width; those `marked` in another colour."""
        for i, text in enumerate(texts):
            shade = mark if i in marked else colour
            self._parts.append(
                f'<rect x="{x + i * size}" y="{y}" width="{size}" height="{height or size}" fill="{TINTS[shade]}"'
                f' stroke="{shade}" stroke-width="1"/>'
            )
            self.text(x + (i + 0.5) * size, y + (height or size) / 2 + font * 0.36, text, font, INK, "middle")

    def line(
        self, points: Sequence[tuple[float, float]], colour: str = MUTED, arrow: bool = True, dashed: bool = False
    ) -> None:
        """A line through points, with a head at its end."""
        path = " ".join(f"{x},{y}" for x, y in points)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"{dash}/>')
        if arrow:
            (x0, y0), (x, y) = points[-2:]
            length = max(((x - x0) ** 2 + (y - y0) ** 2) ** 0.5, 1e-9)
            dx, dy = (x - x0) / length, (y - y0) / length
            left = f"{x - 9 * dx - 4.5 * dy},{y - 9 * dy + 4.5 * dx}"
            right = f"{x - 9 * dx + 4.5 * dy},{y - 9 * dy - 4.5 * dx}"
            self._parts.append(f'<polygon points="{x},{y} {left} {right}" fill="{colour}"/>')

    def brace(self, x: float, y: float, width: float, text: str, colour: str = MUTED, below: bool = True) -> None:
        """A bracket along a row of things, with its meaning."""
        tip = 7 if below else -7
        self.line([(x, y), (x, y + tip), (x + width, y + tip), (x + width, y)], colour, arrow=False)
        self.text(x + width / 2, y + (24 if below else -14), text, 12.5, colour, "middle")

    def brace_right(self, x: float, y: float, height: float, text: str, colour: str = MUTED) -> None:
        """A bracket at the right of lines that belong together, with their name."""
        self.line([(x, y), (x + 7, y), (x + 7, y + height), (x, y + height)], colour, arrow=False)
        self.text(x + 16, y + height / 2 + 5, text, 12.5, colour)

    def svg(self) -> str:
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}">'
            f'<rect x="1" y="1" width="{self.width - 2}" height="{self.height - 2}" rx="10" fill="{PAPER}"'
            f' stroke="{LINE}" stroke-width="1"/>{"".join(self._parts)}</svg>'
        )
