"""Claims about conversion: what a BERT knows it knows as a ToyBERT, and the reverse, down to the last bit."""

import errno
import json
import pickle
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import unicodedata
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import torch
import transformers
from helpers import CODE, ROOT, make_checkpoint, run_alone
from huggingface_hub import ModelCard
from huggingface_hub.utils import filter_repo_objects
from safetensors.torch import load_file, save_file
from tokenizers import decoders, normalizers, pre_tokenizers, processors
from transformers import AutoConfig, AutoModelForPreTraining, AutoTokenizer, BertConfig, BertForPreTraining

from toybert.tokenization_toybert import SPECIAL_TOKENS, ToyBertTokenizer
from toybert.train import convert as script
from toybert.train.convert import convert
from toybert.train.hub.folders import SIZES as SIZES_OF_CONFIG
from toybert.train.hub.folders import load_tokenizer, save_hub_folder
from toybert.train.hub.stock import save_stock_tokenizer

SIZES = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
KINDS = {  # the model's name after Bert, and its Auto class
    "Model": "AutoModel",
    "ForPreTraining": "AutoModelForPreTraining",
    "ForMaskedLM": "AutoModelForMaskedLM",
    "ForNextSentencePrediction": "AutoModelForNextSentencePrediction",
    "ForSequenceClassification": "AutoModelForSequenceClassification",
    "ForTokenClassification": "AutoModelForTokenClassification",
    "ForQuestionAnswering": "AutoModelForQuestionAnswering",
    "ForMultipleChoice": "AutoModelForMultipleChoice",
}
WORDS = [
    "the",
    "cat",
    "sat",
    "café",
    "naïve",
    "élan",
    "don",
    "'",
    "t",
    ".",
    ",",
    "!",
    "?",
    "-",
    "straße",
    "你好",
    "σας",
    "x1",
]
ALPHABET = "abcthesaxz1 ABCTHE .,!?'-#[]()~@$%\t\n\u00a0\u3000éÉüßñîσςΣ你好かمر🙂€—…「」«»ǅﬁ"  # noqa: RUF001


def make_bert(folder, kind="ForPreTraining", dtype=torch.float32, **changes):
    """Saves a random BERT of the library's own, none of whose parameters is 0 or 1 everywhere, and returns it."""
    torch.manual_seed(0)
    model = getattr(transformers, f"Bert{kind}")(BertConfig(**SIZES, **changes)).to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    return model


def answers(folder, kind="ForPreTraining", **how):
    """Returns what a model answers, loaded by its Auto class."""
    model = getattr(transformers, KINDS[kind]).from_pretrained(folder, **how).eval()
    ids = torch.arange(24).view(2, 12) + 5
    mask = torch.ones_like(ids)
    mask[0, 8:] = 0
    if kind == "ForMultipleChoice":
        ids, mask = ids[None], mask[None]
    with torch.no_grad():
        return model(ids, attention_mask=mask)


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def change_config(folder, **changes):
    """Changes fields of a folder's config.json; None takes one out."""
    config = {name: value for name, value in (read(folder / "config.json") | changes).items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def change_tensors(folder, **changes):
    """Changes tensors of a folder's weights; None takes one out."""
    tensors = load_file(folder / "model.safetensors")
    for name, tensor in changes.items():
        assert name in tensors or tensor is not None
        tensors[name] = tensor
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    save_file(kept, folder / "model.safetensors", {"format": "pt"})


@pytest.mark.parametrize("kind", KINDS)
def test_a_bert_answers_the_same_as_toybert_and_comes_back_bit_for_bit(kind, tmp_path):
    make_bert(tmp_path / "bert", kind, num_labels=2 if kind != "ForTokenClassification" else 5)
    convert(tmp_path / "bert", tmp_path / "toybert")
    convert(tmp_path / "toybert", tmp_path / "back")

    expected, found = answers(tmp_path / "bert", kind), answers(tmp_path / "toybert", kind, trust_remote_code=True)
    for name, tensor in expected.items():
        swapped = name == "seq_relationship_logits" or kind == "ForNextSentencePrediction"
        torch.testing.assert_close(found[name].flip(-1) if swapped else found[name], tensor)
    assert read(tmp_path / "toybert" / "config.json")["architectures"] == [f"ToyBert{kind}"]

    origin, back = (
        load_file(tmp_path / "bert" / "model.safetensors"),
        load_file(tmp_path / "back" / "model.safetensors"),
    )
    back = {name.removeprefix("bert.") if kind == "Model" else name: tensor for name, tensor in back.items()}
    assert back.keys() == origin.keys()
    assert all(torch.equal(back[name], origin[name]) for name in origin)
    assert read(tmp_path / "back" / "config.json") == read(tmp_path / "bert" / "config.json") | {
        "architectures": [f"Bert{kind}"]
    }


def test_a_toybert_folder_becomes_one_that_needs_no_code(tmp_path):
    folder = make_checkpoint(tmp_path / "toybert")
    assert convert(folder, tmp_path / "bert") == []
    assert not list((tmp_path / "bert").glob("*.py"))
    facts = run_alone(
        """
import torch
from transformers import AutoModelForPreTraining, AutoTokenizer
model, report = AutoModelForPreTraining.from_pretrained(sys.argv[1], output_loading_info=True)
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
batch = tokenizer(["the cat sat .", "no"], ["it slept .", "the dog"], padding=True, return_tensors="pt")
with torch.no_grad():
    output = model.eval()(**batch)
facts = {
    "class": type(model).__name__, "missing": sorted(report["missing_keys"]),
    "unexpected": sorted(report["unexpected_keys"]), "ids": batch["input_ids"].tolist(),
    "words": output.prediction_logits.tolist(), "next": output.seq_relationship_logits.tolist(),
}
""",
        tmp_path / "bert",
        home=tmp_path / "home",
    )
    assert (facts["class"], facts["missing"], facts["unexpected"]) == ("BertForPreTraining", [], [])
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    batch = tokenizer(["the cat sat .", "no"], ["it slept .", "the dog"], padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = AutoModelForPreTraining.from_pretrained(folder, trust_remote_code=True).eval()(**batch)
    assert facts["ids"] == batch["input_ids"].tolist()
    torch.testing.assert_close(torch.tensor(facts["words"]), expected.prediction_logits)
    torch.testing.assert_close(torch.tensor(facts["next"]), expected.seq_relationship_logits.flip(-1))


def test_the_class_names_change_places_with_the_rows_of_next_sentences(tmp_path):
    folder = make_checkpoint(tmp_path / "pretrained")
    auto = transformers.AutoModelForNextSentencePrediction
    model = auto.from_pretrained(folder, trust_remote_code=True)
    model.save_pretrained(tmp_path / "toybert")
    convert(tmp_path / "toybert", tmp_path / "bert")
    convert(tmp_path / "bert", tmp_path / "back")
    assert auto.from_pretrained(tmp_path / "bert").config.id2label == {0: "IsNext", 1: "NotNext"}
    assert auto.from_pretrained(tmp_path / "bert").config.label2id == {"IsNext": 0, "NotNext": 1}
    assert AutoConfig.from_pretrained(tmp_path / "back", trust_remote_code=True).id2label == {0: "NotNext", 1: "IsNext"}


def test_the_sentiment_classifier_keeps_its_labels_and_its_answers(tmp_path):
    convert(ROOT / "sentiment", tmp_path / "bert")
    here = {"subfolder": "sentiment", "trust_remote_code": True}
    expected = answers(ROOT, "ForSequenceClassification", **here).logits
    torch.testing.assert_close(answers(tmp_path / "bert", "ForSequenceClassification").logits, expected)
    config = AutoConfig.from_pretrained(tmp_path / "bert")
    assert config.id2label == {0: "negative", 1: "positive"}
    assert config.problem_type == "single_label_classification"


def test_an_untied_decoder_stays_untied(tmp_path):
    make_bert(tmp_path / "bert", tie_word_embeddings=False)
    convert(tmp_path / "bert", tmp_path / "toybert")
    convert(tmp_path / "toybert", tmp_path / "back")
    expected = answers(tmp_path / "bert").prediction_logits
    torch.testing.assert_close(answers(tmp_path / "toybert", trust_remote_code=True).prediction_logits, expected)
    torch.testing.assert_close(answers(tmp_path / "back").prediction_logits, expected)


@pytest.mark.parametrize("named", ["float32", "float16", None])
def test_each_tensor_keeps_its_own_type_whatever_the_configuration_says(named, tmp_path):
    make_bert(tmp_path / "bert")
    path = tmp_path / "bert" / "model.safetensors"
    tensors = load_file(path)
    half = {name: tensor.bfloat16() for name, tensor in tensors.items() if ".layer.1." in name}
    save_file(tensors | half, path, {"format": "pt"})
    change_config(tmp_path / "bert", dtype=named)
    convert(tmp_path / "bert", tmp_path / "toybert")
    convert(tmp_path / "toybert", tmp_path / "back")
    back = load_file(tmp_path / "back" / "model.safetensors")
    assert all(torch.equal(back[name], tensor) for name, tensor in (tensors | half).items())
    assert {name for name, tensor in back.items() if tensor.dtype == torch.bfloat16} == half.keys() != set()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_kept(dtype, tmp_path):
    make_bert(tmp_path / "bert", dtype=dtype)
    convert(tmp_path / "bert", tmp_path / "toybert")
    assert {tensor.dtype for tensor in load_file(tmp_path / "toybert" / "model.safetensors").values()} == {dtype}
    assert read(tmp_path / "toybert" / "config.json")["dtype"] == str(dtype).removeprefix("torch.")


def test_old_and_split_checkpoints_are_read(tmp_path):
    model = make_bert(tmp_path / "bert")
    expected = answers(tmp_path / "bert").prediction_logits
    old = {  # as Google's first checkpoints came: pickled, norms of gamma and beta, the decoder twice, and a buffer
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in model.state_dict().items()
    } | {"bert.embeddings.position_ids": torch.arange(512)[None]}
    (tmp_path / "old").mkdir()
    shutil.copyfile(tmp_path / "bert" / "config.json", tmp_path / "old" / "config.json")
    torch.save(old, tmp_path / "old" / "pytorch_model.bin")
    model.save_pretrained(tmp_path / "split", max_shard_size="20KB")
    assert len(list((tmp_path / "split").glob("model-*.safetensors"))) > 1
    for name in ("old", "split"):
        convert(tmp_path / name, tmp_path / f"{name}-toybert")
        found = answers(tmp_path / f"{name}-toybert", trust_remote_code=True).prediction_logits
        torch.testing.assert_close(found, expected)
        assert set(load_file(tmp_path / f"{name}-toybert" / "model.safetensors")) == set(
            AutoModelForPreTraining.from_pretrained(tmp_path / f"{name}-toybert", trust_remote_code=True).state_dict()
        ) - {"mlm_head.decoder.weight"}


def test_what_is_no_part_of_bert_is_left_out_and_named(tmp_path, monkeypatch, capsys):
    make_bert(tmp_path / "bert")
    gone = dict.fromkeys(["cls.seq_relationship.weight", "cls.seq_relationship.bias"])
    change_tensors(tmp_path / "bert", **gone, **{"cls.species.weight": torch.ones(6, 32)})
    change_config(tmp_path / "bert", architectures=["Beetle"])
    monkeypatch.setattr("sys.argv", ["convert", str(tmp_path / "bert"), str(tmp_path / "toybert")])
    script.main()
    assert "left out, as they have no place there: cls.species.weight" in capsys.readouterr().out
    assert read(tmp_path / "toybert" / "config.json")["architectures"] == ["ToyBertForPreTraining"]
    names = set(load_file(tmp_path / "toybert" / "model.safetensors"))
    assert not any(name.startswith("nsp_head") for name in names)  # nor is anything made up
    assert "bert.pooler.dense.weight" in names


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'"),
        ({"is_decoder": True}, "is_decoder is True"),
        ({"add_cross_attention": True}, "add_cross_attention is True"),
        ({"hidden_act": "relu"}, "hidden_act .* 'relu'"),
        ({"model_type": "roberta"}, "model_type is 'roberta'"),
        ({"model_type": None, "type_vocab_size": None}, "model_type is None"),
        ({"num_hidden_layers": 3}, r"config\.json says num_hidden_layers 3, but its weights have 2"),
        ({"num_hidden_layers": 1}, r"bert\.encoder\.layer\.1\..* num_hidden_layers 1"),
        ({"vocab_size": 60}, r"word_embeddings\.weight .*\(50, 32\).*\(60, 32\)"),
        ({"vocab_size": "big"}, "vocab_size"),
        ({"hidden_size": []}, "hidden_size"),
        ({"architectures": [3]}, r"architectures is \[3\] .*bert"),
        ({"architectures": "BertModel"}, "architectures is 'BertModel'"),
    ],
)
def test_what_cannot_be_converted_is_refused_by_its_name_and_value(changes, message, tmp_path):
    make_bert(tmp_path / "bert")
    change_config(tmp_path / "bert", **changes)
    with pytest.raises(ValueError, match=message):
        convert(tmp_path / "bert", tmp_path / "toybert")
    assert not (tmp_path / "toybert").exists()


@pytest.mark.parametrize("text", ["[1]", "hello", "", "\x00\ud83d"])
def test_a_configuration_that_is_none_is_refused_by_its_path(text, tmp_path):
    make_bert(tmp_path / "bert")
    (tmp_path / "bert" / "config.json").write_text(text, "utf-8", "surrogatepass")
    with pytest.raises(ValueError, match=r"bert.config\.json"):
        convert(tmp_path / "bert", tmp_path / "toybert")


@pytest.mark.parametrize("kind", ["ForSequenceClassification", "ForQuestionAnswering"])
@pytest.mark.parametrize("named", [None, ["BertForBeetles"]], ids=["unnamed", "own"])
def test_a_head_that_no_class_explains_is_not_dropped(kind, named, tmp_path):
    make_bert(tmp_path / "bert", kind)
    change_config(tmp_path / "bert", architectures=named)
    with pytest.raises(ValueError, match=r"(classifier|qa_outputs)\.bias.* arch"):
        convert(tmp_path / "bert", tmp_path / "toybert")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("ForSequenceClassification", "classifier.weight"),
        ("ForSequenceClassification", "bert.pooler.dense.bias"),
        ("ForMaskedLM", "cls.predictions.transform.dense.bias"),
        ("ForQuestionAnswering", "qa_outputs.bias"),
    ],
)
def test_a_head_that_is_missing_is_named(kind, name, tmp_path):
    make_bert(tmp_path / "bert", kind)
    change_tensors(tmp_path / "bert", **{name: None})
    with pytest.raises(ValueError, match=f"Bert{kind}.* {name}"):
        convert(tmp_path / "bert", tmp_path / "toybert")


def test_a_toybert_without_its_code_is_converted_and_a_foreign_ones_code_is_not_run(tmp_path):
    ours, bare = make_checkpoint(tmp_path / "ours"), make_checkpoint(tmp_path / "bare")
    for name in CODE:
        (bare / name).unlink()
        (ours / name).write_text(f"open({str(tmp_path / 'marker')!r}, 'w')\n", encoding="utf-8")
    for folder in (ours, bare):
        assert convert(folder, tmp_path / f"{folder.name}-stock") == []
    assert not (tmp_path / "marker").exists()
    one, two = (load_file(tmp_path / f"{name}-stock" / "model.safetensors") for name in ("ours", "bare"))
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("text", ["[1]", "hello", "{}"])
def test_a_tokenizer_that_cannot_be_read_leaves_nothing_behind(text, tmp_path):
    folder = make_checkpoint(tmp_path / "toybert")
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"tokenizer of .*toybert"):
        convert(folder, tmp_path / "bert")
    assert not (tmp_path / "bert").exists()


def test_only_what_is_on_the_hub_has_a_revision(tmp_path):
    make_bert(tmp_path / "bert")
    with pytest.raises(ValueError, match=r"bert .* revision v1"):
        convert(tmp_path / "bert", tmp_path / "toybert", revision="v1")


def test_of_the_hub_only_what_is_read_is_downloaded(tmp_path, monkeypatch):
    files = {"config.json", "tokenizer.json", "vocab.txt", "1_Pooling/config.json", "modules.json"}
    weights = {"model.safetensors", "model-00001-of-00002.safetensors", "2_Dense/model.safetensors"}
    pickles = {"pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "2_Dense/pytorch_model.bin"}
    others = {"modeling_toybert.py", "README.md", "notes.txt", "train/corpora/stories/train.jsonl", "figures/a.png",
              "results.json", "onnx/model.onnx", "tf_model.h5", "training_args.bin", "optimizer.bin"}  # fmt: skip
    asked = []

    def download(source, revision, allow_patterns):
        asked.append((source, revision))
        wanted.update(filter_repo_objects(sorted(files | weights | pickles | others), allow_patterns=allow_patterns))
        return tmp_path

    monkeypatch.setattr(script, "snapshot_download", download)
    (tmp_path / "model.safetensors").touch()
    wanted = set()
    script.fetch("me/bert", "v1")
    assert wanted == files | weights
    (tmp_path / "model.safetensors").unlink()
    script.fetch("me/bert", None)
    assert wanted == files | weights | pickles
    assert asked == [("me/bert", "v1"), ("me/bert", None), ("me/bert", None)]


def test_a_missing_source_and_a_full_target_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing"):
        convert(tmp_path / "nothing", tmp_path / "toybert")
    make_bert(tmp_path / "bert")
    with pytest.raises(FileExistsError, match="is not empty"):
        convert(tmp_path / "bert", tmp_path / "bert")
    (tmp_path / "bert" / "model.safetensors").unlink()
    with pytest.raises(OSError, match=r"model\.safetensors"):
        convert(tmp_path / "bert", tmp_path / "toybert")


@pytest.mark.parametrize(
    "content",
    [b"", b"hello there", b"version https://git-lfs.github.com", pickle.dumps([1], 2), pickle.dumps({"a": 1}, 2)],
    ids=["empty", "text", "pointer", "list", "number"],
)
def test_a_pickle_of_no_tensors_is_refused_in_one_sentence(content, tmp_path):
    make_bert(tmp_path / "bert")
    (tmp_path / "bert" / "model.safetensors").unlink()
    (tmp_path / "bert" / "pytorch_model.bin").write_bytes(content)
    with pytest.raises(ValueError, match=r"pytorch_model\.bin .*\(\w+\)"):
        convert(tmp_path / "bert", tmp_path / "toybert")
    assert not (tmp_path / "toybert").exists()


@pytest.mark.parametrize("text", ["[]", "{}", '{"weight_map": [3]}', '{"weight_map": {"a": "gone.safetensors"}}'])
def test_an_index_that_leads_nowhere_is_named(text, tmp_path):
    make_bert(tmp_path / "bert")
    (tmp_path / "bert" / "model.safetensors").unlink()
    (tmp_path / "bert" / "model.safetensors.index.json").write_text(text, encoding="utf-8")
    with pytest.raises((ValueError, OSError), match=r"index\.json|gone\.safetensors"):
        convert(tmp_path / "bert", tmp_path / "toybert")


@pytest.mark.parametrize("pickled", [False, True])
@pytest.mark.parametrize("name", SIZES_OF_CONFIG)
def test_a_size_that_the_weights_do_not_have_is_refused_at_once(name, pickled, tmp_path):
    make_bert(tmp_path / "bert")
    if pickled:
        torch.save(load_file(tmp_path / "bert" / "model.safetensors"), tmp_path / "bert" / "pytorch_model.bin")
        (tmp_path / "bert" / "model.safetensors").unlink()
    for value in (1500, 10**9) if name == "num_hidden_layers" else (10**9,):
        change_config(tmp_path / "bert", **{name: value})
        began = time.perf_counter()
        with pytest.raises(ValueError, match=rf"{name} {value}|layers"):
            convert(tmp_path / "bert", tmp_path / "toybert")
        assert time.perf_counter() - began < 2


def test_an_early_bert_without_its_type_is_read(tmp_path):
    make_bert(tmp_path / "bert", "Model")
    change_config(tmp_path / "bert", model_type=None, architectures=None, pad_token_id=None)
    make_bert(tmp_path / "again", "Model")
    expected = answers(tmp_path / "again", "Model")
    convert(tmp_path / "bert", tmp_path / "toybert")
    found = answers(tmp_path / "toybert", "Model", trust_remote_code=True)
    torch.testing.assert_close(found.last_hidden_state, expected.last_hidden_state)


def test_a_tokenizer_of_more_tokens_than_the_model_is_refused(tmp_path):
    folder = make_checkpoint(tmp_path / "toybert")
    tokenizer = load_tokenizer(folder)
    tokenizer.add_tokens(["one more"])
    tokenizer.save_pretrained(folder)
    with pytest.raises(ValueError, match=rf"{len(tokenizer)} tokens, its model {len(tokenizer) - 1}"):
        convert(folder, tmp_path / "bert")


def test_a_vocabulary_with_a_byte_order_mark_is_refused(tmp_path):
    make_bert(tmp_path / "bert")
    words = [*SPECIAL_TOKENS, *WORDS]
    (tmp_path / "bert" / "vocab.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8-sig")
    with pytest.raises(ValueError, match=r"vocab\.txt begins with a byte-order mark"):
        convert(tmp_path / "bert", tmp_path / "toybert")


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_what_is_nested_without_end_is_named(name, tmp_path):
    folder = make_checkpoint(tmp_path / "toybert")
    (folder / name).write_text("[" * 10**5, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"{re.escape(name)} can't be read"):
        convert(folder, tmp_path / "bert")


@pytest.mark.parametrize("limit", ["x", -1, 0, [3]])
def test_a_limit_that_is_no_number_of_tokens_is_refused(limit, tmp_path):
    folder = make_checkpoint(tmp_path / "toybert")
    settings = read(folder / "tokenizer_config.json") | {"model_max_length": limit}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    with pytest.raises(ValueError, match=r"model_max_length|tokenizer"):
        convert(folder, tmp_path / "bert")


@pytest.mark.parametrize("there", [False, True])
def test_a_disk_that_fills_up_leaves_nothing_and_the_next_try_succeeds(there, tmp_path, monkeypatch):
    folder, target = make_checkpoint(tmp_path / "toybert"), tmp_path / "bert"
    if there:
        target.mkdir()
    with monkeypatch.context() as patch:
        full = OSError(errno.ENOSPC, "No space left on device")
        patch.setattr("toybert.train.convert.save_torch_state_dict", MagicMock(side_effect=full))
        with pytest.raises(OSError, match=r"could not write .*bert: .*No space left"):
            convert(folder, target)
    assert sorted(path.name for path in tmp_path.iterdir()) == (["bert", "toybert"] if there else ["toybert"])
    convert(folder, target)
    assert (target / "model.safetensors").is_file()
    assert "# bert" in (target / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("there", [False, True])
def test_a_kill_leaves_no_half_of_a_folder_and_the_next_try_succeeds(there, tmp_path):
    folder, target = make_checkpoint(tmp_path / "toybert"), tmp_path / "bert"
    if there:
        target.mkdir()
    killed = (
        "import os, signal, sys; from toybert.train import convert\n"
        "convert.write_conversion_card = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "convert.convert(*sys.argv[1:])"
    )
    done = subprocess.run([sys.executable, "-c", killed, str(folder), str(target)], capture_output=True)
    assert done.returncode == -signal.SIGKILL
    assert not (target / "config.json").exists()
    convert(folder, target)
    assert (target / "model.safetensors").is_file()
    assert not [path.name for where in (tmp_path, target) for path in where.iterdir() if "unfinished" in path.name]


def test_a_working_directory_and_a_link_to_a_folder_are_filled(tmp_path, monkeypatch):
    folder = make_checkpoint(tmp_path / "toybert")
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    monkeypatch.chdir(tmp_path / "here")
    for target in (".", tmp_path / "link"):
        convert(folder, target)
    for name in ("here", "there"):
        assert f"# {name}" in (tmp_path / name / "README.md").read_text(encoding="utf-8")
    assert Path.cwd().samefile(tmp_path / "here")


@pytest.mark.parametrize("kept", [0, 4, 1000], ids=["empty", "torn head", "torn"])
def test_damaged_weights_are_refused_in_one_sentence(kept, tmp_path):
    make_bert(tmp_path / "bert")
    path = tmp_path / "bert" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"model\.safetensors is damaged"):
        convert(tmp_path / "bert", tmp_path / "toybert")
    assert not (tmp_path / "toybert").exists()


def test_word_pieces_keep_their_tokenizer_both_ways(tmp_path):
    make_bert(tmp_path / "bert")
    pieces = [*("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), "un", "##afford", "##able", "cafe", "A", "b"]
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    (tmp_path / "bert" / "tokenizer_config.json").write_text('{"do_lower_case": true, "model_max_length": 77}', "utf-8")
    convert(tmp_path / "bert", tmp_path / "toybert")
    convert(tmp_path / "toybert", tmp_path / "back")
    origin = AutoTokenizer.from_pretrained(tmp_path / "bert")
    expected = origin("Unaffordable CAFÉ", "a B")
    assert origin.convert_ids_to_tokens(expected["input_ids"])[1:5] == ["un", "##afford", "##able", "cafe"]
    for folder, how in ((tmp_path / "toybert", {"trust_remote_code": True}), (tmp_path / "back", {})):
        tokenizer = AutoTokenizer.from_pretrained(folder, **how)
        assert dict(tokenizer("Unaffordable CAFÉ", "a B")) == dict(expected)
        assert tokenizer.model_max_length == 77


@pytest.mark.parametrize(("saved", "limit"), [(None, 40), (10**30, 40), (77, 40), (9, 9)])
def test_a_converted_tokenizer_cuts_at_what_the_model_takes(saved, limit, tmp_path):
    make_bert(tmp_path / "bert", max_position_embeddings=40)
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, "the", "cat"]) + "\n", encoding="utf-8")
    if saved:
        settings = {"tokenizer_class": "BertTokenizer", "model_max_length": saved}
        (tmp_path / "bert" / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    convert(tmp_path / "bert", tmp_path / "toybert")
    path = tmp_path / "toybert" / "tokenizer_config.json"
    tokenizer = AutoTokenizer.from_pretrained(path.parent, trust_remote_code=True)
    assert len(tokenizer("the cat " * 100, truncation=True)["input_ids"]) == limit
    assert read(path)["model_max_length"] == limit
    if saved:
        path.write_text(json.dumps(read(path) | {"model_max_length": saved}), encoding="utf-8")
    convert(tmp_path / "toybert", tmp_path / "back")
    back = AutoTokenizer.from_pretrained(tmp_path / "back")
    assert len(back("the cat " * 100, truncation=True)["input_ids"]) == limit


def test_a_saved_folder_cuts_at_what_its_model_takes(tmp_path):
    folder = make_checkpoint(tmp_path / "mine", max_position_embeddings=40)
    model = AutoModelForPreTraining.from_pretrained(folder, trust_remote_code=True)
    tokenizer = make_tokenizer(model_max_length=10**30)
    save_hub_folder(model, tokenizer, folder)
    assert read(folder / "tokenizer_config.json")["model_max_length"] == 40
    convert(folder, tmp_path / "stock")
    assert read(tmp_path / "stock" / "tokenizer_config.json")["model_max_length"] == 40


def test_how_sentence_vectors_are_made_comes_along(tmp_path):
    make_bert(tmp_path / "bert", "Model")
    (tmp_path / "bert" / "1_Pooling").mkdir()
    for name in (
        "modules.json",
        "sentence_bert_config.json",
        "config_sentence_transformers.json",
        "1_Pooling/config.json",
    ):
        (tmp_path / "bert" / name).write_text(f'{{"name": "{name}"}}', encoding="utf-8")
    convert(tmp_path / "bert", tmp_path / "toybert")
    for name in (
        "modules.json",
        "sentence_bert_config.json",
        "config_sentence_transformers.json",
        "1_Pooling/config.json",
    ):
        assert read(tmp_path / "toybert" / name) == {"name": name}


@pytest.mark.parametrize("pickled", [False, True])
def test_a_dense_layer_after_the_encoder_keeps_its_weights(pickled, tmp_path):
    make_bert(tmp_path / "bert", "Model")
    module, tensors = tmp_path / "bert" / "2_Dense", {"linear.weight": torch.randn(8, 32), "linear.bias": torch.ones(8)}
    module.mkdir()
    (module / "config.json").write_text('{"in_features": 32}', encoding="utf-8")
    if pickled:
        torch.save(tensors, module / "pytorch_model.bin")
    else:
        save_file(tensors, module / "model.safetensors")
    convert(tmp_path / "bert", tmp_path / "toybert")
    found = load_file(tmp_path / "toybert" / "2_Dense" / "model.safetensors")
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)
    assert not list((tmp_path / "toybert").rglob("*.bin"))


def test_a_converted_folder_says_from_what_it_was_made(tmp_path):
    convert(make_checkpoint(tmp_path / "mine"), tmp_path / "stock")
    card = ModelCard.load(tmp_path / "stock" / "README.md")
    assert card.data.tags == ["bert"]
    assert card.data.base_model is None  # a folder means nothing to others
    assert "A stock BERT, converted from `mine`" in card.content
    assert str(tmp_path) not in card.content
    make_bert(tmp_path / "bert")
    change_tensors(tmp_path / "bert", **{"cls.species.weight": torch.ones(6, 32)})
    convert(tmp_path / "bert", tmp_path / "toybert")
    card = ModelCard.load(tmp_path / "toybert" / "README.md")
    assert card.data.tags == ["bert", "toybert", "custom_code"]
    assert "Left out, as they have no place here: `cls.species.weight`." in card.content


def make_tokenizer(words=WORDS, **options):
    return ToyBertTokenizer({token: index for index, token in enumerate([*SPECIAL_TOKENS, *words])}, **options)


def stock(tokenizer, folder):
    """Returns a word tokenizer as the one that needs no code, saved and loaded."""
    folder.mkdir(exist_ok=True)
    BertConfig(**SIZES).save_pretrained(folder)
    save_stock_tokenizer(tokenizer, folder)
    assert not {"auto_map", "is_local", "local_files_only"} & read(folder / "tokenizer_config.json").keys()
    return AutoTokenizer.from_pretrained(folder)


def random_texts(count):
    """Returns strings of words, marks, spaces and letters of many scripts, in Unicode's NFC form."""
    generator = random.Random(0)
    texts = []
    for _ in range(count):
        parts = [
            "".join(generator.choices(ALPHABET, k=generator.randint(0, 12))) for _ in range(generator.randint(0, 6))
        ]
        parts += generator.choices([*WORDS, *SPECIAL_TOKENS, "THE", "Café", "[mask]"], k=generator.randint(0, 8))
        generator.shuffle(parts)
        texts.append(unicodedata.normalize("NFC", generator.choice(["", " "]).join(parts)))
    return texts


@pytest.mark.parametrize("split_punctuation", [True, False])
def test_the_stock_tokenizer_gives_the_same_tokens(split_punctuation, tmp_path):
    ours = make_tokenizer(split_punctuation=split_punctuation)
    theirs = stock(ours, tmp_path / "stock")
    assert type(theirs).__name__.startswith("BertTokenizer") == split_punctuation
    texts = random_texts(3000)
    found, expected = theirs(texts), ours(texts)
    assert found["input_ids"] == expected["input_ids"]
    assert len({index for ids in found["input_ids"] for index in ids}) == len(ours)  # every word was met
    pairs = (texts[:500], texts[500:1000])
    assert dict(theirs(*pairs, padding=True)) == dict(ours(*pairs, padding=True))
    assert theirs(texts[:200], truncation=True, max_length=9) == ours(texts[:200], truncation=True, max_length=9)
    assert theirs.model_max_length == ours.model_max_length == 64
    known = [ids for ids in expected["input_ids"] if 1 not in ids]
    assert theirs.batch_decode(known) == ours.batch_decode(known)
    kept = {"skip_special_tokens": True}
    assert theirs.batch_decode(known, **kept) == ours.batch_decode(known, **kept)


@pytest.mark.parametrize("lower", [True, False])
def test_the_stock_tokenizer_keeps_the_case_as_ours_does(lower, tmp_path):
    ours = make_tokenizer(["the", "The", "cat", "."], do_lower_case=lower)
    theirs = stock(ours, tmp_path / "stock")
    assert type(theirs).__name__.startswith("BertTokenizer")
    for text in ("The cat. the Cat", "THE [MASK]."):
        assert theirs(text)["input_ids"] == ours(text)["input_ids"]


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("normalizer", normalizers.StripAccents()),
        ("pre_tokenizer", pre_tokenizers.Split("-", "removed")),
        ("post_processor", processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 2)])),
        ("decoder", decoders.Fuse()),
    ],
)
def test_a_part_that_was_replaced_is_in_the_stock_tokenizer_too(part, value, tmp_path):
    ours = make_tokenizer()
    setattr(ours.backend_tokenizer, part, value)
    theirs = stock(ours, tmp_path / "stock")
    for text in ("the cat-sat", "naive. naïve", "The"):
        assert theirs(text)["input_ids"] == ours(text)["input_ids"]
        assert theirs.decode(ours(text)["input_ids"]) == ours.decode(ours(text)["input_ids"])


@pytest.mark.parametrize(
    "words",
    [
        ["cat", "cats", "##s"],
        ["cat", "a" * 101],
        ["cat", "a\nb", "cats"],
        ["cat", "cat ", "cats"],
        ["cat", "a\x85", "b"],
    ],
    ids=["pieces", "long", "two lines", "space", "another line break"],
)
def test_words_that_bert_would_read_otherwise_stay_a_plain_list(words, tmp_path):
    ours = make_tokenizer(words)
    theirs = stock(ours, tmp_path / "stock")
    for text in ("cat cats catss ##s b", "a" * 101 + " cat"):
        assert theirs(text)["input_ids"] == ours(text)["input_ids"]


@pytest.mark.parametrize("split_punctuation", [True, False])
def test_added_tokens_come_along(split_punctuation, tmp_path):
    ours = make_tokenizer(split_punctuation=split_punctuation)
    ours.add_tokens(["newt", "<b>"])
    ours.add_special_tokens({"additional_special_tokens": ["[SPEAKER]"]})
    theirs = stock(ours, tmp_path / "stock")
    assert len(theirs) == len(ours)
    for text in ("the newt sat", "the <b>cat [SPEAKER] sat"):
        assert theirs(text)["input_ids"] == ours(text)["input_ids"]
        assert theirs.decode(theirs(text)["input_ids"]) == ours.decode(ours(text)["input_ids"])


def test_the_stock_tokenizer_differs_where_its_docstring_says_so(tmp_path):
    ours = make_tokenizer()
    theirs = stock(ours, tmp_path / "stock")
    for text in ("c\u200bat", "cafe\u0301"):
        assert theirs(text)["input_ids"] != ours(text)["input_ids"]


def test_a_stock_model_is_transformers_own_class(tmp_path):
    convert(make_checkpoint(tmp_path / "toybert"), tmp_path / "bert")
    assert type(AutoModelForPreTraining.from_pretrained(tmp_path / "bert")) is BertForPreTraining
