"""Claims about loading: each folder that is written loads by itself, through every Auto class, wherever it lies."""

import ast
import inspect
import json
import shutil
import sys

import pytest
import torch
import transformers
from accelerate import Accelerator, load_checkpoint_in_model
from helpers import CODE, ROOT, SMALL, make_checkpoint, run_alone
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

from toybert.modeling_toybert import ToyBertConfig, ToyBertForMaskedLM
from toybert.train.finetune import FinetuneOptions, train_finetuning
from toybert.train.pretrain import PretrainOptions, train_pretraining

AUTO_MAP = json.loads((ROOT / "config.json").read_text(encoding="utf-8"))["auto_map"]
AUTO_CLASSES = [name for name in AUTO_MAP if name != "AutoConfig"]
PRETRAINED = {"AutoModel", "AutoModelForPreTraining", "AutoModelForMaskedLM", "AutoModelForNextSentencePrediction"}
# How many scores each head named `classifier` gives. As with BERT, one size can't be loaded where the other belongs.
CLASSIFIERS = {
    "AutoModelForSequenceClassification": 2,
    "AutoModelForTokenClassification": 2,
    "AutoModelForMultipleChoice": 1,
}
CHECKPOINT_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
IDS = [[2, 7, 8, 4, 3], [2, 9, 3, 10, 3]]


def load(folder, auto_class=AutoModelForMaskedLM):
    return auto_class.from_pretrained(folder, trust_remote_code=True)


def outputs(model):
    """Returns all that a model answers, and the hidden states of its encoder."""
    ids = torch.tensor(IDS)  # two rows, or one of two choices
    with torch.no_grad():
        given, encoded = model(ids[None] if "MultipleChoice" in type(model).__name__ else ids), model.base_model(ids)
    return {"outputs": [tensor.tolist() for tensor in given.to_tuple()], "hidden": encoded.last_hidden_state.tolist()}


def assert_same(found, expected):
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected))


def make_corpora(folder):
    """Writes the smallest corpora that both scripts can train on."""
    documents = [[f"the {name} {verb} ." for verb in ("sat", "ran", "slept")] for name in ("cat", "dog", "bird")]
    rows = {
        "stories": [{"sentences": sentences} for sentences in documents],
        "sentiment": [{"text": "the cat sat .", "label": label} for label in (0, 1, 1, 0)],
    }
    for corpus, lines in rows.items():
        (folder / corpus).mkdir(parents=True)
        for split in ("train", "validation", "test"):
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (folder / corpus / f"{split}.jsonl").write_text(text, encoding="utf-8")


def set_constant(folder, number):
    """Edits a folder's code."""
    with (folder / "modeling_toybert.py").open("a", encoding="utf-8") as file:
        file.write(f"\n\nToyBertModel.constant = {number}\n")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Writes every kind of folder; returns its path, its Auto class, and what its model answered before."""
    top = tmp_path_factory.mktemp("written")
    origin = make_checkpoint(top / "origin")
    tokenizer = AutoTokenizer.from_pretrained(origin, trust_remote_code=True)
    folders = {}

    def note(folder, model, auto_class):
        folders[folder.name] = {"path": str(folder), "auto_class": auto_class, **outputs(model.eval())}

    note(origin, load(origin, AutoModelForPreTraining), "AutoModelForPreTraining")
    for auto_class in AUTO_CLASSES:
        model = load(origin, getattr(transformers, auto_class))
        model.save_pretrained(top / f"saved_{auto_class}")
        tokenizer.save_pretrained(top / f"saved_{auto_class}")
        note(top / f"saved_{auto_class}", model, auto_class)
    tokenizer.save_pretrained(top / "only_tokenizer")

    arguments = transformers.TrainingArguments(
        str(top / "trainer"), max_steps=1, save_steps=1, report_to=[], use_cpu=True, disable_tqdm=True
    )
    rows = [{"input_ids": ids, "labels": ids} for ids in IDS]
    model = load(origin)
    transformers.Trainer(model, arguments, train_dataset=rows, processing_class=tokenizer).train()
    note(top / "trainer" / "checkpoint-1", model, "AutoModelForMaskedLM")

    make_corpora(top)
    train_pretraining(PretrainOptions(output_dir=str(top / "pretrained"), corpus=str(top / "stories"), epochs=1))
    note(top / "pretrained", load(top / "pretrained", AutoModelForPreTraining), "AutoModelForPreTraining")
    train_finetuning(
        FinetuneOptions(
            output_dir=str(top / "finetuned"),
            model=str(top / "pretrained"),
            corpus=str(top / "sentiment"),
            epochs=1,
        )
    )
    model = load(top / "finetuned", AutoModelForSequenceClassification)
    note(top / "finetuned", model, "AutoModelForSequenceClassification")

    # The fine-tuned checkpoint as the repository ships it: no code of its own.
    (origin / "sentiment").mkdir()
    for name in CHECKPOINT_FILES:
        shutil.copyfile(top / "finetuned" / name, origin / "sentiment" / name)

    # The paths that things were saved from are gone, as on another person's machine.
    (top / "elsewhere").mkdir()
    for old, new in (("origin", "toybert"), ("pretrained", "pretrained")):
        shutil.move(top / old, top / "elsewhere" / new)
        folders[old]["path"] = str(top / "elsewhere" / new)
    root = top / "elsewhere" / "toybert"

    # Two copies whose code differs, and one that lacks a matrix and a vector of two different parts.
    for number, name in enumerate(("first", "second"), start=1):
        shutil.copytree(root, top / name)
        set_constant(top / name, number)
    shutil.copytree(root, top / "partial")
    weights = load_file(root / "model.safetensors")
    del weights["nsp_head.weight"], weights["bert.layers.0.attention.query.bias"]
    save_file(weights, top / "partial" / "model.safetensors", {"format": "pt"})
    return top, folders


READER = """
import importlib.util, os, shutil
from pathlib import Path

repository, top, folders = sys.argv[1], Path(sys.argv[2]), json.loads(Path(sys.argv[3]).read_text())
opened = []
def watch(event, arguments):
    if event == "open" and str(arguments[0]).startswith(repository) and not str(arguments[0]).startswith(sys.prefix):
        opened.append(str(arguments[0]))
sys.addaudithook(watch)

import transformers
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, AutoModelForPreTraining, AutoTokenizer
from transformers import AutoModelForSequenceClassification
transformers.logging.set_verbosity_error()

def outcome(load):
    try:
        return type(load()).__name__
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def logits(path):
    model = AutoModelForPreTraining.from_pretrained(path, trust_remote_code=True)
    tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=True)
    with torch.no_grad():
        return model(**tokenizer("the cat [MASK] .", "it ran .", return_tensors="pt")).prediction_logits.tolist()

root = Path(folders["origin"]["path"])
facts["package found"] = importlib.util.find_spec("toybert") is not None

# A path in all its spellings, the bare dot first.
os.chdir(root)
facts["logits"] = {"'.'": logits("."), "'./'": logits("./"), "'../name'": logits("../" + root.name)}
os.chdir(top)
facts["logits"] |= {"absolute": logits(str(root)), "Path": logits(root), "slash": logits(str(root) + "/")}

# Every folder through every Auto class.
facts["loads"], facts["tokenizers"] = {}, {}
for name, folder in folders.items():
    path = folder["path"]
    text = Path(path, "config.json").read_text()
    auto_map = json.loads(text)["auto_map"]
    facts["loads"][name] = {"auto_map": auto_map, "names a folder": str(top) in text or repository in text}
    facts["loads"][name]["config"] = outcome(lambda: AutoConfig.from_pretrained(path, trust_remote_code=True))
    for auto_class in (entry for entry in auto_map if entry != "AutoConfig"):
        model, info = getattr(transformers, auto_class).from_pretrained(
            path, trust_remote_code=True, output_loading_info=True, ignore_mismatched_sizes=True
        )
        facts["loads"][name][auto_class] = {
            "class": type(model).__name__,
            "mismatched": len(info["mismatched_keys"]),
            "missing": sorted(info["missing_keys"]),
            "unexpected": sorted(info["unexpected_keys"]),
            "training": model.training,
            **outputs(model),
        }
    facts["tokenizers"][name] = outcome(lambda: AutoTokenizer.from_pretrained(path, trust_remote_code=True))
facts["buffers"] = [name for name, _ in model.named_buffers()]

facts["tokenizers"]["only_tokenizer"] = outcome(
    lambda: AutoTokenizer.from_pretrained(top / "only_tokenizer", trust_remote_code=True)
)
for use_fast in (True, False):
    facts["tokenizers"][f"use_fast={use_fast}"] = outcome(
        lambda: AutoTokenizer.from_pretrained(root, trust_remote_code=True, use_fast=use_fast)
    )

# The fine-tuned checkpoint inside the root, whose code is the root's.
inside = dict(trust_remote_code=True, subfolder="sentiment")
model = AutoModelForSequenceClassification.from_pretrained(root, **inside)
facts["sentiment"] = {
    "class": type(model).__name__,
    "labels": list(AutoConfig.from_pretrained(root, **inside).id2label.values()),
    "tokenizer": outcome(lambda: AutoTokenizer.from_pretrained(root, **inside)),
    "outputs": outputs(model)["outputs"],
}

# No trust, no model.
facts["untrusted"] = {
    f"{loader.__name__}, {said or 'unset'}": outcome(lambda: loader.from_pretrained(root, **said))
    for loader in (AutoConfig, AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer)
    for said in ({}, {"trust_remote_code": False})
}
facts["in the library"] = "toybert" in transformers.CONFIG_MAPPING

# A checkpoint that lacks some weights.
model, info = AutoModelForPreTraining.from_pretrained(top / "partial", trust_remote_code=True, output_loading_info=True)
state, saved = model.state_dict(), load_file(top / "partial" / "model.safetensors")
facts["partial"] = {
    "missing": sorted(info["missing_keys"]),
    "changed": [name for name, value in saved.items() if not torch.equal(value, state[name])],
    "finite": all(bool(value.isfinite().all()) for value in state.values()),
}

# Saved into the very folder that it was loaded from, with the tokenizer.
again = top / "again"
shutil.copytree(root, again)
before = logits(again)
AutoModelForPreTraining.from_pretrained(again, trust_remote_code=True).save_pretrained(again)
AutoTokenizer.from_pretrained(again, trust_remote_code=True).save_pretrained(again)
facts["saved into its own folder"] = {
    "equal": logits(again) == before,
    "auto_map": json.loads(Path(again, "config.json").read_text())["auto_map"],
    "code": [Path(again, name).read_text() == Path(root, name).read_text() for name in CODE],
}

# Two folders whose code differs, in one process.
facts["constants"] = []
for name in ("first", "second", "first"):
    model = AutoModelForPreTraining.from_pretrained(top / name, trust_remote_code=True)
    facts["constants"].append(type(model.base_model).constant)
facts["read from the repository"] = opened
"""

MINIMAL = """
import importlib.util
import torch
from transformers import AutoModelForPreTraining, AutoTokenizer

folder = sys.argv[1]
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
model = AutoModelForPreTraining.from_pretrained(folder, trust_remote_code=True)
with torch.no_grad():
    output = model(**tokenizer("the cat [MASK] .", return_tensors="pt"))
facts["found"] = [name for name in HIDDEN if importlib.util.find_spec(name) or name in sys.modules]
facts["finite"] = bool(output.prediction_logits.isfinite().all())
facts["constant"] = type(model.base_model).constant
"""


@pytest.fixture(scope="module")
def facts(written):
    """Returns what a process without the installed package finds, once all is written and moved."""
    top, folders = written
    (top / "folders.json").write_text(json.dumps(folders), encoding="utf-8")
    script = f"IDS, CODE = {IDS!r}, {CODE!r}\nimport torch\n{inspect.getsource(outputs)}\n{READER}"
    return run_alone(script, ROOT, top, top / "folders.json", home=top / "reader")


@pytest.fixture(scope="module")
def facts_of_a_minimal_process(written, facts):
    """Returns what the next process finds after an edit of a folder's code, with only transformers' needs."""
    top, _ = written
    set_constant(top / "first", 3)
    without = ("toybert", "accelerate", "datasets", "matplotlib", "sklearn")
    return run_alone(MINIMAL, top / "first", home=top / "reader", without=without)


def test_a_folder_loads_without_the_installed_package_or_the_repository(facts):
    assert not facts["package found"]
    assert facts["read from the repository"] == []


@pytest.mark.parametrize("spelling", ["'./'", "'../name'", "absolute", "Path", "slash"])
def test_every_spelling_of_a_path_gives_the_same_logits_as_a_dot(facts, spelling):
    assert facts["logits"][spelling] == facts["logits"]["'.'"]


def test_the_shipped_auto_map_has_every_promised_class():
    assert {"AutoConfig", *PRETRAINED, *CLASSIFIERS, "AutoModelForQuestionAnswering"} <= set(AUTO_MAP)


def test_every_saved_folder_keeps_the_whole_auto_map(facts):
    assert facts["saved into its own folder"]["auto_map"] == AUTO_MAP
    for name, loads in facts["loads"].items():
        assert loads["auto_map"] == AUTO_MAP, name


def test_every_saved_folder_carries_its_code(written):
    top, folders = written
    for name, folder in folders.items():
        for file in CODE:
            saved = top.joinpath(folder["path"], file)
            assert saved.is_file(), (name, file)
            assert saved.read_bytes() == (ROOT / file).read_bytes(), (name, file)


def test_no_saved_config_names_a_folder_of_this_machine(facts):
    assert [name for name, loads in facts["loads"].items() if loads["names a folder"]] == []


@pytest.mark.parametrize("auto_class", AUTO_CLASSES)
def test_every_auto_class_loads_from_every_saved_folder(facts, written, auto_class):
    _, folders = written
    for name, folder in folders.items():
        loaded = facts["loads"][name][auto_class]
        assert loaded["class"] == AUTO_MAP[auto_class].split(".")[1], name
        assert not loaded["training"], name
        sizes = {CLASSIFIERS[each] for each in (auto_class, folder["auto_class"]) if each in CLASSIFIERS}
        assert loaded["mismatched"] == (2 if len(sizes) == 2 else 0), name
        assert_same(loaded["hidden"], folder["hidden"])


def test_a_saved_model_gives_the_same_outputs_when_it_is_loaded(facts, written):
    _, folders = written
    for name, folder in folders.items():
        loaded = facts["loads"][name][folder["auto_class"]]
        assert loaded["missing"] == loaded["unexpected"] == [], name
        for found, expected in zip(loaded["outputs"], folder["outputs"], strict=True):
            assert_same(found, expected)


@pytest.mark.parametrize("auto_class", AUTO_CLASSES)
def test_a_pretrained_checkpoint_lacks_nothing_but_a_new_head(facts, auto_class):
    loaded = facts["loads"]["origin"][auto_class]
    pretrained = ("bert.", "embeddings.", "layers.", "pooler.", "mlm_head.", "nsp_head.")
    assert [name for name in loaded["missing"] if name.startswith(pretrained)] == []
    assert loaded["unexpected"] == []
    assert bool(loaded["missing"]) == (auto_class not in PRETRAINED)


def test_every_saved_folder_has_its_config_and_tokenizer(facts, written):
    _, folders = written
    for name in folders:
        assert facts["loads"][name]["config"] == "ToyBertConfig", name
        assert facts["tokenizers"][name] == "ToyBertTokenizer", name


@pytest.mark.parametrize("how", ["only_tokenizer", "use_fast=True", "use_fast=False"])
def test_the_tokenizer_loads_alone_and_with_any_use_fast(facts, how):
    assert facts["tokenizers"][how] == "ToyBertTokenizer"


def test_the_sentiment_subfolder_finds_its_code_at_the_root(facts, written):
    _, folders = written
    sentiment = facts["sentiment"]
    assert sentiment["class"] == "ToyBertForSequenceClassification"
    assert sentiment["tokenizer"] == "ToyBertTokenizer"
    assert sentiment["labels"] == ["negative", "positive"]
    assert_same(sentiment["outputs"], folders["finetuned"]["outputs"])


def test_without_trust_remote_code_a_value_error_names_it(facts):
    for how, outcome in facts["untrusted"].items():
        assert outcome.startswith("ValueError"), (how, outcome)
        assert "trust_remote_code" in outcome, (how, outcome)


def test_the_library_has_no_toybert_of_its_own(facts):
    assert not facts["in the library"]


def test_missing_weights_are_reported_and_touch_no_other(facts):
    missing = ["bert.layers.0.attention.query.bias", "nsp_head.weight"]
    assert facts["partial"] == {"missing": missing, "changed": [], "finite": True}


def test_a_model_can_be_saved_into_the_folder_that_it_came_from(facts):
    assert facts["saved into its own folder"]["equal"]
    assert facts["saved into its own folder"]["code"] == [True, True, True]


def test_the_model_has_no_buffer_that_loading_could_leave_unset(facts):
    assert facts["buffers"] == []


def test_two_folders_in_one_process_run_each_its_own_code(facts):
    assert facts["constants"] == [1, 2, 1]


def test_a_new_process_runs_the_edited_code(facts_of_a_minimal_process):
    assert facts_of_a_minimal_process["constant"] == 3


def test_using_the_model_needs_no_training_package(facts_of_a_minimal_process):
    assert facts_of_a_minimal_process["found"] == []
    assert facts_of_a_minimal_process["finite"]


@pytest.mark.parametrize("name", CODE)
def test_the_hub_files_import_only_what_every_user_has(name):
    allowed = {*sys.stdlib_module_names, "torch", "transformers", "tokenizers"}
    for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert {alias.name.split(".")[0] for alias in node.names} <= allowed
        elif isinstance(node, ast.ImportFrom) and node.level:
            assert f"{node.module}.py" in CODE
        elif isinstance(node, ast.ImportFrom):
            assert node.module.split(".")[0] in allowed


def test_an_imported_class_saves_no_code(tmp_path):
    ToyBertForMaskedLM(ToyBertConfig(vocab_size=20, **SMALL)).save_pretrained(tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*.py")) == []


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return make_checkpoint(tmp_path_factory.mktemp("accelerate") / "toybert")


@pytest.fixture
def accelerator():
    return Accelerator()


def is_tied(model):
    return model.get_output_embeddings().weight is model.get_input_embeddings().weight


def test_accelerate_prepares_a_model_that_stays_tied(accelerator, checkpoint):
    model = load(checkpoint)
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-2))
    ids = torch.tensor(IDS, device=accelerator.device)
    accelerator.backward(model(ids, labels=ids).loss)
    optimizer.step()
    assert is_tied(accelerator.unwrap_model(model))


@pytest.mark.parametrize("safe_serialization", [True, False])
def test_accelerate_restores_a_state_that_stays_tied(accelerator, checkpoint, tmp_path, safe_serialization):
    model = accelerator.prepare(load(checkpoint))
    ids = torch.tensor(IDS, device=accelerator.device)
    before = model(ids).logits
    accelerator.save_state(tmp_path, safe_serialization=safe_serialization)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    accelerator.load_state(tmp_path)
    assert is_tied(accelerator.unwrap_model(model))
    torch.testing.assert_close(model(ids).logits, before)


def test_accelerate_saves_the_tied_matrix_once(accelerator, checkpoint, tmp_path):
    model = load(checkpoint)
    accelerator.save_model(model, tmp_path)
    names = set(load_file(tmp_path / "model.safetensors"))
    assert len(names & {"mlm_head.decoder.weight", "bert.embeddings.token.weight"}) == 1
    other = AutoModelForMaskedLM.from_config(model.config, trust_remote_code=True).eval()
    load_checkpoint_in_model(other, tmp_path)
    assert is_tied(other)
    torch.testing.assert_close(other(torch.tensor(IDS)).logits, model(torch.tensor(IDS)).logits)
