"""What a submission's process may use."""

from __future__ import annotations

from dataclasses import asdict, dataclass

GIB, MIB = 1 << 30, 1 << 20


@dataclass(frozen=True)
class Limits:
    """Of one process of a submission, with all that it starts.

    Attributes:
        seconds: of wall-clock time in which it had a processor when it wanted one; then everything ends.
        patience: how many times as long it may take at most, where others have the processors.
        cpu_seconds: of processor time.
        memory: bytes of address space of each process; 0 for no limit.
        resident: bytes of memory in use by all its processes together, where a PID namespace is in force.
        processes: 1 means that it may start none.
        threads: that it may have.
        files: open at once.
        file_bytes: of one file.
        folder_bytes: of all files together, where a mount namespace is in force.
        output: bytes of its answer.
        text: bytes that it may print.
    """

    seconds: float = 10
    patience: float = 10
    cpu_seconds: int = 10
    memory: int = 2 * GIB
    resident: int = GIB
    processes: int = 1
    threads: int = 32
    files: int = 64
    file_bytes: int = 16 * MIB
    folder_bytes: int = 32 * MIB
    output: int = 16 * MIB
    text: int = MIB

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


COMPILING = Limits(
    seconds=60,
    patience=3,
    cpu_seconds=60,
    memory=8 * GIB,
    resident=3 * GIB,
    processes=24,
    threads=64,
    files=256,
    file_bytes=64 * MIB,
)
"""For nvcc: it starts other programs."""
LAUNCHING = Limits(
    seconds=180, patience=3, cpu_seconds=120, memory=24 * GIB, resident=3 * GIB, processes=24, threads=64, files=512
)
"""For Python that compiles kernels: torch and Triton reserve much address space."""
EMULATING = Limits(
    seconds=240, patience=3, cpu_seconds=120, memory=24 * GIB, resident=3 * GIB, threads=64, files=256, output=64 * MIB
)
"""For our own emulator on PTX from a submission."""
