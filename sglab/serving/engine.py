"""Engine: a model that generates. A step plans a pass, runs it, and processes its result or that of the one before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import torch

from sglab.engine import FinishAbort, Req
from sglab.engine.errors import BadArgumentError
from sglab.engine.recording import Recording
from sglab.engine.scheduler import History
from sglab.models import CausalLM, Tokenizer
from sglab.serving.encoders import encoder_options, has_encoder
from sglab.serving.execution import Pending
from sglab.serving.given import LogprobOptions, Prompt, Sampling, config, for_each, is_one, new_request, tokenizer_of
from sglab.serving.hooks import register_forward_hooks
from sglab.serving.indexed import for_model
from sglab.serving.output import Delta, Handle, Output, RequestAbortedError
from sglab.serving.parts import make_parts
from sglab.serving.ranks import RankDiedError, Ranks
from sglab.serving.ranks.parts import load_share, start_ranks
from sglab.serving.speculation import Draft


class Engine:
    """Generates with a model, on the CPU or a GPU.

    Args:
        model: "tiny", a folder, a hub id, or a model that was loaded before.
        tokenizer: None: the one beside the model's files, if there is one. Prompts may be token ids, too.
        dtype, device: of a model that is loaded here.
        draft_model: for speculative_algorithm="STANDALONE", given as `model` is; it has the same vocabulary. For
            "EAGLE" the folder or id of a DeepSeek checkpoint with an MTP layer, or a layer that was loaded before.
        options: fields of EngineConfig.

    Attributes:
        history: every step, as plain data (`sglab.engine.scheduler.History`).
        scheduler, worker: the parts, to be looked at.
        runs: what runs passes: the worker, or a SpeculativeWorker around it.
        ranks: the other processes, with tp_size above 1.
        recording: what `record` has begun; None: nothing.

    Raises:
        BadArgumentError, UnsupportedError: a model, a backend or an option that does not fit.
        RankDiedError: another rank did not come up; from `submit`, `generate` and `step`: it has ended since.
    """

    def __init__(
        self,
        model: str | Path | CausalLM = "tiny",
        *,
        tokenizer: Tokenizer | None = None,
        dtype: str | torch.dtype | None = None,
        device: str | torch.device | None = None,
        draft_model: Draft | None = None,
        **options: Any,
    ) -> None:
        self.config = config(options)
        self.ranks: Ranks | None = None
        if self.config.tp_size > 1 and isinstance(model, CausalLM):
            remedy = "Every rank loads a shard of it."
            raise BadArgumentError("model", "a folder or an id with tp_size above 1", type(model).__name__, remedy)
        where = device or ("cuda" if torch.cuda.is_available() else "cpu")
        if isinstance(model, CausalLM):
            self.model, self.model_name = model, type(model).__name__
        else:
            self.ranks = start_ranks(model, dtype, str(where), self.config)
            self.model, self.model_name = load_share(model, dtype, where, self.ranks, self.config), str(model)
            tokenizer = tokenizer or tokenizer_of(model)
        self.tokenizer = tokenizer
        try:
            made_for = encoder_options if has_encoder(self.model) else for_model
            self.config, self.device = made_for(self.config, self.model), self.model.device
            parts = make_parts(self.model, self.config, self.tokenizer, self.ranks, draft_model)
            self._execution, self._parallel = parts.execution, parts.parallel
            self.runner, self.tree_cache = parts.runner, parts.tree_cache
            self.worker, self.runs, self.scheduler = parts.worker, parts.runs, parts.scheduler
        except BaseException:
            if self.ranks is not None:
                self.ranks.close()
            raise
        self.hooks = register_forward_hooks(self.model, self.config.forward_hooks)
        self._pending: list[tuple[Any, Pending[Callable[[], Any]]]] = []
        self._submitted = 0
        self.recording: Recording | None = None

    @property
    def history(self) -> History:
        return self.scheduler.history

    @overload
    def generate(  # type: ignore[overload-overlap]
        self,
        prompts: Prompt,
        sampling: Sampling = None,
        *,
        return_logprob: bool = False,
        logprob_start_len: int = -1,
        top_logprobs_num: int = 0,
        token_ids_logprob: Sequence[int] | None = None,
        decoder_prompt: Prompt | None = None,
    ) -> Output: ...

    @overload
    def generate(
        self,
        prompts: Sequence[Prompt],
        sampling: Sampling | Sequence[Sampling] = None,
        *,
        return_logprob: bool = False,
        logprob_start_len: int | Sequence[int] = -1,
        top_logprobs_num: int = 0,
        token_ids_logprob: Sequence[int] | None = None,
        decoder_prompt: Prompt | None = None,
    ) -> list[Output]: ...

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling: Sampling | Sequence[Sampling] = None,
        *,
        return_logprob: bool = False,
        logprob_start_len: int | Sequence[int] = -1,
        top_logprobs_num: int = 0,
        token_ids_logprob: Sequence[int] | None = None,
        decoder_prompt: Prompt | None = None,
    ) -> Output | list[Output]:
        """Run requests to their end, together with whatever else was submitted.

        Args:
            prompts: a text or token ids, or a list of them.
            sampling: for all of them, or a list with one for each.
            return_logprob: also give every generated token's log probability.
            logprob_start_len: and those of the prompt's tokens after this position, for all prompts or a list with one
                for each; -1: none. What the cache has beyond it is computed again.
            top_logprobs_num, token_ids_logprob: at each of these places also of so many of the likeliest tokens, and of
                these tokens.
            decoder_prompt: of a model with an encoder, which reads the prompts: what the decoder begins with, tokens as
                they are or a text after its start token; None: that alone.

        Returns:
            An Output, or a list of them for a list.

        Raises:
            BadArgumentError: a prompt or a value that cannot be served; none of these requests has run.
            RequestAbortedError: one failed on its way.
        """
        one = is_one(prompts)
        listed: list[Any] = [prompts] if one else list(prompts)
        each = for_each("sampling", sampling, len(listed))
        starts = for_each("logprob_start_len", logprob_start_len, len(listed))
        reqs = [
            self._request(
                prompt,
                params,
                LogprobOptions(return_logprob, start, top_logprobs_num, token_ids_logprob),
                decoder_prompt=decoder_prompt,
            )
            for prompt, params, start in zip(listed, each, starts, strict=True)
        ]
        handles = self._add(reqs)
        while not all(handle.finished for handle in handles):
            self.step()
        for handle in handles:
            if isinstance(handle.req.finished_reason, FinishAbort):
                raise RequestAbortedError(f"request {handle.rid}: {handle.req.finished_reason.message}")
        outputs = [handle.output() for handle in handles]
        return outputs[0] if one else outputs

    def stream(self, prompt: Prompt, sampling: Sampling = None) -> Iterator[Delta]:
        """Run one request and yield what comes, as it comes; leaving the loop early aborts it."""
        handle = self.submit(prompt, sampling)
        try:
            while not handle.finished:
                self.step()
                delta = handle.read()
                if delta.token_ids or delta.text or delta.finish_reason:
                    yield delta
        finally:
            if not handle.finished:
                self.abort(handle.rid)

    def submit(
        self,
        prompt: Prompt,
        sampling: Sampling = None,
        *,
        rid: str | None = None,
        extra_key: str | None = None,
        return_logprob: bool = False,
        logprob_start_len: int = -1,
        top_logprobs_num: int = 0,
        token_ids_logprob: Sequence[int] | None = None,
        decoder_prompt: Prompt | None = None,
    ) -> Handle:
        """Add a request; `step` runs it.

        Args:
            rid: its name; None: one is made.
            extra_key: requests with different ones share no prefixes.
            return_logprob, logprob_start_len, top_logprobs_num, token_ids_logprob, decoder_prompt: as `generate` takes
                them.

        Raises:
            BadArgumentError: it cannot be served; nothing has changed.
        """
        wanted = LogprobOptions(return_logprob, logprob_start_len, top_logprobs_num, token_ids_logprob)
        req = self._request(prompt, sampling, wanted, rid, extra_key, decoder_prompt)
        return self._add([req])[0]

    def step(self) -> bool:
        """Plan and run one pass, and process what is due. Returns whether any request is left."""
        scheduled = self.scheduler.get_next_batch_to_run()
        if scheduled is not None:
            runs: Any = self._parallel or self.runs
            inputs = (self._parallel or self.worker).inputs(scheduled)  # type: ignore[arg-type]
            self._pending.append((scheduled, self._execution.submit(lambda: runs.forward(inputs))))
        due = 1 if self.scheduler.config.enable_overlap and scheduled is not None else 0
        while len(self._pending) > due:
            self._process(*self._pending.pop(0))
        if self.config.check_invariants:
            self.scheduler.check_invariants()
        return self.scheduler.has_work()

    def abort(self, rid: str) -> bool:
        """End a request before its next step. Returns whether there was one of this name."""
        return self.scheduler.abort_request(rid)

    def run(self) -> None:
        """Step until nothing is left."""
        while self.step():
            pass

    def flush_cache(self) -> None:
        """Forget every cached prefix.

        Raises:
            RuntimeError: requests are unfinished.
        """
        if self.scheduler.has_work():
            raise RuntimeError("requests are unfinished: finish or abort them before the cache is flushed")
        self.scheduler.flush_cache()

    def record(self) -> Recording:
        """Keep what every step from now on is made of, and every operation on the radix tree, until `stop`.

        The widgets Scheduler and RadixTree show it, `sglab.step_batch` gives a step's attention. An engine has one
        recording at a time: a second call returns the one that goes on.

        Raises:
            BadArgumentError: an engine with several groups of ranks.
        """
        if self.recording is None or not self.recording.recording:
            decode = None if self.tokenizer is None else self.tokenizer.decode
            self.recording = Recording(self.scheduler, decode, self.model)  # type: ignore[arg-type]
        return self.recording

    def close(self) -> None:
        """End the engine's thread and its ranks, and take its hooks off the model."""
        self._execution.close()
        if self.ranks is not None:
            self.ranks.close()
        for hook in self.hooks:
            hook.remove()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _process(self, scheduled: Any, pending: Pending[Callable[[], Any]]) -> None:
        try:
            result = pending.result()()
        except Exception as error:
            self.scheduler.fail_batch(scheduled, f"{type(error).__name__}: {error}")
            if isinstance(error, RankDiedError):
                for req in self.scheduler.requests():
                    self.scheduler.abort_request(req.rid, str(error))
            return
        self.scheduler.process_batch_result(scheduled, result)

    def _add(self, reqs: Sequence[Req]) -> list[Handle]:
        if self.ranks is not None:
            self.ranks.check()
        added: list[Req] = []
        try:
            for req in reqs:
                self.scheduler.add_request(req)
                added.append(req)
        except BadArgumentError:
            for req in added:
                self.scheduler.drop(req)
            raise
        return [Handle(req, self.tokenizer) for req in reqs]

    def _request(
        self,
        prompt: Prompt,
        sampling: Sampling,
        logprobs: LogprobOptions,
        rid: str | None = None,
        extra_key: str | None = None,
        decoder_prompt: Prompt | None = None,
    ) -> Req:
        name = f"request {self._submitted + 1}" if rid in (None, "") else rid
        seeded = self.config.enable_deterministic_inference
        req = new_request(
            prompt, sampling, logprobs, self.model, self.tokenizer, seeded, name, extra_key, decoder_prompt
        )
        self._submitted += 1
        return req
