"""How fast are adapters side by side, against PEFT that trains one after the other, and what does one cost?

A GPT-2 with random weights, LoRA of rank 8 on all linear layers of its blocks, AdamW, the same number of
documents and tokens per step, in one process. PEFT trains as its documentation shows: a model with an
adapter, `loss.backward()`, `optimizer.step()`. Ours trains 16 adapters through one base, in steps captured as
a CUDA graph, and compiled by torch.compile as well. On a CPU, the base is tiny, and steps are launched one by
one. Speed is tokens per second of training, all adapters together, of CPU time on a CPU; memory is the peak
of training.

    python benchmarks/adapters_against_peft.py [--device cuda] [--models 16] [--compiled-peft]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

from leakscope.adapter_recipe import AdapterRecipe, Lora
from leakscope.train.adapters.choice import language_stack
from leakscope.train.launch import steps_of
from leakscope.train.loop import Inputs, inputs_from
from leakscope.train.losses import PLAIN
from leakscope.train.orders import epochs_of
from leakscope.train.plan import BatchPlan
from leakscope.train.steps import Epoch
from leakscope.types import Design, Records

SEED = 0
TARGETS = ["c_attn", "c_proj", "c_fc"]


@dataclass(frozen=True)
class Size:
    """A base, and how much a model sees at each step."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    positions: int
    batch: int
    steps: int
    precision: str


SIZES = {
    "cpu": Size(2, 64, 2, 1000, 64, 4, 6, "float32"),
    "cuda": Size(12, 768, 12, 50257, 256, 8, 12, "bfloat16"),
}


def saved_base(size: Size, folder: Path) -> str:
    """A GPT-2 with random weights."""
    torch.manual_seed(SEED)
    config = GPT2Config(
        n_layer=size.layers,
        n_embd=size.width,
        n_head=size.heads,
        vocab_size=size.vocabulary,
        n_positions=size.positions,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
    )
    GPT2LMHeadModel(config).save_pretrained(folder)
    return str(folder)


def documents(size: Size) -> Records:
    """Random documents, all of full length: twice what one model sees in an epoch."""
    n_records = 2 * size.batch * size.steps
    rng = np.random.default_rng(SEED)
    tokens = rng.integers(size.vocabulary, size=(n_records, size.positions)).astype(np.int32)
    ids = np.array([f"document {i}" for i in range(n_records)])
    return Records(tokens, np.zeros(n_records, dtype=np.int64), ids, class_names=("document",))


def settled(device: torch.device) -> None:
    """Waits for the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timed(work: Callable[[], None], device: torch.device) -> tuple[float, int]:
    """Seconds, and the largest number of bytes held on the device meanwhile (0 on a CPU)."""
    settled(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    started = clock()
    work()
    settled(device)
    seconds = clock() - started
    return seconds, torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0


def peft_speed(size: Size, base: str, inputs: Inputs, n_adapters: int, compiled: bool) -> dict[str, object]:
    """Tokens per second of PEFT, one adapter after the other; the first steps of each are not timed."""
    from peft import LoraConfig, get_peft_model

    device, seconds, peak = inputs.x.device, [], 0
    for adapter in range(n_adapters):
        model = GPT2LMHeadModel.from_pretrained(base).to(device)
        lora = LoraConfig(r=8, lora_alpha=16, target_modules=TARGETS, fan_in_fan_out=True)
        adapted = get_peft_model(model, lora).train()
        own = [p for p in adapted.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(own, lr=2e-4, fused=True)
        run = torch.compile(adapted, dynamic=False) if compiled else adapted
        rows = torch.randperm(len(inputs.x), generator=torch.Generator().manual_seed(adapter))

        def step(at: int, run: Any = run, optimizer: Any = optimizer, rows: Tensor = rows) -> None:
            batch = inputs.x[rows[at * size.batch : (at + 1) * size.batch].to(device)].long()
            with torch.autocast(device.type, torch.bfloat16, enabled=size.precision == "bfloat16"):
                loss = run(input_ids=batch, labels=batch).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

        def epoch(step: Callable[[int], None] = step) -> None:
            for at in range(size.steps):
                step(at)

        for at in range(3):
            step(at)
        taken, held = timed(epoch, device)
        seconds.append(taken)
        peak = max(peak, held)
    tokens = size.steps * size.batch * size.positions
    return {
        "adapters": n_adapters,
        "tokens_per_second": round(tokens / float(np.median(seconds))),
        "peak_bytes": peak,
    }


def our_speed(size: Size, base: str, inputs: Inputs, n_models: int, compiled: bool) -> dict[str, object]:
    """Tokens per second of adapters side by side; the first epoch is not timed."""
    recipe = AdapterRecipe(
        base=base,
        lora=Lora(targets=tuple(TARGETS)),
        batch_size=size.batch,
        precision=size.precision,  # type: ignore[arg-type]
        epochs=4,
    )
    rng = np.random.default_rng(SEED)
    in_mask = np.stack([rng.permutation(len(inputs.x)) < size.steps * size.batch for _ in range(n_models)])
    plan = BatchPlan(Design(in_mask), np.arange(n_models), recipe.batch_size, SEED)
    stack = language_stack(recipe, inputs, plan.models, SEED, PLAIN)
    notes: list[str] = []
    started = time.perf_counter()
    if compiled:
        stack.network.compile()
    steps = steps_of(stack, inputs, plan, recipe, notes.append)
    orders = (order for order, _ in epochs_of(plan, recipe, 0, recipe.epochs, steps.ranks_draws))

    def epoch() -> None:
        steps.run_epoch(Epoch(next(orders), [recipe.lr] * plan.steps))

    epoch()
    settled(inputs.x.device)
    starting = time.perf_counter() - started
    rounds = [timed(epoch, inputs.x.device) for _ in range(recipe.epochs - 1)]
    tokens = n_models * size.steps * size.batch * size.positions
    numbers = sum(p.numel() for p in stack.parameters) // n_models
    return {
        "models": n_models,
        "compiled": compiled,
        "launched_by": type(steps).__name__,
        "notes": notes,
        "tokens_per_second": round(tokens / float(np.median([taken for taken, _ in rounds]))),
        "seconds_to_start": round(starting, 1),
        "parameters_of_an_adapter": numbers,
        "bytes_of_an_adapter_with_gradient_and_moments": 16 * numbers,
        "peak_bytes": max(held for _, held in rounds),
    }


def main() -> None:
    """Measures, and prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=sorted(SIZES), default="cpu")
    parser.add_argument("--models", type=int, default=16)
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile")
    parser.add_argument("--compiled-peft", action="store_true", help="time PEFT compiled, too")
    options = parser.parse_args()
    size, device = SIZES[options.device], torch.device(options.device)
    is_cuda = device.type == "cuda"
    inputs = inputs_from(documents(size), device)
    with tempfile.TemporaryDirectory() as folder:
        base = saved_base(size, Path(folder))
        peft = peft_speed(size, base, inputs, 3, compiled=False)
        sizes = sorted({1, 4, options.models})
        ours = [our_speed(size, base, inputs, n, compiled=False) for n in sizes]
        if is_cuda and not options.no_compile:
            ours.append(our_speed(size, base, inputs, options.models, compiled=True))
        compiled_peft = [peft_speed(size, base, inputs, 1, compiled=True)] if options.compiled_peft else []
    alone, together = ours[0], ours[len(sizes) - 1]
    extra = (int(together["peak_bytes"]) - int(alone["peak_bytes"])) // max(1, options.models - 1)  # type: ignore[call-overload]
    report = {
        "device": torch.cuda.get_device_name(device) if is_cuda else "cpu",
        "torch": str(torch.__version__),
        "base": vars(size),
        "peft_one_after_the_other": peft,
        "compiled_peft": compiled_peft,
        "side_by_side": ours,
        "times_peft": [round(run["tokens_per_second"] / peft["tokens_per_second"], 2) for run in ours],  # type: ignore[operator]
        "bytes_of_one_more_model_in_training": extra,
    }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
