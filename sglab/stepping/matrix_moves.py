"""Which lane and register of ldmatrix, stmatrix, tcgen05.ld and tcgen05.st is which part of memory."""

from __future__ import annotations

_ROWS = 8


def moves_8x8(opcode: str) -> bool:
    """Whether it moves matrices of 8 × 8 elements of two bytes, as most do."""
    return ".m8n8" in opcode and ".b16" in opcode


def matrix_places(opcode: str, register: int, lane: int) -> list[tuple[int, int, int]]:
    """What a lane's register gets in ldmatrix: (lane whose address it is, offset from it, bytes)."""
    if ".trans" not in opcode:
        return [(8 * register + lane // 4, 4 * (lane % 4), 4)]
    first, offset = 8 * register + 2 * (lane % 4), 2 * (lane // 4)
    return [(first, offset, 2), (first + 1, offset, 2)]


def matrix_source(opcode: str, row_lane: int, offset: int) -> tuple[int, int]:
    """The register and the lane that stmatrix takes a byte of a row from."""
    register, row = divmod(row_lane, _ROWS)
    if ".trans" not in opcode:
        return register, 4 * row + offset // 4
    return register, 4 * (offset // 2) + row // 2


def tensor_cells(opcode: str, text: str, address: int, warp: int, lane: int, register: int) -> list[tuple[int, int]]:
    """Lanes and columns of tensor memory that tcgen05.ld puts in a lane's register."""
    half = address >> 16 & 16
    scale = 2 if ".pack::16b" in opcode else 1
    if ".32x32b" in opcode:
        row, column, half = lane, register * scale, 0
    elif ".16x64b" in opcode:
        row, column = lane // 4 + 8 * (lane % 2), (2 * register + lane // 2 % 2) * scale
    elif ".16x128b" in opcode:
        row, column = lane // 4 + 8 * (register % 2), (4 * (register // 2) + lane % 4) * scale
    elif ".16x256b" in opcode:
        row, column = lane // 4 + 8 * (register // 2 % 2), (8 * (register // 4) + 2 * (lane % 4) + register % 2) * scale
    else:
        split = int(text.rstrip("; ").rsplit(",", 1)[-1], 0)
        row, column = lane % 16, register * scale + lane // 16 * split
    first = 32 * (warp % 4) + half + row, (address & 0xFFFF) + column
    return [first, (first[0], first[1] + 1)] if scale == 2 else [first]
