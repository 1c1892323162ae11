"""Lines of ptx/session.cu at which tests stop."""

from pathlib import Path

SESSION_PTX = Path(__file__).parent / "ptx" / "session.ptx"
_SOURCE = SESSION_PTX.with_suffix(".cu").read_text().splitlines()


def _line(text: str) -> int:
    return 1 + next(number for number, line in enumerate(_SOURCE) if text in line)


SYNC, ATOMIC, CLOCK = _line("__syncthreads"), _line("atomicAdd"), _line("clock64")
LOOP_SYNC = _line("k >>= 1") + 2
