"""Claims about the list of skipped tests."""

import pytest
import test_upstream_models
import test_upstream_pipelines
import test_upstream_tokenizer
from skips import ABOUT_MACHINES, ABOUT_OTHERS

pytestmark = pytest.mark.pypi


def test_every_listed_name_is_a_test_and_is_listed_once():
    listed = [name for group in (*ABOUT_OTHERS.values(), *ABOUT_MACHINES.values()) for name in group]
    tests = {
        *dir(test_upstream_models.ToyBertModelTest),
        *dir(test_upstream_pipelines.ToyBertPipelineTest),
        *dir(test_upstream_tokenizer.ToyBertTokenizerTest),
    }
    assert len(listed) == len(set(listed))
    assert set(listed) <= tests
