"""The table of MLA kernels: what the source says, the record says, too."""

import re
from pathlib import Path

import pytest
import torch

from sglab.gpu.struct_parameter import layout, size
from sglab.kernels.mla import KERNELS, MlaKernel

C_TYPES = {"CUtensorMap": "b8", "long long": "u64", "int": "u32", "float": "f32"}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_the_records_fields_are_the_structs(kernel: MlaKernel) -> None:
    folder = kernel.name.removeprefix("mla_decode_")
    source = Path(__file__).parents[2] / "csrc" / "kernels" / folder / "mla_decode.cu"
    body = re.search(r"^struct Params \{\n(.*?)^\};", source.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert body is not None
    members = re.findall(r"^  (?:const )?([\w ]+?)(\*?) (\w+);", body[1], re.MULTILINE)
    assert [(name, "u64" if star else C_TYPES[kind]) for kind, star, name in members] == [
        (member.name, member.type) for member in layout(kernel.params)
    ]
    (parameter,) = kernel.entry(torch.float16).params
    assert parameter.size == size(kernel.params)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_threads_are_those_that_the_ptx_allows(kernel: MlaKernel) -> None:
    assert kernel.entry(torch.bfloat16).signature.maxntid == (kernel.threads, 1, 1)
    assert 200_000 < kernel.shared_bytes <= 232_448
    assert kernel.target == {"Hopper": "sm_90a", "Blackwell": "sm_100a"}[kernel.generation]
