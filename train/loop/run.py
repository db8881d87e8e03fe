"""What comes before the first step: the options, whether the run's folder is free, and the accelerator."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import torch
from accelerate import Accelerator
from accelerate.tracking import get_available_trackers
from accelerate.utils import (
    DistributedType,
    GradientAccumulationPlugin,
    InitProcessGroupKwargs,
    LoggerType,
    ProjectConfiguration,
    broadcast_object_list,
    set_seed,
)
from huggingface_hub.utils import validate_repo_id

from toybert.train.cli import option
from toybert.train.hub.push import check_login
from toybert.train.loop.checkpoint import RECORD, read_record

Made = TypeVar("Made")
PATIENCE = timedelta(days=1)  # of the processes that wait while the main one reads a large text

# What a value must be, how to tell, and of which options.
Ranges = tuple[tuple[str, Callable[[Any], bool], tuple[str, ...]], ...]
RANGES: Ranges = (
    ("at least 1", lambda x: x >= 1, ("epochs", "batch_size", "gradient_accumulation_steps")),
    (
        "at least 0",
        lambda x: x >= 0,
        ("muon_learning_rate", "weight_decay", "max_grad_norm", "checkpoint_every", "seed"),
    ),
    ("above 0", lambda x: x > 0, ("learning_rate",)),
    ("at least 0 and below 1", lambda x: 0 <= x < 1, ("dropout", "warmup_ratio")),
)


@dataclass(kw_only=True)
class LoopOptions:
    """Holds the options that pre-training and fine-tuning share."""

    output_dir: str = option("The run's folder, which becomes a complete, loadable model repository.")
    epochs: int = option("Passes over the training rows.")
    batch_size: int = option("Rows in a batch, on each process.", 32)
    learning_rate: float = option("AdamW's peak learning rate.")
    muon_learning_rate: float = option("Muon's peak learning rate, for the layers' matrices; 0 leaves them to AdamW.")
    weight_decay: float = option("AdamW's weight decay, of matrices only.", 0.01)
    schedule: str = option("linear (a warm-up, then down to 0) or constant.", "linear")
    warmup_ratio: float = option("The share of the steps that warm up.", 0.06)
    dropout: float = option("Dropout during this run; config.json keeps its own.")
    max_grad_norm: float = option("Clip gradients to this norm; 0 clips none.", 1.0)
    gradient_accumulation_steps: int = option("Batches in a step of the optimiser.", 1)
    seed: int = option("The seed of the weights, the order, the masks and the dropout.", 0)
    checkpoint_every: int = option("Steps between checkpoints; 0 saves one at the end of each epoch.", 0)
    resume: bool = option("Go on with the run in --output-dir from its last checkpoint.", False)
    report_to: str | None = option("Also log to tensorboard, wandb or another of accelerate's trackers.", None)
    push_to_hub: bool = option("Upload the run's folder when the run is done.", False)
    repo_id: str | None = option("The repository to upload to, such as me/toybert.", None)

    @cached_property
    def sources(self) -> Mapping[str, list[str]]:
        """The hashes of the files that the run learns from, by their names; a resume wants them unchanged."""
        return {}

    def __post_init__(self) -> None:
        """Refuses options that no run can have.

        Raises:
            ValueError: a number is out of its range, the schedule or the tracker is unknown, or an upload has no
                repository to go to. The message names the option by its field.
        """
        check_ranges(self, RANGES)
        if self.schedule not in ("linear", "constant"):
            raise ValueError(f"schedule must be linear or constant, got {self.schedule!r}")
        trackers = [name for name in LoggerType.list() if name != "all"]
        if self.report_to and self.report_to not in trackers:
            raise ValueError(f"report_to must be one of {', '.join(trackers)}, got {self.report_to!r}")
        if self.push_to_hub and not self.repo_id:
            raise ValueError("push_to_hub needs a repo_id, such as me/toybert")
        if self.repo_id:
            validate_repo_id(self.repo_id)


def check_ranges(options: LoopOptions, ranges: Ranges) -> None:
    """Refuses an option out of its range; the message names it and its limits."""
    for limits, fits, names in ranges:
        for name in names:
            if not fits(getattr(options, name)):
                raise ValueError(f"{name} must be {limits}, got {getattr(options, name)!r}")


def configuration(options: LoopOptions, accelerator: Accelerator) -> dict[str, Any]:
    """Returns what has to be the same for a run to be resumed: the options, and the contents of what it learns from."""
    free = ("output_dir", "resume", "report_to", "push_to_hub", "repo_id", "corpus", "model")
    asked = {name: value for name, value in asdict(options).items() if name not in free}
    return {**asked, "num_processes": accelerator.num_processes, "sources": options.sources}


def start(options: LoopOptions) -> Accelerator:
    """Makes the Accelerator and claims the output folder, see `make_accelerator` and `claim_folder`."""
    accelerator = make_accelerator(options)
    on_main_process(accelerator, lambda: claim_folder(options, accelerator))
    return accelerator


def on_main_process(accelerator: Accelerator, make: Callable[[], Made]) -> Made:
    """Calls a function on the main process alone, and returns on every process what it returned there.

    Raises:
        Exception: what the function raises, on the main process; the others end without a word.
    """
    outcome: list[Any] = [None, False]
    failure = None
    if accelerator.is_main_process:
        try:
            outcome = [make(), True]
        except Exception as error:
            failure = error
    broadcast_object_list(outcome)
    if failure:
        raise failure
    if not outcome[1]:
        time.sleep(1)  # a launcher stops all processes when one has ended: the main one has something to say first
        raise SystemExit(1)
    return outcome[0]


def claim_folder(options: LoopOptions, accelerator: Accelerator) -> None:
    """Sees on the main process that the output folder is free for this run, or holds this run where it is resumed.

    Raises:
        ValueError: the folder holds a run and `resume` is off, or holds one of another configuration.
        FileNotFoundError: there is no run to resume.
    """
    if options.push_to_hub:
        check_login()  # rather now than when all is done
    folder = Path(options.output_dir)
    if options.resume:
        if not (folder / RECORD).is_file():
            raise FileNotFoundError(f"there is no run to resume in {folder}: it has no {RECORD}")
        began, asked = read_record(folder), configuration(options, accelerator)
        for name, found in asked.pop("sources").items():
            if began["sources"].get(name) != found:
                raise ValueError(f"{name} is no longer the file that the run in {folder} was started with")
        for name, value in asked.items():
            if began.get(name) != value:
                raise ValueError(
                    f"the run in {folder} was started with {name}={began.get(name)} and can't go on with {value}"
                )
        options.repo_id = options.repo_id or began.get("repo_id")  # for the card
    elif folder.is_file():
        raise ValueError(f"{folder} is a file: give another --output-dir")
    elif folder.is_dir() and any(not path.name.startswith("run.") for path in folder.iterdir()):
        raise ValueError(f"{folder} is not empty: resume the run in it with --resume, or give another --output-dir")


def shares_a_cpu() -> bool:
    """Tells whether this is one of several processes on a CPU: accelerate's launcher does not pass `use_cpu` on."""
    return "LOCAL_RANK" in os.environ and not torch.accelerator.is_available()


def make_accelerator(options: LoopOptions) -> Accelerator:
    """Makes an Accelerator of all the processes that were started, with the tracker that was asked for, and seeds them.

    Raises:
        ValueError: the tracker's package is missing, some processes have not joined, or FSDP would split matrices that
            Muon needs whole.
    """
    if options.report_to and LoggerType(options.report_to) not in get_available_trackers():
        raise ValueError(f"report_to={options.report_to} needs a package that is not installed: install it")
    folder = Path(options.output_dir)
    accelerator = Accelerator(
        cpu=shares_a_cpu(),
        # All steps have the same number of batches (see LengthBatchSampler), and `train` counts them.
        gradient_accumulation_plugin=GradientAccumulationPlugin(
            num_steps=options.gradient_accumulation_steps, sync_with_dataloader=False
        ),
        log_with=options.report_to,
        project_config=ProjectConfiguration(str(folder), logging_dir=str(folder / "logs")),
        kwargs_handlers=[InitProcessGroupKwargs(timeout=PATIENCE)],
    )
    started = int(os.environ.get("WORLD_SIZE", 1))
    if accelerator.num_processes < started:
        raise ValueError(
            f"{started} processes were started, and accelerate has joined {accelerator.num_processes}: "
            "set ACCELERATE_USE_CPU=true if they are to share a CPU"
        )
    if accelerator.distributed_type == DistributedType.FSDP and options.muon_learning_rate:
        raise ValueError("Muon needs whole matrices and FSDP spreads them: give --muon-learning-rate 0")
    set_seed(options.seed)
    return accelerator
