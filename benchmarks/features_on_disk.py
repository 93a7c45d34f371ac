"""What memory does an audit of a folder of arrays take, against the same audit with the features in memory?

    python benchmarks/features_on_disk.py --records 1000000 --features 512

Made-up records, linear models, one epoch, LiRA: from reading to report. Both runs are processes of their own
with one thread; peak is the resident memory the kernel counted (pages of files included) beyond what a
process takes that has only imported everything. Their results must be the same bytes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

RUN = """
import json, sys, time
from pathlib import Path
import numpy as np
import torch
import leakscope
import leakscope.engine.local, leakscope.evaluate.judge, leakscope.report.previews
import leakscope.audits.report.markdown, sklearn.ensemble
from dataclasses import replace

def peak():
    fields = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(fields["VmHWM"].split()[0]) * 1024

torch.set_num_threads(1)
folder, out, place = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
imported, started = peak(), time.perf_counter()
records = leakscope.read_table(folder)
if place == "in memory":
    records = replace(records, features=np.load(folder / "features.npy"))
recipe = leakscope.Recipe(net="linear", epochs=1, batch_size=256)
leakscope.audit(records, recipe, out, models=4, attacks=("lira",), device="cpu")
print(json.dumps({"seconds": time.perf_counter() - started, "bytes": peak() - imported}))
"""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--records", type=int, default=100_000)
    arguments.add_argument("--features", type=int, default=512)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        n_bytes = make(root / "made_up", options.records, options.features)
        found = {place: measured(root, place) for place in ("on disk", "in memory")}
        same = len({(root / place / "results.json").read_bytes() for place in found}) == 1
    print(f"features.npy: {options.records:,} x {options.features} float32, {n_bytes / 1e9:.2f} GB")
    for place, (seconds, peak) in found.items():
        print(
            f"features {place}: {seconds:.0f} s, peak {peak / 1e9:.2f} GB, {peak / n_bytes:.2f} of the file"
        )
    ratio = found["in memory"][1] / found["on disk"][1]
    print(f"memory: {ratio:.1f}x less on disk; results.json {'the same bytes' if same else 'DIFFERS'}")


def make(folder: Path, n_records: int, n_features: int) -> int:
    """Writes the folder block by block; bytes of the features."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    shape = (n_records, n_features)
    features = np.lib.format.open_memmap(folder / "features.npy", "w+", np.float32, shape)
    for start in range(0, n_records, 10_000):
        rows = features[start : start + 10_000]
        rng.standard_normal(rows.shape, dtype=np.float32, out=rows)
    features.flush()
    np.save(folder / "labels.npy", rng.integers(0, 2, n_records))
    return features.nbytes


def measured(root: Path, place: str) -> tuple[float, int]:
    command = [sys.executable, "-c", RUN, str(root / "made_up"), str(root / place), place]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    return found["seconds"], found["bytes"]


if __name__ == "__main__":
    main()
