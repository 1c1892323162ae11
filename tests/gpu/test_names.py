"""Names of variables and places in messages: as the kernel's author has them."""

import pytest

import sglab
from sglab import gpu
from sglab.gpu.names import variable_name
from sglab.gpu.places import own_place, paths_once, places_of

HEADER = "/usr/local/cuda-13.0/bin/../targets/x86_64-linux/include/cuda_pipeline_helpers.h"


def test_variables_lose_their_mangling() -> None:
    assert variable_name("_ZZ13cp_async_copyPK6float4PS_iiE6buffer") == "buffer"
    assert variable_name("_ZN46_GLOBAL__N__6dae08b0_13_mla_decode_cu_61ab18487dynamicE") == "dynamic"
    assert variable_name("_ZZ4scanILi6EEvPKfPfE4smem") == "smem"  # 6 letters would be E4smem
    assert variable_name("_ZZ4tmplIN4mine5TableEEvPKT_PS2_E5fixed") == "fixed"
    assert variable_name(f"_ZZ3one{'I' + 80 * 'f' + 'E'}vvE4tile") == "tile"
    assert variable_name("_ZZ17wrong_parity_bodyILb0EEvPjPKjE7barrier") == "barrier"
    assert variable_name("_ZZ4axpyP13__nv_bfloat16E4smem") == "smem"  # the 6 of bfloat16 is no length
    assert variable_name("_ZZ3fooPiE6E4smem") == "E4smem"  # a variable that is really called so
    assert variable_name("_ZZ4twicevE4smem_0") == "smem"  # the second of its name in the function
    assert variable_name("_ZL5table") == "table"
    assert variable_name("global_smem") == "global_smem"
    assert variable_name("_Zodd") == "_Zodd"


def test_the_authors_line_comes_before_that_of_a_header() -> None:
    chain = [(HEADER, 190), ("/work/own.cu", 8)]
    assert places_of(chain) == ["/work/own.cu:8", "in cuda_pipeline_helpers.h:190"]
    assert own_place(chain) == ("/work/own.cu", 8)
    wheel = "/venv/lib/python3.12/site-packages/nvidia/cu13/include/cuda/pipeline"
    assert places_of([(wheel, 5), (HEADER, 3), ("kernel.cu", 2)]) == ["kernel.cu:2", "in cuda/pipeline:5"]


def test_an_authors_function_comes_before_the_line_that_called_it() -> None:
    chain = [("/common/helpers.cuh", 4), ("/work/own.cu", 8), ("/work/own.cu", 20)]
    assert places_of(chain) == ["/common/helpers.cuh:4", "called from /work/own.cu:20"]
    assert own_place(chain) == ("/common/helpers.cuh", 4)
    assert places_of([("own.cu", 3)]) == ["own.cu:3"] and places_of([]) == [] and own_place([]) is None


def test_a_kernel_of_a_library_keeps_its_own_place() -> None:
    chain = [("/src/cutlass/include/cute/arch/copy.hpp", 30), ("/src/cutlass/gemm.cu", 9)]
    assert places_of(chain) == ["/src/cutlass/include/cute/arch/copy.hpp:30", "called from /src/cutlass/gemm.cu:9"]


def test_a_message_gives_a_path_once_and_then_the_files_name() -> None:
    text = "warp 0 waits, /my/a/k.py:12\n  warp 1 (/my/a/k.py:13) for /other/k.py:2 [/my/a/k.py:12]"
    assert paths_once(text) == "warp 0 waits, /my/a/k.py:12\n  warp 1 (k.py:13) for /other/k.py:2 [k.py:12]"
    assert paths_once("[a/b/k.cu:43, called from a/b/k.cu:93]") == "[a/b/k.cu:43, called from k.cu:93]"
    assert paths_once("file=/a/k.cu:1, file=/a/k.cu:2") == "file=/a/k.cu:1, file=k.cu:2"


def test_a_failure_names_a_kernel_of_the_cute_dsl_as_its_author_does() -> None:
    name = "kernel_cutlass_vadd_tensorptrf32gmemo1_0"
    text = f".version 8.5\n.target sm_90a\n.address_size 64\n.visible .entry {name}() {{ trap; }}\n"
    launch = sglab.step(sglab.ptx(text)[1, 32])
    with pytest.raises(gpu.KernelError, match=r"\[kernel vadd, CTA"):
        launch.run()
    with pytest.raises(gpu.KernelError, match=r"\[kernel vadd, CTA"):
        launch.session().seek(5)
