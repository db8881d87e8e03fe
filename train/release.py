"""Trains the checkpoints that the repository ships, and updates its figures, numbers and examples."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from toybert.train import cli
from toybert.train.__main__ import Options, first_free_folder, train_all
from toybert.train.hub.folders import ROOT
from toybert.train.measure.report import blocks

MODEL_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
REPO = 'repo = "me/toybert"'  # how a page's first example begins: the others go on from it
EXAMPLE = re.compile(r"```python\n(?P<code>(?:(?!```).)*)```\n+```text\n(?P<output>.*?)```", re.DOTALL)
# A fresh user has not installed the package: the examples must not need it.
WITHOUT_THE_PACKAGE = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "toybert":
            raise ModuleNotFoundError(f"No module named {name!r}")
sys.meta_path.insert(0, Absent())
"""


def ship(run: Path) -> None:
    """Copies a run's checkpoints, pictures and results to where the repository ships them."""
    for folder in ("sentiment", "figures"):
        (ROOT / folder).mkdir(exist_ok=True)
    for name in (*MODEL_FILES, *(f"sentiment/{name}" for name in MODEL_FILES)):
        shutil.copyfile(run / name, ROOT / name)
    shown = "".join(read_pages().values())
    for picture in [*run.glob("figures/*.png"), *run.glob("sentiment/figures/*.png")]:
        if f"figures/{picture.name}" in shown:
            shutil.copyfile(picture, ROOT / "figures" / picture.name)
    shutil.copyfile(run / "results.json", ROOT / "figures" / "results.json")


def read_pages(root: Path = ROOT) -> dict[str, str]:
    """Reads the card and the pages of docs/, by their paths from the root."""
    paths = [root / "README.md", *sorted(root.glob("docs/*.md"))]
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def write_pages(pages: dict[str, str]) -> None:
    """Writes the card and the pages of docs/."""
    for name, text in pages.items():
        (ROOT / name).write_text(text, encoding="utf-8")


def run_example(code: str) -> str:
    """Runs a Python example offline, without the package, beside a repository `me/toybert`; returns its output."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    if REPO not in code:
        code = f"{REPO}\n{code}"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "me").mkdir()
        (Path(folder) / "me" / "toybert").symlink_to(ROOT, target_is_directory=True)
        script = Path(folder) / "example.py"
        script.write_text(WITHOUT_THE_PACKAGE + code, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, script], cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8"
        )
    if done.returncode:
        raise ValueError(f"an example of the card or of docs/ fails:\n{code}\n{done.stderr}")
    return done.stdout


def replaced(pages: dict[str, str], pattern: str, text: str) -> dict[str, str]:
    """Replaces the pattern's group with a text on the first page that has it; returns the pages."""
    for name, page in pages.items():
        if match := re.search(pattern, page, re.DOTALL):
            return {**pages, name: page[: match.start(1)] + text + page[match.end(1) :]}
    raise ValueError(f"README.md and docs/ have no place for a number that matches {pattern}")


def put(pages: dict[str, str], parts: dict[str, str]) -> dict[str, str]:
    """Puts each part between its markers, on the page that has them; returns the pages."""
    for mark, text in parts.items():
        pages = replaced(pages, rf"<!-- {mark} -->\n(.*?)<!-- /{mark} -->", text + "\n")
    return pages


def refresh(pages: dict[str, str], results: dict[str, Any]) -> dict[str, str]:
    """Replaces the numbers between the markers and in the card's YAML head; returns the pages."""
    pages = put(pages, blocks(results))
    for task, figures in (("masked words", "mlm"), ("next sentence", "nsp"), ("sentiment", "sentiment")):
        pattern = rf"name: Accuracy \({task}\)\n\s+value: ([\d.]+)"
        pages = replaced(pages, pattern, f"{results[figures]['accuracy']:.4f}")
    return pages


def refresh_examples(page: str) -> str:
    """Replaces the output shown below a page's Python examples; returns the page."""
    for match in EXAMPLE.finditer(page):
        block = match[0].replace(f"```text\n{match['output']}```", f"```text\n{run_example(match['code'])}```")
        page = page.replace(match[0], block)
    return page


def refresh_pages() -> None:
    """Updates the card and docs/ to what is shipped."""
    results = json.loads((ROOT / "figures" / "results.json").read_text(encoding="utf-8"))
    write_pages({name: refresh_examples(page) for name, page in refresh(read_pages(), results).items()})


def main() -> None:
    """Trains with the default recipe, ships the result, and refreshes the card and docs/, or does only the last."""
    parser = cli.make_parser(__doc__)
    parser.add_argument("--readme-only", action="store_true", help="Train nothing: only refresh README.md and docs/.")
    if parser.parse_args().readme_only:
        return refresh_pages()
    run = Path(first_free_folder())
    train_all(Options(output_dir=str(run)))
    ship(run)
    refresh_pages()
    print(f"shipped {run}: review the diff before you commit it")


if __name__ == "__main__":
    cli.run(main)
