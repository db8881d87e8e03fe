"""Makes a stranger's words (names of files, classes, columns, tensors) safe for the place where they are shown."""

import json
import re
import string

# What steers a terminal or turns the direction of a text, and halves of characters, which stand for bytes of a file's
# name that are not UTF-8.
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
SPECIAL = re.compile(f"[{re.escape(string.punctuation.replace('-', '').replace(',', ''))}]")


def visible(text: str) -> str:
    """Returns a text for a terminal: what would steer it is written as Python writes it, such as \\x1b."""
    return UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def in_line(name: str) -> str:
    """Returns a name as a part of one line, for a terminal or a value in YAML."""
    return visible(" ".join(name.split()))


def plain(name: str) -> str:
    """Returns a name as text in Markdown, outside code."""
    return SPECIAL.sub(r"\\\g<0>", in_line(name))


def code(name: str) -> str:
    """Returns a name as inline code in Markdown."""
    shown = in_line(name) or " "
    ticks, space = ticks_around(shown, 1), " " * ("`" in shown)
    return f"{ticks}{space}{shown}{space}{ticks}"


def block(text: str, language: str) -> str:
    """Returns a block of code in Markdown."""
    ticks = ticks_around(text, 3)
    return f"{ticks}{language}\n{visible(text)}\n{ticks}"


def ticks_around(text: str, least: int) -> str:
    """Returns more backticks than stand together in a text, so that they can enclose it."""
    return "`" * max([least, *(1 + len(run) for run in re.findall("`+", text))])


def in_quotes(name: str) -> str:
    """Returns a name as a string literal of Python."""
    return visible(json.dumps(name, ensure_ascii=False))
