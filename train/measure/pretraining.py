"""What a pre-trained model knows about held-out text: losses and accuracies on masked words and next sentences."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from datasets import Dataset
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM, AutoModelForPreTraining, PreTrainedTokenizerBase

from toybert.train.data.batches import evaluation_loader
from toybert.train.data.datasets import Batch, MaskedWordDataset, PretrainDataset
from toybert.train.data.masking import IGNORED
from toybert.train.data.sentences import document_numbers
from toybert.train.hub.folders import check_vocabulary, load_config, load_model, load_tokenizer, longest_input
from toybert.train.measure.baselines import masked_word_baselines, next_sentence_baselines

# Words with a grammatical role; the "content_" figures leave out these and punctuation.
FUNCTION_WORDS = frozenset(
    """
    a an and are as at be but by did do for from had he her him his i in into is it its me my no nobody not of off
    on one or our out over she so than that the their them then there they this to too up very was we were what when
    where which while who with you your
    """.split()  # noqa: SIM905 (a list of a hundred strings reads worse)
)
FEWEST_FOR_HARD = 100  # documents; among fewer, some share neither a person nor a topic with any other
# Sample sentences: the two about Tom differ in what comes after the masked word, and the two after them want one word,
# "bank", in its two senses.
PROMPTS = (
    "The dog heard it and [MASK].",
    "Anna turned the [MASK], and the door opened.",
    "Tom went to the [MASK] to fish.",
    "Tom went to the [MASK] to buy apples.",
    "She sat on the [MASK] by the river.",
    "Ben put his money in the [MASK].",
    "In spring the tree had green [MASK].",
)


def pretraining_report(
    folder: str | Path, corpus: Mapping[str, Dataset], accelerator: Accelerator, packed: bool = False
) -> dict[str, Any]:
    """Measures a pre-trained checkpoint, and the baselines, on the test documents of a corpus."""
    tokenizer, config = load_tokenizer(folder), load_config(folder)
    check_vocabulary(tokenizer, config, folder)
    content = content_words(tokenizer)
    pairs = config.architectures == ["ToyBertForPreTraining"]
    model = accelerator.prepare(load_model(AutoModelForPreTraining if pairs else AutoModelForMaskedLM, folder))

    def dataset(split: str, **more: Any) -> Any:
        rows, kind = corpus[split], PretrainDataset if pairs else MaskedWordDataset
        how = {"packed": packed, "max_length": longest_input(tokenizer, config), "numbers": document_numbers(rows)}
        return kind(rows["sentences"], tokenizer, **how, **more)

    with accelerator.main_process_first():  # the others read its tokens from the cache
        training, test = dataset("train"), dataset("test")
    figures = evaluate_pretraining(model, evaluation_loader(test, accelerator), accelerator, content)
    mlm, nsp = ({name: figures.get(f"{task}_{name}") for name in ("loss", "accuracy")} for task in ("mlm", "nsp"))
    unseen_rows = test.rows_without(training.sentences)
    mlm |= {"content_accuracy": figures["content_accuracy"], "unseen_share": len(unseen_rows) / len(test)}
    if len(unseen_rows):
        unseen = evaluate_pretraining(model, evaluation_loader(test, accelerator, unseen_rows), accelerator)
        mlm["unseen_accuracy"], nsp["unseen_accuracy"] = unseen["mlm_accuracy"], unseen.get("nsp_accuracy")
    results: dict[str, Any] = {"mlm": {**mlm, **masked_word_baselines(training, test, content)}}
    if pairs:
        held_out, related = {"": test}, related_documents(corpus["test"])
        if related is not None and len(corpus["test"]) >= FEWEST_FOR_HARD:
            held_out["hard_"] = dataset("test", related=related)
        for prefix, rows in held_out.items():
            loader = evaluation_loader(rows, accelerator)
            for name, hide in (("accuracy", True), ("unmasked_accuracy", False)):
                nsp[f"{prefix}{name}"] = evaluate_pretraining(model, loader, accelerator, hide=hide)["nsp_accuracy"]
        results["nsp"] = nsp | {"chance_accuracy": 0.5, **next_sentence_baselines(training, held_out, content)}
    return {**results, "samples": fill_mask(accelerator.unwrap_model(model), tokenizer, PROMPTS)}


def content_words(tokenizer: PreTrainedTokenizerBase) -> np.ndarray:
    """Marks, bool (V,), the words that are neither punctuation nor function words nor special."""
    content = np.zeros(len(tokenizer), dtype=bool)
    for word, index in tokenizer.get_vocab().items():
        content[index] = word.isalnum() and word not in FUNCTION_WORDS
    return content


def related_documents(documents: Dataset) -> np.ndarray | None:
    """Marks, bool (documents, documents), pairs that share a person or the topic; None if the corpus names neither."""
    if not {"script", "people"} <= set(documents.column_names):
        return None
    scripts, people = np.array(documents["script"]), [set(names or ()) for names in documents["people"]]
    shared = np.array([[bool(a & b) for b in people] for a in people])
    return shared | (scripts[:, None] == scripts[None])


@torch.no_grad()
def evaluate_pretraining(
    model: nn.Module, loader: Any, accelerator: Accelerator, content: np.ndarray | None = None, hide: bool = True
) -> dict[str, float]:
    """Computes the loss and the accuracy of each task of a model, always for the masks and pairs of epoch 0.

    Args:
        content: bool (V,), the content words (see `content_words`): with them, also the accuracy at these alone.
        hide: whether words are masked. A model sees all words when it is used to tell next sentences.
    """
    model.eval()
    loader.set_epoch(0)
    is_content = None if content is None else torch.as_tensor(content, device=accelerator.device)
    rows = []
    for batch in loader:
        chosen = batch["labels"] != IGNORED
        if not hide:
            batch["input_ids"] = torch.where(chosen, batch["labels"], batch["input_ids"])
        sums = sums_of_rows(model(**batch), batch, is_content)
        rows.append(accelerator.gather_for_metrics(sums).cpu())
    every = torch.cat(rows).double()
    if not every[:, 2].any():
        raise ValueError("there is no word to predict: no word of the text is in the vocabulary")
    loss, right, count, content_right, content_count, *of_pairs = every.sum(0).tolist()
    figures = {"mlm_loss": loss / count, "mlm_accuracy": right / count}
    if of_pairs:
        figures |= {"nsp_loss": of_pairs[0] / len(every), "nsp_accuracy": of_pairs[1] / len(every)}
    return figures if content is None else {**figures, "content_accuracy": content_right / max(content_count, 1)}


def sums_of_rows(output: Any, batch: Batch, is_content: Tensor | None) -> Tensor:
    """Sums over each row's masked words, (B, 5): losses, right guesses, words, and the last two for content words.

    With next sentences, (B, 7), the loss of the pair follows, and whether its guess is right.
    """
    chosen = batch["labels"] != IGNORED
    logits = output.get("prediction_logits", output.get("logits"))  # (N, V), or (B, S, V) without sparse_prediction
    logits, target = logits[chosen] if logits.dim() == 3 else logits, batch["labels"][chosen]
    right = (logits.argmax(-1) == target).float()
    known = torch.zeros_like(right) if is_content is None else is_content[target].float()
    losses = F.cross_entropy(logits.float(), target, reduction="none")
    words = torch.stack([losses, right, torch.ones_like(right), right * known, known], dim=1)  # (N, 5)
    sums = torch.zeros(len(chosen), 5, device=words.device).index_add(0, chosen.nonzero()[:, 0], words)
    if (nsp_target := batch.get("next_sentence_label")) is None:
        return sums
    nsp_logits = output.seq_relationship_logits.float()
    nsp_right = (nsp_logits.argmax(-1) == nsp_target).float()
    pairs = torch.stack([F.cross_entropy(nsp_logits, nsp_target, reduction="none"), nsp_right], dim=1)  # (B, 2)
    return torch.cat([sums, pairs], dim=1)


@torch.no_grad()
def fill_mask(
    model: Any, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], top: int = 3
) -> list[dict[str, Any]]:
    """Returns the likeliest words at the first [MASK] of each text, with their probabilities."""
    model.eval()
    batch = tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt").to(model.device)
    output = model(**batch)
    logits: Tensor = output.get("prediction_logits", output.get("logits"))
    samples = []
    for text, ids, row in zip(texts, batch["input_ids"], logits, strict=True):
        places = (ids == tokenizer.mask_token_id).nonzero()
        if not len(places):  # the text was cut before it
            continue
        probability, word = row[int(places[0])].softmax(-1).topk(top)
        found = zip(tokenizer.convert_ids_to_tokens(word.tolist()), probability.tolist(), strict=True)
        samples.append({"text": text, "words": [[word, round(share, 3)] for word, share in found]})
    return samples
