"""The training loop that pre-training and fine-tuning share, on accelerate, with exact resume."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType, set_seed, tqdm
from torch import nn
from transformers import PreTrainedTokenizerBase

from toybert.train.data.batches import Batches
from toybert.train.hub.escape import in_line
from toybert.train.hub.folders import save_hub_folder
from toybert.train.hub.push import push
from toybert.train.loop.best import Best
from toybert.train.loop.checkpoint import (
    RECORD,
    last_of,
    load_checkpoint,
    naming_the_last_checkpoint,
    noting_signals,
    save_checkpoint,
    write_whole,
)
from toybert.train.loop.losses import Meter, shares_of, weighed
from toybert.train.loop.optim import make_optimizers, make_schedulers
from toybert.train.loop.run import LoopOptions, configuration


@dataclass
class Progress:
    """Holds how far a run has come and what it has logged; saved and restored with each checkpoint."""

    epoch: int = 0
    batch: int = 0  # batches of this epoch that are done
    step: int = 0  # steps of the optimiser that are done
    seconds: float = 0.0
    train: list[dict[str, float]] = field(default_factory=list)
    validation: list[dict[str, float]] = field(default_factory=list)

    def state_dict(self) -> dict[str, Any]:
        return asdict(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def train(
    model: nn.Module,
    batches: Batches,
    options: LoopOptions,
    accelerator: Accelerator,
    evaluate: Callable[[nn.Module], dict[str, float]],
    best: Best | None = None,
) -> Progress:
    """Trains a model and returns the history of its losses.

    Args:
        evaluate: returns a model's figures on the validation split; it is called at the end of each epoch.
        best: keeps the weights of the best epoch, and tells when to stop.

    Raises:
        ValueError: the loss is not finite.
    """
    folder, total_steps = Path(options.output_dir), options.epochs * batches.steps_an_epoch
    optimizers = make_optimizers(model, options.learning_rate, options.weight_decay, options.muon_learning_rate)
    model, *optimizers = accelerator.prepare(model, *optimizers)
    divisor = batches.accumulation * accelerator.num_processes
    schedulers = make_schedulers(optimizers, options.schedule, round(options.warmup_ratio * total_steps), total_steps)
    progress, meter = Progress(), Meter(accelerator, max(1, total_steps // 100), folder)
    parts = (progress, meter, batches, *schedulers)
    set_seed(options.seed, device_specific=True)  # processes drop out different units
    begin(options, accelerator, parts)

    def is_done() -> bool:
        return progress.epoch == options.epochs or (best is not None and best.is_over(progress.validation))

    began = time.perf_counter() - progress.seconds
    on_signal = options.checkpoint_on_signal
    with naming_the_last_checkpoint(folder), noting_signals(on_signal) as noted, make_bar(total_steps, progress) as bar:
        while not is_done():
            model.train()
            for step in batches.steps(progress.epoch, skip=progress.batch):
                for batch, share in zip(step, shares_of(step, accelerator), strict=True):
                    with accelerator.accumulate(model):
                        losses = weighed(model(**batch), share)
                        accelerator.backward(losses["loss"] * divisor)  # accelerate and DDP divide by it
                        if accelerator.sync_gradients and options.max_grad_norm:
                            accelerator.clip_grad_norm_(model.parameters(), options.max_grad_norm)
                        for optimizer in optimizers:
                            optimizer.step()
                            optimizer.zero_grad()
                    meter.add(losses)
                for scheduler in schedulers:
                    scheduler.step()
                progress.batch += len(step)
                progress.step += 1
                progress.seconds = time.perf_counter() - began
                bar.update()
                if entry := meter.end_step(progress.step, progress.epoch):
                    progress.train.append(entry)
                    report(accelerator, bar, "train", entry, options.epochs)
                # All processes stop after the same step, whichever of them was told to.
                stops = on_signal and bool(accelerator.reduce(torch.tensor(len(noted), device=accelerator.device)))
                if stops or (options.checkpoint_every and progress.step % options.checkpoint_every == 0):
                    save_checkpoint(accelerator, model, progress.step, folder, parts)
                if stops:
                    raise KeyboardInterrupt
            progress.epoch, progress.batch = progress.epoch + 1, 0
            figures = {"step": progress.step, "epoch": progress.epoch, **evaluate(model)}
            progress.validation.append(figures)
            report(accelerator, bar, "validation", figures, options.epochs)
            progress.seconds = time.perf_counter() - began
            if best:
                best.keep(accelerator, model, progress.validation)
            if not options.checkpoint_every or is_done():
                save_checkpoint(accelerator, model, progress.step, folder, parts)
    return progress


def begin(options: LoopOptions, accelerator: Accelerator, parts: Sequence[Any]) -> None:
    """Loads a resumed run's last checkpoint, or records a new run's configuration, and starts the tracker."""
    folder = Path(options.output_dir)
    if options.resume:
        load_checkpoint(accelerator, folder, parts)
    elif accelerator.is_main_process:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / RECORD, {**configuration(options, accelerator), "repo_id": options.repo_id})
    if options.report_to:
        told = {name: value for name, value in asdict(options).items() if isinstance(value, (int, float, str))}
        told = {name: in_line(value) if isinstance(value, str) else value for name, value in told.items()}
        accelerator.init_trackers("toybert", told)


def make_bar(total_steps: int, progress: Progress) -> Any:
    """Makes a progress bar, which writes to a log file only every ten seconds."""
    every = 0.2 if sys.stderr.isatty() else 10
    return tqdm(
        total=total_steps, initial=progress.step, desc="Training", unit="step", smoothing=0.05, mininterval=every
    )


def report(accelerator: Accelerator, bar: Any, kind: str, entry: dict[str, float], epochs: int) -> None:
    """Shows losses on the bar, or the figures of an epoch above it, and passes them on to the tracker."""
    figures = {name: value for name, value in entry.items() if name not in ("step", "epoch")}
    if kind == "train":
        bar.set_postfix({name: f"{value:.3f}" for name, value in figures.items()}, refresh=False)
    elif accelerator.is_main_process:
        shown = ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in figures.items())
        bar.write(f"epoch {entry['epoch']}/{epochs}: {shown}")
    accelerator.log({f"{kind}/{name}": value for name, value in figures.items()}, step=int(entry["step"]))


def finish(
    accelerator: Accelerator,
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    progress: Progress,
    options: LoopOptions,
    plot: Callable[[Progress, Path], None],
    restored: dict[str, Any],
) -> None:
    """Saves a run into its folder: the model that loads anywhere, the history of its losses and their picture.

    If saving the model fails, a resumed run only has to save it again.
    """
    folder = Path(options.output_dir)
    for tracker in accelerator.trackers:
        tracker.finish()
    # FSDP spreads the weights over the processes, and all of them take part in bringing the weights together.
    sharded = accelerator.distributed_type == DistributedType.FSDP
    weights = accelerator.get_state_dict(model) if sharded else None
    if accelerator.is_main_process:
        try:
            save_hub_folder(accelerator.unwrap_model(model), tokenizer, folder, weights, **restored)
        except Exception as error:  # as in save_checkpoint
            reason = " ".join(str(error).split())
            raise OSError(f"could not save the model to {folder} ({reason}): {last_of(folder)}") from error
        write_whole(folder / "history.json", progress.state_dict(), indent=1)
        plot(progress, folder / "figures")
        accelerator.print(f"saved the model to {folder}")
        if options.push_to_hub:
            push(folder, str(options.repo_id))
    accelerator.wait_for_everyone()
