"""`sglab generate` and `sglab serve`: an engine on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sglab.serving import Engine


def add_generate_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompts", nargs="+", metavar="PROMPT", help="texts to continue, together")
    add_engine_options(parser)
    parser.add_argument("--max-new-tokens", type=int, default=64, help="default: %(default)s")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 (the default) is greedy")
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--top-k", type=int, default=-1)
    parser.add_argument("--sampling-seed", type=int)
    parser.add_argument("--stop", action="append", default=[], help="a text that ends the output; may be repeated")
    parser.add_argument("--steps", action="store_true", help="also print what every step's batch was made of")


def add_serve_options(parser: argparse.ArgumentParser) -> None:
    add_engine_options(parser)
    parser.add_argument("--host", default="127.0.0.1", help="default: %(default)s")
    parser.add_argument("--port", type=int, default=30000, help="default: %(default)s")
    parser.add_argument(
        "--watch",
        action="store_true",
        help="record the engine: /watch shows its scheduler and radix tree, /recording.sglab is for JupyterLab",
    )


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="tiny", help="tiny, a folder or a hub id; default: %(default)s")
    parser.add_argument("--dtype", choices=["float16", "bfloat16", "float32"])
    parser.add_argument("--device", help="cpu or cuda; a GPU if there is one")
    parser.add_argument("--attention-backend", default="auto")
    parser.add_argument("--page-size", type=int)
    parser.add_argument("--max-total-tokens", type=int, help="slots of the KV pool")
    parser.add_argument("--context-length", type=int)
    parser.add_argument("--chunked-prefill-size", type=int, default=8192, help="-1: prompts are never cut")
    parser.add_argument("--schedule-policy", default="fcfs", choices=["lpm", "dfs-weight", "fcfs", "lof", "random"])
    parser.add_argument("--speculative-algorithm", choices=["NGRAM"])


def engine_of(options: argparse.Namespace) -> Engine:
    """The engine that the options describe."""
    from sglab.serving import Engine

    names = ("attention_backend", "page_size", "max_total_tokens", "context_length", "chunked_prefill_size")
    given = {name: getattr(options, name) for name in (*names, "schedule_policy", "speculative_algorithm")}
    return Engine(options.model, dtype=options.dtype, device=options.device, **given)


def generate(options: argparse.Namespace) -> None:
    """Print each prompt's continuation; one alone as it comes."""
    sampling = {name: getattr(options, name) for name in ("max_new_tokens", "temperature", "top_p", "top_k", "stop")}
    sampling["sampling_seed"] = options.sampling_seed
    with engine_of(options) as engine:
        if len(options.prompts) == 1:
            for delta in engine.stream(options.prompts[0], sampling):
                print(delta.text, end="", flush=True)
            print()
        else:
            for prompt, output in zip(options.prompts, engine.generate(options.prompts, sampling), strict=True):
                print(f"{prompt}{output.text}")
        if options.steps:
            for step in engine.history.steps:
                batch = ", ".join(f"{e.rid}: {e.phase} {e.new_tokens} at {e.start}" for e in step.batch)
                use = step.pool
                print(
                    f"step {step.step} {step.mode}: {batch}; {use.size - use.free - use.evictable} of {use.size} slots"
                )


def serve(options: argparse.Namespace) -> None:
    """Serve OpenAI's API until interrupted."""
    from sglab.serving import server

    with engine_of(options) as engine:
        server.serve(engine, options.host, options.port, watch_pages(engine) if options.watch else None)


def watch_pages(engine: Engine) -> dict[str, Callable[[], str]]:
    """Path -> the text of a page with what the engine has done until now. It is recorded from here on."""
    from sglab.widgets import RadixTree, Scheduler, html_page, recording

    recorded = engine.record()

    def text(write: Callable[..., str]) -> str:
        shown = [Scheduler(recorded), RadixTree(recorded)]
        try:
            return write(shown, f"sglab serve {engine.model_name}")
        finally:
            for widget in shown:
                widget.close()

    return {"/watch": lambda: text(html_page), "/recording.sglab": lambda: text(recording)}
