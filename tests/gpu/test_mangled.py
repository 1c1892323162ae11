"""What C++ pointers point to: read from mangled names, from the source, and held against tensors' dtypes."""

import subprocess

import pytest

from sglab.compilers.declared import declared_kernels
from sglab.gpu.mangled import parameter_types
from sglab.gpu.pointee import objection


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("_Z4axpyPKffPfi", ("float*", "float", "float*", "int")),
        ("_Z3addIfEvPKT_S2_i", ("float*", "float*", "int")),
        ("_Z1kILi128EfEvPT0_S1_PKi", ("float*", "float*", "int*")),
        ("_ZN3foo3barEPK6__halfPS0_", ("__half*", "__half*")),
        ("_ZN6sm100a6decodeENS_6ParamsEPf", ("sm100a::Params", "float*")),
        ("_Z1kv", ()),
        ("_ZN1a1b2k1I6__halfLi3EEEvPKT_PNS0_1VIS3_EENS6_IS5_EEyPS3_",
         ("__half*", "a::b::V<>*", "a::b::V<>", "unsigned long long", "__half*")),
        ("_Z2k314CUtensorMap_stP13__nv_bfloat16PKS0_P13__nv_fp8_e4m3P6float45uint2PaPmPdd",
         ("CUtensorMap_st", "__nv_bfloat16*", "__nv_bfloat16*", "__nv_fp8_e4m3*", "float4*", "uint2", "signed char*",
          "unsigned long*", "double*", "double")),
    ],
)  # fmt: skip
def test_types_are_read_from_mangled_names(name: str, types: tuple[str, ...]) -> None:
    assert parameter_types(name) == types


@pytest.mark.parametrize(
    "name", ["axpy", "_Z", "_Z4axp", "_Z2k6PFviEPf", "_Z2k4IJfdiEEviDpPT_", "_Z1kPT9_", "_Z" + "P" * 10_000]
)
def test_of_what_it_does_not_know_it_concludes_nothing(name: str) -> None:
    assert parameter_types(name) is None


@pytest.mark.parametrize(
    ("source", "kernels"),
    [
        ("__global__ void k(const float* __restrict__ x, int n) {}", {"k": [("float*", "x"), ("int", "n")]}),
        ('extern "C" __global__ __launch_bounds__(128, 2) void k(unsigned int *x /* , int y */) {}',
         {"k": [("unsigned int*", "x")]}),
        ("template <int N> static __global__ void k(std::array<float, 4> a, float y[]) {}",
         {"k": [("std::array<float, 4>", "a"), ("float*", "y")]}),
        ("__global__ void k(void);\n__global__ void l() {}", {"k": [], "l": []}),
        ("__global__ void k(float* x);\n__global__ void k(double* x) {}", {}),
        ("// __global__ void k(float* x)\n#define K __global__\n", {}),
    ],
)  # fmt: skip
def test_parameters_are_read_from_the_source(source: str, kernels: dict) -> None:
    found = declared_kernels(source)
    assert {name: [(one.type, one.name) for one in parameters] for name, parameters in found.items()} == kernels


@pytest.mark.parametrize(
    ("pointee", "dtype", "fits"),
    [
        ("float", "torch.float32", True),
        ("float", "torch.float64", False),
        ("float", "torch.complex64", True),
        ("__nv_bfloat16", "torch.float16", False),
        ("int", "torch.int64", False),
        ("int", "torch.uint32", True),
        ("unsigned short", "torch.bfloat16", True),
        ("unsigned char", "torch.float64", True),
        ("void", "torch.float64", True),
        ("MyStruct", "torch.float64", True),
    ],
)
def test_dtypes_are_held_against_the_pointer(pointee: str, dtype: str, fits: bool) -> None:
    assert (objection(pointee, dtype) == "") is fits


def test_agrees_with_the_systems_demangler() -> None:
    try:
        names = ["_ZN1a1b2k2ENS0_1PEPS1_PKS1_PKPKfPVi", "_Z9transposeIfLj32EEvPT_PKS0_ii"]
        told = subprocess.run(["c++filt", *names], capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"c++filt: {error}")
    for name, line in zip(names, told, strict=True):
        inside = line[line.rindex("(") + 1 : line.rindex(")")]
        for word in (" const", " volatile"):
            inside = inside.replace(word, "")
        assert parameter_types(name) == tuple(part.strip() for part in inside.split(","))
