"""Struct parameters: laid out as C does, checked like other arguments."""

import struct
from dataclasses import dataclass

import pytest
import torch

from sglab import gpu
from sglab.gpu.arguments import Packer
from sglab.gpu.signature import read_header
from sglab.gpu.struct_parameter import layout, size


@dataclass(frozen=True)
class Params(gpu.Struct):
    count: gpu.Int32
    x: gpu.Pointer
    map: gpu.TensorMap
    stride: gpu.Int64
    scale: gpu.Float32


def packer(nbytes: int = 256) -> Packer:
    text = f".version 8.0\n.target sm_90\n.visible .entry k(.param .align 64 .b8 p[{nbytes}]) {{ ret; }}\n"
    return Packer(read_header(text).entries["k"], "cpu", lambda encoding: b"m" * 128)


def params(**other: object) -> Params:
    x = torch.zeros(4, 64)
    return Params(**{"count": 3, "x": x, "map": gpu.TensorMap(x, (4, 64)), "stride": 64, "scale": 0.5, **other})  # type: ignore[arg-type]


def test_members_lie_as_in_c() -> None:
    assert [(m.name, m.offset) for m in layout(Params)] == [
        ("count", 0),
        ("x", 8),
        ("map", 64),
        ("stride", 192),
        ("scale", 200),
    ]
    assert size(Params) == 256
    given = params()
    packed = packer().pack([given])
    assert packed.params[:16] == struct.pack("<ixxxxQ", 3, given.x.data_ptr())
    assert packed.params[64:204] == b"m" * 128 + struct.pack("<qf", 64, 0.5)
    (span,) = packed.allocations
    assert (span.address, span.nbytes) == (given.x.data_ptr(), given.x.nbytes)
    assert span.name.startswith("argument 0, x (.u64)")


def test_a_member_that_does_not_fit_is_named() -> None:
    with pytest.raises(gpu.LaunchError, match=r"argument 0, count \(.u32\): expected an integer of 32 bits"):
        packer().pack([params(count=2**40)])
    with pytest.raises(gpu.LaunchError, match=r"argument 0, x .*expected a contiguous tensor"):
        packer().pack([params(x=torch.zeros(4, 64).T)])
    with pytest.raises(gpu.LaunchError, match="expected a struct of 128 bytes; Params has 256"):
        packer(128).pack([params()])
