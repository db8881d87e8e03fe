"""Collects the library's own tests only where `-m pypi` asks for them, and fails every skip that isn't listed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from skips import ALWAYS, HERE

from toybert import modeling_toybert
from toybert.configuration_toybert import ToyBertConfig
from toybert.tokenization_toybert import ToyBertTokenizer

MARKERS = (
    "accelerate_tests",
    "flash_attn_test",
    "flash_attn_3_test",
    "flash_attn_4_test",
    "is_pipeline_test",
    "torch_compile_test",
)

SKIPPED = pytest.StashKey[bool]()

# The class for each of the library's tables of classes by task.
CLASSES = {
    "MODEL": "ToyBertModel",
    "MODEL_FOR_PRETRAINING": "ToyBertForPreTraining",
    "MODEL_FOR_MASKED_LM": "ToyBertForMaskedLM",
    "MODEL_FOR_NEXT_SENTENCE_PREDICTION": "ToyBertForNextSentencePrediction",
    "MODEL_FOR_SEQUENCE_CLASSIFICATION": "ToyBertForSequenceClassification",
    "MODEL_FOR_TOKEN_CLASSIFICATION": "ToyBertForTokenClassification",
    "MODEL_FOR_QUESTION_ANSWERING": "ToyBertForQuestionAnswering",
    "MODEL_FOR_MULTIPLE_CHOICE": "ToyBertForMultipleChoice",
}


def pytest_configure(config: pytest.Config) -> None:
    for name in MARKERS:
        config.addinivalue_line("markers", f"{name}: the library's own mark")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Keeps a run that does not ask for these tests from importing them, as that alone downloads them."""
    asked = config.option.markexpr
    return True if asked and not re.search(r"(?<!not )\bpypi\b", asked) else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
    """Turns a skip that isn't listed into a failure, and likewise a listed test of which no part was skipped."""
    report = yield
    if report.skipped:
        item.stash[SKIPPED] = True  # maybe in one subtest only, which has a report of its own
    ran = report.passed and call.when == "call" and not item.stash.get(SKIPPED, False)
    if report.skipped and item.name not in ALWAYS | HERE:
        report.outcome, report.longrepr = "failed", f"skipped, and not listed in skips.py: {report.longrepr}"
    elif ran and item.name in (ALWAYS if torch.cuda.is_available() else ALWAYS | HERE):
        report.outcome, report.longrepr = "failed", "it ran: take it out of skips.py"
    return report


@pytest.fixture(scope="session")
def registered() -> Iterator[None]:
    """Makes our classes known to the Auto classes, and to the tables in which the library's tests look them up."""
    # Imported here, as this file is read in every run: not every supported version has all of them.
    from transformers import CONFIG_MAPPING, TOKENIZER_MAPPING
    from transformers.models.auto import modeling_auto
    from transformers.models.auto.tokenization_auto import REGISTERED_TOKENIZER_CLASSES

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(CONFIG_MAPPING._extra_content, ToyBertConfig.model_type, ToyBertConfig)
        patch.setitem(TOKENIZER_MAPPING._extra_content, ToyBertConfig, (None, ToyBertTokenizer))
        patch.setitem(REGISTERED_TOKENIZER_CLASSES, "ToyBertTokenizer", ToyBertTokenizer)
        for table, name in CLASSES.items():
            patch.setitem(getattr(modeling_auto, f"{table}_MAPPING_NAMES"), ToyBertConfig.model_type, name)
            mapping = getattr(modeling_auto, f"{table}_MAPPING")
            patch.setitem(mapping._extra_content, ToyBertConfig, getattr(modeling_toybert, name))
        yield
