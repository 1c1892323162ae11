"""Trains the model that ships with sglab: a byte-level DeepSeek-V3 of 2.6 M parameters, in minutes on one GPU.

python tools/tiny/train.py --out OUT              # writes OUT/tiny.pt (weights and config) and OUT/loss.json
python tools/tiny/export.py OUT sglab/models/tiny # makes the checkpoint of it

The corpus is generated here (corpus.py); nothing is fetched. Equal arguments give equal corpora and equal batches.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch
from corpus import BOS, EOS, shard, tokens
from model import CONFIG, Gate, TinyModel
from torch.nn import functional

SHARD = 1_000_000
"""Bytes of text that one process generates at a time."""
VALIDATION_SEED = 10_000_000
BALANCE_RATE = 1e-3
PROMPTS = ("Once there was", "Mia had three apples. Tom gave Mia two", "12 + 7 =", "Repeat: abc wxy pq\n", "# ")


class Data:
    """Windows of the corpus that begin where a text does."""

    def __init__(self, seeds: range, window: int, device: str) -> None:
        with ProcessPoolExecutor() as pool:
            shards = list(pool.map(shard, seeds, [SHARD] * len(seeds)))
        ids, starts = tokens([text for texts in shards for text in texts])
        self.ids = torch.tensor(ids, dtype=torch.int16).to(device)
        self.starts = torch.tensor([one for one in starts if one + window < len(ids)])
        self.window = torch.arange(window + 1, device=device)

    def batch(self, size: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets, int64 [size, window]."""
        chosen = self.starts[torch.randint(len(self.starts), (size,), generator=generator)]
        rows = self.ids[chosen.to(self.ids.device)[:, None] + self.window].long()
        return rows[:, :-1], rows[:, 1:]


def learning_rate(progress: float, peak: float, warmup: float) -> float:
    """A linear warm-up, then a cosine down to a fiftieth."""
    if progress < warmup:
        return peak * progress / warmup
    return peak * (0.02 + 0.98 * (1 + math.cos(math.pi * (progress - warmup) / (1 - warmup))) / 2)


def loss_of(model: torch.nn.Module, inputs: torch.Tensor, targets: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    with torch.autocast(inputs.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(inputs)
    return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


@torch.no_grad()
def complete(model: TinyModel, prompt: str, count: int = 160) -> str:
    """Greedy text after a prompt."""
    model.eval()
    ids = [BOS, *prompt.encode()]
    device = next(model.parameters()).device
    for _ in range(count):
        token = int(model(torch.tensor([ids], device=device))[0, -1].argmax())
        if token == EOS:
            break
        ids.append(token)
    model.train()
    return bytes(one for one in ids if one < 256).decode("utf-8", errors="replace")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--minutes", type=float, default=9.0, help="ends earlier than --steps; the rate decays by both")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--window", type=int, default=2048)
    parser.add_argument("--shards", type=int, default=64, help="megabytes of text")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    dtype = torch.bfloat16 if args.device == "cuda" else torch.float32
    began = time.monotonic()
    data = Data(range(args.seed, args.seed + args.shards), args.window, args.device)
    held_out = Data(range(VALIDATION_SEED, VALIDATION_SEED + 1), args.window, args.device)
    model = TinyModel().to(args.device)
    parameters = sum(one.numel() for one in model.parameters())
    print(f"{parameters:,} parameters, {len(data.ids):,} tokens, made in {time.monotonic() - began:.0f} s", flush=True)
    run = torch.compile(model) if args.compile else model
    decayed = [one for one in model.parameters() if one.dim() > 1]
    others = [one for one in model.parameters() if one.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.95), fused=args.device == "cuda")
    gates = [one for one in model.modules() if isinstance(one, Gate)]
    generator = torch.Generator().manual_seed(args.seed)

    def validate() -> float:
        model.eval()
        fixed = torch.Generator().manual_seed(1)
        with torch.no_grad():
            losses = [loss_of(model, *held_out.batch(8, fixed), dtype).item() for _ in range(4)]
        model.train()
        return sum(losses) / len(losses)

    args.out.mkdir(parents=True, exist_ok=True)
    curve, step, progress, began = [], 0, 0.0, time.monotonic()
    while progress < 1:
        rate = learning_rate(progress, args.lr, warmup=0.04)
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = loss_of(run, *data.batch(args.batch, generator), dtype)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        for gate in gates:
            gate.balance(BALANCE_RATE * (1 - progress))
        step += 1
        if step % 25 == 0 or step == 1:
            seconds = time.monotonic() - began
            point = {"step": step, "tokens": step * args.batch * args.window, "seconds": round(seconds, 1)}
            point |= {"loss": round(loss.item(), 4), "lr": rate}
            if step % 250 == 0:
                point["validation"] = round(validate(), 4)
            curve.append(point)
            print(point, flush=True)
        progress = max(step / args.steps, (time.monotonic() - began) / (60 * args.minutes))
    curve.append({"step": step, "tokens": step * args.batch * args.window, "validation": round(validate(), 4)})
    made_with = {name: value for name, value in vars(args).items() if name not in ("out", "device")}
    record = {"unit": "nats per byte", "parameters": parameters, "made_with": made_with, "curve": curve}
    (args.out / "loss.json").write_text(json.dumps(record, indent=1) + "\n")
    torch.save({"config": CONFIG, "state": model.state_dict()}, args.out / "tiny.pt")
    for prompt in PROMPTS:
        print("---\n" + complete(model, prompt), flush=True)


if __name__ == "__main__":
    main()
