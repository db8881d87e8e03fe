"""What a model knows of held-out text: losses and accuracies on masked words, next sentences and classes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

# Words that grammar asks for; "content_" figures leave them and punctuation out.
FUNCTION_WORDS = frozenset(
    """
    a an and are as at be but by did do for from had he her him his i in into is it its me my no nobody not of off
    on one or our out over she so than that the their them then there they this to too up very was we were what when
    where which while who with you your
    """.split()  # noqa: SIM905 (a list of a hundred strings reads worse)
)


def content_words(tokenizer: PreTrainedTokenizerBase) -> np.ndarray:
    """Marks, bool (V,), the words that are neither punctuation nor function words nor special."""
    content = np.zeros(len(tokenizer), dtype=bool)
    for word, index in tokenizer.get_vocab().items():
        content[index] = word.isalnum() and word not in FUNCTION_WORDS
    return content


@torch.no_grad()
def evaluate_pretraining(
    model: nn.Module, loader: Any, accelerator: Accelerator, content: np.ndarray | None = None, hide: bool = True
) -> dict[str, float]:
    """Gives loss and accuracy of both tasks, always for the same masks and pairs: those of epoch 0.

    Of a model of masked words alone, it gives those of this task.

    With `content` (see `content_words`), also the accuracy at the targets that are content words. Without `hide`, the
    model sees every word: that is how next sentences are told in use.
    """
    model.eval()
    loader.set_epoch(0)
    is_content = torch.as_tensor(content if content is not None else [], device=accelerator.device)
    rows = []
    for batch in loader:
        chosen = batch["labels"] != -100
        if not hide:
            batch["input_ids"] = torch.where(chosen, batch["labels"], batch["input_ids"])
        output = model(**batch)
        logits = output.get("prediction_logits", output.get("logits"))  # (N, V), or (B, S, V) without sparse_prediction
        logits, target = logits[chosen] if logits.dim() == 3 else logits, batch["labels"][chosen]
        right = (logits.argmax(-1) == target).float()
        known = is_content[target].float() if content is not None else torch.zeros_like(right)
        words = torch.stack(
            [
                F.cross_entropy(logits.float(), target, reduction="none"),
                right,
                torch.ones_like(right),
                right * known,
                known,
            ]
        ).T  # (N, 5)
        by_row = torch.zeros(len(chosen), 5, device=words.device).index_add(0, chosen.nonzero()[:, 0], words)
        if (nsp_target := batch.get("next_sentence_label")) is not None:
            nsp_logits = output.seq_relationship_logits.float()
            nsp_right = (nsp_logits.argmax(-1) == nsp_target).float()
            pairs = torch.stack([F.cross_entropy(nsp_logits, nsp_target, reduction="none"), nsp_right]).T  # (B, 2)
            by_row = torch.cat([by_row, pairs], dim=1)
        rows.append(accelerator.gather_for_metrics(by_row).cpu())
    every = torch.cat(rows).double()
    if not every[:, 2].any():
        raise ValueError("there is no word to predict: no word of the text is in the vocabulary")
    loss, right, count, content_right, content_count, *of_pairs = every.sum(0).tolist()
    figures = {"mlm_loss": loss / count, "mlm_accuracy": right / count}
    if of_pairs:
        figures |= {"nsp_loss": of_pairs[0] / len(every), "nsp_accuracy": of_pairs[1] / len(every)}
    return figures if content is None else {**figures, "content_accuracy": content_right / max(content_count, 1)}


@torch.no_grad()
def fill_mask(
    model: Any, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], top: int = 3
) -> list[dict[str, Any]]:
    """Gives the likeliest words at the (first) [MASK] of each text, with their probabilities."""
    model.eval()
    batch = tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt").to(model.device)
    output = model(**batch)
    logits: Tensor = output.get("prediction_logits", output.get("logits"))
    samples = []
    for text, ids, row in zip(texts, batch["input_ids"], logits, strict=True):
        places = (ids == tokenizer.mask_token_id).nonzero()
        if not len(places):  # cut off: the model takes no more
            continue
        probability, word = row[int(places[0])].softmax(-1).topk(top)
        words = tokenizer.convert_ids_to_tokens(word.tolist())
        samples.append(
            {"text": text, "words": [[w, round(p, 3)] for w, p in zip(words, probability.tolist(), strict=True)]}
        )
    return samples
