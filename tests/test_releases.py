"""Claims about the ranges of versions that pyproject.toml promises: each minor release of transformers, and the oldest
of all packages together, load the shipped folders, give the stored answers, save, train and measure.

Each release has an environment of its own: only what pip has to change for it lies there, and the rest is this one's.
`pytest -m pypi tests/test_releases.py -vv --durations=0` tells each release's seconds; `-k 5.3` tries one.
"""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from helpers import ROOT, run_alone
from packaging.requirements import Requirement
from packaging.version import Version

pytestmark = pytest.mark.pypi
REQUIREMENTS = [Requirement(each) for each in importlib.metadata.requires("toybert") or () if "extra ==" not in each]

# The Auto classes that the shipped folders have every weight for, and which of the stored answers each gives.
SHIPPED = {
    ("AutoModel", ""): {"pooled": lambda output: output.pooler_output[:, ::16]},
    ("AutoModelForMaskedLM", ""): {"words": lambda output: output.logits[:, ::4, ::40]},
    ("AutoModelForNextSentencePrediction", ""): {"follows": lambda output: output.logits},
    ("AutoModelForPreTraining", ""): {
        "words": lambda output: output.prediction_logits[:, ::4, ::40],
        "follows": lambda output: output.seq_relationship_logits,
    },
    ("AutoModelForSequenceClassification", "sentiment"): {"sentiment": lambda output: output.logits},
}
CHECK = """
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import test_releases

test_releases.check_the_shipped_folders()
test_releases.check_a_step_of_training(Path("trained").resolve())
HIDDEN = ()  # from here on with the package, as it is installed
facts.update(test_releases.what_the_scripts_measure(Path("scripts").resolve()))
"""


def newest_of_each_minor_release() -> list[str]:
    """Returns the promised versions of transformers that pip can see, one of each minor release.

    The installed one is left out: on it, plain pytest makes the same claims.
    """
    (promised,) = (each.specifier for each in REQUIREMENTS if each.name == "transformers")
    command = [sys.executable, "-m", "pip", "index", "versions", "transformers"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    versions = re.search(r"^Available versions: (.+)$", listed, re.MULTILINE)
    assert versions, listed
    newest: dict[tuple[int, int], Version] = {}
    for version in promised.filter(map(Version, versions[1].split(", "))):
        minor = (version.major, version.minor)
        newest[minor] = max(version, newest.get(minor, version))
    here = importlib.metadata.version("transformers")
    return [str(newest[minor]) for minor in sorted(newest) if str(newest[minor]) != here]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "release" in metafunc.fixturenames:
        asked = re.search(r"(?<!not )\bpypi\b", metafunc.config.option.markexpr)  # else nothing may ask PyPI
        metafunc.parametrize("release", newest_of_each_minor_release() if asked else [])


def install(folder: Path, *requirements: str) -> Path:
    """Makes an environment of these packages, with those of this environment beneath; returns its Python."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    below = [path for path in sys.path if Path(path).name == "site-packages"]
    (packages,) = folder.glob("lib/python*/site-packages")
    lines = [f"import site; site.addsitedir({path!r})" for path in below]
    (packages / "below.pth").write_text("\n".join(lines), encoding="utf-8")
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile"]
    # What pip was told of torch is about this environment.
    environment = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    done = subprocess.run([*command, *requirements], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"pip could not install {' '.join(requirements)}:\n{done.stderr}"
    return python


def check_the_shipped_folders() -> None:
    """Asserts that the shipped folders load whole and give the stored answers, before and after they are saved."""
    import torch
    from test_versions import FIRST, SECOND, STORED, assert_same, load

    stored = json.loads(STORED.read_text(encoding="utf-8"))
    for (auto_class, subfolder), picks in SHIPPED.items():
        saved = Path("saved", auto_class).resolve()
        name = f"{auto_class} of {subfolder or 'the root'}"
        for folder, where in ((ROOT, {"subfolder": subfolder}), (saved, {})):
            copy = " as it was saved" if folder == saved else ""
            tokenizer = load("AutoTokenizer", folder, **where)
            model, info = load(auto_class, folder, output_loading_info=True, **where)
            assert not info["missing_keys"], f"{name}{copy} lacks {info['missing_keys']}"
            text = (FIRST,) if subfolder else (FIRST, SECOND)
            batch = tokenizer(*text, padding=True, return_tensors="pt")
            if not subfolder:
                assert {key: value.tolist() for key, value in batch.items()} == {key: stored[key] for key in batch}
                assert tokenizer.batch_decode(batch["input_ids"]) == stored["decoded"]
            with torch.no_grad():
                output = model.double()(**batch)
            for answer, pick in picks.items():
                assert_same(pick(output).tolist(), stored[answer], f"{answer} by {name}{copy}", torch.float64)
            if folder == ROOT:
                model.float().save_pretrained(saved)
                tokenizer.save_pretrained(saved)


def check_a_step_of_training(folder: Path) -> None:
    """Asserts that Trainer changes a model's weights, and that what it saves answers as the model did."""
    import torch
    from test_versions import KINDS, answers_of, load, make, train_and_save

    model, tokenizer = make("trained")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    train_and_save(model, tokenizer, folder)
    after = model.state_dict()
    still = [name for name in before if torch.equal(before[name], after[name])]
    assert not still, f"Trainer left {still} as they were"
    saved = answers_of(load(KINDS["trained"], folder), load("AutoTokenizer", folder))
    assert saved == answers_of(model, tokenizer), "what Trainer saved answers otherwise than the model did"


def what_the_scripts_measure(folder: Path) -> dict[str, float]:
    """Pre-trains for an epoch of a little text, and measures the shipped models on some rows of their corpora."""
    from accelerate import Accelerator
    from datasets import DatasetDict

    from toybert.train.data.source import CORPORA
    from toybert.train.data.tables import load_corpus
    from toybert.train.measure.classification import sentiment_report
    from toybert.train.measure.pretraining import pretraining_report
    from toybert.train.pretrain import PretrainOptions, train_pretraining

    folder.mkdir()
    text = folder / "text.txt"
    text.write_text(
        "\n\n".join(f"Tom saw {n} dogs. They ran to Mr. Lee. He fed them." for n in range(40)), encoding="utf-8"
    )
    options = {"output_dir": str(folder / "pretrained"), "corpus": str(text), "split_sentences": True, "epochs": 1}
    train_pretraining(PretrainOptions(**options, nsp=False))

    stories = load_corpus(CORPORA / "stories", ["sentences"])
    few = {split: stories[split].select(range(20)) for split in ("train", "test")}
    report = pretraining_report(ROOT, few, Accelerator(cpu=True))
    sentiment = load_corpus(CORPORA / "sentiment", ["text", "label"])
    few = DatasetDict({split: rows.select(range(100)) for split, rows in sentiment.items()})
    report |= sentiment_report(ROOT / "sentiment", few, Accelerator(cpu=True))
    return {f"{part}_{name}": report[part][name] for part in ("mlm", "nsp", "sentiment") for name in report[part]}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """Returns what the scripts measure with the versions that are installed here."""
    return what_the_scripts_measure(tmp_path_factory.mktemp("measured") / "scripts")


def check(tmp_path: Path, measured: dict[str, float], *requirements: str) -> None:
    """Asserts that these versions behave as the installed ones, or names the first error."""
    versions = ", ".join(each for each in requirements if "==" in each)
    python = install(tmp_path / "environment", *requirements)
    failure = ""
    try:
        found = run_alone(CHECK, ROOT / "tests", home=tmp_path / "home", python=python)
    except AssertionError as error:
        failure = str(error)
    shutil.rmtree(tmp_path / "environment")  # gigabytes, if torch is another
    if failure:
        errors = re.findall(r"^[\w.]*(?:Error|Exception): .+$", failure, re.MULTILINE)
        pytest.fail(f"with {versions}: {errors[-1] if errors else ''}\n{failure}", pytrace=False)
    assert found == pytest.approx(measured, abs=1e-4), f"with {versions}"


# First, since another torch takes minutes to install: the other releases are tried meanwhile.
def test_the_oldest_versions_together_answer_save_train_and_measure(measured: dict[str, float], tmp_path: Path) -> None:
    oldest = []
    for each in REQUIREMENTS:
        floor = [part.version for part in each.specifier if part.operator == ">="]
        assert len(floor) == 1, f"pyproject.toml does not say which {each.name} is the oldest"
        oldest.append(f"{each.name}=={floor[0]}")
    check(tmp_path, measured, *oldest)


def test_each_minor_release_of_transformers_answers_saves_trains_and_measures(
    release: str, measured: dict[str, float], tmp_path: Path
) -> None:
    others = [str(each) for each in REQUIREMENTS if each.name != "transformers"]
    check(tmp_path, measured, f"transformers=={release}", *others)
