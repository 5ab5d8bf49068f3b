#!/usr/bin/env bash
# Check and measure the GPU path on a machine with an NVIDIA GPU; nothing else need be set up there.
#
#   bash scripts/gpu_check.sh [FOLDER_FOR_RESULTS]
#
# Makes an environment of its own (.venv-gpu) with onnxruntime-gpu, runs the tests marked gpu, then
# measures W1 and W3 in fp32 and fp16. By environment:
#
#   PYTHON=...      the interpreter [python3]
#   WHEELS=FOLDER   install from these wheels and nothing else, on a machine without a network;
#                   NAME.whl.part00, .part01, ... are put together first
#   SYSTEM_SITE=1   take torch, CUDA's libraries and what else fits from the machine's own Python
#   SKIP_BENCH=1    tests alone
set -euo pipefail
cd "$(dirname "$0")/.."
results=${1:-.}
venv=.venv-gpu
mkdir -p "$results"

if ! command -v nvidia-smi >/dev/null; then
  echo "no nvidia-smi here: is there an NVIDIA GPU, and its driver?" >&2
  exit 2
fi
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv

if [ ! -x "$venv/bin/python" ]; then
  "${PYTHON:-python3}" -m venv ${SYSTEM_SITE:+--without-pip} "$venv"
  if [ -n "${SYSTEM_SITE:-}" ]; then
    # Not --system-site-packages: where that Python is itself a virtual environment, it means the
    # packages of the Python below.
    packages=$("$venv/bin/python" -c "import sysconfig; print(sysconfig.get_path('purelib'))")
    "${PYTHON:-python3}" -c "
import site
for path in site.getsitepackages():
    print(f'import site; site.addsitedir({path!r})')" > "$packages/machine.pth"
  fi
fi
options=(-c constraints.txt)
if [ -n "${WHEELS:-}" ]; then
  for first in "$WHEELS"/*.whl.part00; do
    [ -e "$first" ] && cat "${first%00}"* > "${first%.part00}"
  done
  options=(--no-index --find-links "$WHEELS")
fi
install() { "$venv/bin/python" -m pip install -q --disable-pip-version-check "${options[@]}" "$@"; }

# What runs, what tests and benches need beside it, and one ONNX Runtime: the GPU's. Brought wheels
# stand beside CUDA's libraries that are on the machine already.
"$venv/bin/python" - "${WHEELS:-}" > "$venv/requirements.txt" <<'PYTHON'
import sys
import tomllib

with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
extras = project["optional-dependencies"]
runtime = ["onnxruntime-gpu"] if sys.argv[1] else extras["gpu"]
names = project["dependencies"] + extras["fleet"] + runtime
print("\n".join(name for name in names if not name.startswith("zerofleet")))
print("torch\nonnx\nsafetensors\npsutil\npytest\npytest-asyncio\npytest-timeout")
print("scikit-build-core\nnanobind\ncmake\nninja\nsetuptools")
PYTHON
install -r "$venv/requirements.txt"
"$venv/bin/python" -c "import zerofleet_core" 2>/dev/null ||
  install --no-build-isolation --no-deps ./core

export PYTHONPATH="$PWD/src:$PWD"
libraries=$("$venv/bin/python" -c "
import glob, sys
print(':'.join(found for path in sys.path for found in glob.glob(f'{path}/nvidia/*/lib')))")
export LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

"$venv/bin/python" - <<'PYTHON' | tee "$results/gpu_check.txt"
from zerofleet.services.inference.devices import probe
from zerofleet.models.runtime import Provider
from zerofleet.models.runtime import installed_runtimes, offered_providers

print(", ".join(installed_runtimes()), "offers", ", ".join(offered_providers()))
probe(Provider("cuda"))
print("CUDA works")
PYTHON

# These tests use no stores, and so none of the fixtures in the folder above.
"$venv/bin/python" -m pytest -m gpu --confcutdir=tests/gpu tests/gpu 2>&1 |
  tee -a "$results/gpu_check.txt"

[ -n "${SKIP_BENCH:-}" ] && exit 0
# A session is slow after each change of the batch size: the second figure shows whether one still
# meets any.
"$venv/bin/python" - <<'PYTHON' | tee -a "$results/gpu_check.txt"
import time

import numpy as np
from bench.model_file import model_bytes
from bench.providers import provider_of
from bench.workloads import WORKLOADS
from zerofleet.models.session import open_session

workload = WORKLOADS["connect_four"]
session = open_session(model_bytes(workload, "fp16"), workload.spec, provider_of("cuda"))
for sizes in ((1024,), (1024, 512, 100, 3)):
    batches = [np.zeros((rows, workload.spec.observation_bytes), np.uint8) for rows in sizes]
    start = time.perf_counter()
    for _ in range(200):
        for batch in batches:
            session.run(batch)
    mean = (time.perf_counter() - start) / 200 / len(sizes) * 1e3
    print(f"batches of {', '.join(map(str, sizes))} rows in turn: {mean:.2f} ms each")
PYTHON
for workload in connect_four go9; do
  for precision in fp32 fp16; do
    "$venv/bin/python" -m bench.efficiency "$workload" --provider cuda --precision "$precision" \
      --games 512 --sessions 2 --workers "$(nproc)" --json | tee -a "$results/gpu_bench.jsonl"
  done
done
