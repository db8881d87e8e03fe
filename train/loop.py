"""The training loop that pre-training and fine-tuning share: accelerate's, with exact resume."""

import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import MISSING, asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.tracking import get_available_trackers
from accelerate.utils import (
    DistributedType,
    GradientAccumulationPlugin,
    LoggerType,
    ProjectConfiguration,
    set_seed,
    tqdm,
)
from huggingface_hub.utils import validate_repo_id
from torch import nn
from transformers import PreTrainedTokenizerBase

from toybert.train.batches import Batches, DatasetBatches, shares_of, weighed
from toybert.train.checkpoint import (
    RECORD,
    digest,
    last_of,
    load_checkpoint,
    naming_the_last_checkpoint,
    read_record,
    save_checkpoint,
    write_whole,
)
from toybert.train.hub import check_login, push, save_hub_folder
from toybert.train.meter import Meter
from toybert.train.optim import make_optimizers, warmup_then_linear


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
    report_to: str | None = option("Log to tensorboard, wandb or another of accelerate's trackers too.", None)
    push_to_hub: bool = option("Upload output_dir when the run is done.", False)
    repo_id: str | None = option("Where to upload, such as me/toybert.", None)

    def sources(self) -> list[Path]:
        """Gives the files that the run learns from; a resume wants them unchanged."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        """Refuses what no run can do.

        Raises:
            ValueError: a number is out of its range, the schedule or the tracker is unknown, or there is nowhere to
                upload to.
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
        trackers = [name for name in LoggerType.list() if name != "all"]
        if self.report_to and self.report_to not in trackers:
            raise ValueError(f"report_to must be one of {', '.join(trackers)}, got {self.report_to!r}")
        if self.push_to_hub and not self.repo_id:
            raise ValueError("push_to_hub needs a repo_id, such as me/toybert")
        if self.repo_id:
            validate_repo_id(self.repo_id)


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
    free = ("output_dir", "resume", "report_to", "push_to_hub", "repo_id", "corpus", "model")
    asked = {name: value for name, value in asdict(options).items() if name not in free}
    sources: dict[str, list[str]] = {}  # files of one name may lie in several folders
    for path in options.sources():
        sources.setdefault(path.name, []).append(digest(path))
    return {**asked, "num_processes": accelerator.num_processes, "sources": sources}


def start(options: LoopOptions) -> Accelerator:
    """Makes the Accelerator, seeds everything, and sees that the output folder is free for this run.

    Raises:
        ValueError: the folder holds a run and `resume` is off, or holds one of another configuration; or see
            `make_accelerator`.
        FileNotFoundError: there is no run to resume.
    """
    accelerator = make_accelerator(options)
    if options.push_to_hub and accelerator.is_main_process:
        check_login()  # rather now than when all is done
    set_seed(options.seed)
    folder = Path(options.output_dir)
    record = folder / RECORD
    if options.resume:
        if not record.is_file():
            raise FileNotFoundError(f"there is no run to resume in {folder}: it has no {RECORD}")
        began = read_record(folder)
        asked = configuration(options, accelerator)
        for name, found in asked.pop("sources").items():
            if began["sources"].get(name) != found:
                raise ValueError(f"{name} is no longer the file that the run in {folder} was started with")
        for name, value in asked.items():
            if began.get(name) != value:
                raise ValueError(
                    f"the run in {folder} was started with {name}={began.get(name)}, and can't go on with {value}"
                )
        options.repo_id = options.repo_id or began.get("repo_id")  # for the card
    elif folder.is_file():
        raise ValueError(f"{folder} is a file: give another --output-dir")
    elif folder.is_dir() and any(not path.name.startswith("run.") for path in folder.iterdir()):
        raise ValueError(f"{folder} is not empty: resume the run in it with --resume, or give another --output-dir")
    accelerator.wait_for_everyone()  # before the folder is written to
    return accelerator


def shares_a_cpu() -> bool:
    """Tells whether this is one of several processes on a CPU: accelerate's launcher does not hand on `use_cpu`."""
    return "LOCAL_RANK" in os.environ and not torch.accelerator.is_available()


def make_accelerator(options: LoopOptions) -> Accelerator:
    """Makes an Accelerator of all the processes that were started, with the tracker that was asked for.

    Raises:
        ValueError: the tracker's package is missing, not all processes have found each other, or FSDP is to spread what
            Muon needs whole.
    """
    if options.report_to and LoggerType(options.report_to) not in get_available_trackers():
        raise ValueError(f"report_to={options.report_to} needs a package that is not installed")
    folder = Path(options.output_dir)
    accelerator = Accelerator(
        cpu=shares_a_cpu(),
        # Every step has as many batches as any other (see LengthBatchSampler), and `train` counts them.
        gradient_accumulation_plugin=GradientAccumulationPlugin(
            num_steps=options.gradient_accumulation_steps, sync_with_dataloader=False
        ),
        log_with=options.report_to,
        project_config=ProjectConfiguration(str(folder), logging_dir=str(folder / "logs")),
    )
    started = int(os.environ.get("WORLD_SIZE", 1))
    if accelerator.num_processes < started:
        raise ValueError(
            f"{started} processes were started and accelerate joins {accelerator.num_processes}: "
            "set ACCELERATE_USE_CPU=true if they are to share a CPU"
        )
    if accelerator.distributed_type == DistributedType.FSDP and options.muon_learning_rate:
        raise ValueError("Muon needs whole matrices and FSDP spreads them: give --muon-learning-rate 0")
    return accelerator


def train(
    model: nn.Module,
    dataset: Any,
    options: LoopOptions,
    accelerator: Accelerator,
    evaluate: Callable[[nn.Module], dict[str, float]],
    describe: str = "Training",
    is_over: Callable[[], bool] = lambda: False,
) -> Progress:
    """Trains a model and gives the history of its losses.

    Args:
        dataset: gives whole batches (see `data.as_is`), by the row numbers that `lengths` sorts; or `Batches`.
        evaluate: gives the validation figures of a model; called at the end of each epoch.
        is_over: asked before each epoch whether the run is to end early.

    Raises:
        ValueError: the loss is no longer a number.
    """
    folder = Path(options.output_dir)
    batches = dataset
    if not isinstance(dataset, Batches):
        batches = DatasetBatches(dataset, options.batch_size, accelerator, options.seed)
    optimizers = make_optimizers(
        model,
        learning_rate=options.learning_rate,
        weight_decay=options.weight_decay,
        muon_learning_rate=options.muon_learning_rate,
    )
    model, *optimizers = accelerator.prepare(model, *optimizers)
    total_steps = options.epochs * batches.steps_an_epoch
    divisor = batches.accumulation * accelerator.num_processes
    schedulers = make_schedulers(optimizers, options, total_steps)
    progress, meter = Progress(), Meter(accelerator, max(1, total_steps // 100), folder)
    accelerator.register_for_checkpointing(progress, meter, batches, *schedulers)
    set_seed(options.seed, device_specific=True)  # processes drop out different units
    begin(options, accelerator)
    began = time.perf_counter() - progress.seconds
    with naming_the_last_checkpoint(folder), make_bar(total_steps, progress.step, describe) as bar:
        for epoch in range(progress.epoch, options.epochs):
            if is_over():
                break
            model.train()
            for step in batches.steps(epoch, skip=progress.batch):
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
                if entry := meter.end_step(progress.step, epoch):
                    progress.train.append(entry)
                    report(accelerator, bar, "train", entry, options.epochs)
                if options.checkpoint_every and progress.step % options.checkpoint_every == 0:
                    save_checkpoint(accelerator, model, progress.step, folder)
            figures = evaluate(model)
            progress.validation.append({"step": progress.step, "epoch": epoch + 1, **figures})
            report(accelerator, bar, "validation", progress.validation[-1], options.epochs)
            progress.epoch, progress.batch = epoch + 1, 0
            progress.seconds = time.perf_counter() - began
            if not options.checkpoint_every or progress.epoch == options.epochs or is_over():
                save_checkpoint(accelerator, model, progress.step, folder)
    return progress


def begin(options: LoopOptions, accelerator: Accelerator) -> None:
    """Restores what was registered for checkpoints, or writes down what run this is; and starts the tracker."""
    folder = Path(options.output_dir)
    if options.resume:
        load_checkpoint(accelerator, folder)
    elif accelerator.is_main_process:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / RECORD, {**configuration(options, accelerator), "repo_id": options.repo_id})
    if options.report_to:
        told = {name: value for name, value in asdict(options).items() if isinstance(value, (int, float, str))}
        accelerator.init_trackers("toybert", told)


def make_bar(total_steps: int, step: int, describe: str) -> Any:
    """Makes a progress bar; a log file gets a line of it now and then."""
    every = 0.2 if sys.stderr.isatty() else 10
    return tqdm(total=total_steps, initial=step, desc=describe, unit="step", smoothing=0.05, mininterval=every)


def report(accelerator: Accelerator, bar: Any, kind: str, entry: dict[str, float], epochs: int) -> None:
    """Shows an entry of the log on the bar, or above it at the end of an epoch, and hands it to the tracker."""
    figures = {name: value for name, value in entry.items() if name not in ("step", "epoch")}
    if kind == "train":
        bar.set_postfix({name: f"{value:.3f}" for name, value in figures.items()}, refresh=False)
    elif accelerator.is_main_process:
        shown = ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in figures.items())
        bar.write(f"epoch {entry['epoch']}/{epochs}: {shown}")
    accelerator.log({f"{kind}/{name}": value for name, value in figures.items()}, step=int(entry["step"]))


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
    """Leaves a run in its folder: the model that loads anywhere, the history of its losses and their picture.

    Raises:
        OSError: the model could not be saved; a resume does only that.
    """
    folder = Path(options.output_dir)
    for tracker in accelerator.trackers:
        tracker.finish()
    # FSDP's weights are spread over the processes, and all have to take part in bringing them together.
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
