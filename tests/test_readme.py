"""Claims about the card: its examples print what it says, its numbers are measured, its links lead somewhere."""

import json
import re
from pathlib import Path

import pytest
from huggingface_hub import ModelCard
from transformers import AutoTokenizer

from toybert.train import release
from toybert.train.hub.folders import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
RESULTS = json.loads((ROOT / "figures" / "results.json").read_text(encoding="utf-8"))
CODE = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
OUTPUT = {match["code"]: match["output"] for match in release.EXAMPLE.finditer(README)}


@pytest.mark.parametrize("code", CODE, ids=range(len(CODE)))
def test_an_example_runs_without_the_package_and_prints_what_the_card_says(code: str) -> None:
    printed = release.run_example(code)
    if code in OUTPUT:
        assert printed == OUTPUT[code]
        assert printed.strip()


def test_the_numbers_of_the_card_are_those_of_results_json() -> None:
    assert release.refresh(README, RESULTS) == README


def test_a_card_with_other_numbers_would_be_noticed() -> None:
    changed = json.loads(json.dumps(RESULTS))
    changed["nsp"]["accuracy"] -= 0.01
    assert release.refresh(README, changed) != README
    with pytest.raises(ValueError, match="no place for a number"):
        release.refresh("# empty", RESULTS)


def test_results_hold_everything_that_is_promised() -> None:
    assert {"loss", "accuracy", "content_accuracy", "unigram_accuracy", "bigram_accuracy"} <= RESULTS["mlm"].keys()
    assert {"accuracy", "hard_accuracy", "length_only_accuracy", "word_overlap_accuracy"} <= RESULTS["nsp"].keys()
    baselines = {"majority_accuracy", "bag_of_words_accuracy", "bag_of_bigrams_accuracy"}
    assert {"accuracy", *baselines} <= RESULTS["sentiment"].keys()
    assert {"seconds", "peak_memory_mb", "recipe", "versions", "samples"} <= RESULTS.keys()


def test_what_was_measured_reaches_what_was_aimed_at() -> None:
    mlm, nsp, sentiment = RESULTS["mlm"], RESULTS["nsp"], RESULTS["sentiment"]
    assert mlm["accuracy"] >= 2.5 * mlm["unigram_accuracy"]
    assert mlm["accuracy"] >= mlm["bigram_accuracy"] + 0.1
    assert nsp["accuracy"] >= 0.90
    assert abs(nsp["length_only_accuracy"] - 0.5) < 0.03
    assert nsp["accuracy"] >= nsp["word_overlap_accuracy"] + 0.1  # not above "word_pairs", which the card says
    assert nsp["hard_accuracy"] >= nsp["hard_word_overlap_accuracy"] + 0.1
    assert sentiment["accuracy"] >= 0.95
    assert sentiment["bag_of_words_accuracy"] <= 0.80
    assert RESULTS["peak_memory_mb"] < 2000
    assert RESULTS["seconds"]["total"] < 240


def test_the_cards_metadata_are_valid_and_complete() -> None:
    data = ModelCard.load(ROOT / "README.md").data
    assert (data.license, data.language, data.library_name) == ("apache-2.0", "en", "transformers")
    assert data.pipeline_tag == "fill-mask"
    assert "custom_code" in data.tags
    assert data.metrics == ["accuracy"]
    values = {result.metric_name: result.metric_value for result in data.eval_results}
    assert values == {
        "Accuracy (masked words)": round(RESULTS["mlm"]["accuracy"], 4),
        "Accuracy (next sentence)": round(RESULTS["nsp"]["accuracy"], 4),
        "Accuracy (sentiment)": round(RESULTS["sentiment"]["accuracy"], 4),
    }
    assert None not in data.to_dict().values()


def test_the_widgets_sentences_have_a_mask_and_no_unknown_word() -> None:
    tokenizer = AutoTokenizer.from_pretrained(ROOT, trust_remote_code=True)
    for example in ModelCard.load(ROOT / "README.md").data.widget:
        ids = tokenizer(example["text"]).input_ids
        assert ids.count(tokenizer.mask_token_id) == 1
        assert tokenizer.unk_token_id not in ids


def anchors(text: str) -> set[str]:
    """Gives the names that the Hub and GitHub give to a page's headings."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_anchors_are_made_as_the_hub_makes_them() -> None:
    assert anchors("# From BERT, and back\n```\n# no heading\n```\n## A `b` c!") == {"from-bert-and-back", "a-b-c"}


# On the Hub there are no benchmarks.
@pytest.mark.parametrize("page", ["README.md", "train/corpora/README.md", *sorted(ROOT.glob("benchmarks/*.md"))])
def test_every_link_and_picture_is_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)]+)\)", text)
    for target in targets:
        if not target.startswith("https://"):
            path, _, anchor = target.partition("#")
            other = (ROOT / page).parent / path if path else ROOT / page
            assert other.exists(), target
            assert not anchor or anchor in anchors(other.read_text(encoding="utf-8")), target
    assert targets or page != "README.md"


def test_the_limits_are_ten_lines_at_most() -> None:
    section = README.split("## Limits\n")[1].split("\n## ")[0]
    assert 1 <= len(section.strip().splitlines()) <= 10


def test_every_mark_of_a_measured_part_is_used() -> None:
    marked = set(re.findall(r"<!-- (\w+) -->", README))
    assert marked == {*release.blocks(RESULTS), "speed", "real"}  # these two are the benchmarks'


def test_every_example_that_is_shown_with_its_output_has_one() -> None:
    assert len(OUTPUT) >= 4
    assert all(output.strip() for output in OUTPUT.values())


def test_commands_of_the_card_exist() -> None:
    for module in set(re.findall(r"-m (toybert\.[\w.]+)", README)):
        path = ROOT.joinpath(*module.split(".")[1:])
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), module
    assert Path(ROOT / "figures" / "results.json").is_file()
