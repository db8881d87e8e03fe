"""Does one run of a benchmark, `python -m benchmarks NAME SPEC`, and prints what it found as JSON."""

import importlib
import json
import os
import sys

from benchmarks import common

common.quieten()
name, spec = sys.argv[1:]
found = importlib.import_module(f"benchmarks.{name}").one_run(json.loads(spec))
if os.environ.get("RANK", "0") == "0":  # the first of several processes speaks for all
    print(json.dumps(found), flush=True)
