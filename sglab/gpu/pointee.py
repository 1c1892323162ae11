"""Which tensors a C++ pointer may be given: what it points to, held against a tensor's dtype."""

from __future__ import annotations

_SAME = {
    "float": {"float32", "complex64"},
    "double": {"float64", "complex128"},
    "half": {"float16"},
    "bfloat16": {"bfloat16"},
    "float8_e4m3": {"float8_e4m3fn", "uint8"},
    "float8_e5m2": {"float8_e5m2", "uint8"},
    "bool": {"bool", "uint8", "int8"},
    "int8": {"int8", "uint8", "bool"},
    "int16": {"int16", "uint16"},
    "int32": {"int32", "uint32"},
    "int64": {"int64", "uint64"},
    # Unsigned integers also carry bits of any kind.
    "uint16": {"int16", "uint16", "float16", "bfloat16"},
    "uint32": {"int32", "uint32", "float32"},
    "uint64": {"int64", "uint64", "float64", "complex64"},
}
_TYPES = {
    "float": "float",
    "double": "double",
    "__half": "half",
    "half": "half",
    "_Float16": "half",
    "__bf16": "bfloat16",
    "__nv_bfloat16": "bfloat16",
    "nv_bfloat16": "bfloat16",
    "__nv_fp8_e4m3": "float8_e4m3",
    "__nv_fp8_e5m2": "float8_e5m2",
    "bool": "bool",
    "signed char": "int8",
    "int8_t": "int8",
    "short": "int16",
    "int16_t": "int16",
    "unsigned short": "uint16",
    "uint16_t": "uint16",
    "int": "int32",
    "int32_t": "int32",
    "unsigned": "uint32",
    "unsigned int": "uint32",
    "uint32_t": "uint32",
    "long": "int64",
    "long long": "int64",
    "int64_t": "int64",
    "unsigned long": "uint64",
    "unsigned long long": "uint64",
    "uint64_t": "uint64",
    "size_t": "uint64",
}
_TORCH = {"float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16"}


def known(pointee: str) -> bool:
    """Whether the element type says anything about dtypes. char, unsigned char and void are memory of any kind, and so,
    for all that is known, are structs."""
    return pointee in _TYPES


def objection(pointee: str, dtype: str) -> str:
    """Why a tensor of this dtype cannot be what the kernel points to, with a remedy; empty where it can.

    Args:
        pointee: the C++ element type, such as "float"; anything unknown accepts all.
        dtype: as torch names it, such as "torch.float64".
    """
    kind, dtype = _TYPES.get(pointee), dtype.removeprefix("torch.")
    if kind is None or dtype in _SAME[kind]:
        return ""
    wanted = _TORCH.get(kind) or sorted(_SAME[kind])[0]
    return (
        f"the kernel takes {pointee}* and would read the bytes of {dtype} as {pointee}. Pass .to(torch.{wanted}), or "
        f".view(torch.{wanted}) if the bytes are meant"
    )
