"""Lays out measured figures as the tables and sentences of the card and docs/."""

from collections.abc import Sequence
from typing import Any

BEST = "best_possible_"  # of a reader who knows all chances
ON_THE_CARD = ("", "content_", "hard_")  # the other rows are in docs/ only
# A title, the part of results.json, the rows by their prefixes, the columns by theirs, and what the card's own table
# calls the last of these, which is the best baseline without a network.
TABLES = (
    ("masked words", "mlm",
     {"": "all", "content_": "content words only", "template_": "words of a sentence's template",
      "choices_": "words chosen where they stand", "slots_": "things that a story comes back to", "names_": "names",
      "pronouns_": "pronouns", "pronoun_by_its_name_": "hidden pronouns, one name seen in the sentence",
      "name_in_both_": "hidden names, seen in the other sentence",
      "template_in_noise_": "words of a template, in noise"},
     {"": "ToyBERT", BEST: "the best possible", "unigram_": "the commonest word",
      "bigram_": "the word between its neighbours"},
     "the word between its neighbours"),
    ("next sentence", "nsp", {"": "all", "hard_": "the false one shares a person or the topic"},
     {"": "ToyBERT", BEST: "the best possible", "unmasked_": "ToyBERT with nothing masked",
      f"unmasked_{BEST}": "the best possible with nothing masked", "length_only_": "length",
      "word_overlap_": "shared words", "word_pairs_": "all pairs of words"},
     "a linear model of all pairs of words"),
    ("sentiment", "sentiment", {"": "all"},
     {"": "ToyBERT", "majority_": "the commoner class", "bag_of_words_": "words",
      "bag_of_bigrams_": "words and bigrams", "ordered_pairs_": "words and ordered pairs of words"},
     "a linear model of ordered pairs of words"),
)  # fmt: skip


def percent(value: float) -> str:
    """Writes a share as a percentage with one decimal."""
    return f"{100 * value:.1f} %"


def shown_share(figures: dict[str, float], name: str) -> str:
    """Writes one of the figures as a percentage, or nothing if it was not measured."""
    return percent(figures[name]) if name in figures else ""


def markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Formats a table in Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *lines))


def best_table(results: dict[str, Any]) -> str:
    """Sets each accuracy beside the best baseline's, with the higher of the two in bold, and the best possible one."""
    rows = []
    for title, part, prefixes, columns, best in TABLES:
        for prefix, name in prefixes.items():
            if prefix not in ON_THE_CARD:
                continue
            pair = [results[part][f"{prefix}{column}accuracy"] for column in ("", [*columns][-1])]
            ours, its = (f"**{percent(value)}**" if value == max(pair) else percent(value) for value in pair)
            most = shown_share(results[part], f"{prefix}{BEST}accuracy")
            rows.append((f"... {name}" if prefix else title, ours, f"{its}, {best}", most))
    return markdown(("on held-out text", "ToyBERT", "the best without a network", "the best possible"), rows)


def all_tables(results: dict[str, Any]) -> str:
    """Sets each accuracy beside those of all its baselines."""
    tables = []
    for title, part, prefixes, columns, _ in TABLES:
        rows = [
            (name, *(shown_share(results[part], f"{prefix}{column}accuracy") for column in columns))
            for prefix, name in prefixes.items()
        ]
        tables.append(markdown((title, *columns.values()), rows))
    return "\n\n".join(tables)


def sample_table(results: dict[str, Any]) -> str:
    """Sets the likeliest words beside each sample sentence."""
    rows = [
        (sample["text"], ", ".join(f"{word} {percent(share)}" for word, share in sample["words"] if share >= 0.01))
        for sample in results["samples"]
    ]
    return markdown(("sentence", "likeliest words"), rows)


def blocks(results: dict[str, Any]) -> dict[str, str]:
    """Returns the parts of the card and of docs/ that hold measured numbers, by the names in their markers."""
    mlm, nsp, sentiment = results["mlm"], results["nsp"], results["sentiment"]
    seconds, steps, recipe = results["seconds"], results["steps"], results["recipe"]["pretraining"]
    return {
        "results": best_table(results),
        "baselines": all_tables(results),
        "samples": sample_table(results),
        "unseen": f"In {percent(mlm['unseen_share'])} of the test pairs, neither sentence occurs in training. On "
        f"these, it reaches {percent(mlm['unseen_accuracy'])} on masked words and "
        f"{percent(nsp['unseen_accuracy'])} on next sentences.",
        "losses": f"Held-out losses in nats: masked words {mlm['loss']:.3f} (frequencies alone: "
        f"{mlm['unigram_loss']:.3f}, the best possible: {mlm['best_possible_loss']:.3f}), next sentence "
        f"{nsp['loss']:.3f} (chance: 0.693), "
        f"sentiment {sentiment['loss']:.3f}.",
        "cost": f"Pre-training took {seconds['pretraining']:.0f} s for {steps['pretraining']:,} steps, and fine-tuning "
        f"{seconds['finetuning']:.0f} s for {steps['finetuning']}, with {results['threads']} threads of a server CPU. "
        f"Everything together took {seconds['total']:.0f} s and {results['peak_memory_mb']} MB of memory.",
        "recipe": f"{recipe['epochs']} epochs in batches of {recipe['batch_size']}; Muon at "
        f"{recipe['muon_learning_rate']:g} for the layers' matrices, and AdamW at {recipe['learning_rate']:g} for "
        f"everything else; a warm-up over {100 * recipe['warmup_ratio']:.0f} % of the steps, then linear decay; "
        f"{100 * recipe['mlm_probability']:.0f} % of the words to predict; dropout {recipe['dropout']:g}.",
    }
