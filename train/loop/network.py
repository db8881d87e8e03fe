"""The network that a pre-training run begins with: a new one, or that of a checkpoint."""

from typing import Any

from transformers import AutoModelForMaskedLM, AutoModelForPreTraining

from toybert.train.hub.card import shown
from toybert.train.hub.folders import ROOT, load_config, load_model, pinned

# What a checkpoint that `--init-from` names has learnt to tell; others bring neither.
HEADS: dict[str, tuple[str, ...]] = {
    "ToyBertForPreTraining": ("masked words", "next sentences"),
    "ToyBertForMaskedLM": ("masked words",),
    "ToyBertForNextSentencePrediction": ("next sentences",),
}


def make_model(options: Any, vocab_size: int) -> tuple[Any, dict[str, Any]]:
    """Makes a new model, or loads the checkpoint to go on from; and the fields to put back into its configuration."""
    auto_class = AutoModelForPreTraining if options.nsp else AutoModelForMaskedLM
    changed: dict[str, Any] = {
        "hidden_dropout_prob": options.dropout,
        "attention_probs_dropout_prob": options.dropout,
        "sparse_prediction": True,
    }
    if options.init_from:
        checkpoint = pinned(options.init_from, options.revision)
        config = load_config(checkpoint)
        kept = {name: getattr(config, name) for name in changed}
        if (config.architectures or [""])[0] not in HEADS:  # the classes that it tells apart are not those learnt here
            plain = load_config(ROOT)
            changed |= {name: getattr(plain, name) for name in ("id2label", "label2id", "problem_type")}
        return load_model(auto_class, checkpoint, dtype="float32", **changed), kept
    config = load_config(
        ROOT,
        vocab_size=vocab_size,
        num_hidden_layers=options.num_hidden_layers,
        hidden_size=options.hidden_size,
        num_attention_heads=options.num_attention_heads,
        intermediate_size=options.intermediate_size or 4 * options.hidden_size,
        max_position_embeddings=options.max_length,
    )
    changed["initializer_range"] = options.initializer_range
    kept = {name: getattr(config, name) for name in changed}
    config.update(changed)
    return auto_class.from_config(config, trust_remote_code=True), kept


def goes_on_from(options: Any) -> list[str]:
    """Says which checkpoint a run goes on from, if there is one, and which of its tasks that one has not learnt."""
    if not options.init_from:
        return []
    config = load_config(pinned(options.init_from, options.revision))
    known = HEADS.get((config.architectures or [""])[0], ())
    new = [head for head in HEADS["ToyBertForPreTraining"][: 1 + options.nsp] if head not in known]
    heads = f", with a new head for {' and '.join(new)}" if new else ""
    return [f"goes on from `{shown(options.init_from)}`{heads}"]
