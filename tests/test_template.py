"""Claims about the recipe for a user's own model: the renamed copy trains, is published and loads, and is all new."""

import json
import os
import re
import shutil
import subprocess

import pytest
import torch
from helpers import ROOT, SMALL, run_alone
from loopback import Hub
from test_loading import make_corpora
from transformers import AutoModelForPreTraining, AutoTokenizer, BertConfig, BertForPreTraining

pytestmark = pytest.mark.slow
SECTION = "\n## The recipe\n"
OLD, NEW = b"toybert", "tinyfoo"
TEXT = "the cat [MASK] ."

# The folder that holds the copy, under the name that an installation would give it, comes first in the path.
TRAIN = """
import os, runpy
hub, packages, bert, converted, *arguments = sys.argv[1:]
os.environ |= {"HF_ENDPOINT": hub, "HF_TOKEN": "hf_me", "HF_HUB_OFFLINE": "0", "NO_PROXY": "*", "no_proxy": "*"}
sys.path.insert(0, packages)
sys.argv = ["pretrain", *arguments]
runpy.run_module("tinyfoo.train.pretrain", run_name="__main__", alter_sys=True)
from tinyfoo.train.convert import convert
convert(bert, converted)
facts["old"] = sorted(name for name in sys.modules if name.lower().startswith("toybert"))
"""

LOAD = """
import importlib.util, os
os.environ |= {"HF_ENDPOINT": sys.argv[1], "HF_HUB_OFFLINE": "0", "NO_PROXY": "*", "no_proxy": "*"}
import torch
from transformers import AutoModelForPreTraining, AutoTokenizer

model = AutoModelForPreTraining.from_pretrained("me/tinyfoo", trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained("me/tinyfoo", trust_remote_code=True)
with torch.no_grad():
    facts["logits"] = model(**tokenizer(sys.argv[2], return_tensors="pt")).prediction_logits.tolist()
facts["classes"] = [type(model).__name__, type(tokenizer).__name__, type(model.config).__name__]
facts["model type"] = model.config.model_type
facts["installed"] = [name for name in HIDDEN if importlib.util.find_spec(name)]
"""


def recipe():
    """Returns the commands of docs/template.md: the first shell block of that section."""
    section = (ROOT / "docs" / "template.md").read_text(encoding="utf-8").partition(SECTION)[2].partition("\n## ")[0]
    return re.search(r"```bash\n(.*?)```", section, re.DOTALL)[1]


def names_left(files):
    """Returns the files, by name and content, in which the old name is left."""
    return [name for name, content in files.items() if OLD in (name.encode() + content).lower()]


@pytest.fixture(scope="module")
def top(tmp_path_factory):
    if not (ROOT / ".git").exists():
        pytest.skip("this copy of the repository is no git checkout")
    return tmp_path_factory.mktemp("template")


@pytest.fixture(scope="module")
def copy(top):
    """Copies what git tracks, and applies the recipe."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    copy = top / "packages" / NEW
    for name in filter(None, listed.split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    subprocess.run(["bash", "-euo", "pipefail", "-c", recipe()], cwd=copy, env=environment, check=True)
    return copy


@pytest.fixture(scope="module")
def found(top, copy):
    """Runs the copy; returns what it left, what it uploaded, and what another process loaded."""
    make_corpora(top)
    BertForPreTraining(BertConfig(vocab_size=20, **SMALL)).save_pretrained(top / "bert")
    run, repo = top / "run", f"me/{NEW}"
    options = ["--corpus", top / "stories", "--output-dir", run, "--epochs", "1", "--batch-size", "8"]
    with Hub() as hub:
        arguments = [hub.endpoint, copy.parent, top / "bert", top / "converted", *options]
        trained = run_alone(TRAIN, *arguments, "--push-to-hub", "--repo-id", repo, home=top / "trainer")
        uploaded = {name: file.content for name, file in hub.repos[repo].files().items()}
        loaded = run_alone(LOAD, hub.endpoint, TEXT, home=top / "reader", without=("toybert", NEW))
    return {"run": run, "trained": trained, "uploaded": uploaded, "loaded": loaded}


def test_the_recipe_leaves_no_old_name_in_any_file(copy):
    files = {path.relative_to(copy).as_posix(): path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    assert {f"modeling_{NEW}.py", "model.safetensors", "tests/test_model.py", "train/pretrain.py"} <= files.keys()
    assert names_left(files) == []


def test_a_name_left_over_would_be_noticed():
    assert names_left({"a": b"x = ToyBERT", "toybert.py": b"", "c": b"tinyfoo"}) == ["a", "toybert.py"]


def test_git_tracks_every_file_of_the_copy(copy):
    command = ["git", "status", "--porcelain", "--ignored"]
    status = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=True).stdout
    assert [line for line in status.splitlines() if line[:1] != "A" and "__pycache__" not in line] == []


def test_the_copy_trains_by_its_own_code_alone(found):
    assert json.loads((found["run"] / "history.json").read_text(encoding="utf-8"))["train"][-1]["step"] == 2
    assert found["trained"]["old"] == []


def test_what_the_copy_uploads_has_no_old_name(found):
    assert {f"modeling_{NEW}.py", "config.json", "README.md", "model.safetensors"} <= found["uploaded"].keys()
    assert names_left(found["uploaded"]) == []


def test_what_the_copy_uploads_loads_by_its_id_without_any_package(found):
    loaded = found["loaded"]
    assert loaded["installed"] == []
    assert loaded["classes"] == ["TinyFooForPreTraining", "TinyFooTokenizer", "TinyFooConfig"]
    assert loaded["model type"] == NEW
    model = AutoModelForPreTraining.from_pretrained(found["run"], trust_remote_code=True)
    tokenizer = AutoTokenizer.from_pretrained(found["run"], trust_remote_code=True)
    with torch.no_grad():
        expected = model(**tokenizer(TEXT, return_tensors="pt")).prediction_logits
    torch.testing.assert_close(torch.tensor(loaded["logits"]), expected)


def test_what_the_copy_converts_has_its_name(found, top):
    config = json.loads((top / "converted" / "config.json").read_text(encoding="utf-8"))
    assert config["architectures"] == ["TinyFooForPreTraining"]
