"""BART against transformers: cross-attention over an encoder's keys and values in the paged pool."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from sglab.engine import ForwardBatch, ForwardMode
from sglab.models import from_config
from tests.support.models import Driver, oracle, prompts, relative_error

SHAPE = {
    "vocab_size": 131,
    "d_model": 48,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 6,
    "encoder_ffn_dim": 80,
    "decoder_ffn_dim": 72,
    "max_position_embeddings": 128,
    "scale_embedding": True,
    "pad_token_id": 1,
}
SOURCES, TARGETS = [23, 4], [9, 12]


class Requests:
    """Rows of the page table as an encoder-decoder scheduler fills them: a request's encoder first."""

    def __init__(self, driver: Driver, encoder_lens: list[int]) -> None:
        self.driver, self.encoder_lens, self.lens = driver, encoder_lens, [0] * len(encoder_lens)
        self.holders = [
            SimpleNamespace(rid=str(i), req_pool_idx=None, kv_committed_len=0, cache_protected_len=0)
            for i in range(len(encoder_lens))
        ]
        assert driver.runner.req_to_token_pool.alloc(self.holders) == list(range(len(encoder_lens)))
        self.encoder_loc = torch.cat([self._take(row, 0, count) for row, count in enumerate(encoder_lens)])

    def _take(self, row: int, at: int, count: int) -> torch.Tensor:
        slots = self.driver.runner.token_to_kv_pool_allocator.alloc(count)
        assert slots is not None
        self.driver.runner.req_to_token_pool.write((row, slice(at, at + count)), slots)
        return slots

    def run(self, tokens: list[list[int]], encoded: torch.Tensor | None) -> torch.Tensor:
        """Hidden states of these requests' next tokens, as one extend, or a decode where each has one."""
        before = list(self.lens)
        loc = [self._take(i, self.encoder_lens[i] + before[i], len(new)) for i, new in enumerate(tokens)]
        self.lens = [length + len(new) for length, new in zip(before, tokens, strict=True)]
        for holder, length, encoded_len in zip(self.holders, self.lens, self.encoder_lens, strict=True):
            holder.kv_committed_len = encoded_len + length
        runner, decoding = self.driver.runner, before[0] > 0
        batch = ForwardBatch(
            forward_mode=ForwardMode.DECODE if decoding else ForwardMode.EXTEND,
            batch_size=len(tokens),
            input_ids=torch.tensor([token for new in tokens for token in new]),
            req_pool_indices=torch.arange(len(tokens)),
            seq_lens=torch.tensor(self.lens),
            out_cache_loc=torch.cat(loc),
            seq_lens_sum=sum(self.lens),
            extend_seq_lens_cpu=None if decoding else [len(new) for new in tokens],
            extend_seq_lens=None if decoding else torch.tensor([len(new) for new in tokens], dtype=torch.int32),
            extend_prefix_lens_cpu=None if decoding else before,
            extend_prefix_lens=None if decoding else torch.tensor(before, dtype=torch.int32),
            req_to_token_pool=runner.req_to_token_pool,
            token_to_kv_pool=runner.token_to_kv_pool,
            encoder_lens=torch.tensor(self.encoder_lens),
            encoder_out_cache_loc=None if encoded is None else self.encoder_loc,
            attn_backend=self.driver.backend,
        )
        positions = torch.cat([torch.arange(n, n + len(new)) for n, new in zip(before, tokens, strict=True)])
        self.driver.backend.prepare(batch)
        return self.driver.model(batch.input_ids, positions, batch, encoded)  # type: ignore[call-arg]


def test_bart(tmp_path: Path) -> None:
    theirs, ours = oracle("BartForConditionalGeneration", tmp_path, SHAPE)
    sources, targets = prompts(SOURCES, 131), prompts(TARGETS, 131, seed=1)
    driver = Driver(ours, page_size=1)
    requests = Requests(driver, SOURCES)
    with torch.inference_mode():
        encoded = torch.cat([ours.encode(torch.tensor(source)) for source in sources])
        hidden = requests.run(targets, encoded)
        logits = ours.compute_logits(hidden)
        ends = torch.tensor(TARGETS).cumsum(0) - 1
        tokens = logits[ends].argmax(-1).tolist()
        outputs, steps = [[token] for token in tokens], []
        for _ in range(63):
            steps.append(ours.compute_logits(requests.run([[token] for token in tokens], None)))
            tokens = steps[-1].argmax(-1).tolist()
            for output, token in zip(outputs, tokens, strict=True):
                output.append(token)
        whole = [
            theirs(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([target + output[:-1]])).logits[0]
            for source, target, output in zip(sources, targets, outputs, strict=True)
        ]
    for i, (rows, target) in enumerate(zip(whole, targets, strict=True)):
        start = sum(TARGETS[:i])
        assert relative_error(logits[start : start + len(target)], rows[: len(target)]) < 1e-4
        assert rows[len(target) - 1 :].argmax(-1).tolist() == outputs[i]
        for step in range(8):
            assert relative_error(steps[step][i], rows[len(target) + step]) < 1e-4


@pytest.mark.parametrize("implementation", ["triton", "reference"])
def test_cross_attention_by_tritons_kernels(implementation: str) -> None:
    """Prompts of several tokens and decodes, in float32; the kernels run as they are, on the emulator."""
    layers = 1 if implementation == "triton" else 3
    ours = from_config(
        {**SHAPE, "architectures": ["BartForConditionalGeneration"], "decoder_layers": layers}, "float32", "cpu", 1
    )
    sources, targets = prompts(SOURCES, 131), prompts(TARGETS, 131, seed=1)
    found = []
    for backend, asked in (("torch_native", "auto"), ("triton", implementation)):
        requests = Requests(Driver(ours, page_size=1, backend=backend, implementation=asked), SOURCES)
        with torch.inference_mode():
            encoded = torch.cat([ours.encode(torch.tensor(source)) for source in sources])
            found.append([requests.run(targets, encoded), *(requests.run([[7], [9]], None) for _ in range(2))])
    for made, wanted in zip(found[1], found[0], strict=True):
        assert relative_error(made, wanted) < 1e-5
