"""`python -m benchmarks`: the layer against its peers, then scoring against seqeval; figures go to results/."""

from __future__ import annotations

import subprocess
import sys

for module in ("benchmarks.crf", "benchmarks.evaluation"):
    print(f"--- {module}", flush=True)
    subprocess.run([sys.executable, "-m", module], check=True)
