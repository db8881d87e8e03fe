"""Claims about several processes: the committed configurations start them, and their number does not change a run."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate.commands.config.config_args import load_config_from_file
from helpers import ROOT
from safetensors.torch import load_file

from toybert import modeling_toybert
from toybert.train.data.batches import LengthBatchSampler
from toybert.train.loop.losses import label_counts, weighed
from toybert.train.pretrain import PretrainOptions, train_pretraining

CONFIGS = ROOT / "train" / "configs"


@pytest.mark.parametrize("rows", [96, 90, 66, 3])
def test_the_parts_of_a_batch_are_even_and_together_the_batch(rows: int) -> None:
    lengths = np.random.default_rng(0).integers(5, 30, rows)
    whole = list(LengthBatchSampler(lengths, 32, seed=1))
    sampler = LengthBatchSampler(lengths, 32, seed=1, parts=4)
    parts = list(sampler)
    assert len(parts) == len(sampler) == 4 * len(whole)
    for index, batch in enumerate(whole):
        mine = parts[4 * index : 4 * index + 4]
        assert {row for part in mine for row in part} == set(batch)
        assert sum(map(len, mine)) == max(len(batch), 4)
        assert max(map(len, mine)) - min(map(len, mine)) <= 1


def test_weighed_losses_add_up_to_the_mean_over_all_labels() -> None:
    words, rows = [torch.rand(3), torch.rand(9)], [torch.rand(2), torch.rand(2)]
    batches = [
        {"labels": torch.tensor([[5] * len(word) + [-100] * (10 - len(word))]), "next_sentence_label": torch.ones(2)}
        for word in words
    ]
    counts = torch.stack([label_counts(batch) for batch in batches])
    assert counts.tolist() == [[3, 2], [9, 2]]
    outputs = [
        {"loss": a.mean() + b.mean(), "mlm_loss": a.mean(), "nsp_loss": b.mean()}
        for a, b in zip(words, rows, strict=True)
    ]
    parts = [weighed(*pair) for pair in zip(outputs, counts / counts.sum(0), strict=True)]
    torch.testing.assert_close(sum(part["mlm_loss"] for part in parts), torch.cat(words).mean())
    torch.testing.assert_close(sum(part["nsp_loss"] for part in parts), torch.cat(rows).mean())
    torch.testing.assert_close(sum(part["loss"] for part in parts), torch.cat(words).mean() + torch.cat(rows).mean())


def test_numbers_to_regress_on_all_count() -> None:
    assert label_counts({"labels": torch.tensor([-100.0, 3.0])}).tolist() == [2]


def test_accelerate_reads_the_committed_configurations() -> None:
    configs = {path.name: load_config_from_file(str(path)) for path in CONFIGS.glob("*.yaml")}
    found = {name: (each.distributed_type.value, each.use_cpu, each.num_processes) for name, each in configs.items()}
    assert found == {
        "cpu_two_processes.yaml": ("MULTI_GPU", True, 2),
        "ddp.yaml": ("MULTI_GPU", False, 8),
        "fsdp.yaml": ("FSDP", False, 8),
    }
    assert hasattr(modeling_toybert, configs["fsdp.yaml"].fsdp_config["fsdp_transformer_layer_cls_to_wrap"])


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Writes 41 documents, 246 rows: neither the training batches nor the evaluation's come out even."""
    folder = tmp_path_factory.mktemp("stories")
    names = [a + b for a in "abcdefg" for b in "hijkmn"][:41]
    rows = [
        {"sentences": [f"the cat {name} {'and so on ' * (i % 4)}is {word}." for word in ("red", "old", "here", "big")]}
        for i, name in enumerate(names)
    ]
    for split in ("train", "validation", "test"):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(folder)


def start(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Starts two processes as the README says."""
    command = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", CONFIGS / "cpu_two_processes.yaml"]
    return subprocess.run(
        [*command, "-m", "toybert.train.pretrain", *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )


def launch(*arguments: str) -> str:
    """Lets two processes run to their end, and returns what they print."""
    done = start(*arguments)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def history(folder: Path) -> dict[str, Any]:
    return {k: v for k, v in json.loads((folder / "history.json").read_text()).items() if k not in ("seconds", "batch")}


@pytest.mark.slow
def test_one_and_two_processes_with_the_same_global_batch_make_the_same_run(stories: str, tmp_path: Path) -> None:
    common = {"corpus": stories, "epochs": 2, "dropout": 0.0}
    for name, batch_size, accumulation in (("1x32", 32, 1), ("1x16x2", 16, 2)):
        sizes = {"batch_size": batch_size, "gradient_accumulation_steps": accumulation}
        train_pretraining(PretrainOptions(output_dir=str(tmp_path / name), **sizes, **common))
    for name, batch_size, accumulation in (("2x16", "16", "1"), ("2x8x2", "8", "2")):
        sizes = ("--batch-size", batch_size, "--gradient-accumulation-steps", accumulation)
        folder = f"{tmp_path / name}"
        said = launch("--output-dir", folder, "--corpus", stories, "--epochs", "2", "--dropout", "0", *sizes)
        assert "training on 2 x cpu" in said
        assert said.count("saved the model to") == 1
    expected = history(tmp_path / "1x32")
    assert len(expected["train"]) == 16  # 2 epochs of 7 whole batches and one of 22 rows
    for name in ("1x16x2", "2x16", "2x8x2"):
        found = history(tmp_path / name)
        for kind in ("train", "validation"):
            assert len(found[kind]) == len(expected[kind])
            for entry, other in zip(found[kind], expected[kind], strict=True):
                assert entry == pytest.approx(other, abs=1e-4), (name, entry["step"])


@pytest.mark.slow
def test_two_processes_resume_to_the_very_same_run(stories: str, tmp_path: Path) -> None:
    """With dropout, which differs by process, and a checkpoint between two entries of the log."""
    arguments = (
        "--corpus",
        stories,
        "--epochs",
        "26",
        "--dropout",
        "0.1",
        "--batch-size",
        "16",
        "--checkpoint-every",
        "67",
    )
    launch("--output-dir", f"{tmp_path / 'whole'}", *arguments)
    resumed = Path(shutil.copytree(tmp_path / "whole", tmp_path / "resumed"))
    shutil.rmtree(resumed / "checkpoints" / "step-0000208")
    (resumed / "model.safetensors").unlink()
    said = launch("--output-dir", f"{resumed}", *arguments, "--resume")
    assert f"resuming from {resumed / 'checkpoints' / 'step-0000201'}" in said
    assert history(resumed) == history(tmp_path / "whole")
    weights, others = (load_file(folder / "model.safetensors") for folder in (resumed, tmp_path / "whole"))
    assert all(torch.equal(weights[name], others[name]) for name in others)


@pytest.mark.slow
def test_what_is_wrong_with_the_text_ends_both_processes_with_one_message(stories: str, tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_bytes(b"fine\ncaf\xe9\n")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine").touch()
    for corpus, folder, message in (
        (str(tmp_path / "bad.txt"), tmp_path / "run", "error: line 2 of "),
        (stories, tmp_path / "taken", f"error: {tmp_path / 'taken'} is not empty"),
    ):
        done = start("--output-dir", f"{folder}", "--corpus", corpus)
        assert done.returncode != 0
        assert done.stderr.count(message) == 1
        assert done.stderr.count("error: ") == 1


@pytest.mark.slow
def test_two_processes_stream_each_its_own_part_and_resume(stories: str, tmp_path: Path) -> None:
    arguments = ("--corpus", stories, "--streaming", "--epochs", "2", "--max-steps", "16", "--checkpoint-every", "5")
    launch("--output-dir", f"{tmp_path / 'whole'}", *arguments)
    resumed = Path(shutil.copytree(tmp_path / "whole", tmp_path / "resumed"))
    shutil.rmtree(resumed / "checkpoints" / "step-0000016")
    launch("--output-dir", f"{resumed}", *arguments, "--resume")
    assert history(resumed) == history(tmp_path / "whole")
    weights, others = (load_file(folder / "model.safetensors") for folder in (resumed, tmp_path / "whole"))
    assert all(torch.equal(weights[name], others[name]) for name in others)
