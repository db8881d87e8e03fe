"""The training loop that pre-training and fine-tuning share: accelerate's, with exact resume."""

import hashlib
import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import MISSING, asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, skip_first_batches
from accelerate.utils import set_seed, tqdm
from torch import nn
from torch.utils.data import DataLoader
from transformers import PreTrainedTokenizerBase

from toybert.train.data import FinetuneDataset, PretrainDataset, as_is
from toybert.train.hub import push, save_hub_folder
from toybert.train.optim import make_optimizers, warmup_then_linear
from toybert.train.sampler import LengthBatchSampler

LOSSES = ("loss", "mlm_loss", "nsp_loss")  # what the log shows, where the model gives it


def option(help: str, default: Any = MISSING) -> Any:
    """Declares a field of an options class, with the help that the command line shows."""
    return field(default=default, metadata={"help": help})


@dataclass(kw_only=True)
class LoopOptions:
    """Holds what both scripts can be told about a run."""

    output_dir: str = option("The folder that becomes a complete, loadable model repository.")
    epochs: int = option("Passes over the training rows.")
    batch_size: int = option("Rows a batch, on each process.", 32)
    learning_rate: float = option("AdamW's peak learning rate.")
    muon_learning_rate: float = option("Muon's, for the layers' matrices; 0 leaves them to AdamW.")
    weight_decay: float = option("AdamW's decay of matrices.", 0.01)
    schedule: str = option("linear (after a warm-up) or constant.", "linear")
    warmup_ratio: float = option("Share of the steps that warm up.", 0.06)
    dropout: float = option("During this run; config.json keeps its own.")
    max_grad_norm: float = option("Gradients are clipped to this norm; 0: not at all.", 1.0)
    gradient_accumulation_steps: int = option("Batches to a step of the optimiser.", 1)
    seed: int = option("Of the weights, the order, the masks and the dropout.", 0)
    checkpoint_every: int = option("Steps between checkpoints; 0: at each epoch's end.", 0)
    resume: bool = option("Continue the run in output_dir from its last checkpoint.", False)
    push_to_hub: bool = option("Upload output_dir when the run is done.", False)
    repo_id: str | None = option("Where to upload, such as me/toybert.", None)

    def sources(self) -> list[Path]:
        """Gives the files that the run learns from; a resume wants them unchanged."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        """Refuses what no run can do.

        Raises:
            ValueError: a number is out of its range, the schedule is unknown, or there is nowhere to upload to.
        """
        for name in ("epochs", "batch_size", "gradient_accumulation_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("muon_learning_rate", "weight_decay", "max_grad_norm", "checkpoint_every", "seed"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate must be above 0, got {self.learning_rate}")
        for name in ("dropout", "warmup_ratio"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 0 and below 1, got {getattr(self, name)}")
        if self.schedule not in ("linear", "constant"):
            raise ValueError(f"schedule must be linear or constant, got {self.schedule!r}")
        if self.push_to_hub and not self.repo_id:
            raise ValueError("push_to_hub needs a repo_id, such as me/toybert")


@dataclass
class Progress:
    """Holds how far a run has come and what it has logged; saved and restored with each checkpoint."""

    epoch: int = 0
    batch: int = 0  # of this epoch, that have been trained on
    step: int = 0  # of the optimiser
    seconds: float = 0.0
    train: list[dict[str, float]] = field(default_factory=list)
    validation: list[dict[str, float]] = field(default_factory=list)

    def state_dict(self) -> dict[str, Any]:
        return asdict(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def configuration(options: LoopOptions, accelerator: Accelerator) -> dict[str, Any]:
    """Gives what has to be the same for a run to be resumed: the options, and the contents of what it learns from."""
    free = ("output_dir", "resume", "push_to_hub", "repo_id", "corpus", "model")
    asked = {name: value for name, value in asdict(options).items() if name not in free}
    sources = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in options.sources()}
    return {**asked, "num_processes": accelerator.num_processes, "sources": sources}


def start(options: LoopOptions) -> Accelerator:
    """Makes the Accelerator, seeds everything, and sees that the output folder is free for this run.

    Raises:
        ValueError: the folder holds a run and `resume` is off, or holds one of another configuration.
        FileNotFoundError: there is no run to resume.
    """
    accelerator = Accelerator(gradient_accumulation_steps=options.gradient_accumulation_steps)
    set_seed(options.seed)
    folder = Path(options.output_dir)
    record = folder / "run.json"
    if options.resume:
        if not record.is_file():
            raise FileNotFoundError(f"there is no run to resume in {folder}: it has no run.json")
        began = json.loads(record.read_text(encoding="utf-8"))
        asked = configuration(options, accelerator)
        for name, digest in asked.pop("sources").items():
            if began["sources"].get(name) != digest:
                raise ValueError(f"{name} is no longer the file that the run in {folder} was started with")
        for name, value in asked.items():
            if began.get(name) != value:
                raise ValueError(
                    f"the run in {folder} was started with {name}={began.get(name)}, and can't go on with {value}"
                )
    elif folder.is_file():
        raise ValueError(f"{folder} is a file: give another --output-dir")
    elif folder.is_dir() and any(path.name != record.name for path in folder.iterdir()):
        raise ValueError(f"{folder} is not empty: resume the run in it with --resume, or give another --output-dir")
    accelerator.wait_for_everyone()  # before the folder is written to
    return accelerator


def train(
    model: nn.Module,
    dataset: PretrainDataset | FinetuneDataset,
    options: LoopOptions,
    accelerator: Accelerator,
    evaluate: Callable[[nn.Module], dict[str, float]],
    describe: str = "Training",
    is_over: Callable[[], bool] = lambda: False,
) -> Progress:
    """Trains a model and gives the history of its losses.

    Args:
        dataset: gives whole batches (see `data.as_is`), by the row numbers that `lengths` sorts.
        evaluate: gives the validation figures of a model; called at the end of each epoch.
        is_over: asked before each epoch whether the run is to end early.

    Raises:
        ValueError: the loss is no longer a number.
    """
    sampler = LengthBatchSampler(dataset.lengths, options.batch_size, options.seed, dataset.group)
    # A generator of its own: or each new iterator would take a number from the one that dropout draws from,
    # and a resumed epoch, which starts one iterator more, would go on differently.
    loader = DataLoader(dataset, batch_sampler=sampler, collate_fn=as_is, generator=torch.Generator())
    optimizers = make_optimizers(
        model,
        learning_rate=options.learning_rate,
        weight_decay=options.weight_decay,
        muon_learning_rate=options.muon_learning_rate,
    )
    model, loader, *optimizers = accelerator.prepare(model, loader, *optimizers)
    total_steps = options.epochs * math.ceil(len(loader) / options.gradient_accumulation_steps)
    schedulers = make_schedulers(optimizers, options, total_steps)
    progress, meter = Progress(), Meter(accelerator, every=max(1, total_steps // 100))
    accelerator.register_for_checkpointing(progress, meter, *schedulers)
    set_seed(options.seed, device_specific=True)  # processes drop out different units
    folder = Path(options.output_dir)
    if options.resume:
        load_checkpoint(accelerator, folder)
    elif accelerator.is_main_process:
        folder.mkdir(parents=True, exist_ok=True)
        record = json.dumps(configuration(options, accelerator), indent=2)
        (folder / "run.json").write_text(record + "\n", encoding="utf-8")

    began = time.perf_counter() - progress.seconds
    bar = tqdm(
        total=total_steps,
        initial=progress.step,
        desc=describe,
        unit="step",
        smoothing=0.05,
        mininterval=0.2 if sys.stderr.isatty() else 10,  # a log file gets a line now and then
    )
    for epoch in range(progress.epoch, options.epochs):
        if is_over():
            break
        sampler.set_epoch(epoch)
        loader.set_epoch(epoch)  # and so the dataset's
        model.train()
        for batch in skip_first_batches(loader, progress.batch) if progress.batch else loader:
            with accelerator.accumulate(model):
                output = model(**batch)
                accelerator.backward(output.loss)
                if accelerator.sync_gradients and options.max_grad_norm:
                    accelerator.clip_grad_norm_(model.parameters(), options.max_grad_norm)
                for optimizer in optimizers:
                    optimizer.step()
                    optimizer.zero_grad()
            progress.batch += 1
            meter.add(output)
            if accelerator.sync_gradients:
                for scheduler in schedulers:
                    scheduler.step()
                progress.step += 1
                progress.seconds = time.perf_counter() - began
                bar.update()
                meter.log(progress, bar)
                if options.checkpoint_every and progress.step % options.checkpoint_every == 0:
                    save_checkpoint(accelerator, progress, folder)
        figures = evaluate(model)
        progress.validation.append({"step": progress.step, "epoch": epoch + 1, **figures})
        if accelerator.is_main_process:
            shown = ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in figures.items())
            bar.write(f"epoch {epoch + 1}/{options.epochs}: {shown}")
        progress.epoch, progress.batch = epoch + 1, 0
        progress.seconds = time.perf_counter() - began
        if not options.checkpoint_every:
            save_checkpoint(accelerator, progress, folder)
    bar.close()
    return progress


def make_schedulers(
    optimizers: Iterable[Any], options: LoopOptions, total_steps: int
) -> list[torch.optim.lr_scheduler.LambdaLR]:
    """Makes a schedule for each optimiser that accelerate has prepared, stepped once an optimiser step by `train`.

    They are not prepared themselves: accelerate would step them once for every process.
    """
    warmup_steps = round(options.warmup_ratio * total_steps)

    def factor(step: int) -> float:
        return warmup_then_linear(step, warmup_steps, total_steps) if options.schedule == "linear" else 1.0

    return [torch.optim.lr_scheduler.LambdaLR(optimizer.optimizer, factor) for optimizer in optimizers]


def finish(
    accelerator: Accelerator,
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    progress: Progress,
    options: LoopOptions,
    plot: Callable[[Progress, Path], None],
    restored: dict[str, Any],
) -> None:
    """Leaves a run in its folder: the model that loads anywhere, the history of its losses and their picture."""
    folder = Path(options.output_dir)
    if accelerator.is_main_process:
        save_hub_folder(accelerator.unwrap_model(model), tokenizer, folder, **restored)
        (folder / "history.json").write_text(json.dumps(progress.state_dict(), indent=1) + "\n", encoding="utf-8")
        plot(progress, folder / "figures")
        accelerator.print(f"saved the model to {folder}")
        if options.push_to_hub:
            push(folder, str(options.repo_id))
    accelerator.wait_for_everyone()


class Meter:
    """Averages the losses between two entries of the log; only then do they leave the device."""

    def __init__(self, accelerator: Accelerator, every: int):
        self.accelerator, self.every = accelerator, every
        self.sums: dict[str, torch.Tensor | float] = {}
        self.count = 0

    def add(self, output: Any) -> None:
        """Takes the losses of one batch."""
        for name in LOSSES:
            if output.get(name) is not None:
                self.sums[name] = output[name].detach().float() + self.sums.get(name, 0.0)
        self.count += 1

    def log(self, progress: Progress, bar: Any) -> None:
        """Writes an entry when one is due.

        Raises:
            ValueError: the loss is no longer a number.
        """
        if progress.step % self.every:
            return
        means = {name: self.accelerator.reduce(total / self.count, "mean") for name, total in self.sums.items()}
        entry = {name: float(mean) for name, mean in means.items()}
        progress.train.append({"step": progress.step, "epoch": progress.epoch + 1, **entry})
        bar.set_postfix({name: f"{value:.3f}" for name, value in entry.items()}, refresh=False)
        self.sums, self.count = {}, 0
        if not math.isfinite(entry["loss"]):
            raise ValueError(f"the loss is {entry['loss']} at step {progress.step}: try a lower learning rate")

    def state_dict(self) -> dict[str, Any]:
        return {"sums": {name: float(total) for name, total in self.sums.items()}, "count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.sums, self.count = dict(state["sums"]), state["count"]


def save_checkpoint(accelerator: Accelerator, progress: Progress, folder: Path, keep: int = 2) -> None:
    """Saves all that a resume needs under another name, gives it its own once it is whole, keeps the last two."""
    final = folder / "checkpoints" / f"step-{progress.step:07d}"
    unfinished = final.with_suffix(".unfinished")
    if accelerator.is_main_process:
        shutil.rmtree(unfinished, ignore_errors=True)
    accelerator.wait_for_everyone()
    accelerator.save_state(str(unfinished))
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        shutil.rmtree(final, ignore_errors=True)
        os.replace(unfinished, final)
        for old in checkpoints(folder)[:-keep]:
            shutil.rmtree(old)
    accelerator.wait_for_everyone()


def checkpoints(folder: Path) -> list[Path]:
    """Gives the whole checkpoints of a run, the oldest first."""
    return sorted(path for path in (folder / "checkpoints").glob("step-*") if path.suffix != ".unfinished")


def load_checkpoint(accelerator: Accelerator, folder: Path) -> None:
    """Restores the newest checkpoint of a run, or starts it anew if it was interrupted before its first."""
    found = checkpoints(folder)
    if found:
        accelerator.print(f"resuming from {found[-1]}")
        accelerator.load_state(str(found[-1]))
    else:
        accelerator.print(f"{folder} has no checkpoint yet: starting from the beginning")
