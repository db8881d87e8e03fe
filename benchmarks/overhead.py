"""What accelerate's loop costs: `train` against a bare loop over the same batches, with the same optimisers."""

import copy
import tempfile
import time
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.optim.lr_scheduler import LambdaLR

from benchmarks import common, peers
from toybert.train.data.batches import LengthBatchSampler
from toybert.train.data.datasets import PretrainDataset
from toybert.train.loop.optim import make_optimizers, warmup_then_linear
from toybert.train.pretrain import PretrainOptions


def bare(model: nn.Module, dataset: PretrainDataset, options: PretrainOptions) -> None:
    """Trains as `train` does, with nothing but torch and no log."""
    sampler = LengthBatchSampler(dataset.lengths, options.batch_size, options.seed, dataset.group)
    rates = {name: getattr(options, name) for name in ("learning_rate", "weight_decay", "muon_learning_rate")}
    optimizers = make_optimizers(model, **rates)
    total = options.epochs * len(sampler)
    factor = partial(warmup_then_linear, warmup_steps=round(options.warmup_ratio * total), total_steps=total)
    schedulers = [LambdaLR(optimizer, factor) for optimizer in optimizers]
    model.train()
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        dataset.set_epoch(epoch)
        for rows in sampler:
            model(**dataset.__getitems__(rows)).loss.backward()
            clip_grad_norm_(model.parameters(), options.max_grad_norm)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            for scheduler in schedulers:
                scheduler.step()


LOOPS = {"train, accelerate's loop": peers.our_loop, "bare loop": bare}


def run(loop: Any, model: nn.Module, dataset: PretrainDataset, epochs: int) -> dict[str, Any]:
    """Trains a copy of the model, from the set-up of the loop to the last step."""
    model = copy.deepcopy(model)
    with tempfile.TemporaryDirectory() as folder, common.silence():
        options = peers.pretrain_options(folder, epochs=epochs)
        began = time.perf_counter()
        loop(model, dataset, options)
        seconds = time.perf_counter() - began
    return {"seconds": seconds, "weights": [parameter.detach() for parameter in model.parameters()]}


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--epochs", type=int, default=3, help="over all stories; 3 take about a minute on two cores")
    options = common.parse(parser)
    few, epochs = peers.stories(4), 1 if options.smoke else options.epochs
    recipe, corpus = peers.pretrain_options(), few if options.smoke else peers.stories()
    dataset = corpus.rows(mlm_probability=recipe.mlm_probability)
    torch.manual_seed(0)
    model = peers.new_model("ours", corpus, recipe)
    for loop in LOOPS.values():  # whatever is slow only the first time is over after this
        run(loop, model, few.rows(), 1)
    jobs = {name: partial(run, loop, model, dataset, epochs) for name, loop in LOOPS.items()}
    ours, plain = common.interleaved(jobs, options.rounds).values()
    for one, other in zip(ours, plain, strict=True):
        torch.testing.assert_close(one["weights"], other["weights"])  # both did the same
    seconds = [[run["seconds"] for run in runs] for runs in (ours, plain)]
    overhead = common.spread([a / b - 1 for a, b in zip(*seconds, strict=True)])
    spreads = dict(zip(LOOPS, map(common.spread, seconds), strict=True))
    lines = [(name, common.show(each)) for name, each in spreads.items()]
    text = f"{common.table(('loop', 'seconds'), lines)}\n\nOverhead: {common.show(overhead, 1, 100)} %"
    results = {"seconds": spreads, "overhead": overhead, "rows": len(dataset), "epochs": epochs}
    common.report("overhead", options, results, text)


if __name__ == "__main__":
    main()
