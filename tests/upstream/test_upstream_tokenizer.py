"""The library's own tests of tokenizers, over ours with a vocabulary of a few words."""

from __future__ import annotations

import tempfile
import unittest
from typing import ClassVar
from unittest import mock

import pytest
from library import load
from tokenizers.models import WordPiece

from toybert.tokenization_toybert import SPECIAL_TOKENS, ToyBertTokenizer

common = load("test_tokenization_common")
backend = load("test_tokenizers_backend_mixin")

pytestmark = [pytest.mark.pypi, pytest.mark.usefixtures("registered")]

WORDS = "this is a test of the small tokenizer , . wonderful no inspiration example with along and pair"


class ToyBertTokenizerTest(common.TokenizerTesterMixin, backend.TokenizersBackendTesterMixin, unittest.TestCase):
    tokenizer_class = rust_tokenizer_class = ToyBertTokenizer

    integration_test_input_string = "This is a test, of the  falsé tokenizer."
    integration_expected_tokens: ClassVar = ["this", "is", "a", "test", ",", "of", "the", "[UNK]", "tokenizer", "."]
    integration_expected_token_ids: ClassVar = [5, 6, 7, 8, 13, 9, 10, 1, 12, 14]
    integration_expected_decoded_text = "this is a test, of the [UNK] tokenizer."

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.from_pretrained_id = folder.name
        vocabulary = {word: index for index, word in enumerate([*SPECIAL_TOKENS, *WORDS.split()])}
        ToyBertTokenizer(vocab=vocabulary, model_max_length=512).save_pretrained(folder.name)
        super().setUpClass()

    def get_extracted_tokenizer(self, reference_tokenizer: ToyBertTokenizer | None = None) -> ToyBertTokenizer:
        """Has the vocabulary handed over as a dict, which the library does only where a class names such a model."""
        with mock.patch.object(ToyBertTokenizer, "model", WordPiece):
            return super().get_extracted_tokenizer(reference_tokenizer)
