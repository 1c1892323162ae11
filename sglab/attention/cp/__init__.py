"""A prompt's new tokens spread over ranks (`attn_cp_size`): `layout` says who has which, `backend` is a backend whose
ranks attend with their own queries over everyone's keys.

Source: SGLang 0.5.23 `layers/cp`.
"""
