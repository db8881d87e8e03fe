"""Accuracies on public data sets: ours from scratch and after pre-training, a BERT of the same size, and naive Bayes.

The data sets are given by path, as they are distributed: see README.md for where they come from.
"""

import csv
import itertools
import json
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from transformers import (
    AutoModelForPreTraining,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
    set_seed,
)

from benchmarks import CORES, common, peers
from benchmarks.real_summary import on_tales, shares
from toybert.train.data.vocabulary import learn_tokenizer
from toybert.train.evaluate import own_text
from toybert.train.finetune import FinetuneOptions, train_finetuning
from toybert.train.hub.folders import load_config, load_tokenizer, save_hub_folder
from toybert.train.measure.baselines import bigrams
from toybert.train.measure.pretraining import pretraining_report
from toybert.train.pretrain import PretrainOptions, train_pretraining

Rows = list[tuple[str, str]]  # text, label
VOCABULARY = 8_000
TALES: dict[str, Any] = {"split_sentences": True, "epochs": 30}
RECIPE: dict[str, Any] = {"epochs": 3, "batch_size": 32, "dropout": 0.1}  # of the networks


def plain(text: str) -> str:
    """Gives a text's words in lower case: what two texts have in common that are the same to the models here."""
    return " ".join(re.findall(r"\w+", text.lower())) or text


def read_table(path: Path, names: Sequence[str]) -> Rows:
    """Reads a table of labels and texts with a tab between them, whose quotes are text; its first line may be a header.

    Raises:
        ValueError: another line is not a label, a tab and a text.
    """
    with open(path, encoding="utf-8", newline=None) as lines:
        rows = [line.rstrip("\n").split("\t", 1) for line in lines]
    has_header = bool(rows) and rows[0][0] not in names
    for number, row in enumerate(rows[has_header:], start=1 + has_header):
        if len(row) != 2 or row[0] not in names:
            raise ValueError(f"line {number} of {path} is not one of {', '.join(names)}, a tab and a text: {row}")
    return [(text.strip(), label) for label, text in rows[has_header:]]


def divided(rows: Rows, share: float) -> dict[str, Rows]:
    """Divides rows at random, always in the same way, into some to learn from and a share to measure on.

    Of texts with the same words one counts, the first: else some of what is measured on was learnt from.
    """
    once: dict[str, tuple[str, str]] = {}
    for row in rows:
        once.setdefault(plain(row[0]), row)
    rows = random.Random(0).sample([*once.values()], len(once))
    count = round(share * len(rows))
    return {"train": rows[count:], "test": rows[:count]}


def sst2(data: Path) -> dict[str, Rows]:
    """Reads SST-2: its train phrases, save those that are measured, and its dev and its test sentences."""
    parts = {part: read_table(data / "sst2" / f"{part}.tsv", ("0", "1")) for part in ("train", "dev", "test")}
    measured = {plain(text) for part in ("dev", "test") for text, _ in parts[part]}
    return {**parts, "train": [row for row in parts["train"] if plain(row[0]) not in measured]}


def polarity(data: Path) -> dict[str, Rows]:
    """Reads the film-review sentences of Pang & Lee 2005, a tenth of them to measure on."""
    rows = []
    for label, name in (("positive", "rt-polarity.pos"), ("negative", "rt-polarity.neg")):
        lines = (data / "sentence_polarity" / name).read_text(encoding="utf-8").split("\n")
        rows += [(line.strip(), label) for line in lines if line.strip()]
    return divided(rows, 0.1)


def spam(data: Path) -> dict[str, Rows]:
    """Reads the SMS Spam Collection, a fifth of it to measure on."""
    return divided(read_table(data / "sms_spam/SMSSpamCollection", ("ham", "spam")), 0.2)


def sst2_train_part(data: Path) -> dict[str, Rows]:
    """Divides SST-2's train phrases into whole sentences to choose recipes on and phrases of none of them.

    Its phrases are parts of its sentences: one that stands in no other phrase is taken for a sentence. Many are
    film-review sentences of Pang & Lee too; those that are measured there are left out.
    """

    def spans(text: str) -> set[str]:
        words = text.split()
        return {" ".join(words[a:b]) for a in range(len(words)) for b in range(a + 1, len(words) + 1)}

    rows = sst2(data)["train"]
    texts, measured = {text for text, _ in rows}, {plain(text) for text, _ in polarity(data)["test"]}
    whole = texts - set().union(*(spans(text) - {text} for text in texts))
    sentences = sorted(text for text in whole if plain(text) not in measured)
    chosen = set(random.Random(0).sample(sentences, min(872, len(sentences) // 2)))  # as many as the dev part has
    left_out = set().union(*map(spans, chosen))
    return {
        "train": [row for row in rows if row[0] not in left_out],
        "sentences": [row for row in dict.fromkeys(rows) if row[0] in chosen],
    }


TO_CHOOSE_ON = "sst2, train part"
TASKS: dict[str, Callable[[Path], dict[str, Rows]]] = {
    "sst2": sst2,
    TO_CHOOSE_ON: sst2_train_part,
    "polarity": polarity,
    "spam": spam,
}


def write_csv(path: Path, rows: Rows) -> Path:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    return path


def untrained(folder: Path, texts: list[str], seed: int, size: str) -> Path:
    """Leaves a checkpoint that has learnt nothing but the words of a task, of another's size, to start from scratch."""
    set_seed(seed)
    tokenizer = learn_tokenizer("word", [texts], VOCABULARY, 1, 64)
    config = load_config(size, vocab_size=len(tokenizer), initializer_range=0.05)
    folder.mkdir()
    save_hub_folder(AutoModelForPreTraining.from_config(config, trust_remote_code=True), tokenizer, folder)
    return folder


def from_scratch(train: Rows, measured: Rows, seed: int, size: str, recipe: dict[str, Any]) -> tuple[list[str], int]:
    """Trains ours, of a checkpoint's size, on the words of a task; gives what `fine_tuned` does."""
    with tempfile.TemporaryDirectory() as top:
        start = untrained(Path(top) / "untrained", [text for text, _ in train], seed, size)
        return fine_tuned(train, measured, seed, str(start), recipe)


def fine_tuned(
    train: Rows, measured: Rows, seed: int, checkpoint: str, recipe: dict[str, Any]
) -> tuple[list[str], int]:
    """Fine-tunes a checkpoint by `train_finetuning`; gives what it says of other rows, and its parameters."""
    recipe = {**RECIPE, **recipe}
    with tempfile.TemporaryDirectory() as top, common.silence():
        folder = Path(top)
        learnt, others = write_csv(folder / "train.csv", train), write_csv(folder / "measured.csv", measured)
        options = FinetuneOptions(
            output_dir=str(folder / "run"), model=checkpoint, seed=seed, checkpoint_every=peers.NEVER,
            train_file=str(learnt), validation_file=str(others), test_file=str(others), **recipe,
        )  # fmt: skip
        train_finetuning(options)  # the last epoch is kept: nothing is chosen on the rows that are measured
        with open(folder / "run/predictions.csv", encoding="utf-8", newline="") as rows:
            guesses = [row["predicted"] for row in csv.DictReader(rows)]
        model = AutoModelForSequenceClassification.from_pretrained(folder / "run", trust_remote_code=True)
        return guesses, model.num_parameters()


def bert(train: Rows, measured: Rows, seed: int, size: str, recipe: dict[str, Any]) -> tuple[list[str], int]:
    """Trains the library's BERT of the same size and words from scratch with Trainer, by the same recipe."""
    names, recipe = sorted({label for _, label in train}), {**RECIPE, **recipe}
    with tempfile.TemporaryDirectory() as top, common.silence():
        start = untrained(Path(top) / "untrained", [text for text, _ in train], seed, size)
        peers.save_stock_tokenizer(load_tokenizer(start), Path(top))
        tokenizer = AutoTokenizer.from_pretrained(top, model_max_length=64)
        config = peers.bert_config(load_config(start, num_labels=len(names)))
        config.num_labels = len(names)
        config.hidden_dropout_prob = config.attention_probs_dropout_prob = recipe["dropout"]
        learnt, others = (
            [
                {**dict(tokenizer(text, truncation=True, max_length=64)), "labels": names.index(label)}
                for text, label in some
            ]
            for some in (train, measured)
        )
        set_seed(seed)
        steps = recipe["epochs"] * -(-len(train) // recipe["batch_size"])
        arguments = TrainingArguments(
            output_dir=top, num_train_epochs=recipe["epochs"], per_device_train_batch_size=recipe["batch_size"],
            learning_rate=recipe["learning_rate"], weight_decay=0.01, warmup_steps=round(0.06 * steps), seed=seed,
            use_cpu=True, report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True,
        )  # fmt: skip
        trainer = Trainer(
            model=BertForSequenceClassification(config), args=arguments, train_dataset=learnt,
            data_collator=DataCollatorWithPadding(tokenizer),
        )  # fmt: skip
        trainer.train()
        guesses = trainer.predict(others).predictions.argmax(-1)
        return [names[guess] for guess in guesses], trainer.model.num_parameters()


def linear(
    kind: Any, train: Rows, measured: Rows, seed: int, size: str, recipe: dict[str, Any]
) -> tuple[list[str], None]:
    """Fits a model of scikit-learn on words and pairs of neighbours; gives what it says of other rows."""
    model = make_pipeline(CountVectorizer(analyzer=bigrams), kind(**recipe))
    model.fit(*map(list, zip(*train, strict=True)))
    return list(model.predict([text for text, _ in measured])), None


def commonest(train: Rows, measured: Rows, *unused: Any) -> tuple[list[str], None]:
    """Says the commonest class of training, always."""
    label, _ = Counter(label for _, label in train).most_common(1)[0]
    return [label] * len(measured), None


NAIVE_BAYES = "naive Bayes, words and pairs of neighbours"
LOGISTIC = "logistic regression, words and pairs of neighbours"
BERT = "transformers' BERT of the same size, from scratch"
SCRATCH = "ToyBERT, from scratch"
PRETRAINED = "ToyBERT, pre-trained"
MODELS: dict[str, Callable[..., tuple[list[str], int | None]]] = {
    "the commonest class": commonest,
    NAIVE_BAYES: partial(linear, MultinomialNB),
    LOGISTIC: partial(linear, partial(LogisticRegression, max_iter=2000)),
    BERT: bert,
    SCRATCH: from_scratch,
    PRETRAINED: fine_tuned,
}
SEEDED = (BERT, SCRATCH, PRETRAINED)
# What `--tune` tries, on sentences of SST-2's train part, and what was best there.
GRID: dict[str, tuple[dict[str, float], ...]] = {
    NAIVE_BAYES: tuple({"alpha": alpha} for alpha in (0.1, 0.3, 1.0, 3.0)),
    LOGISTIC: tuple({"C": C} for C in (0.1, 0.3, 1.0, 3.0, 10.0)),
    BERT: tuple({"learning_rate": rate} for rate in (5e-4, 1e-3)),
    SCRATCH: tuple({"learning_rate": rate} for rate in (5e-4, 1e-3)),
    PRETRAINED: tuple({"learning_rate": rate} for rate in (2.5e-4, 5e-4)),
}
TUNED: dict[str, dict[str, float]] = {
    NAIVE_BAYES: {"alpha": 1.0},
    LOGISTIC: {"C": 0.3},
    BERT: {"learning_rate": 5e-4},
    SCRATCH: {"learning_rate": 5e-4},
    PRETRAINED: {"learning_rate": 2.5e-4},
}


def tales(data: Path, seed: int, smoke: bool) -> dict[str, dict[str, float]]:
    """Pre-trains ours on three books of tales, and measures it and the baselines on the stretches that it held out."""
    with tempfile.TemporaryDirectory() as top, common.silence():
        recipe = {**TALES, "epochs": 1 if smoke else TALES["epochs"]}
        options = PretrainOptions(
            output_dir=str(Path(top) / "run"), corpus=str(data / "tales"), seed=seed, checkpoint_every=peers.NEVER,
            **recipe,
        )  # fmt: skip
        train_pretraining(options)
        text, packed = own_text(options.output_dir, options.corpus, pairs=True)
        report = pretraining_report(options.output_dir, text, Accelerator(), packed)
    return {task: report[task] for task in ("mlm", "nsp")}


def facts(checkpoint: str) -> dict[str, Any]:
    """Gives the steps and seconds of a pre-training run, and its last figures on held-out text."""
    history = json.loads((Path(checkpoint) / "history.json").read_text(encoding="utf-8"))
    return {"steps": history["step"], "seconds": history["seconds"], **history["validation"][-1]}


def one_run(spec: dict[str, Any]) -> dict[str, Any]:
    """Fits one model on one task with one seed, and gives its figures on each part that is measured."""
    data, seed, size = Path(spec["data"]), spec["seed"], spec["checkpoint"]
    if spec["task"] == "tales":
        return tales(data, seed, spec["smoke"])
    parts = {part: rows[: 200 if spec["smoke"] else None] for part, rows in TASKS[spec["task"]](data).items()}
    train = parts.pop("train")
    measured = [row for rows in parts.values() for row in rows]
    guesses, parameters = MODELS[spec["model"]](train, measured, seed, size, spec["recipe"])
    rest = iter(zip(guesses, measured, strict=True))
    found = {part: scores(list(itertools.islice(rest, len(rows)))) for part, rows in parts.items()}
    return {"train": len(train), "parameters": parameters, "parts": found}


def scores(said: list[tuple[str, tuple[str, str]]]) -> dict[str, float]:
    """Gives the figures of guesses beside rows."""
    guesses, truth = zip(*((guess, label) for guess, (_, label) in said), strict=True)
    macro = f1_score(truth, guesses, average="macro", labels=sorted(set(truth)))  # "" is said of a text without words
    return {"accuracy": accuracy_score(truth, guesses), "macro_f1": macro, "rows": len(truth)}


def run_all(specs: list[dict[str, Any]], options: Any) -> list[dict[str, Any]]:
    """Does the runs as processes of one thread each, as many at a time as the machine has cores.

    What each found is added to real_text.runs.jsonl at once; `--resume` takes it from there.
    """
    shared = {"data": str(options.data), "checkpoint": options.checkpoint, "smoke": options.smoke}
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "real_text.runs.jsonl"
    if not options.resume:
        path.unlink(missing_ok=True)
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    done = [json.loads(line) for line in lines]

    def run(spec: dict[str, Any]) -> dict[str, Any]:
        asked = {**shared, **spec}
        for earlier in done:
            if asked.items() <= earlier.items():
                return {name: value for name, value in earlier.items() if name not in asked}
        found = common.child("benchmarks.real_text", asked, OMP_NUM_THREADS="1")
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**asked, **found}) + "\n")
        said = ", ".join(f"{part} {figures['accuracy']:.4f}" for part, figures in found.get("parts", {}).items())
        how = "".join(f", {field} {value:g}" for field, value in spec.get("recipe", {}).items())
        print(f"{spec['task']}, {spec.get('model', 'ToyBERT')}{how}, seed {spec['seed']}: {said or 'done'}", flush=True)
        return found

    with ThreadPool(CORES) as pool:
        return pool.map(run, specs, chunksize=1)


def tune(options: Any) -> None:
    """Tries each recipe of `GRID` on sentences that are kept apart."""
    specs = [
        {"task": TO_CHOOSE_ON, "model": model, "seed": seed, "recipe": recipe}
        for model, recipes in GRID.items()
        for recipe in recipes[: 1 if options.smoke else None]
        for seed in range(options.rounds if model in SEEDED else 1)
    ]
    tried: dict[tuple[str, str], list[float]] = {}
    for spec, found in zip(specs, run_all(specs, options), strict=True):
        name = ", ".join(f"{field} {value:g}" for field, value in spec["recipe"].items())
        tried.setdefault((spec["model"], name), []).append(found["parts"]["sentences"]["accuracy"])
    rows = f"accuracy on {found['parts']['sentences']['rows']} sentences, learnt from {found['train']:,} phrases"
    text = common.table(("model", "recipe", rows), [(*name, shares(some)) for name, some in tried.items()])
    results = [{"model": model, "recipe": recipe, "accuracy": some} for (model, recipe), some in tried.items()]
    common.report("real_text_tune", options, {"tried": results}, text)


def compare(options: Any) -> None:
    """Runs every model on every task with every seed; those that nothing random goes into, once."""
    pretrained = facts(options.checkpoint)
    specs = [
        {"task": task, "model": model, "seed": seed, "recipe": TUNED.get(model, {})}
        for task in options.tasks
        if task != "tales"
        for model in MODELS
        for seed in range(options.rounds if model in SEEDED else 1)
    ]
    specs += [{"task": "tales", "seed": seed} for seed in range(options.rounds) if "tales" in options.tasks]
    runs: dict[str, dict[str, list[Any]]] = {}
    for spec, found in zip(specs, run_all(specs, options), strict=True):
        runs.setdefault(spec["task"], {}).setdefault(spec.get("model", "ToyBERT"), []).append(found)
    lines = []
    for task, model in itertools.product((task for task in runs if task != "tales"), MODELS):
        found = runs[task][model]
        million = f"{found[0]['parameters'] / 1e6:.2f} M" if found[0]["parameters"] else ""
        for part, one in found[0]["parts"].items():
            accuracy, macro = (shares([run["parts"][part][each] for run in found]) for each in ("accuracy", "macro_f1"))
            counts = f"{found[0]['train']:,} / {one['rows']:,}"
            lines.append((f"{task}, {part}", counts, model, million, accuracy, macro))
    header = ("task", "rows, train / test", "model", "parameters", "accuracy, mean (least - most)", "macro-F1")
    text = f"{options.rounds} seeds.\n\n{common.table(header, lines)}"
    if "tales" in runs:
        text += f"\n\n{on_tales(runs['tales']['ToyBERT'])}"
    common.report("real_text", options, {"checkpoint": pretrained, "tasks": runs}, text)


def main() -> None:
    parser = common.parser(__doc__, rounds=3)
    parser.add_argument("--data", type=Path, help="folder of sst2, sentence_polarity, sms_spam and tales")
    every = ["sst2", "polarity", "spam", "tales"]
    parser.add_argument("--tasks", nargs="+", choices=every, default=every, metavar="TASK", help=", ".join(every))
    parser.add_argument("--checkpoint", help="the folder of a model that was pre-trained on other text")
    parser.add_argument("--resume", action="store_true", help="keep what an interrupted run has found")
    parser.add_argument("--tune", action="store_true", help="try recipes on a part of SST-2's train phrases instead")
    options = common.parse(parser)
    if options.child:
        print(json.dumps(one_run(options.child)), flush=True)
        return
    if not options.data or not options.checkpoint:
        parser.error("give --data and --checkpoint")
    try:  # rather now than when hours have passed
        for task in {"sst2", "polarity"} if options.tune else options.tasks:
            read = TASKS.get(task, lambda data: list((data / "tales").iterdir()))
            read(options.data)
        if not options.tune:
            facts(options.checkpoint)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    tune(options) if options.tune else compare(options)


if __name__ == "__main__":
    main()
