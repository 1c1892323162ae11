"""Questions of notebook 00: pages that are not full, what attention gives, who chooses a backend, a broken row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from sglab.attention import HARDWARE, Model, select_attention_backend

from .code_question import CodeQuestion
from .question import Question

if TYPE_CHECKING:
    from sglab.workbench.batch import Batch


def slots_left_over(batch: Batch, page_size: int) -> Question:
    """Slots of the requests' pages that would hold no token if pages had another size."""
    lengths = batch.seq_lens.tolist()
    pages = [-(-n // page_size) for n in lengths]
    return Question(
        truth=lambda: sum(pages) * page_size - sum(lengths),
        because=f"{{truth}}: {sum(pages)} pages of {page_size} slots for {sum(lengths)} tokens. What small pages save "
        "in slots they cost in the page table, which has an entry for each.",
        hint="How many pages of that size has each request, and how many slots are that?",
        ideas=(
            (
                sum(len(batch.pages(i)) for i in range(batch.batch_size)) * batch.page_size - sum(lengths),
                f"So many are unused now, with pages of {batch.page_size}. How many would it be with smaller ones?",
            ),
            (pages[-1] * page_size - lengths[-1], "Those are the last request's. The others have a last page, too."),
            (sum(pages), "So many pages. Asked for are slots in them that hold no token."),
        ),
    )


def left_over() -> CodeQuestion:
    """The exercise of writing left_over(lengths, page_size): slots that a batch's pages have beyond its tokens."""

    def cases(random: torch.Generator) -> list[list[Any]]:
        drawn: list[list[Any]] = [[[5], 4], [[8], 4]]
        for page_size in (1, 16, 64, 128):
            lengths = torch.randint(1, 6 * page_size, (4,), generator=random).tolist()
            drawn += [[lengths, page_size], [[*lengths, 2 * page_size], page_size]]
        return drawn

    def truth(lengths: list[int], page_size: int) -> int:
        return sum(-n % page_size for n in lengths)

    return CodeQuestion(
        function="left_over",
        cases=cases,
        truth=truth,
        because="On average half a page per request: small pages waste little, large ones keep the page table short.",
        ideas=(
            (
                lambda lengths, size: sum(size - n % size for n in lengths),
                "A request that fills its last page leaves nothing over: 8 tokens in pages of 4 are two full pages.",
            ),
            (
                lambda lengths, size: -sum(lengths) % size,
                "Requests do not share a page: round each one up by itself, not their sum.",
            ),
            (
                lambda lengths, size: sum(n % size for n in lengths),
                "That is what lies in the last pages. Left over is the rest of them.",
            ),
            (lambda lengths, size: sum(-(-n // size) for n in lengths), "Those are pages. How many slots stay empty?"),
        ),
    )


def output_width(batch: Batch) -> Question:
    """The last dimension of attention's output."""
    width, rotary = batch.layer.head_dim, batch.layer.head_dim - batch.layer.v_head_dim
    return Question(
        truth=lambda: batch.layer.v_head_dim,
        because=f"{{truth}}: values are the latent alone. The query has {width}, since keys carry {rotary} rotary "
        "numbers more.",
        hint="Look at out.shape, or at batch.layer.v_head_dim.",
        ideas=(
            (width, "So wide is the query. The output mixes values, and a value is a part of what a key is."),
            (rotary, "Those are the rotary numbers, which keys and queries have. Values are what is left."),
            (
                batch.layer.v_head_dim * batch.q.shape[1],
                "That is all heads together. The output's last dimension is one head's.",
            ),
        ),
    )


def chosen_backend(machine: str, use_mla: bool) -> Question:
    """What SGLang runs on a machine, for a model of a kind."""
    choice = select_attention_backend(HARDWARE[machine], Model(use_mla=use_mla))
    others = {
        "trtllm_mla": "That is for DeepSeek on B200 and B300: what counts is the number of the architecture, not "
        "the name.",
        "flashinfer": "So it is on a B200. The rule asks for SM100, and this GPU, Blackwell by name, is SM120.",
        "fa3": "FlashAttention-3 needs Hopper's wgmma.",
        "cutlass_mla": "That kernel is compiled for sm_100a, the B200's architecture.",
    }
    return Question(
        truth=lambda: choice.decode,
        because=f"{{truth}}: {choice.reason}. One name, two architectures: B200 is SM100, RTX 5090 is SM120.",
        hint="Ask as the loop above does, for one machine.",
        ideas=tuple((name, why) for name, why in others.items() if name != choice.decode),
    )


def is_refused(batch: Batch, slot: int) -> Question:
    """Whether a batch is refused if this slot holds a NaN; tried on the batch, which is as before afterwards."""

    def truth() -> bool:
        from sglab.workbench import attend

        keys = batch.runner.token_to_kv_pool.get_key_buffer(0)
        saved = keys[slot, 0, 5].clone()
        keys[slot, 0, 5] = torch.nan
        try:
            attend(batch, backend="torch_native")
        except ValueError:
            return True
        finally:
            keys[slot, 0, 5] = saved
        return False

    return Question(
        truth=truth,
        because=(
            "{truth}: a kernel reads whole tiles and gives what lies beyond the end the weight 0. But 0 × NaN is "
            "NaN, so "
            "nothing in the pool may be one."
        ),
        hint="Try it: write the NaN there as above, and attend.",
        ideas=(
            (
                False,
                "No token lies there, and its weight would be 0. But a kernel multiplies whole tiles: what is 0 × NaN?",
            ),
        ),
    )
