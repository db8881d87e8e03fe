"""Claims about ToyBertConfig: its defaults, what it refuses, and that nothing is lost on the way to disk."""

from __future__ import annotations

import ast
import inspect
import json
from pathlib import Path

import pytest
from transformers import CONFIG_MAPPING, PretrainedConfig

from toybert import modeling_toybert
from toybert.configuration_toybert import ToyBertConfig

ROOT = Path(modeling_toybert.__file__).parent
SHIPPED = json.loads((ROOT / "config.json").read_text("utf-8"))
FIELDS = {
    name: parameter.default
    for name, parameter in inspect.signature(ToyBertConfig.__init__).parameters.items()
    if parameter.default is not inspect.Parameter.empty
}
OTHER_VALUES = {
    "vocab_size": 99,
    "hidden_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "intermediate_size": 77,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.2,
    "attention_probs_dropout_prob": 0.3,
    "max_position_embeddings": 32,
    "type_vocab_size": 3,
    "initializer_range": 0.05,
    "layer_norm_eps": 1e-5,
    "pad_token_id": 7,
    "classifier_dropout": 0.4,
    "sparse_prediction": True,
    "tie_word_embeddings": False,
}
SIZES = [
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
]


def reloaded(config: ToyBertConfig, folder: Path) -> ToyBertConfig:
    config.save_pretrained(folder)
    return ToyBertConfig.from_pretrained(folder)


def test_it_is_made_without_arguments_and_printed() -> None:
    config = ToyBertConfig()
    assert {name: getattr(config, name) for name in FIELDS} == FIELDS
    assert '"hidden_size": 128' in repr(config)


def test_its_defaults_are_the_sizes_of_the_seed() -> None:
    config = ToyBertConfig()
    assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads) == (128, 2, 4)
    assert (config.intermediate_size, config.max_position_embeddings, config.type_vocab_size) == (512, 64, 2)
    assert (config.hidden_dropout_prob, config.attention_probs_dropout_prob) == (0.1, 0.1)
    assert (config.hidden_act, config.pad_token_id, config.tie_word_embeddings) == ("gelu_new", 0, True)


@pytest.mark.parametrize("name", FIELDS)
def test_its_default_is_the_shipped_value(name: str) -> None:
    assert SHIPPED[name] == FIELDS[name]


def test_every_field_has_a_value_to_be_tried() -> None:
    assert OTHER_VALUES.keys() == FIELDS.keys()


@pytest.mark.parametrize("name", FIELDS)
def test_a_changed_field_survives_saving(name: str, tmp_path: Path) -> None:
    config = ToyBertConfig(**{name: OTHER_VALUES[name]})
    assert getattr(config, name) == OTHER_VALUES[name]
    assert getattr(reloaded(config, tmp_path), name) == OTHER_VALUES[name]
    assert reloaded(config, tmp_path).to_dict() == config.to_dict()


@pytest.mark.parametrize(("name", "value"), [("pad_token_id", None), ("classifier_dropout", None)])
def test_a_field_that_equals_the_librarys_own_default_survives_saving(name: str, value: None, tmp_path: Path) -> None:
    assert getattr(reloaded(ToyBertConfig(**{name: value}), tmp_path), name) is value


@pytest.mark.parametrize("value", [True, False])
def test_both_ways_of_tying_survive_saving(value: bool, tmp_path: Path) -> None:
    assert getattr(PretrainedConfig(), "tie_word_embeddings", True) is True
    assert reloaded(ToyBertConfig(tie_word_embeddings=value), tmp_path).tie_word_embeddings is value


def test_the_librarys_fields_survive_saving(tmp_path: Path) -> None:
    config = ToyBertConfig(
        num_labels=3,
        problem_type="regression",
        output_attentions=True,
        output_hidden_states=True,
        attn_implementation="eager",
    )
    again = reloaded(config, tmp_path)
    assert again.num_labels == 3
    assert again.id2label == {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}
    assert again.problem_type == "regression"
    assert again.output_attentions
    assert again.output_hidden_states


def test_label_names_keep_integer_keys(tmp_path: Path) -> None:
    names = {0: "cold", 1: "warm", 2: "hot"}
    again = reloaded(ToyBertConfig(id2label=names, label2id={name: i for i, name in names.items()}), tmp_path)
    assert again.id2label == names
    assert again.label2id == {"cold": 0, "warm": 1, "hot": 2}


def test_unknown_fields_are_kept(tmp_path: Path) -> None:
    config = ToyBertConfig(favourite_food="pie")
    assert config.favourite_food == "pie"
    assert reloaded(config, tmp_path).favourite_food == "pie"


def test_next_sentence_label_one_means_that_b_follows_a() -> None:
    assert ToyBertConfig.next_sentence_labels == {0: "NotNext", 1: "IsNext"}


def test_the_losses_apart_are_no_predictions() -> None:
    assert set(ToyBertConfig.keys_to_ignore_at_inference) == {"mlm_loss", "nsp_loss"}


def test_its_type_is_not_one_of_the_librarys() -> None:
    assert ToyBertConfig.model_type == SHIPPED["model_type"] == "toybert"
    assert "toybert" not in CONFIG_MAPPING


def test_the_shipped_auto_map_reaches_every_class() -> None:
    code = ast.parse((ROOT / "modeling_toybert.py").read_text("utf-8"))
    classes = {node.name for node in code.body if isinstance(node, ast.ClassDef)}
    models = {name for name in classes if name.startswith("ToyBertFor") and not name.endswith("Output")}
    expected = {f"AutoModel{name.removeprefix('ToyBert')}": f"modeling_toybert.{name}" for name in models}
    expected |= {"AutoConfig": "configuration_toybert.ToyBertConfig", "AutoModel": "modeling_toybert.ToyBertModel"}
    assert SHIPPED["auto_map"] == expected
    assert len(models) >= 4


def test_the_auto_map_survives_saving(tmp_path: Path) -> None:
    assert reloaded(ToyBertConfig.from_pretrained(ROOT), tmp_path).auto_map == SHIPPED["auto_map"]


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("value", [0, -1, 2.5, "4", None, True])
def test_a_size_that_is_no_positive_integer_is_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{name} .* got {value!r}"):
        ToyBertConfig(**{name: value})


def test_a_hidden_size_that_the_heads_cannot_share_is_refused() -> None:
    with pytest.raises(ValueError, match=r"hidden_size 130 .* num_attention_heads 4"):
        ToyBertConfig(hidden_size=130)


@pytest.mark.parametrize("name", ["hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"])
@pytest.mark.parametrize("value", [-0.1, 1, 1.5, "0.1", float("nan")])
def test_a_dropout_outside_zero_to_one_is_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{name} .* got {value!r}"):
        ToyBertConfig(**{name: value})


def test_only_the_classifiers_dropout_may_be_left_open() -> None:
    assert ToyBertConfig(classifier_dropout=None).classifier_dropout is None
    with pytest.raises(ValueError, match="hidden_dropout_prob"):
        ToyBertConfig(hidden_dropout_prob=None)


@pytest.mark.parametrize("name", ["initializer_range", "layer_norm_eps"])
@pytest.mark.parametrize("value", [0, -1e-3, None, float("nan"), float("inf")])
def test_a_width_that_is_not_positive_is_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{name} .* got {value!r}"):
        ToyBertConfig(**{name: value})


def test_an_unknown_activation_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"hidden_act .* gelu_new, gelu_pytorch_tanh, gelu, .*'relu'"):
        ToyBertConfig(hidden_act="relu")


@pytest.mark.parametrize("value", [-1, 50])
def test_padding_with_no_token_is_refused(value: int) -> None:
    with pytest.raises(ValueError, match=f"pad_token_id {value} .* 50 "):
        ToyBertConfig(vocab_size=50, pad_token_id=value)
