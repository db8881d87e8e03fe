"""Claims about the repository's files: what may stand at the root, and what may be committed at all."""

import ast
import subprocess
from pathlib import Path

import pytest
from helpers import CODE, ROOT

ALLOWED = {
    *CODE,
    "README.md",
    "LICENSE",
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "model.safetensors",
    "sentiment",
    "figures",
    "docs",
    "train",
    "tests",
    "benchmarks",
    "pyproject.toml",
    ".ci",
    ".gitignore",
    ".gitattributes",
}
PICKLES = {".bin", ".ckpt", ".joblib", ".pickle", ".pkl", ".pt", ".pth"}


@pytest.fixture(scope="module")
def tracked():
    if not (ROOT / ".git").exists():
        pytest.skip("this copy of the repository is no git checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name]


def test_only_the_allowed_names_stand_at_the_root(tracked):
    assert {name.split("/")[0] for name in tracked} <= ALLOWED


def test_the_sentiment_folder_holds_a_checkpoint_and_no_code(tracked):
    names = {name.removeprefix("sentiment/") for name in tracked if name.startswith("sentiment/")}
    assert names <= {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}


def test_no_committed_file_is_over_4_mib(tracked):
    sizes = {name: (ROOT / name).stat().st_size for name in tracked if (ROOT / name).is_file()}
    assert {name: size for name, size in sizes.items() if size > 4 * 2**20} == {}


def test_no_committed_file_is_a_pickle(tracked):
    assert [name for name in tracked if any(name.lower().endswith(suffix) for suffix in PICKLES)] == []


def test_the_hub_files_know_nothing_of_the_training_code():
    for name in CODE:
        for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8"))):
            imported = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                imported += [alias.name for alias in node.names]
            assert not any("train" in module.split(".") for module in imported), (name, imported)


# What a folder of train/ is made of: it knows these, and what one types knows them all.
KNOWN = {
    "corpora": {"cli", "hub", "data", "measure"},  # the best possible answers are measured as a model's are
    "hub": set(),
    "data": {"cli", "hub"},
    "loop": {"cli", "hub", "data"},
    "measure": {"cli", "hub", "data"},
}


def modules_of_train(path: Path) -> set[str]:
    """Returns the parts of train/ that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("toybert.train"):
            parts = (node.module or "").split(".")[2:3]
            found |= set(parts or [alias.name for alias in node.names])
        elif isinstance(node, ast.Import):
            found |= {name.split(".")[2] for alias in node.names if (name := alias.name).startswith("toybert.train.")}
    return found


@pytest.mark.parametrize("folder", KNOWN)
def test_a_folder_of_the_training_code_knows_only_those_below_it(folder: str) -> None:
    files = sorted((ROOT / "train" / folder).glob("*.py"))
    assert files
    for path in files:
        assert modules_of_train(path) <= KNOWN[folder] | {folder}, path.name


def test_every_folder_of_the_training_code_has_its_place_and_says_what_it_is_for() -> None:
    folders = {path.parent.name for path in (ROOT / "train").glob("*/__init__.py")}
    assert folders == KNOWN.keys()
    for folder in folders:
        assert ast.get_docstring(ast.parse((ROOT / "train" / folder / "__init__.py").read_text(encoding="utf-8")))
