"""Claims about the card and docs/: examples print what they say, numbers are measured, links lead somewhere."""

import importlib
import json
import re
from dataclasses import fields

import pytest
from huggingface_hub import ModelCard
from transformers import AutoTokenizer

from toybert.train import release
from toybert.train.hub.folders import ROOT
from toybert.train.publish import LEFT_OUT, published_files

PAGES = release.read_pages()
README = PAGES["README.md"]
RESULTS = json.loads((ROOT / "figures" / "results.json").read_text(encoding="utf-8"))
CODE = [
    pytest.param(code, id=f"{name}-{number}")
    for name, page in PAGES.items()
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
]
OUTPUT = {match["code"]: match["output"] for page in PAGES.values() for match in release.EXAMPLE.finditer(page)}


@pytest.mark.parametrize("code", CODE)
def test_an_example_runs_without_the_package_and_prints_what_the_page_says(code: str) -> None:
    printed = release.run_example(code)
    if code in OUTPUT:
        assert printed == OUTPUT[code]
        assert printed.strip()


def test_an_example_runs_in_a_copy_of_the_repository_too(monkeypatch: pytest.MonkeyPatch) -> None:
    (first,) = re.findall(rf"```python\n((?:(?!```).)*{release.REPO}.*?)```", README, re.DOTALL)
    monkeypatch.chdir(ROOT)
    here = first.replace(release.REPO, f'__import__("os").chdir({str(ROOT)!r})\n{release.REPO}\nrepo = "."', 1)
    assert release.run_example(here) == OUTPUT[first]


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if "```python" in page])
def test_the_readers_id_stands_in_one_place_of_a_page(name: str) -> None:
    code = "".join(re.findall(r"```python\n(.*?)```", PAGES[name], re.DOTALL))
    assert code.count(release.REPO) == code.count("me/toybert") == 1
    assert code.index(release.REPO) < min(use.start() for use in re.finditer(r"\brepo\b[^ ]", code))


def test_the_numbers_of_the_pages_are_those_of_results_json() -> None:
    assert release.refresh(PAGES, RESULTS) == PAGES


def test_pages_with_other_numbers_would_be_noticed() -> None:
    changed = json.loads(json.dumps(RESULTS))
    changed["nsp"]["accuracy"] -= 0.01
    others = release.refresh(PAGES, changed)
    assert {name for name in PAGES if others[name] != PAGES[name]} == {"README.md", "docs/results.md"}
    with pytest.raises(ValueError, match="no place for a number"):
        release.refresh({"README.md": "# empty"}, RESULTS)


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
    """Returns the names that the Hub and GitHub give to a page's headings."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_anchors_are_made_as_the_hub_makes_them() -> None:
    assert anchors("# From BERT, and back\n```\n# no heading\n```\n## A `b` c!") == {"from-bert-and-back", "a-b-c"}


# On the Hub there are no benchmarks.
@pytest.mark.parametrize(
    "page",
    [*PAGES, "train/corpora/README.md", *(path.relative_to(ROOT).as_posix() for path in ROOT.glob("benchmarks/*.md"))],
)
def test_every_link_and_picture_is_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    published = published_files() if (ROOT / ".git").exists() else {}
    targets = re.findall(r"\]\(([^)]+)\)", text)
    for target in targets:
        if not target.startswith("https://"):
            path, _, anchor = target.partition("#")
            other = ((ROOT / page).parent / path).resolve() if path else ROOT / page
            assert other.exists(), target
            assert not anchor or anchor in anchors(other.read_text(encoding="utf-8")), target
            if published and not page.startswith(LEFT_OUT):  # it leads somewhere on the Hub too
                name = other.relative_to(ROOT).as_posix()
                assert name in published or any(each.startswith(f"{name}/") for each in published), target
    assert targets or not page.startswith("README")


@pytest.mark.parametrize("page", PAGES)
def test_a_picture_says_in_words_what_it_shows(page: str) -> None:
    assert all(len(words) > 40 for words in re.findall(r"!\[([^\]]*)\]", PAGES[page]))


def test_the_card_leads_to_every_page_of_docs_and_each_page_can_be_read_to_the_end() -> None:
    for name, page in PAGES.items():
        assert f"]({name}" in README or name == "README.md"
        assert len(page.splitlines()) <= (200 if name == "README.md" else 149), name
    assert len(README.encode()) <= 12_000


def cells(page: str) -> list[str]:
    """Returns the cells of a page's tables."""
    return [cell.strip() for line in page.splitlines() if line.startswith("|") for cell in line.split("|")[1:-1]]


@pytest.mark.parametrize("page", PAGES)
def test_a_cell_of_a_table_has_60_characters_at_most(page: str) -> None:
    assert [cell for cell in cells(PAGES[page]) if len(cell) > 60] == []
    assert cells(f"{PAGES[page]}\n| {'x' * 61} | y |")[-2:] == ["x" * 61, "y"]


def test_the_limits_are_ten_lines_at_most() -> None:
    for page in (README, PAGES["docs/use.md"]):
        section = page.split("## Limits\n")[1].split("\n## ")[0]
        assert 1 <= len(section.strip().splitlines()) <= 10


def test_every_mark_of_a_measured_part_is_used() -> None:
    marked = [mark for page in PAGES.values() for mark in re.findall(r"<!-- (\w+) -->", page)]
    benchmarks = ["speed", "quartiles", "real", "real_rows", "ranges"]
    assert sorted(marked) == sorted([*release.blocks(RESULTS), *benchmarks])


def test_every_example_that_is_shown_with_its_output_has_one() -> None:
    assert len(OUTPUT) >= 4
    assert all(output.strip() for output in OUTPUT.values())


def commands(page: str) -> list[tuple[str, list[str]]]:
    """Returns the modules of ours that a page runs, each with the names of its options."""
    blocks = re.findall(r"```bash\n(.*?)```", re.sub(r"^> ?", "", page, flags=re.MULTILINE), re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", "").splitlines()]
    lines += [
        span.replace("\n", " ") for span in re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", page, flags=re.DOTALL))
    ]
    found = [re.search(r"-m (toybert\.[\w.]+)([^#]*)", line) for line in lines]
    return [(match[1], re.findall(r"--([\w-]+)", match[2])) for match in found if match]


def test_commands_are_found_with_their_options() -> None:
    page = "> ```bash\n> python -m toybert.a.b x --one 1 \\\n>   --two # --three\n> ```\nand `-m toybert.c\n--four`"
    assert commands(page) == [("toybert.a.b", ["one", "two"]), ("toybert.c", ["four"])]


@pytest.mark.skipif(not (ROOT / "benchmarks").exists(), reason="the Hub has no benchmarks")
def test_the_benchmarks_that_the_pages_name_exist() -> None:
    named = {name for page in PAGES.values() for name in re.findall(r"\bbenchmarks\.(\w+)", page)}
    assert {"summary", "pretrain"} <= named
    assert [name for name in named if not (ROOT / "benchmarks" / f"{name}.py").is_file()] == []


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page_exist_and_have_the_options(page: str) -> None:
    for module, options in commands(PAGES[page]):
        path = ROOT.joinpath(*module.split(".")[1:])
        path = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__main__.py"
        assert path.is_file(), module
        imported = importlib.import_module(module if path.stem != "__main__" else f"{module}.__main__")
        classes = [each for name, each in vars(imported).items() if name.endswith("Options") and isinstance(each, type)]
        known = {each.name.replace("_", "-") for of in classes for each in fields(of)}
        known |= {"config", "recipe"} if classes else set()
        for name in options:
            declared = f'"--{name}"' in path.read_text(encoding="utf-8")
            assert declared or name.removeprefix("no-") in known, (module, name)


def test_every_promise_names_a_test_that_there_is() -> None:
    named = re.findall(r"`(test_\w+\.py)(?:::(test_\w+))?`", PAGES["docs/promises.md"])
    assert len(named) > 25
    for file, test in named:
        assert f"def {test}" in (ROOT / "tests" / file).read_text(encoding="utf-8"), test
