"""FlashAttention's contract by its packages: what a call becomes for each, what they refuse; on a GPU their results."""

import importlib.util
from typing import Any

import pytest
import torch

from sglab.kernels import flash_attn_varlen_func, flash_attn_with_kvcache
from sglab.kernels.flash_attn import calls, library
from sglab.kernels.flash_attn.contract import FlashAttnArguments
from tests.support.flash_attn_packages import installed_on_hopper

FA3, SGL, FA2 = library.PACKAGES
HERE = [package for package in library.PACKAGES if importlib.util.find_spec(package.module.partition(".")[0])]
ON_GPU = torch.cuda.is_available() and bool(HERE)


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    installed_on_hopper(monkeypatch)


def arguments(call: Any, *given: Any, **options: Any) -> FlashAttnArguments:
    """A call in the form that implementations get."""
    caught: list[FlashAttnArguments] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "operator", lambda a, implementation: caught.append(a))
        call(*given, **options)
    return caught[0]


def paged(generator: torch.Generator, page: int = 16, dims: tuple[int, int] = (64, 64)) -> dict[str, Any]:
    lens, new = torch.tensor([40, 7, 0], dtype=torch.int32), torch.tensor([3, 9, 2])
    table = torch.randperm(12, generator=generator)[:9].int().view(3, 3)

    def rows(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(torch.bfloat16)

    return {
        "q": rows(14, 8, dims[0]),
        "k_cache": rows(12, page, 2, dims[0]),
        "v_cache": rows(12, page, 2, dims[1]),
        "cache_seqlens": lens,
        "page_table": table,
        "cu_seqlens_q": torch.nn.functional.pad(new.cumsum(0), (1, 0)).int(),
        "max_seqlen_q": 9,
        "return_softmax_lse": True,
    }


def ragged(generator: torch.Generator) -> dict[str, Any]:
    keys, new = torch.tensor([30, 5, 11]), torch.tensor([4, 7, 1])

    def rows(tokens: int, heads: int) -> torch.Tensor:
        return torch.randn((tokens, heads, 64), generator=generator).to(torch.bfloat16)

    starts = [torch.nn.functional.pad(each.cumsum(0), (1, 0)).int() for each in (new, keys)]
    cu = {"cu_seqlens_q": starts[0], "cu_seqlens_k": starts[1]}
    return {"q": rows(12, 8), "k": rows(46, 2), "v": rows(46, 2), **cu, "return_softmax_lse": True}


OPTIONS = {
    "plain": {},
    "causal": {"causal": True},
    "window": {"causal": True, "window_size": (5, 0)},
    "both ways": {"window_size": (3, 2)},
    "cap": {"causal": True, "softcap": 2.0, "softmax_scale": 0.3},
    "chunk": {"causal": True, "attention_chunk": 8},
    "sinks": {"causal": True, "sinks": torch.linspace(-1, 2, 8)},
}


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("package", library.PACKAGES, ids=lambda package: package.module)
@pytest.mark.parametrize("form", ["paged", "ragged"])
def test_a_call_keeps_its_meaning(form: str, package: library.Package, option: str, generator: torch.Generator) -> None:
    page = 256 if package is FA2 else 16
    given = paged(generator, page) if form == "paged" else ragged(generator)
    function = flash_attn_with_kvcache if form == "paged" else flash_attn_varlen_func
    made = arguments(function, **given, **OPTIONS[option])
    lacks = {"sinks": package is not SGL or form == "ragged", "chunk": package is FA2}.get(option, False)
    why = library.unfit(made, package, 9)
    if lacks:
        assert why == f"its function has no {'sinks' if option == 'sinks' else 'attention_chunk'}"
        return
    assert why is None
    out, lse = library.call(made, package)
    expected, expected_lse = function(**given, **OPTIONS[option], implementation="reference")  # type: ignore[arg-type]
    assert torch.equal(out, expected)
    seen = ~library.sees_nothing(made)[0]
    assert torch.equal(lse[:, seen], expected_lse[:, seen])


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize("option", ["causal", "sinks", "window"])
def test_rows_that_see_no_key_get_what_the_contract_says(
    option: str, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request without keys, and queries before its first key, whatever the package's LSE is there."""
    package = SGL if option == "sinks" else FA2
    monkeypatch.setattr(library, "installed", lambda: (package,))
    given = paged(generator, 256)
    made = arguments(flash_attn_with_kvcache, **given, **OPTIONS[option])
    library.run(made)
    expected, lse = flash_attn_with_kvcache(**given, **OPTIONS[option], implementation="reference")  # type: ignore[arg-type]
    assert library.sees_nothing(made)[0].any()
    assert torch.equal(made.out, expected)
    torch.testing.assert_close(made.lse, lse)


@pytest.mark.usefixtures("packages")
def test_absorbed_mla_has_its_latent_as_qv(generator: torch.Generator) -> None:
    given = paged(generator, dims=(64, 512))
    given["k_cache"], given["v_cache"] = given["k_cache"][:, :, :1], given["v_cache"][:, :, :1]
    qv = torch.randn((14, 8, 512), generator=generator).to(torch.bfloat16)
    made = arguments(flash_attn_with_kvcache, **given, qv=qv, causal=True)
    assert library.unfit(made, FA3, 9) is None
    out, _ = library.call(made, FA3)
    assert torch.equal(out, flash_attn_with_kvcache(**given, qv=qv, causal=True, implementation="reference")[0])
    assert "keys of 64 and values of 512" in str(library.unfit(made, FA2, 9))


@pytest.mark.usefixtures("packages")
def test_what_a_package_does_not_take(generator: torch.Generator) -> None:
    plain = paged(generator)
    made = arguments(flash_attn_with_kvcache, **plain)
    assert library.unfit(made, FA3, 10) == "its kernels are for compute capability 8, 9.x, not 10.x"
    assert library.unfit(made, FA2, 9) == "its pages are multiples of 256 tokens, not 16"
    eight = {**plain, "k_cache": plain["k_cache"].to(torch.float8_e4m3fn), "v_cache": plain["v_cache"]}
    eight["v_cache"] = eight["v_cache"].to(torch.float8_e4m3fn)
    assert "keys must have the queries' dtype" in str(
        library.unfit(arguments(flash_attn_with_kvcache, **eight), FA3, 9)
    )
    wide = {
        name: value.float() if torch.is_floating_point(value) else value
        for name, value in plain.items()
        if torch.is_tensor(value)
    }
    assert library.unfit(arguments(flash_attn_with_kvcache, **wide), FA3, 9) == "it does not take torch.float32 queries"
    used = arguments(flash_attn_varlen_func, **ragged(generator), seqused_k=torch.tensor([9, 5, 11], dtype=torch.int32))
    with pytest.raises(ValueError, match="seqused_k must be all of a request's keys for flash_attn; got fewer"):
        library.call(used, FA2)


def test_tensors_on_a_cpu_are_refused(generator: torch.Generator) -> None:
    with pytest.raises(ValueError, match="its kernels run on a GPU, and these tensors are on a CPU"):
        flash_attn_with_kvcache(**paged(generator), implementation="flash_attn")


@pytest.mark.gpu
@pytest.mark.skipif(not ON_GPU, reason="needs an NVIDIA GPU and flash_attn_interface, sgl_kernel or flash_attn")
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("form", ["paged", "ragged"])
def test_the_packages_agree_with_float64(form: str, option: str, generator: torch.Generator) -> None:
    given = paged(generator, 256) if form == "paged" else ragged(generator)
    given = {name: value.cuda() if torch.is_tensor(value) else value for name, value in given.items()}
    options = {name: value.cuda() if torch.is_tensor(value) else value for name, value in OPTIONS[option].items()}
    function = flash_attn_with_kvcache if form == "paged" else flash_attn_varlen_func
    if library.refuses(arguments(function, **given, **options)) is not None:
        pytest.skip(f"no package here takes {option}")
    out, lse = function(**given, **options, implementation="flash_attn")  # type: ignore[arg-type]
    expected, expected_lse = function(**given, **options, implementation="reference")  # type: ignore[arg-type]
    torch.testing.assert_close(out.float(), expected.float(), atol=3e-2, rtol=3e-2)
    torch.testing.assert_close(lse, expected_lse, atol=1e-2, rtol=1e-2)
