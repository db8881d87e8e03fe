"""Claims about the library's Trainer: it trains every head, at the right scale, and resumes exactly."""

import numpy as np
import pytest
import torch
from accelerate.state import AcceleratorState
from datasets import Dataset
from helpers import make_checkpoint
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForMultipleChoice,
    AutoModelForPreTraining,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    DataCollatorForMultipleChoice,
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
    pipeline,
)

from toybert.train.data.datasets import PretrainDataset, as_is

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
VERBS = ("sat", "ran to the old tree", "came", "looked at it", "put it on the bed", "went out", "gave it to her", "ran")
DOCUMENTS = [[f"the {name} {verb}." for verb in VERBS] for name in ("cat", "dog", "old man", "big tree")]
TEXTS = [f"{name} {verb}" for name in ("the cat", "the old dog") for verb in VERBS]  # 16, of many lengths


@pytest.fixture(autouse=True)
def _leave_no_precision_behind(monkeypatch):
    """Undoes what TrainingArguments tells all later code of this process."""
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_checkpoint(tmp_path_factory.mktemp("trainer") / "toybert")


@pytest.fixture(scope="module")
def tokenizer(folder):
    return AutoTokenizer.from_pretrained(folder, trust_remote_code=True)


@pytest.fixture(scope="module")
def pairs(tokenizer):
    return PretrainDataset(DOCUMENTS, tokenizer, seed=0)


@pytest.fixture(scope="module")
def masked(tokenizer):
    """Returns rows with fixed masks, whose number differs from row to row."""
    rows = []
    for index, text in enumerate(TEXTS):
        ids = np.array(tokenizer(text)["input_ids"])
        chosen = np.arange(1, len(ids) - 1)[: 1 + index % 4]
        labels = np.full_like(ids, -100)
        labels[chosen] = ids[chosen]
        ids[chosen] = tokenizer.mask_token_id
        padding = 16 - len(ids)
        rows.append(
            {
                "input_ids": np.pad(ids, (0, padding)).tolist(),
                "attention_mask": [1] * len(ids) + [0] * padding,
                "labels": np.pad(labels, (0, padding), constant_values=-100).tolist(),
            }
        )
    return rows


def labelled(tokenizer, column="labels"):
    return [{**tokenizer(text), column: index % 2} for index, text in enumerate(TEXTS)]


@pytest.fixture(scope="module")
def tagged(tokenizer):
    """Returns rows of tokens with two classes; the number of labels differs by row, and some rows have none."""
    rows = []
    for index, text in enumerate(TEXTS):
        row = tokenizer(text)
        labels = [token % 2 if 0 < place <= index % 5 else -100 for place, token in enumerate(row["input_ids"])]
        rows.append({**row, "labels": labels})
    return rows


@pytest.fixture(scope="module")
def questions(tokenizer):
    """Returns questions and texts, padded to one length, with the places where an answer starts and ends."""
    rows = []
    for index, text in enumerate(TEXTS):
        row = tokenizer("who", text, padding="max_length", max_length=24)
        rows.append({**row, "start_positions": 3, "end_positions": 4 + index % 2})
    return rows


@pytest.fixture(scope="module")
def choices(tokenizer):
    """Returns rows of two ways to go on from one text, of different lengths."""
    ways = ["it ran", "it came to the old tree"]
    return [{**tokenizer([text] * 2, ways), "labels": index % 2} for index, text in enumerate(TEXTS)]


def make_trainer(auto_class, folder, output_dir, rows, collator=None, changes=None, **arguments):
    torch.manual_seed(0)  # of a new head
    model = auto_class.from_pretrained(folder, trust_remote_code=True, **(changes or {}))
    settings = {
        "max_steps": 3,
        "per_device_train_batch_size": 8,
        "learning_rate": 1e-3,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
        "remove_unused_columns": collator is not as_is,  # these rows come as whole batches
        **arguments,
    }
    return Trainer(model, TrainingArguments(str(output_dir), **settings), train_dataset=rows, data_collator=collator)


def logged(trainer, name="loss"):
    return [entry[name] for entry in trainer.state.log_history if name in entry]


def assert_learns(trainer, unseen=()):
    """Trains three steps, and checks that each had a loss and that every parameter moved, but for those unseen."""
    before = {name: parameter.detach().clone() for name, parameter in trainer.model.named_parameters()}
    trainer.train()
    losses = logged(trainer)
    assert len(losses) == 3
    assert np.isfinite(losses).all()
    assert min(losses) > 0
    moved = {name for name, value in trainer.model.named_parameters() if not torch.equal(value, before[name])}
    assert before.keys() - moved <= set(unseen)


def test_trainer_pretrains_on_both_losses(folder, pairs, tmp_path):
    assert_learns(make_trainer(AutoModelForPreTraining, folder, tmp_path, pairs, as_is))


def test_trainer_learns_masked_words_from_the_librarys_collator(folder, tokenizer, tmp_path):
    rows = [tokenizer(text) for text in TEXTS]
    collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.5)
    assert_learns(make_trainer(AutoModelForMaskedLM, folder, tmp_path, rows, collator))


@pytest.mark.parametrize("column", ["label", "labels", "label_ids"])
def test_trainer_finds_the_labels_of_a_classifier(folder, tokenizer, tmp_path, column):
    rows = Dataset.from_list([{**row, "text": "unused"} for row in labelled(tokenizer, column)])
    collator = DataCollatorWithPadding(tokenizer)
    trainer = make_trainer(AutoModelForSequenceClassification, folder, tmp_path, rows, collator)
    assert_learns(trainer)


def test_trainer_learns_tokens_from_the_librarys_collator(folder, tokenizer, tagged, tmp_path):
    collator = DataCollatorForTokenClassification(tokenizer)
    assert_learns(make_trainer(AutoModelForTokenClassification, folder, tmp_path, tagged, collator))


def test_trainer_learns_answers_without_a_collator(folder, questions, tmp_path):
    # these biases raise the scores of all places alike, and the loss not at all
    unseen = ["qa_outputs.bias", "bert.layers.1.feed_forward_norm.bias"]
    assert_learns(make_trainer(AutoModelForQuestionAnswering, folder, tmp_path, questions), unseen)


def test_trainer_learns_choices_from_the_librarys_collator(folder, tokenizer, choices, tmp_path):
    collator = DataCollatorForMultipleChoice(tokenizer)
    trainer = make_trainer(AutoModelForMultipleChoice, folder, tmp_path, choices, collator)
    assert_learns(trainer, ["classifier.bias"])  # it raises the scores of all choices alike


@pytest.mark.parametrize("names", [("labels",), ("next_sentence_label",)])
def test_trainer_pretrains_on_either_loss_alone(folder, pairs, tmp_path, names):
    given = ("input_ids", "token_type_ids", "attention_mask", *names)

    def collate(batch):
        return {name: batch[name] for name in given}

    trainer = make_trainer(
        AutoModelForPreTraining, folder, tmp_path, pairs, collate, remove_unused_columns=False, label_names=list(names)
    )
    trainer.train()
    assert len(logged(trainer)) == 3
    with torch.no_grad():
        output = trainer.model(**collate(pairs.__getitems__([0, 1])))
    apart = {"labels": output.mlm_loss, "next_sentence_label": output.nsp_loss}
    assert [name for name, loss in apart.items() if loss is not None] == list(names)
    torch.testing.assert_close(output.loss, apart[names[0]])


@pytest.mark.parametrize("auto_class", [AutoModelForMaskedLM, AutoModelForSequenceClassification])
def test_accumulating_gradients_is_the_same_as_one_large_batch(folder, tokenizer, masked, tmp_path, auto_class):
    rows = masked if auto_class is AutoModelForMaskedLM else labelled(tokenizer)
    collator = None if auto_class is AutoModelForMaskedLM else DataCollatorWithPadding(tokenizer)
    runs = []
    for size in (16, 2):
        sizes = {"per_device_train_batch_size": size, "gradient_accumulation_steps": 16 // size, "max_steps": 1}
        runs.append(make_trainer(auto_class, folder, tmp_path, rows, collator, NO_DROPOUT, **sizes))
    for trainer in runs:
        trainer.train()
    # Trainer rounds the losses that it logs to four digits.
    for name in ("loss", "grad_norm"):
        assert logged(runs[1], name) == pytest.approx(logged(runs[0], name), abs=1e-4)


def test_accumulating_counts_each_labelled_token_once(folder, tokenizer, tagged, tmp_path):
    weights = []
    for size in (16, 2):
        trainer = make_trainer(
            AutoModelForTokenClassification,
            folder,
            tmp_path,
            tagged,
            DataCollatorForTokenClassification(tokenizer),
            NO_DROPOUT,
            per_device_train_batch_size=size,
            gradient_accumulation_steps=16 // size,
            max_steps=2,
            learning_rate=0.5,
            optim="sgd",  # Adam's first steps hide a gradient's scale
            max_grad_norm=0.0,
        )
        trainer.train()
        weights.append((trainer.model.state_dict(), logged(trainer)))
    torch.testing.assert_close(weights[1][0], weights[0][0])
    assert weights[1][1] == pytest.approx(weights[0][1], abs=1e-4)  # Trainer rounds to four digits


def test_a_step_without_any_label_changes_no_weight(folder, tokenizer, tagged, tmp_path):
    rows = [{**row, "labels": [-100] * len(row["labels"])} for row in tagged]
    collator = DataCollatorForTokenClassification(tokenizer)
    trainer = make_trainer(AutoModelForTokenClassification, folder, tmp_path, rows, collator, max_steps=1, optim="sgd")
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    trainer.train()
    torch.testing.assert_close(trainer.model.state_dict(), before, rtol=0, atol=0)


def test_predictions_are_logits_without_the_losses_apart(folder, pairs, tokenizer, tmp_path):
    trainer = make_trainer(AutoModelForPreTraining, folder, tmp_path, pairs, as_is)
    answer = trainer.predict(pairs)
    words, follows = answer.predictions
    assert words.shape[0] == len(pairs)
    assert words.shape[2] == len(tokenizer)
    assert follows.shape == (len(pairs), 2)
    assert [labels.shape[0] for labels in answer.label_ids] == [len(pairs), len(pairs)]

    rows = labelled(tokenizer)
    trainer = make_trainer(
        AutoModelForSequenceClassification, folder, tmp_path, rows, DataCollatorWithPadding(tokenizer)
    )
    answer = trainer.predict(rows)
    assert answer.predictions.shape == (len(rows), 2)
    assert answer.label_ids.tolist() == [row["labels"] for row in rows]


def test_predictions_of_answers_are_both_ends(folder, questions, tmp_path):
    answer = make_trainer(AutoModelForQuestionAnswering, folder, tmp_path, questions).predict(questions)
    assert [scores.shape for scores in answer.predictions] == [(16, 24)] * 2
    names = ("start_positions", "end_positions")
    assert [ends.tolist() for ends in answer.label_ids] == [[row[name] for row in questions] for name in names]


def test_a_resumed_run_ends_with_the_same_weights(folder, masked, tmp_path):
    options = {"max_steps": 6, "save_strategy": "steps", "save_steps": 3}  # with dropout
    whole = make_trainer(AutoModelForMaskedLM, folder, tmp_path, masked, **options)
    whole.train()
    resumed = make_trainer(AutoModelForMaskedLM, folder, tmp_path, masked, **options)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert logged(resumed) == logged(whole)
    for name, value in whole.model.state_dict().items():
        torch.testing.assert_close(resumed.model.state_dict()[name], value, rtol=0, atol=0)


def test_gradient_checkpointing_computes_layers_twice_and_changes_nothing_else(folder, masked, tmp_path):
    weights, calls = {}, {}
    for on in (False, True):
        trainer = make_trainer(
            AutoModelForMaskedLM, folder, tmp_path, masked, changes=NO_DROPOUT, gradient_checkpointing=on
        )
        seen = []
        trainer.model.bert.layers[0].attention.register_forward_hook(lambda *call, seen=seen: seen.append(call))
        trainer.train()
        weights[on], calls[on] = trainer.model.state_dict(), len(seen)
    assert calls == {False: 3, True: 6}
    for name, value in weights[False].items():
        torch.testing.assert_close(weights[True][name], value)


def test_bf16_on_a_cpu_gives_nearly_the_losses_of_fp32(folder, pairs, tmp_path):
    full = make_trainer(AutoModelForPreTraining, folder, tmp_path, pairs, as_is, NO_DROPOUT)
    full.train()
    half = make_trainer(AutoModelForPreTraining, folder, tmp_path, pairs, as_is, NO_DROPOUT, bf16=True)
    seen = []
    hook = half.model.bert.layers[0].feed_forward.register_forward_hook(lambda *call: seen.append(call[2].dtype))
    half.train()
    hook.remove()
    assert set(seen) == {torch.bfloat16}
    assert logged(half) == pytest.approx(logged(full), rel=0.05)
    assert {parameter.dtype for parameter in half.model.parameters()} == {torch.float32}


def test_trainer_says_so_when_no_column_holds_labels(folder, tokenizer, tmp_path):
    rows = Dataset.from_list(labelled(tokenizer, "sentiment"))
    collator = DataCollatorWithPadding(tokenizer)
    trainer = make_trainer(AutoModelForSequenceClassification, folder, tmp_path, rows, collator)
    with pytest.raises(ValueError, match="did not return a loss"):
        trainer.train()


def test_trainer_decays_every_matrix_once_and_no_bias_or_norm(folder, pairs, tmp_path):
    trainer = make_trainer(AutoModelForPreTraining, folder, tmp_path, pairs, as_is, weight_decay=0.1)
    decayed, spared = trainer.create_optimizer().param_groups
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.1, 0.0)
    assert {parameter.dim() for parameter in decayed["params"]} == {2}
    assert {parameter.dim() for parameter in spared["params"]} == {1}
    together = [id(parameter) for parameter in decayed["params"] + spared["params"]]
    assert sorted(together) == sorted(id(parameter) for parameter in trainer.model.parameters())


def test_a_trained_model_answers_alike_after_eval_and_after_saving(folder, tokenizer, tmp_path):
    rows = labelled(tokenizer)
    trainer = make_trainer(
        AutoModelForSequenceClassification, folder, tmp_path, rows, DataCollatorWithPadding(tokenizer)
    )
    trainer.train()
    assert trainer.model.training
    model = trainer.model.eval()
    inputs = tokenizer("the cat sat", return_tensors="pt")
    with torch.no_grad():
        scores = model(**inputs).logits.softmax(-1)[0]
        torch.testing.assert_close(model(**inputs).logits.softmax(-1)[0], scores, rtol=0, atol=0)

    trainer.save_model(str(tmp_path / "saved"))
    tokenizer.save_pretrained(tmp_path / "saved")
    pipe = pipeline("text-classification", model=str(tmp_path / "saved"), trust_remote_code=True, device="cpu")
    answers = pipe("the cat sat", top_k=None)
    named = {model.config.id2label[index]: score for index, score in enumerate(scores.tolist())}
    assert {answer["label"]: answer["score"] for answer in answers} == pytest.approx(named)
