"""tcgen05.mma's instruction descriptor (PTX ISA, "Instruction descriptor")."""

A_CODE = {"f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5, "u8": 0, "s8": 1}


def idesc(a: str, b: str, d: str, m: int, n: int, **bits: int) -> int:
    at = {"negate_a": 13, "negate_b": 14, "a_mn": 15, "b_mn": 16, "saturate": 3, "sparse": 2}
    c = {"f16": 0, "f32": 1, "s32": 2}[d]
    word = c << 4 | A_CODE[a] << 7 | A_CODE[b] << 10 | (n >> 3) << 17 | (m >> 4) << 24
    for name, value in bits.items():
        word |= value << at[name]
    return word
