"""Fetches the tests that the installed transformers' sdist on PyPI carries, and makes them importable as they are."""

from __future__ import annotations

import importlib
import os
import sys
import types
from importlib.metadata import version
from pathlib import Path

from helpers import download

# The common properties of a configuration, each with a value that is not its default.
COMMON_PROPERTIES = {
    "return_dict": False,
    "output_hidden_states": True,
    "output_attentions": True,
    "dtype": "float16",
    "chunk_size_feed_forward": 5,
    "architectures": ["ToyBertModel"],
    "id2label": {0: "only"},
    "label2id": {"only": 0},
    "problem_type": "regression",
    "tie_word_embeddings": False,
    "pad_token_id": 7,
}

# Modules that the sdist lacks, and what its tests import from them. The two mixins are for models that generate and
# for torch.export; the library's own definitions aren't published, so nothing of them is run.
ABSENT = {
    "tests.exporters.test_export": {"ExportTesterMixin": type("ExportTesterMixin", (), {})},
    "tests.generation.test_utils": {"GenerationTesterMixin": type("GenerationTesterMixin", (), {})},
    "tests.utils.test_configuration_utils": {"config_common_kwargs": COMMON_PROPERTIES},
}
# Files that the sdist's tests open or execute. With the first two empty, `direct_transformers_import` returns the
# transformers that is installed, and not a second copy.
ABSENT_FILES = {
    "src/transformers/__init__.py": "",
    "tests/__init__.py": "",
    "tests/fixtures/sample_text.txt": "",
    "tests/utils/tiny_model_summary.json": "{}",
}


def fetch() -> Path:
    """Returns the folder that holds the library's `tests`, from the cache or else from PyPI."""
    name = f"transformers-{version('transformers')}"
    source = ("--no-binary", "transformers", "--no-build-isolation")
    folder = download(name.replace("-", "==", 1), *source) / name
    for path, text in ABSENT_FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def load(name: str) -> types.ModuleType:
    """Imports one of the library's test modules, unmodified."""
    folder = str(fetch())
    if folder not in sys.path:
        sys.path.insert(0, folder)
        os.environ["RUN_SLOW"] = "1"  # here a slow test is one of seconds
        for path, contents in ABSENT.items():
            sys.modules[path] = types.ModuleType(path)
            vars(sys.modules[path]).update(contents)
    return importlib.import_module(f"tests.{name}")
