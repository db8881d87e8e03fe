"""What accelerate's loop costs: `train` against a bare loop over the same batches, with the same optimisers."""

import copy
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.optim.lr_scheduler import LambdaLR
from transformers import AutoModelForPreTraining

from benchmarks import common, peers
from toybert.train.data.batches import LengthBatchSampler
from toybert.train.data.datasets import PretrainDataset
from toybert.train.loop.loop import train
from toybert.train.loop.optim import make_optimizers, warmup_then_linear
from toybert.train.loop.run import start
from toybert.train.pretrain import PretrainOptions


def bare(model: nn.Module, dataset: PretrainDataset, options: PretrainOptions) -> None:
    """Trains as `train` does, with nothing but torch and no log."""
    sampler = LengthBatchSampler(dataset.lengths, options.batch_size, options.seed, dataset.group)
    optimizers = make_optimizers(
        model,
        learning_rate=options.learning_rate,
        weight_decay=options.weight_decay,
        muon_learning_rate=options.muon_learning_rate,
    )
    total = options.epochs * len(sampler)
    warmup = round(options.warmup_ratio * total)
    factor = partial(warmup_then_linear, warmup_steps=warmup, total_steps=total)
    schedulers = [LambdaLR(optimizer, factor) for optimizer in optimizers]
    model.train()
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        dataset.set_epoch(epoch)
        for rows in sampler:
            model(**dataset.__getitems__(rows)).loss.backward()
            if options.max_grad_norm:
                clip_grad_norm_(model.parameters(), options.max_grad_norm)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            for scheduler in schedulers:
                scheduler.step()


def run(kind: str, model: nn.Module, dataset: PretrainDataset, changes: dict[str, Any]) -> dict[str, Any]:
    """Trains a copy of the model, from the set-up of the loop to the last step."""
    model = copy.deepcopy(model)
    with tempfile.TemporaryDirectory() as folder, common.silence():
        options = peers.pretrain_options(folder, **changes)
        began = time.perf_counter()
        if kind == "bare loop":
            bare(model, dataset, options)
        else:
            with peers.nothing_saved():
                train(model, dataset, options, start(options), lambda model: {})
        seconds = time.perf_counter() - began
    return {"seconds": seconds, "weights": [parameter.detach() for parameter in model.parameters()]}


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--epochs", type=int, default=3, help="over all stories; 3 take about a minute on two cores")
    options = common.parse(parser)
    corpus = peers.stories(4 if options.smoke else None)
    changes = {"epochs": 1 if options.smoke else options.epochs}
    with tempfile.TemporaryDirectory() as folder:
        recipe = peers.pretrain_options(folder, **changes)
    dataset = PretrainDataset(corpus.documents, corpus.tokenizer, mlm_probability=recipe.mlm_probability)
    torch.manual_seed(0)
    model = AutoModelForPreTraining.from_config(peers.our_config(corpus, recipe), trust_remote_code=True)
    small = PretrainDataset(corpus.documents[:4], corpus.tokenizer)
    kinds = ("train, accelerate's loop", "bare loop")
    for kind in kinds:
        run(kind, model, small, {"epochs": 1})  # whatever is only slow the first time is over after this
    rows: dict[str, Callable[[], Any]] = {kind: partial(run, kind, model, dataset, changes) for kind in kinds}
    results = common.interleaved(rows, options.rounds)
    for ours, plain in zip(*(results[kind] for kind in kinds), strict=True):
        torch.testing.assert_close(ours["weights"], plain["weights"])  # both did the same

    seconds = {kind: [one["seconds"] for one in results[kind]] for kind in kinds}
    overhead = common.spread([a / b - 1 for a, b in zip(*seconds.values(), strict=True)])
    spreads = {kind: common.spread(seconds[kind]) for kind in kinds}
    found = {"seconds": spreads, "overhead": overhead, "rows": len(dataset), **changes}
    lines = [(kind, common.show(spreads[kind])) for kind in kinds]
    text = f"{common.table(('loop', 'seconds'), lines)}\n\nOverhead: {common.show(overhead, 1, 100)} %"
    common.report("overhead", options, found, text)


if __name__ == "__main__":
    main()
