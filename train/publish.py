"""Uploads the repository to the Hub: the model, its card, and all that is needed to retrain and test it."""

import os
import subprocess
from dataclasses import dataclass

from huggingface_hub.utils import validate_repo_id

from toybert.train import cli
from toybert.train.cli import option
from toybert.train.hub.escape import in_line
from toybert.train.hub.folders import ROOT, read_json, within
from toybert.train.hub.push import push
from toybert.train.release import read_pages, refresh

# The first two are for developers of the project; the Hub makes its own .gitattributes, for large files.
LEFT_OUT = (".ci/", "benchmarks/", ".gitattributes")


@dataclass(kw_only=True)
class PublishOptions:
    """Holds the options of an upload."""

    repo_id: str = option("Repository to upload to, such as me/toybert.")
    private: bool = option("Make the repository private, if it does not exist yet.", False)
    dry_run: bool = option("List the files and their sizes, and upload nothing.", False)

    def __post_init__(self) -> None:
        """Refuses a name that no repository can have."""
        validate_repo_id(self.repo_id)


def git(*words: str) -> list[str]:
    """Runs a git command in the repository; returns the file names that it prints, without those in `LEFT_OUT`."""
    try:
        listed = subprocess.run(["git", *words, "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        raise FileNotFoundError(f"{ROOT} is no git checkout: only files that git tracks are uploaded") from error
    return [name for name in os.fsdecode(listed).split("\0") if name and not name.startswith(LEFT_OUT)]


def published_files() -> dict[str, int]:
    """Returns each file that belongs on the Hub, with its size in bytes."""
    names = git("ls-files")
    if not names:  # the folder lies in the checkout of another project
        raise FileNotFoundError(f"git tracks no files in {ROOT} to upload: add and commit them")
    return {name: within(ROOT / name, ROOT).stat().st_size for name in names}


def check_pages() -> None:
    """Refuses a card or a page of docs/ whose numbers are not those measured."""
    pages, path = read_pages(ROOT), ROOT / "figures" / "results.json"
    results = read_json(path)
    try:
        refreshed = refresh(pages, results)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} lacks what the card shows ({type(error).__name__}: {error})") from error
    if stale := [name for name in pages if refreshed[name] != pages[name]]:
        raise ValueError(
            f"{stale[0]} does not match figures/results.json: run python -m toybert.train.release --readme-only"
        )


def publish(options: PublishOptions) -> None:
    """Uploads the repository's files as one commit, or lists them."""
    check_pages()
    files = published_files()
    for name, size in files.items():
        print(f"{size:>11,}  {in_line(name)}")
    print(f"{sum(files.values()):>11,}  bytes in {len(files)} files")
    changes = ("diff", "--name-only", "--relative")
    if changed := sorted({*git(*changes), *git(*changes, "--cached")}):
        print(f"not committed as they are: {', '.join(map(in_line, changed))}")
    if options.dry_run:
        print("nothing was uploaded: this was a dry run")
    else:
        push(ROOT, options.repo_id, list(files), options.private)


if __name__ == "__main__":
    cli.run(lambda: publish(cli.parse(PublishOptions, __doc__)))
