"""Claims about trust: the files that `trust_remote_code` runs do nothing but compute, and no file is a pickle."""

import ast
import io
import json
import os
import pickle
import pickletools
import re
import shutil
import subprocess
import sys
import time
import zipfile
from functools import partial
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import torch
from helpers import CODE, ROOT, SMALL, make_checkpoint, run_alone
from safetensors.torch import load_file, save_file
from test_loading import make_corpora
from transformers import AutoModelForPreTraining, BertConfig, BertModel

from toybert.train import cli, convert, publish
from toybert.train.hub.folders import check_files, load_config, load_model, load_tokenizer, reading
from toybert.train.hub.push import UPLOADED, push
from toybert.train.pretrain import PretrainOptions, train_pretraining
from toybert.train.publish import published_files

HARMLESS = {"copy", "dataclasses", "math", "warnings"}  # of the standard library; and `os`, for os.path alone
LIBRARIES = {"torch", "transformers", "tokenizers"}
FORBIDDEN = {
    *("eval", "exec", "compile", "open", "input", "breakpoint", "globals", "__import__", "__builtins__", "__loader__"),
    *("__globals__", "__subclasses__", "environ", "getenv", "system", "popen"),
    # ways of the libraries to files, to the network, and to native code
    *("load", "hub", "ops", "classes", "cpp_extension", "from_pretrained", "cached_file"),
}
# What somebody might add to a file, by what it does: the number of the file, and the lines.
PLANTED = {
    "reads a file": (0, f"open({os.devnull!r}).close()"),
    "writes a file": (1, "open('planted', 'w').close()"),
    "makes a folder": (2, "import os\nos.mkdir('planted-folder')"),
    "lists a folder": (0, "import os\nos.listdir('.')"),
    "reads a variable": (1, "import os\nos.environ.get('HOME')"),
    "asks for a variable": (2, "from os import getenv\ngetenv('HOME')"),
    "reads all variables": (0, "import os\ndict(os.environ)"),
    "sets a variable": (1, "import os\nos.environ['PLANTED'] = 'yes'"),
    "evaluates": (2, "eval('1 + 1')"),
    "executes": (0, "exec('one = 1')"),
    "compiles": (1, "compile('1 + 1', 'planted', 'eval')"),
    "opens a socket": (2, "import socket\nsocket.socket().close()"),
    "asks for an address": (1, "import socket\nsocket.getaddrinfo('127.0.0.1', 9)"),
    "starts a process": (0, "import subprocess, sys\nsubprocess.run([sys.executable, '--version'])"),
    "starts a shell": (1, "import os\nos.system('true')"),
    "unpickles": (2, "import pickle, math\npickle.loads(pickle.dumps(math.sqrt))"),
    "loads a pickle": (1, "import io, torch\nf = io.BytesIO()\ntorch.save(torch.ones(1), f)\nf.seek(0)\n"
                          "torch.load(f, weights_only=False)"),
    "calls a C library": (0, "import ctypes\nctypes.CDLL(None)"),
    "imports by name": (2, "__import__('socket').socket().close()"),
    "reads a file in a forward": (1, "import os\nGELU.forward = lambda self, x: open(os.devnull) and x"),
}  # fmt: skip

# Notes what is done while a function of the watched files is at work, be it by themselves or by what they call.
WATCH = """
import cProfile, os, threading
from pathlib import Path

import torch, transformers
from tokenizers import Tokenizer, models
from transformers import AutoConfig, AutoModel, AutoTokenizer, BertConfig, BertForPreTraining, PreTrainedTokenizerFast

transformers.logging.set_verbosity_error()
CODE, auto_classes, real, planted, home = *json.loads(sys.argv[1]), Path.cwd().resolve()
modules = Path(os.environ["HF_HOME"], "modules").resolve()  # where the library puts its copy of the code
HARMLESS = {
    *("builtins.id", "object.__getattr__", "object.__setattr__", "object.__delattr__", "sys._getframe"),
    *("sys._getframemodulename", "code.__new__", "function.__new__", "import"),
}
WRITERS = ("dataclasses.py", "typing.py", "annotationlib.py")  # whose code becomes methods, or types
found, readable, writable, off = [], [], [], threading.local()
off.now = True

def inside(path, places):
    path = Path(os.fsdecode(path)).resolve() if isinstance(path, (str, bytes, os.PathLike)) else Path("/a number")
    return any(path.is_relative_to(place) for place in places)

def harmless(event, arguments, caller):
    if event in HARMLESS or caller.startswith("<frozen importlib"):  # what may be imported is another check's to say
        return True
    if event in ("exec", "compile"):
        return os.path.basename(caller) in WRITERS
    if event == "open":
        path, mode, flags = arguments
        writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) if flags else set(mode or "") & set("wax+")
        return inside(path, writable if writes else [*readable, *writable])
    if event in ("os.listdir", "os.scandir"):  # the library's loading, which the tokenizer's own calls
        return inside(arguments[0], [*readable, *writable])
    if event in ("os.mkdir", "os.remove", "os.chmod"):
        return inside(arguments[0], writable)
    if event.startswith("shutil.copy"):
        return inside(arguments[0], readable) and inside(arguments[1], writable)
    return False

def watch(event, arguments):
    if getattr(off, "now", False):
        return
    off.now = True
    frame = sys._getframe(1)
    caller = frame.f_code.co_filename
    while frame and os.path.basename(frame.f_code.co_filename) not in CODE:
        frame = frame.f_back
    if frame and not harmless(event, arguments, caller):
        found.append([event, str(arguments)[:200], f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"])
    off.now = False

def watched(name):
    real = getattr(Environment, name)
    def method(self, *arguments):
        watch(f"os.environ.{name}", arguments)
        return real(self, *arguments)
    return method

sys.addaudithook(watch)
Environment = type(os.environ)
for name in ("__getitem__", "__iter__", "__len__", "__setitem__", "__delitem__"):
    setattr(Environment, name, watched(name))

ids, two = torch.tensor([[2, 7, 8, 4, 3], [2, 9, 3, 10, 3]]), torch.tensor([0, 1])
LABELS = {
    "AutoModel": {},
    "AutoModelForPreTraining": {"labels": ids, "next_sentence_label": two},
    "AutoModelForMaskedLM": {"labels": ids},
    "AutoModelForTokenClassification": {"labels": ids % 2},
    "AutoModelForQuestionAnswering": {"start_positions": two, "end_positions": two},
    "AutoModelForMultipleChoice": {"labels": two[:1]},
}

def use(folder, classes, saved, **how):
    config, tokenizer = AutoConfig.from_pretrained(folder, **how), AutoTokenizer.from_pretrained(folder, **how)
    tokenizer(["the cat sat .", "no"], padding=True, truncation=True, return_tensors="pt")
    for name in classes:
        model = getattr(transformers, name).from_pretrained(folder, **how).train()
        batch = {"input_ids": ids[None] if "MultipleChoice" in name else ids}
        batch |= {"attention_mask": torch.ones_like(batch["input_ids"]), **LABELS.get(name, {"labels": two})}
        model(**batch)[0].sum().backward()
        if name == "AutoModelForPreTraining":
            model.set_attn_implementation("eager")
            model.gradient_checkpointing_enable()
            model(**batch, output_attentions=True, output_hidden_states=True)[0].sum().backward()
            model.resize_token_embeddings(len(tokenizer) + 8, mean_resizing=False)
            model.set_output_embeddings(model.get_output_embeddings())  # not every version needs it to resize
            model.save_pretrained(saved)
    tokenizer.train_new_from_iterator(["the cat sat ."], 20, show_progress=False).save_pretrained(saved)

def load(folder, file):
    loaded = [AutoConfig, AutoModel, AutoTokenizer][file].from_pretrained(folder, trust_remote_code=True)
    if file == 1:
        loaded(ids)

def observe(work, folder, *arguments, **how):
    readable[:], writable[:] = [Path(folder).resolve(), modules], [home / "saved"]
    found.clear()
    off.now = False
    work(folder, *arguments, **how)
    off.now = True
    return list(found)

# What the library does for the first time, such as to import a part of itself, it does here for a model of its own.
words = {"[UNK]": 0, "[PAD]": 1, "the": 2, "cat": 3, **{str(number): number for number in range(4, 20)}}
stock = PreTrainedTokenizerFast(
    tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="[UNK]")), unk_token="[UNK]", pad_token="[PAD]"
)
sizes = dict(vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
stock.save_pretrained(home / "stock")
BertForPreTraining(BertConfig(**sizes)).save_pretrained(home / "stock")
use(home / "stock", auto_classes, home / "saved")

profile = cProfile.Profile()
profile.enable()
facts["real"] = observe(use, real, auto_classes, home / "saved", trust_remote_code=True)
profile.disable()
codes = [entry.code for entry in profile.getstats() if hasattr(entry.code, "co_filename")]
facts["called"] = [[os.path.basename(code.co_filename), code.co_firstlineno] for code in codes]
facts["planted"] = {}
for folder, file in planted:
    facts["planted"][Path(folder).name] = observe(load, folder, file)
"""


def lint(source):
    """Returns the names in a hub file that it has no business with."""
    names, known = set(), {*HARMLESS, *LIBRARIES, "os"}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names if alias.name.split(".")[0] not in known}
            names |= {part for alias in node.names for part in alias.name.split(".")} & FORBIDDEN
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.name for alias in node.names} & FORBIDDEN
            if not node.level and node.module.split(".")[0] not in HARMLESS | LIBRARIES:
                names.add(node.module)
        elif isinstance(node, ast.Name):
            names |= {node.id} & FORBIDDEN
        elif isinstance(node, ast.Attribute):
            if ast.unparse(node) != "super().from_pretrained":  # an override loads nothing else
                names |= {node.attr} & FORBIDDEN
            if isinstance(node.value, ast.Name) and node.value.id == "os" and node.attr != "path":
                names.add(f"os.{node.attr}")
    return names


def functions(name):
    """Returns each function of a hub file that does something, by the line where it begins."""
    nodes = ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8")))
    defined = (node for node in nodes if isinstance(node, ast.FunctionDef) and not isinstance(node.body[-1], ast.Raise))
    return {min(n.lineno for n in (node, *node.decorator_list)): f"{name}: {node.name}" for node in defined}


def is_pickle(content):
    """Tells a pickle by its content, alone or in the archive that torch.save makes."""
    if zipfile.is_zipfile(io.BytesIO(content)):
        return any(name.endswith(".pkl") for name in zipfile.ZipFile(io.BytesIO(content)).namelist())
    try:
        return bool(list(pickletools.genops(content)))
    except Exception:  # whatever it stumbles over
        return False


def pickles(folder, names):
    return [name for name in names if is_pickle(Path(folder, name).read_bytes())]


class Payload:
    """Runs a command where it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    """Returns what a process saw the files do, and copies of them to which something was added."""
    top = tmp_path_factory.mktemp("trust")
    real, planted = make_checkpoint(top / "real"), []
    for number, (file, lines) in enumerate(PLANTED.values()):
        folder = shutil.copytree(real, top / f"planted-{number}")
        planted.append((str(folder), file))
        body = lines.replace("\n", "\n    ")
        with (folder / CODE[file]).open("a", encoding="utf-8") as code:
            code.write(f"\n\ndef planted():\n    {body}\n\n\nplanted()\n")
    auto_map = json.loads((ROOT / "config.json").read_text(encoding="utf-8"))["auto_map"]
    auto_classes = [name for name in auto_map if name.startswith("AutoModel")]
    return run_alone(WATCH, json.dumps([CODE, auto_classes, str(real), planted]), home=top / "home")


def test_loading_running_and_saving_touch_nothing_but_the_models_files(facts):
    assert facts["real"] == []


def test_every_function_of_the_hub_files_was_watched(facts):
    called = {tuple(each) for each in facts["called"]}
    for name in CODE:
        assert [function for line, function in functions(name).items() if (name, line) not in called] == []


@pytest.mark.parametrize("what", PLANTED)
def test_a_file_that_did_more_would_be_noticed(facts, what):
    noticed = facts["planted"][f"planted-{list(PLANTED).index(what)}"]
    assert noticed
    assert {place.split(":")[0] for _, _, place in noticed} == {CODE[PLANTED[what][0]]}


@pytest.mark.parametrize("name", CODE)
def test_the_hub_files_name_nothing_that_does_more_than_compute(name):
    assert lint((ROOT / name).read_text(encoding="utf-8")) == set()


@pytest.mark.parametrize("what", PLANTED)
def test_a_name_that_does_more_would_be_noticed(what):
    assert lint(PLANTED[what][1])


def test_what_is_published_holds_no_pickle():
    if not (ROOT / ".git").exists():
        pytest.skip("this copy of the repository is no git checkout")
    assert pickles(ROOT, published_files()) == []


def test_what_a_run_uploads_holds_no_pickle(tmp_path):
    make_corpora(tmp_path)
    run = tmp_path / "run"
    train_pretraining(PretrainOptions(output_dir=str(run), corpus=str(tmp_path / "stories"), epochs=1))
    uploaded = [path for pattern in UPLOADED for path in run.glob(pattern)]
    assert run / "model.safetensors" in uploaded
    assert pickles(run, uploaded) == []


def test_a_pickle_is_known_by_its_content(tmp_path):
    for number, new in enumerate((True, False)):
        torch.save({"one": torch.ones(1)}, tmp_path / str(number), _use_new_zipfile_serialization=new)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        (tmp_path / f"protocol-{protocol}").write_bytes(pickle.dumps({"one": [1]}, protocol))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert pickles(tmp_path, names) == names
    assert not is_pickle(b"{}")


@pytest.mark.parametrize("form", ["archive", "legacy archive", "plain"])
def test_a_foreign_pickle_that_holds_more_than_tensors_is_refused_and_not_run(tmp_path, monkeypatch, form):
    source, marker = tmp_path / "foreign", tmp_path / "marker"
    BertConfig(vocab_size=20, architectures=["BertForPreTraining"], **SMALL).save_pretrained(source)
    weights = {"bert.embeddings.word_embeddings.weight": torch.ones(20, 32), "more": Payload(marker)}
    if form == "plain":
        (source / "pytorch_model.bin").write_bytes(pickle.dumps(Payload(marker), protocol=2))
    else:
        torch.save(weights, source / "pytorch_model.bin", _use_new_zipfile_serialization=form == "archive")
    monkeypatch.setattr(sys, "argv", ["convert", str(source), str(tmp_path / "converted")])
    with pytest.raises(SystemExit) as stop:
        cli.run(convert.main)
    assert str(stop.value).startswith("error: ")
    assert str(source) in str(stop.value)
    assert len(str(stop.value).splitlines()) == 1
    assert not marker.exists()
    assert not (tmp_path / "converted").exists()


def test_the_payload_would_run_if_it_were_unpickled(tmp_path):
    script = f"import pickle; pickle.loads({pickle.dumps(Payload(tmp_path / 'marker'))!r})"
    subprocess.run([sys.executable, "-c", script], check=True)
    assert (tmp_path / "marker").exists()


def rewritten(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8")


ELSEWHERE = ["other/code--modeling_toybert.ToyBertModel", "../modeling_toybert.ToyBertModel", "more.ToyBertModel", "x"]
FOREIGN = [
    *(("config.json", {"auto_map": {"AutoConfig": entry}}) for entry in ELSEWHERE),
    *(("tokenizer_config.json", {"auto_map": {"AutoTokenizer": [None, entry]}}) for entry in ELSEWHERE),
    ("tokenizer_config.json", {"auto_map": [ELSEWHERE[0], None]}),  # as old versions wrote it
    ("config.json", {"attn_implementation": "other/kernel"}),
    ("config.json", {"_attn_implementation": "other/kernel@main"}),
    ("config.json", {"_attn_implementation_internal": "other/kernel"}),  # set as it is by transformers 4.57
]


@pytest.mark.parametrize(("name", "changes"), FOREIGN)
def test_code_from_elsewhere_is_refused_and_named(tmp_path, name, changes):
    folder = make_checkpoint(tmp_path / "checkpoint")
    rewritten(folder / name, **changes)
    for load in (load_config, load_tokenizer, partial(load_model, AutoModelForPreTraining)):
        with pytest.raises(ValueError, match=f"{name} .*{re.escape(str(changes).split(chr(39))[-2])}"):
            load(folder)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("config.json", {"configuration_files": ["config.4.0.0.json"]}),  # is then read in place of config.json
        ("config.json", {"attribute_map": {"layers": "num_hidden_layers"}}),
        ("config.json", {"transformers_weights": "../model.safetensors"}),
        *(("tokenizer_config.json", {key: "/etc/passwd"}) for key in ("vocab", "vocab_file", "tokenizer_file")),
        ("tokenizer_config.json", {"fast_tokenizer_files": ["../tokenizer.4.0.json"]}),
    ],
)
def test_settings_that_lead_to_what_was_not_checked_are_refused(tmp_path, name, changes):
    folder = make_checkpoint(tmp_path / "checkpoint")
    rewritten(folder / name, **changes)
    for read in (load_config, load_tokenizer, lambda folder: convert.convert(folder, tmp_path / "converted")):
        with pytest.raises(ValueError, match=rf"{name} has {next(iter(changes))} .*which leads elsewhere"):
            read(folder)


def test_settings_that_lead_nowhere_are_let_be(tmp_path):
    folder = make_checkpoint(tmp_path / "checkpoint")
    rewritten(folder / "tokenizer_config.json", tokenizer_file=None, special_tokens_map_file="/root/of/another.json")
    rewritten(folder / "config.json", attribute_map={}, _attn_implementation_autoset=True)
    check_files(folder)  # no more: transformers 4.57 takes the null for a file
    load_config(folder)


def test_an_adapter_is_refused_since_its_model_and_code_come_from_elsewhere(tmp_path):
    folder = make_checkpoint(tmp_path / "checkpoint")
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "other/code"}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"adapter_config\.json is of an adapter"):
        load_model(AutoModelForPreTraining, folder)


@pytest.mark.parametrize("name", [*CODE, "config.json", "tokenizer.json", "model.safetensors"])
def test_a_checkpoint_with_a_link_out_of_its_folder_is_refused(tmp_path, name):
    folder = make_checkpoint(tmp_path / "checkpoint")
    shutil.move(folder / name, tmp_path / name)
    (folder / name).symlink_to(tmp_path / name)
    with pytest.raises(ValueError, match=f"{re.escape(name)} leads out of .*checkpoint"):
        load_model(AutoModelForPreTraining, folder)


def test_the_code_above_a_folder_without_code_is_no_link_either(tmp_path):
    make_checkpoint(tmp_path / "elsewhere")
    make_checkpoint(tmp_path / "top" / "checkpoint")
    for name in CODE:
        (tmp_path / "top" / "checkpoint" / name).unlink()
        (tmp_path / "top" / name).symlink_to(tmp_path / "elsewhere" / name)
    with pytest.raises(ValueError, match=r"configuration_toybert\.py leads out of .*top"):
        load_config(tmp_path / "top" / "checkpoint")


def test_only_safetensors_are_loaded(tmp_path):
    folder = make_checkpoint(tmp_path / "checkpoint")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(OSError, match=r"model\.safetensors"):
        load_model(AutoModelForPreTraining, folder)


@pytest.fixture
def bert(tmp_path):
    """Makes a stock BERT with what sentence-transformers adds, and a file outside it."""
    (tmp_path / "secret.json").write_text('{"secret": 1}', encoding="utf-8")
    config = BertConfig(vocab_size=20, architectures=["BertModel"], **SMALL)
    BertModel(config).save_pretrained(tmp_path / "bert")
    (tmp_path / "bert" / "1_Pooling").mkdir()
    return tmp_path / "bert"


@pytest.mark.parametrize(
    "name", ["1_Pooling/config.json", "modules.json", "tokenizer_config.json", "vocab.txt", "chat_template.jinja"]
)
def test_a_link_that_leads_out_of_the_source_is_not_followed(bert, tmp_path, name):
    (bert / name).symlink_to(tmp_path / "secret.json")
    with pytest.raises(ValueError, match=f"{name} leads out of .*secret.json"):
        convert.convert(bert, tmp_path / "converted")
    assert not (tmp_path / "converted").exists()


def test_an_index_that_leads_out_of_the_source_is_not_followed(bert, tmp_path):
    shutil.move(bert / "model.safetensors", tmp_path / "model.safetensors")
    index = {"weight_map": {"embeddings.word_embeddings.weight": "../model.safetensors"}}
    (bert / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(ValueError, match="leads out of"):
        convert.convert(bert, tmp_path / "converted")
    folder = make_checkpoint(tmp_path / "checkpoint")
    shutil.move(bert / "model.safetensors.index.json", folder)
    with pytest.raises(ValueError, match="leads out of"):
        load_model(AutoModelForPreTraining, folder)


def test_the_links_of_the_hubs_cache_are_followed(bert, tmp_path):
    cache = tmp_path / "models--me--bert"
    snapshot = cache / "snapshots" / "0123"
    shutil.copytree(bert, cache / "blobs")
    snapshot.mkdir(parents=True)
    for path in (cache / "blobs").iterdir():
        if path.is_file():
            (snapshot / path.name).symlink_to(Path("..", "..", "blobs", path.name))
    assert convert.convert(snapshot, tmp_path / "converted") == []
    (snapshot / "inside").mkdir()
    (snapshot / "inside" / "config.json").symlink_to(cache / "blobs" / "config.json")
    check_files(snapshot / "inside")
    (snapshot / "inside" / "secret.json").symlink_to(tmp_path / "secret.json")
    with pytest.raises(ValueError, match="leads out of"):
        check_files(snapshot / "inside")


def test_a_link_that_leads_out_of_a_folder_is_not_uploaded(tmp_path, monkeypatch):
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "README.md").symlink_to(tmp_path / "secret")
    monkeypatch.setattr("toybert.train.hub.push.HfApi", lambda: MagicMock(whoami=lambda: {"name": "me"}))
    with pytest.raises(OSError, match=r"README\.md leads out of"):
        push(tmp_path / "run", "me/toybert")
    monkeypatch.setattr(publish, "ROOT", tmp_path / "run")
    monkeypatch.setattr(publish, "git", lambda *words: ["README.md"])
    with pytest.raises(ValueError, match=r"README\.md leads out of"):
        published_files()


@pytest.mark.parametrize("name", ["num_hidden_layers", "num_labels", "vocab_size"])
def test_a_checkpoint_of_an_absurd_size_is_refused_before_it_takes_memory(tmp_path, name):
    folder = make_checkpoint(tmp_path / "checkpoint")
    rewritten(folder / "config.json", **{name: 10**9})
    began = time.perf_counter()
    with pytest.raises(ValueError, match=f"says {name} 1000000000, but its weights have"):
        load_config(folder)
    assert time.perf_counter() - began < 1


def test_a_tensor_of_no_numbers_vouches_for_no_size(tmp_path):
    folder = make_checkpoint(tmp_path / "checkpoint")
    tensors = load_file(folder / "model.safetensors") | {"empty": torch.empty(10**9, 0)}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    rewritten(folder / "config.json", num_labels=10**9)
    with pytest.raises(ValueError, match="says num_labels 1000000000, but its weights have"):
        load_config(folder)


def test_sizes_that_are_each_there_but_not_together_are_refused(tmp_path):
    folder = make_checkpoint(tmp_path / "checkpoint")
    tensors = load_file(folder / "model.safetensors") | {
        "long": torch.zeros(10**5),
        f"layer.{'9' * 5000}.x": torch.ones(1),
    }
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    rewritten(folder / "config.json", vocab_size=10**5, hidden_size=10**5)
    with pytest.raises(
        ValueError, match=r"describes \d\d,\d{3},\d{3},\d{3} weights or more, but its files have \d{3},"
    ):
        load_config(folder)


def test_a_panic_of_the_tokenizers_is_told_in_one_sentence(monkeypatch):
    panic = type("PanicException", (BaseException,), {})
    with (
        pytest.raises(ValueError, match=r"the tokenizer of x can't be read \(PanicException: no\)"),
        reading("the tokenizer of x"),
    ):
        raise panic("no")
    with pytest.raises(SystemExit, match="error: unexpected PanicException: no"):
        cli.run(MagicMock(side_effect=panic("no")))
    for stop in (KeyboardInterrupt, SystemExit):
        with pytest.raises(stop), reading("the tokenizer of x"):
            raise stop
