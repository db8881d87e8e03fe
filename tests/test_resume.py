"""Claims about a run that is interrupted, in any way, at any moment: nothing is lost, and what is left is whole."""

import errno
import hashlib
import io
import json
import multiprocessing
import os
import pickle
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import assert_same_run, history
from safetensors.torch import load_file

import toybert.train.loop.checkpoint as checkpoint
import toybert.train.loop.loop as loop
from toybert.train.loop.checkpoint import checkpoints, save_checkpoint
from toybert.train.pretrain import PretrainOptions, train_pretraining


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Writes 32 documents of 3 pairs: 192 rows, 6 steps an epoch."""
    folder = tmp_path_factory.mktemp("stories")
    rows = [
        {"sentences": [f"the cat number {i} is {word}." for word in ("red", "old", "here", "big")]} for i in range(32)
    ]
    for split in ("train", "validation", "test"):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(folder)


def pretrain(folder: Path, stories: str, **options: Any) -> None:
    torch.set_num_threads(1)
    settings = {"epochs": 2, "dropout": 0.1, "muon_learning_rate": 0.0, "checkpoint_every": 2, **options}
    train_pretraining(PretrainOptions(output_dir=str(folder), corpus=stories, **settings))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, stories: str) -> Path:
    """Trains for 12 steps without an interruption."""
    folder = tmp_path_factory.mktemp("run") / "whole"
    pretrain(folder, stories)
    return folder


@pytest.fixture
def begun(whole: Path, tmp_path: Path) -> Path:
    """Copies that run as it was before its end: the checkpoints of its last two steps, and no model."""
    folder = Path(shutil.copytree(whole, tmp_path / "begun"))
    (folder / "model.safetensors").unlink()
    return folder


def edit(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def reseal(path: Path, files: Any = None, **contents: bytes) -> None:
    """Writes files into a checkpoint, and a manifest that has their hashes or other `files`."""
    manifest = json.loads((path / "manifest.json").read_text())
    for name, content in contents.items():
        if ".." not in name:
            (path / name).write_bytes(content)
        manifest["files"][name] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    manifest["files"] = manifest["files"] if files is None else files
    (path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def edit_new(path: Path) -> None:
    path.write_bytes(b"")


FAULTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (lambda path: (path / "optimizer.bin").unlink(), "it has no optimizer.bin"),
    "short": (lambda path: edit(path / "model.safetensors", lambda old: old[:-1]), "model.safetensors has"),
    "corrupt": (
        lambda path: edit(path / "random_states_0.pkl", lambda old: old[:99] + bytes([old[99] ^ 1]) + old[100:]),
        "random_states_0.pkl is not what was written",
    ),
    "unsealed": (lambda path: (path / "manifest.json").unlink(), "it has no readable manifest.json"),
    "odd": (lambda path: edit(path / "manifest.json", lambda old: b"[]"), "it has no readable manifest.json"),
    "deep": (lambda path: edit(path / "manifest.json", lambda old: b"[" * 10**5), "it has no readable manifest.json"),
    "crafted": (lambda path: reseal(path, files=["a"]), "it has no readable manifest.json"),
    "unsized": (lambda path: reseal(path, files={"state.json": 3}), "it has no readable manifest.json"),
    "empty": (lambda path: reseal(path, files={}), "it has model.safetensors, which was not written with it"),
    "outside": (lambda path: reseal(path, **{"../../run.json": b"{}"}), "it has no ../../run.json"),
    "added": (lambda path: edit_new(path / "more.bin"), "it has more.bin, which was not written with it"),
    "foreign": (
        lambda path: edit(path / "manifest.json", lambda old: old.replace(b'"run": "', b'"run": "0')),
        "it belongs to a run of another configuration",
    ),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_is_used(
    begun: Path, whole: Path, stories: str, capsys: pytest.CaptureFixture, kind: str
) -> None:
    before, last = checkpoints(begun)
    damage, reason = FAULTS[kind]
    damage(last)
    pretrain(begun, stories, resume=True)
    said = capsys.readouterr().out
    assert f"passing over {last}: {reason}" in said
    assert f"resuming from {before}" in said
    assert_same_run(begun, whole)
    assert checkpoint.fault_of(last, begun) is None  # it was written anew


class Planted:
    """An object that leaves a file behind when somebody unpickles it."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("write", [pickle.dump, torch.save])
def test_nothing_that_is_planted_in_a_checkpoint_is_run(
    begun: Path, stories: str, tmp_path: Path, write: Callable[..., None]
) -> None:
    """In each of its files and in some that accelerate would look for, with a manifest that fits."""
    mark, content = tmp_path / "mark", io.BytesIO()
    write({"step": Planted(mark), "state": {}}, content)
    before, last = checkpoints(begun)
    shutil.rmtree(before)
    names = {path.name for path in last.iterdir()} - {"manifest.json"}
    assert {"model.safetensors", "optimizer.bin", "random_states_0.pkl", "state.json"} <= names
    for name in [*names, "custom_checkpoint_0.pkl", "scaler.pt", "pytorch_model.bin", ".metadata"]:
        reseal(Path(shutil.copytree(last, last.with_name("step-0000099"))), **{name: content.getvalue()})
        shutil.move(last, tmp_path / "aside")
        with pytest.raises(ValueError, match="none of the 1 checkpoints"):
            pretrain(begun, stories, resume=True)
        assert not mark.exists(), name
        shutil.rmtree(last.with_name("step-0000099"))
        shutil.move(tmp_path / "aside", last)
    pickle.loads(pickle.dumps(Planted(mark)))
    assert mark.exists()  # what was planted does work


def test_a_run_without_a_whole_checkpoint_is_not_begun_again(begun: Path, stories: str) -> None:
    for path in checkpoints(begun):
        (path / "optimizer.bin").unlink()
    with pytest.raises(ValueError, match=r"none of the 2 checkpoints in "):
        pretrain(begun, stories, resume=True)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"sources": 3}'])
def test_a_record_that_is_none_is_refused_in_one_sentence(begun: Path, stories: str, text: str) -> None:
    (begun / "run.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"run\.json is no record of a run"):
        pretrain(begun, stories, resume=True)


def test_another_runs_later_checkpoints_do_not_crowd_out_its_own(begun: Path, whole: Path, stories: str) -> None:
    before, last = checkpoints(begun)
    for step in (90, 91):
        FAULTS["foreign"][0](Path(shutil.copytree(last, last.with_name(f"step-{step:07d}"))))
    shutil.rmtree(last)
    pretrain(begun, stories, resume=True)
    assert_same_run(begun, whole)
    assert {before.name, last.name} <= {path.name for path in checkpoints(begun)}


def interrupted_at(step: int, error: BaseException, monkeypatch: pytest.MonkeyPatch, where: Any, name: str) -> None:
    """Lets a function raise at its call number `step`."""
    original, calls = getattr(where, name), iter(range(1, 1000))

    def call(*arguments: Any, **options: Any) -> Any:
        if next(calls) == step:
            raise error
        return original(*arguments, **options)

    monkeypatch.setattr(where, name, call)


def test_an_interruption_names_the_last_checkpoint(
    stories: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch, message in ((1, "there is no checkpoint yet"), (4, r"the last checkpoint is .*step-0000002; --resume")):
        with monkeypatch.context() as patch:
            interrupted_at(batch, KeyboardInterrupt(), patch, loop, "weighed")
            with pytest.raises(KeyboardInterrupt, match=f"interrupted: {message}"):
                pretrain(tmp_path / f"{batch}", stories)


@contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    """Lets every write beyond a size fail, as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("size", [100_000, 3_000_000])  # too small for the weights, and for the optimiser's states
def test_a_full_disk_leaves_the_last_checkpoint_and_no_half_of_another(
    begun: Path, whole: Path, stories: str, size: int
) -> None:
    before, last = checkpoints(begun)
    assert (before / "model.safetensors").stat().st_size < 3_000_000 < (before / "optimizer.bin").stat().st_size
    shutil.rmtree(last)
    with (
        files_no_longer_than(size),
        pytest.raises(
            OSError, match=r"could not write .*step-0000012 \(.* free there\): the last checkpoint is .*0010$"
        ),
    ):
        pretrain(begun, stories, resume=True)
    assert [path.name for path in (begun / "checkpoints").iterdir()] == [before.name]
    pretrain(begun, stories, resume=True)
    assert_same_run(begun, whole)


def test_a_disk_that_is_full_when_the_model_is_saved_leaves_the_last_checkpoint(
    begun: Path, whole: Path, stories: str
) -> None:
    shutil.rmtree(begun / "figures")
    with (
        files_no_longer_than(100_000),
        pytest.raises(OSError, match=r"could not save the model to .* \(.*\): the last checkpoint is .*0012$"),
    ):
        pretrain(begun, stories, resume=True)
    assert not (begun / "model.unfinished").exists()
    assert not (begun / "model.safetensors").exists()
    pretrain(begun, stories, resume=True)
    assert_same_run(begun, whole)


def test_a_disk_that_is_full_when_the_checkpoint_is_sealed_leaves_none(
    stories: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    interrupted_at(1, full, monkeypatch, checkpoint, "seal")
    with pytest.raises(OSError, match=r"\(\[Errno 28\] No space left on device; .*\): there is no checkpoint yet"):
        pretrain(tmp_path / "run", stories)
    assert list((tmp_path / "run" / "checkpoints").iterdir()) == []


def test_a_loss_that_is_no_number_stops_its_step_and_keeps_the_weights_before_it(
    stories: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weighed, calls = loop.weighed, iter(range(1, 1000))

    def spoil(*arguments: Any) -> dict[str, torch.Tensor]:
        losses = weighed(*arguments)
        return {**losses, "loss": losses["loss"] * torch.nan} if next(calls) == 5 else losses

    monkeypatch.setattr(loop, "weighed", spoil)
    with pytest.raises(ValueError, match=r"nan at step 5: .*step-0000004"):
        pretrain(tmp_path / "run", stories)
    last = checkpoints(tmp_path / "run")[-1]
    assert checkpoint.fault_of(last, tmp_path / "run") is None
    assert all(weight.isfinite().all() for weight in load_file(last / "model.safetensors").values())


def test_on_a_device_that_works_ahead_the_step_is_still_the_right_one(tmp_path: Path) -> None:
    class Ahead:
        device = torch.device("meta")

    meter = loop.Meter(Ahead(), 1000, tmp_path)  # type: ignore[arg-type]
    for step in range(1, 20):
        meter.add({"loss": torch.tensor(torch.inf if step == 15 else 1.0)})
        assert meter.end_step(step, 0) is None
    meter.add({"loss": torch.tensor(1.0)})
    with pytest.raises(ValueError, match="inf at step 15"):
        meter.end_step(20, 0)


def test_weights_that_are_no_numbers_are_never_written(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 2)
    with torch.no_grad():
        model.weight[0, 0] = torch.inf
    with pytest.raises(ValueError, match=r"step 7: .* no checkpoint yet"):
        save_checkpoint(None, model, 7, tmp_path)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_the_losses_reach_a_tracker(stories: str, tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    pretrain(tmp_path / "run", stories, report_to="tensorboard")
    events = accumulator.EventAccumulator(str(tmp_path / "run" / "logs" / "toybert"))
    events.Reload()
    logged = [(event.step, event.value) for event in events.Scalars("train/mlm_loss")]
    assert logged == [(entry["step"], pytest.approx(entry["mlm_loss"])) for entry in history(tmp_path / "run")["train"]]
    assert len(events.Scalars("validation/nsp_accuracy")) == 2


def test_a_tracker_that_is_not_there_is_named(stories: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"report_to .* aim, .*'paper'"):
        pretrain(tmp_path / "run", stories, report_to="paper")
    with pytest.raises(ValueError, match=r"report_to=aim .* not installed"):
        pretrain(tmp_path / "run", stories, report_to="aim")


class Runs:
    """Starts runs in processes of their own, from one in which everything is imported already."""

    def __init__(self, folder: Path, stories: str):
        self.folder, self.stories = folder, stories
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["toybert.train.pretrain"])

    def start(self) -> BaseProcess:
        resume = (self.folder / "run.json").is_file()
        options = {"resume": resume, "epochs": 6, "muon_learning_rate": 0.008}
        process = self.context.Process(target=pretrain, args=(self.folder, self.stories), kwargs=options)
        process.start()
        return process

    def finish(self) -> None:
        process = self.start()
        process.join()
        assert process.exitcode == 0


def kill_when(process: BaseProcess, happens: Callable[[], bool]) -> bool:
    """Kills a process as soon as something happens; returns False if it ended before."""
    while process.is_alive():
        if happens():
            process.kill()
            process.join()
            return True
        time.sleep(0.0002)
    assert process.exitcode == 0
    return False


@pytest.mark.slow
def test_a_run_killed_twenty_times_is_bit_for_bit_the_run_never_interrupted(stories: str, tmp_path: Path) -> None:
    """At random moments, in the middle of checkpoints, and while the finished model is saved."""
    undisturbed = Runs(tmp_path / "whole", stories)
    undisturbed.finish()  # starts the server, too
    shutil.rmtree(undisturbed.folder)
    began = time.perf_counter()
    undisturbed.finish()
    duration = time.perf_counter() - began

    chance = random.Random(0)
    kills, torn, tries = 0, 0, 0
    while kills < 20:
        tries += 1
        runs = Runs(tmp_path / f"killed-{tries}", stories)
        alive = True
        while alive and kills < 20:
            process, now = runs.start(), time.perf_counter()
            if kills % 2:  # while the first, second or third checkpoint from here is written, or shortly after
                left, seen, delay = chance.randint(1, 3), set(), chance.choice([0, 0.002, 0.01])

                def writes(runs: Runs = runs, left: int = left, seen: set = seen, delay: float = delay) -> bool:
                    seen.update((runs.folder / "checkpoints").glob("*.unfinished"))
                    return len(seen) >= left and not time.sleep(delay)

                alive = kill_when(process, writes)
                torn += alive and any((runs.folder / "checkpoints").glob("*.unfinished"))
            else:
                moment = now + chance.uniform(0, 0.8 * duration)
                alive = kill_when(process, lambda moment=moment: time.perf_counter() >= moment)
            kills += alive
        runs.finish()
        assert_same_run(runs.folder, undisturbed.folder)
    assert torn >= 5

    (runs.folder / "model.safetensors").unlink()
    assert kill_when(runs.start(), lambda: (runs.folder / "model.unfinished").exists())
    runs.finish()
    assert_same_run(runs.folder, undisturbed.folder)
    assert not list(runs.folder.rglob("*.unfinished"))


HOLDER = """
import sys, time
from pathlib import Path
from toybert.train.loop.lock import hold
hold(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def test_a_folder_has_one_owner_at_a_time_and_a_dead_one_is_none(begun: Path, whole: Path, stories: str) -> None:
    owner = subprocess.Popen([sys.executable, "-c", HOLDER, begun], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "held\n"
    before = {path: path.stat().st_mtime_ns for path in begun.rglob("*")}
    with pytest.raises(ValueError, match=rf"is in use by process {owner.pid} on .* since 20\d\d-"):
        pretrain(begun, stories, resume=True)
    assert {path: path.stat().st_mtime_ns for path in begun.rglob("*")} == before
    owner.kill()
    owner.wait()
    pretrain(begun, stories, resume=True)
    assert_same_run(begun, whole)
    assert not list(begun.glob("run.lock")) + list(begun.glob("run.owner"))


def test_a_folder_that_was_made_for_nothing_is_not_left(stories: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no word of the text occurs"):
        pretrain(tmp_path / "run", stories, min_frequency=10**6)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "saves"), [(signal.SIGTERM, True), (signal.SIGHUP, False)])
def test_a_signal_that_ends_a_run_names_its_last_checkpoint_and_may_save_one_first(
    stories: str, tmp_path: Path, number: int, saves: bool
) -> None:
    sizes = "--epochs 60 --hidden-size 32 --num-hidden-layers 1 --checkpoint-every 20 --muon-learning-rate 0"
    words = [sys.executable, "-m", "toybert.train.pretrain", "--corpus", stories, *sizes.split()]

    def start(name: str, *more: str) -> subprocess.Popen[str]:
        output = ("--output-dir", str(tmp_path / name))
        pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        pipes["preexec_fn"] = lambda: signal.signal(number, signal.SIG_DFL)  # these tests may run under nohup
        return subprocess.Popen([*words, *output, *more], **pipes)

    whole = start("whole")
    run = start("run", *["--checkpoint-on-signal"] * saves)
    while not checkpoints(tmp_path / "run"):
        time.sleep(0.01)
    run.send_signal(number)
    said = run.communicate()[1].splitlines()[-1]
    assert run.returncode == 1
    last = checkpoints(tmp_path / "run")[-1]
    assert said == f"interrupted: the last checkpoint is {last}; --resume continues the run"
    if saves:  # after whichever step it was
        assert checkpoint.fault_of(last, tmp_path / "run") is None
        assert int(last.name.removeprefix("step-")) % 20
    assert start("run", "--resume").wait() == whole.wait() == 0
    assert_same_run(tmp_path / "run", tmp_path / "whole")
