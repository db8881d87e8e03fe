"""Runs ToyBERT side by side with what a user would pick instead; README.md has the commands.

`python -m benchmarks.NAME` imports this file before the script, and so before torch, which reads the environment once.
A variable that is set already stays as it is: `OMP_NUM_THREADS=1 python -m benchmarks.inference`.
"""

import os

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
os.environ.setdefault("OMP_NUM_THREADS", str(CORES))
SETTINGS = {
    "OMP_NUM_THREADS": os.environ["OMP_NUM_THREADS"],
    "RAYON_NUM_THREADS": os.environ["OMP_NUM_THREADS"],  # of the Rust tokenizers
    "TOKENIZERS_PARALLELISM": "true",
    "CUDA_VISIBLE_DEVICES": "",  # both sides run on the CPU
    "ACCELERATE_USE_CPU": "true",
    "HF_HUB_OFFLINE": "1",  # nothing is fetched, and no time goes into asking
}
for _name, _value in SETTINGS.items():
    os.environ.setdefault(_name, _value)
