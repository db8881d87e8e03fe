"""Claims about a stranger's words: what a file, class, column or tensor is called stays a name wherever it is shown."""

import ast
import contextlib
import io
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from torch import nn

from toybert.configuration_toybert import ToyBertConfig
from toybert.train import convert, publish
from toybert.train.console import Console
from toybert.train.data.labels import SINGLE, Labels
from toybert.train.finetune import FinetuneOptions
from toybert.train.hub.card import command, write_card, write_conversion_card
from toybert.train.hub.escape import block, code, in_line, in_quotes, plain, visible
from toybert.train.loop.loop import Progress
from toybert.train.measure.results import describe, write_finetuning_card
from toybert.train.pretrain import PretrainOptions

# Pieces that mean something in Markdown, HTML, YAML, Python, a shell, a template or a terminal; also a byte of a file's
# name that is not UTF-8, as Python reads it.
PIECES = (
    "a", "Z", "9", "良", "é", " ", "\t", "\n", "\r", "\n\n", "\n---\n", "\n# ", "\n- ", "\n1. ", "\n> ", "    ", "`",
    "``", "```", "\n```\n", "~~~", "|", "---", "*", "_", "#", "[a](b)", "![", "](", "<script>", "<!--", "-->", "&lt;",
    "www.a.de", "https://a.de", "<a@b.de>", "\\", "'", '"', "'''", '"""', "$(a)", "$a$", ";", "!", "{{ 6 * 7 }}",
    "{% if %}", ": ", "!!a", "\x1b[31m", "\x9b31m", "\x07", "\x85", "\u2028", "\u202e", "\udce9",
)  # fmt: skip
names = st.lists(st.sampled_from(PIECES), min_size=1, max_size=9).map("".join)
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
markdown = MarkdownIt("commonmark").enable("table").enable("strikethrough")


def inline(source: str) -> list[tuple[str, str]]:
    """Returns the kinds and contents of what the only paragraph or heading of a Markdown text is made of."""
    (found,) = [token for token in markdown.parse(source) if token.type == "inline"]
    return [(token.type, token.content) for token in found.children]


@given(names)
@example("x\n\n# a heading <script>alert(1)</script>")
@example("```\nrm -rf /\n```")
@example("` `` ```")
@example("\n")
def test_a_name_is_one_text_or_one_piece_of_code_in_markdown(name: str) -> None:
    shown = in_line(name)
    assert not STEERING.search(shown)
    assert inline(f"# {plain(name)}") == ([("text", shown)] if shown else [])
    assert inline(f"of {code(name)} *too*")[:3] == [
        ("text", "of "), ("code_inline", shown or " "), ("text", " ")
    ]  # fmt: skip
    (fence,) = markdown.parse(block(name, "bash"))
    assert (fence.type, fence.info, fence.content) == ("fence", "bash", f"{visible(name)}\n")


@given(names)
def test_a_name_is_one_string_of_python_and_one_word_of_a_shell(name: str) -> None:
    assert ast.literal_eval(in_quotes(name)) == name
    assert not STEERING.search(in_quotes(name))
    words = shlex.split(command("finetune", FinetuneOptions(output_dir="out", label_column=name)))
    assert words[-2:] == ["--label-column", name] or words[-1] == f"--label-column={name}"


@given(st.lists(names, max_size=5), st.sampled_from(["ascii", "cp1252", "utf-8"]))
def test_a_terminal_gets_no_command_and_no_character_that_it_lacks(words: list[str], encoding: str) -> None:
    written = io.BytesIO()
    console = Console(io.TextIOWrapper(written, encoding=encoding, newline=""))
    print(*words, file=console, flush=True)
    assert not STEERING.search(written.getvalue().decode(encoding))


class Data:
    """Stands for a dataset of 9 rows, about which there is all to say."""

    vocab_size, unknown, dropped, cut, lengths = 9, 0.5, 3, 3, np.array([9])

    def __len__(self) -> int:
        return 9

    def notes(self) -> list[str]:
        return ["3 sentences without a word left out"]


def cards(name: str) -> Iterator[str]:
    """Yields the cards of both scripts and of a conversion, with a name wherever a stranger's can be."""
    in_utf8 = name.encode(errors="ignore").decode()
    with tempfile.TemporaryDirectory() as top, contextlib.redirect_stdout(io.StringIO()):
        folder, data = Path(top, f"x{in_utf8}"), {"train": Data(), "validation": Data()}
        folder.mkdir()
        model = SimpleNamespace(config=ToyBertConfig(), parameters=nn.Linear(9, 9).parameters)
        shared, progress = {"output_dir": str(folder), "corpus": name, "text_column": name}, Progress(step=77)
        results = {
            "validation": {side: {"accuracy": 0.9, "macro_f1": 0.5, "loss": 1} for side in ("model", "baseline")}
        }
        options = FinetuneOptions(**shared, model=name, revision=name, label_column=name, text_pair_column=name)
        write_finetuning_card(model, data, Labels(SINGLE, (name, "b"), name), results, options, progress)
        yield (folder / "README.md").read_text(encoding="utf-8")
        text = SimpleNamespace(
            documents=3, held_out="1 of them", source=SimpleNamespace(unread=[name, name], twins=[(name, name)])
        )
        options = PretrainOptions(**shared, language=name)
        said = describe(text, data["train"], data["validation"], options)
        write_card("pretrain", model, options, progress, said, [("validation", "a", 0.9, "b", 0.5)])
        yield (folder / "README.md").read_text(encoding="utf-8")
        write_conversion_card(folder, name, name, ToyBertConfig(), [name, name])
        yield (folder / "README.md").read_text(encoding="utf-8")


def shape(card: str) -> tuple[list[Any], list[Any]]:
    """Returns what a card is made of, whatever its names are: the keys of its head, and all kinds of Markdown."""
    assert not STEERING.search(card)
    head, _, body = card.removeprefix("---\n").partition("\n---\n")
    values = yaml.safe_load(head)
    values.pop("base_model", None)  # of what may be a name on the Hub
    kinds = []
    for token in markdown.parse(body):
        kinds += [(token.type, token.tag, token.info), *(child.type for child in token.children or ())]
        if token.info == "python":
            kinds += [type(node) for node in ast.walk(ast.parse(token.content))]
        if token.info == "bash":
            kinds.append(len(shlex.split(token.content)))
        if token.type == "html_block":
            assert token.content.startswith("<!-- Written by toybert.train")
    return [*values, *(values.get("model-index") or [{}])[0].keys()], kinds


@settings(max_examples=50, deadline=None)
@given(names.filter(lambda name: not name.startswith("-")))
@example("x\n\n# a heading <script>alert(1)</script>")
@example('a", trust_remote_code=True); print("ran')
def test_no_name_changes_what_a_card_is_made_of(name: str) -> None:
    for card, harmless in zip(cards(name.replace("/", ":")), cards("name"), strict=True):
        assert shape(card) == shape(harmless)


def test_names_of_tensors_and_of_committed_files_reach_the_terminal_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(convert, "convert", lambda *_: ["a\nb\x1b[31m"])
    monkeypatch.setattr("sys.argv", ["convert", "x", "y"])
    convert.main()
    monkeypatch.setattr(publish, "check_pages", lambda: None)
    monkeypatch.setattr(publish, "published_files", lambda: {"a\nb\x1b[31m": 3})
    monkeypatch.setattr(publish, "git", lambda *_: ["a\nb\x1b[31m"])
    publish.publish(publish.PublishOptions(repo_id="me/toybert", dry_run=True))
    assert capsys.readouterr().out.count(r"a b\x1b[31m") == 3
