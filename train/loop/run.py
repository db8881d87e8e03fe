"""What comes before the first step: the options, whether the run's folder is free, and the accelerator."""

import contextlib
import math
import os
import resource
import sys
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
from toybert.train.loop.lock import hold

Made = TypeVar("Made")
Ranges = tuple[tuple[str, Callable[[Any], bool], tuple[str, ...]], ...]  # what a value must be, its check, its options
MOST = 2**32 - 1  # of any whole number: the largest seed that all libraries take
LONGEST_WAIT = timedelta(days=1)  # for the other processes, while the main one reads a large text
TRACKERS = [name for name in LoggerType.list() if name != "all"]
NOT_NEGATIVE = ("muon_learning_rate", "weight_decay", "max_grad_norm", "checkpoint_every", "seed")
RANGES: Ranges = (
    ("at least 1", lambda x: x >= 1, ("epochs", "batch_size", "gradient_accumulation_steps")),
    ("at least 0", lambda x: x >= 0, NOT_NEGATIVE),
    ("at least 0 and below 1", lambda x: 0 <= x < 1, ("dropout", "warmup_ratio")),
    ("above 0", lambda x: x > 0, ("learning_rate",)),
    ("a name in UTF-8", lambda x: x.encode(errors="ignore").decode() == x, ("output_dir",)),
    ("linear or constant", lambda x: x in ("linear", "constant"), ("schedule",)),
    (f"one of {', '.join(TRACKERS)}", lambda x: not x or x in TRACKERS, ("report_to",)),
)


@dataclass(kw_only=True)
class LoopOptions:
    """Holds the options that pre-training and fine-tuning share."""

    output_dir: str = option("Folder for the run, which becomes a complete model repository.")
    epochs: int  # this, the learning rates and the dropout have a help and a default in each script
    batch_size: int = option("Rows in a batch, on each process.", 32)
    learning_rate: float
    muon_learning_rate: float
    weight_decay: float = option("AdamW's weight decay; biases and norms have none.", 0.01)
    schedule: str = option("Learning rate over the run: linear (up, then down to 0) or constant.", "linear")
    warmup_ratio: float = option("Share of the steps in which the learning rate rises.", 0.06)
    dropout: float
    max_grad_norm: float = option("Clip gradients to this norm; 0 turns clipping off.", 1.0)
    gradient_accumulation_steps: int = option("Batches to add up for each step of the optimiser.", 1)
    seed: int = option("Seed of the weights, the order of the rows, the masks and the dropout.", 0)
    checkpoint_every: int = option("Steps between checkpoints; 0 saves one after each epoch.", 0)
    checkpoint_on_signal: bool = option("Save a checkpoint when SIGTERM or SIGHUP ends the run.", False)
    resume: bool = option("Continue the run in --output-dir from its last checkpoint.", False)
    report_to: str | None = option("Also log to a tracker, such as tensorboard or wandb.", None)
    push_to_hub: bool = option("Upload the run's folder to the Hub at the end.", False)
    repo_id: str | None = option("Repository on the Hub to upload to, such as me/toybert.", None)

    @cached_property
    def sources(self) -> Mapping[str, list[str]]:
        """The hashes of the files that the run learns from, by name; they must not change before a resume."""
        return {}

    def __post_init__(self) -> None:
        """Refuses invalid options with a ValueError that names the option."""
        check_numbers(self)
        check_ranges(self, RANGES)
        if self.push_to_hub and not self.repo_id:
            raise ValueError("push_to_hub needs a repo_id, such as me/toybert")
        if self.repo_id:
            validate_repo_id(self.repo_id)


def check_numbers(options: Any) -> None:
    """Refuses an option that is NaN, infinite or absurdly large; the message names it."""
    for name, value in vars(options).items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{name} must be a finite number, got {value}")
        if isinstance(value, int) and abs(value) > MOST:
            raise ValueError(f"{name} must be at most {MOST:,}, got {value:,}")


def check_ranges(options: LoopOptions, ranges: Ranges) -> None:
    """Refuses an option out of its range; the message names it and its limits."""
    for limits, fits, names in ranges:
        for name in names:
            if not fits(getattr(options, name)):
                raise ValueError(f"{name} must be {limits}, got {getattr(options, name)!r}")


def configuration(options: LoopOptions, accelerator: Accelerator) -> dict[str, Any]:
    """Returns what must stay the same for a run to be resumed: its options, and the hashes of what it learns from."""
    free = ["output_dir", "resume", "checkpoint_on_signal", "report_to", "push_to_hub", "repo_id", "corpus", "model"]
    free += ["quote_formulas"]
    asked = {name: value for name, value in asdict(options).items() if name not in free}
    return {**asked, "num_processes": accelerator.num_processes, "sources": options.sources}


def start(options: LoopOptions) -> Accelerator:
    """Makes the accelerator of a run, and claims its folder."""
    accelerator = make_accelerator(options)
    on_main_process(accelerator, lambda: claim_folder(options, accelerator))
    return accelerator


def on_main_process(accelerator: Accelerator, make: Callable[[], Made]) -> Made:
    """Calls a function on the main process alone, and returns on every process what it returned there.

    If it raises, the main process raises the same error, and the others exit silently.
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
        time.sleep(1)  # a launcher stops all processes once one ends: the main one must print its error first
        raise SystemExit(1)
    return outcome[0]


def claim_folder(options: LoopOptions, accelerator: Accelerator) -> None:
    """Refuses a folder that is not free, or a resume with other options; called on the main process alone."""
    if options.push_to_hub:
        check_login()  # fail now, not after the training
    folder = Path(options.output_dir)
    hold(folder)
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
                    f"the run in {folder} was started with {name}={began.get(name)} and can't be resumed with {value}"
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
    """Makes an Accelerator for all processes that were started, with the requested tracker, and seeds them.

    It refuses a tracker whose package is missing, processes that have not joined, and Muon with FSDP.
    """
    if options.report_to and LoggerType(options.report_to) not in get_available_trackers():
        raise ValueError(f"report_to={options.report_to} needs a package that is not installed: install it")
    accelerator = Accelerator(
        cpu=shares_a_cpu(),
        # All steps have the same number of batches (see LengthBatchSampler), and `train` counts them.
        gradient_accumulation_plugin=GradientAccumulationPlugin(
            num_steps=options.gradient_accumulation_steps, sync_with_dataloader=False
        ),
        log_with=options.report_to,
        project_config=ProjectConfiguration(options.output_dir, logging_dir=str(Path(options.output_dir) / "logs")),
        kwargs_handlers=[InitProcessGroupKwargs(timeout=LONGEST_WAIT)],
    )
    started = int(os.environ.get("WORLD_SIZE", 1))
    if accelerator.num_processes < started:
        raise ValueError(
            f"{started} processes were started, but accelerate joined {accelerator.num_processes}: "
            "set ACCELERATE_USE_CPU=true if they are to share a CPU"
        )
    if accelerator.distributed_type == DistributedType.FSDP:
        if options.muon_learning_rate:
            raise ValueError("Muon needs whole matrices, and FSDP shards them: give --muon-learning-rate 0")
        if accelerator.state.fsdp_plugin.state_dict_type.name != "FULL_STATE_DICT":
            raise ValueError("torch pickles sharded checkpoints: set fsdp_state_dict_type to FULL_STATE_DICT")
    set_seed(options.seed)
    return accelerator


def peak_memory_mb() -> float:
    """Returns the peak memory of this process in MB."""
    with contextlib.suppress(OSError):  # on Linux, `ru_maxrss` of a child begins at what its parent held
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
