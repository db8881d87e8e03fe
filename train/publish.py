"""Uploads the repository to the Hub: the model, its card, and all that it takes to retrain and test it."""

import subprocess
from dataclasses import dataclass

from huggingface_hub.utils import validate_repo_id

from toybert.train import cli
from toybert.train.cli import option
from toybert.train.hub.folders import ROOT, read_json
from toybert.train.hub.push import push
from toybert.train.release import read_pages, refresh

# For those who change the project; and the Hub has a .gitattributes of its own, which keeps large files out of git.
LEFT_OUT = (".ci/", "benchmarks/", ".gitattributes")


@dataclass(kw_only=True)
class PublishOptions:
    """Holds what publishing can be told."""

    repo_id: str = option("Where to upload, such as me/toybert.")
    private: bool = option("Only you may see the repository, if it is made now.", False)
    dry_run: bool = option("List the files and their sizes, and upload nothing.", False)

    def __post_init__(self) -> None:
        """Refuses what can be no name of a repository."""
        validate_repo_id(self.repo_id)


def git(*words: str) -> list[str]:
    """Gives the names that a command of git prints, in the repository, with `-z`.

    Raises:
        FileNotFoundError: this is no git checkout.
    """
    try:
        listed = subprocess.run(["git", *words, "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        raise FileNotFoundError(f"what to upload is what git tracks, and {ROOT} is no git checkout") from error
    return [name for name in listed.split("\0") if name and not name.startswith(LEFT_OUT)]


def published_files() -> dict[str, int]:
    """Gives each file that belongs on the Hub, with its size in bytes.

    Raises:
        FileNotFoundError: git tracks nothing here, or a file that it tracks is gone.
    """
    names = git("ls-files")
    if not names:  # a folder that lies in the checkout of something else
        raise FileNotFoundError(f"what to upload is what git tracks, and of {ROOT} it tracks nothing")
    return {name: (ROOT / name).stat().st_size for name in names}


def check_pages() -> None:
    """Refuses a card, or a page of docs/, that does not say what was measured.

    Raises:
        ValueError: a page and figures/results.json disagree, or the second is not what an evaluation writes.
    """
    pages, path = read_pages(ROOT), ROOT / "figures" / "results.json"
    results = read_json(path)
    try:
        refreshed = refresh(pages, results)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} lacks what the card shows ({type(error).__name__}: {error})") from error
    for name, page in pages.items():
        if refreshed[name] != page:
            raise ValueError(
                f"{name} does not say what figures/results.json does: run python -m toybert.train.release --readme-only"
            )


def publish(options: PublishOptions) -> None:
    """Uploads the repository's files as one commit, or lists them."""
    check_pages()
    files = published_files()
    for name, size in files.items():
        print(f"{size:>11,}  {name}")
    print(f"{sum(files.values()):>11,}  bytes in {len(files)} files")
    changes = ("diff", "--name-only", "--relative")
    if changed := sorted({*git(*changes), *git(*changes, "--cached")}):
        print(f"not committed as they are: {', '.join(changed)}")
    if options.dry_run:
        print("nothing was uploaded, as this was a dry run")
    else:
        push(ROOT, options.repo_id, list(files), options.private)


if __name__ == "__main__":
    cli.run(lambda: publish(cli.parse(PublishOptions, __doc__)))
