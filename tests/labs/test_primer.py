"""The primer: its kernel is right and clean under every scheduler, its weights are the model's, its questions judge."""

import pytest

torch = pytest.importorskip("torch")

import sglab
from sglab.labs import primer as lab
from tests.support.emulator.schedulers import SCHEDULERS


@pytest.fixture(scope="module")
def engine() -> sglab.Engine:
    return sglab.Engine("tiny", page_size=4, max_total_tokens=256, disable_overlap_schedule=True)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("keys", [1, 4, 10])
def test_the_kernel_is_right_and_has_no_findings(keys: int, scheduler: str) -> None:
    launch = lab.Scores(keys, seed=keys)
    report = launch.run(scheduler=scheduler, sanitize=True)
    assert launch.error() < 1e-4 and not report.findings


@pytest.mark.gpu
def test_the_kernel_is_right_on_a_gpu() -> None:
    from sglab.gpu import CudaDevice

    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    launch = lab.Scores(10)
    q, k, score = launch.q.cuda(), launch.k.cuda(), torch.zeros(10, device="cuda")
    device = CudaDevice(0)
    launch.kernel.launch(device, grid=launch.grid, block=128, args=[q, k, score, 10])
    device.synchronize()
    assert float((score.cpu().double() - launch.k.double() @ launch.q.double()).abs().max()) < 1e-4


def test_weights_are_causal_rows_of_a_softmax_and_explain_the_output(engine: sglab.Engine) -> None:
    weights = lab.attention_weights(engine, "The robot said", layer=1, head=2)
    n = len(weights.letters)
    assert n == 15 and weights.letters[:3] == ["^", "T", "h"]
    torch.testing.assert_close(weights.matrix.sum(1), torch.ones(n, dtype=torch.float64))
    assert not weights.matrix.triu(1).any()
    again = lab.attention_weights(engine, "The robot said", layer=1, head=2)
    torch.testing.assert_close(again.matrix, weights.matrix)
    assert "svg" in weights._repr_html_()


@pytest.mark.parametrize(("layer", "head", "name"), [(4, 0, "layer"), (0, 4, "head")])
def test_what_the_model_lacks_is_refused(engine: sglab.Engine, layer: int, head: int, name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: expected 0 to 3; got 4"):
        lab.attention_weights(engine, "The", layer, head)


def test_questions(engine: sglab.Engine) -> None:
    weights = lab.Weights(list("^ab"), torch.tensor([[1.0, 0, 0], [0.2, 0.8, 0], [0.3, 0.1, 0.6]]).double())
    assert lab.most_looked_at(weights, 2).check(0).right
    assert lab.weighted_output().check([5, 5]).right
    assert lab.llama_bytes_per_token().check(131_072).right
    assert lab.llama_tokens(80, 16).check(524_288).right
    assert lab.wasted_keys(100, 50).check(6_076).right
    assert lab.lanes_without_work(lab.Scores(10)).check(64).right
    assert lab.shuffles(lab.Scores(10)).check(5).right
    assert lab.tensor_core_factor().check(64).right
    assert lab.tensor_core_factor().check(2048).right is False


def test_every_known_wrong_attend_is_told_apart() -> None:
    question = lab.attend_and_lse()
    assert question.check(lab._attend).right
    for function, feedback in question.ideas:
        verdict = question.check(function)
        assert verdict.right is False and verdict.text.startswith(feedback)


def test_a_question_about_the_readers_launch_leaves_its_tensors_alone() -> None:
    launch = lab.Scores(10)
    launch.run()
    before = launch.score.clone()
    versions = [each._version for each in (launch.q, launch.k, launch.score)]
    assert lab.shuffles(launch).check(5).right and lab.lanes_without_work(launch).check(64).right
    assert torch.equal(launch.score, before)
    assert versions == [each._version for each in (launch.q, launch.k, launch.score)]
