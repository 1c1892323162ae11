"""Names of variables from the symbols of C++."""

from __future__ import annotations

import pytest

from sglab.events.symbols import plain_name


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_ZZ13cp_async_copyPK6float4PS_iiE6buffer", "buffer"),
        ("_ZN46_GLOBAL__N__6dae08b0_13_mla_decode_cu_61ab18487dynamicE", "dynamic"),
        ("_ZZ17wrong_parity_bodyILb0EEvPjPKjE7barrier", "barrier"),
        ("_ZZ4axpyP13__nv_bfloat16E4smem", "smem"),  # the 6 of bfloat16 is no length
        ("_ZZ3fooPiE6E4smem", "E4smem"),  # a variable that is really called so
        ("_ZZ4twicevE4smem_0", "smem"),  # the second of its name in the function
        ("_ZL5table", "table"),
        ("global_smem", "global_smem"),
        ("_Zodd", "_Zodd"),
    ],
)
def test_the_last_identifier_is_the_variable_s(symbol: str, name: str) -> None:
    assert plain_name(symbol) == name
