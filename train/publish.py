"""Uploads the repository to the Hub: the model, its card, and all that it takes to retrain and test it."""

import json
import subprocess
from dataclasses import dataclass

from toybert.train import cli
from toybert.train.hub import ROOT, push
from toybert.train.loop import option
from toybert.train.release import refresh

# For those who change the project; and the Hub has a .gitattributes of its own, which keeps large files out of git.
LEFT_OUT = (".ci/", "benchmarks/", ".gitattributes")


@dataclass(kw_only=True)
class PublishOptions:
    """Holds what publishing can be told."""

    repo_id: str = option("Where to upload, such as me/toybert.")
    private: bool = option("Only you may see the repository, if it is made now.", False)
    dry_run: bool = option("List the files and their sizes, and upload nothing.", False)


def published_files() -> dict[str, int]:
    """Gives each file that belongs on the Hub, with its size in bytes.

    Raises:
        FileNotFoundError: this is no git checkout, or a file of it is gone.
    """
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        raise FileNotFoundError(f"what to upload is what git tracks, and {ROOT} is no git checkout") from error
    names = [name for name in listed.split("\0") if name and not name.startswith(LEFT_OUT)]
    return {name: (ROOT / name).stat().st_size for name in names}


def check_card() -> None:
    """Refuses a card that does not say what was measured.

    Raises:
        ValueError: README.md and figures/results.json disagree.
    """
    card = (ROOT / "README.md").read_text(encoding="utf-8")
    if refresh(card, json.loads((ROOT / "figures" / "results.json").read_text(encoding="utf-8"))) != card:
        raise ValueError(
            "README.md does not say what figures/results.json does: run python -m toybert.train.release --readme-only"
        )


def publish(options: PublishOptions) -> None:
    """Uploads the repository's files as one commit, or lists them."""
    check_card()
    files = published_files()
    for name, size in files.items():
        print(f"{size:>11,}  {name}")
    print(f"{sum(files.values()):>11,}  bytes in {len(files)} files")
    if options.dry_run:
        print("nothing was uploaded, as this was a dry run")
    else:
        push(ROOT, options.repo_id, list(files), options.private)


if __name__ == "__main__":
    cli.run(lambda: publish(cli.parse(PublishOptions, __doc__)))
