"""MLA's notebook: both ways give the model's words and the same numbers on what it read; the questions judge."""

import pytest

torch = pytest.importorskip("torch")

import sglab
from sglab.attention.mla import absorbed_mla, naive_mla
from sglab.labs import mla_cache as lab


@pytest.fixture(scope="module")
def engine() -> sglab.Engine:
    return sglab.Engine("tiny", page_size=4, max_total_tokens=256, disable_overlap_schedule=True)


def test_both_ways_say_the_same_words(engine: sglab.Engine) -> None:
    said = []
    for method in ("plain", "absorbed"):
        with lab.computed(engine, method):
            assert {layer.method for layer in lab._latent_layers(engine)} == {method}
            said.append(engine.generate("The robot", {"temperature": 0, "max_new_tokens": 12}).text)
    assert said[0] == said[1] and said[0]
    assert {layer.method for layer in lab._latent_layers(engine)} == {"absorbed"}


def test_what_a_layer_read_is_the_same_either_way(engine: sglab.Engine) -> None:
    layer = lab.read(engine, "The robot said", layer=2)
    assert layer.cache.shape == (15, 576) and layer.q_nope.shape[:2] == (15, 4)
    args = (layer.q_nope, layer.q_rope, layer.cache, layer.weights, layer.scale)
    torch.testing.assert_close(absorbed_mla(*args), naive_mla(*args))


def test_refusals(engine: sglab.Engine) -> None:
    with pytest.raises(ValueError, match="expected 0 to 3; got 4"):
        lab.read(engine, "The", layer=4)
    with pytest.raises(ValueError, match="got 'naive'"), lab.computed(engine, "naive"):
        pass


def test_questions() -> None:
    assert lab.smaller_by().check(40_960 / 576).right and lab.smaller_by().check(56.9).right is False
    assert lab.right_scale().check(192**-0.5).right and lab.right_scale().check(576**-0.5).right is False
    assert lab.break_even().check(171).right and lab.break_even().check(170).right is False
    assert lab.rows_thrown_away(16).check(0.875).right


def test_every_known_wrong_absorbed_is_told_apart() -> None:
    question = lab.absorbed_attention()
    assert question.check(lab._absorbed).right
    for function, feedback in question.ideas:
        verdict = question.check(function)
        assert verdict.right is False and verdict.text.startswith(feedback)


def test_right_numbers_from_keys_of_every_head_are_not_the_absorbed_form() -> None:
    def naive(*args: torch.Tensor) -> torch.Tensor:
        q_nope, q_rope, cache, w_uk, w_uv, scale = args
        return naive_mla(q_nope, q_rope, cache, lab.MLAWeights(w_uk, w_uv), scale)

    verdict = lab.absorbed_attention().check(naive)
    assert verdict.right is False and "it builds a tensor of" in verdict.text

    def in_one_einsum(q_nope, q_rope, cache, w_uk, w_uv, scale):  # type: ignore[no-untyped-def]
        latent = w_uk.shape[-1]
        q = torch.cat((torch.einsum("qhd,hdc->qhc", q_nope, w_uk), q_rope), -1)
        p = (torch.einsum("qhc,kc->qhk", q, cache) * scale).softmax(-1)
        return torch.einsum("qhk,kc,hvc->qhv", p, cache[:, :latent], w_uv)

    assert lab.absorbed_attention().check(in_one_einsum).right
