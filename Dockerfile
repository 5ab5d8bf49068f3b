# All images of zerofleet, a target each:
#
#   docker build --target selfplay -t zerofleet-selfplay:1.0.0 .        or all of them: make images
#
# Toolchain, core and wheels are built beside, and only their files reach an image. Packages come
# before sources, so that a changed line of Python costs seconds. Written for BuildKit, which builds
# no more than the target needs; the classic builder makes the same images, more slowly.

# Pin it by digest where images must be the same twice: --build-arg PYTHON_IMAGE=python@sha256:...
ARG PYTHON_IMAGE=python:3.11-slim-bookworm


# ---- what every image begins with: the user, the folders, an empty environment ----
# checkov:skip=CKV_DOCKER_7:the tag is in the argument's default, above
FROM ${PYTHON_IMAGE} AS base
# Modules come from the environment alone, never from the folder that a process is started in, and
# nothing is written beside them: the root file system may be read-only.
ENV PATH=/opt/zerofleet/bin:$PATH \
    HOME=/tmp \
    LANG=C.UTF-8 \
    PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    ORT_DISABLE_TELEMETRY=1 \
    ZEROFLEET_RUN_FILE=/etc/zerofleet/run.toml \
    ZEROFLEET_MODEL_FOLDER=/var/lib/zerofleet/models \
    ZEROFLEET_CHECKPOINT_FOLDER=/var/lib/zerofleet/checkpoints \
    ZEROFLEET_ENGINE_FOLDER=/var/lib/zerofleet/engines \
    ZEROFLEET_METRICS_ADDRESS=0.0.0.0:9100 \
    ZEROFLEET_HEALTH_ADDRESS=0.0.0.0:8081
# Linux gives no signal to process 1 that it has not asked for, and Python asks only once it is up:
# tini is process 1, so a container that is stopped while it starts ends at once.
# DL3008 wants versions; a release of Debian keeps only its newest, so a pin breaks with each update.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends tini \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin
# An empty named volume takes the owner of the folder that it is mounted on.
RUN groupadd --gid 10001 zerofleet \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin zerofleet \
 && install -d -o 10001 -g 10001 /var/lib/zerofleet/models /var/lib/zerofleet/checkpoints /var/lib/zerofleet/engines \
 && install -d /etc/zerofleet /usr/share/zerofleet/requirements \
 && python -m venv --without-pip /opt/zerofleet
WORKDIR /var/lib/zerofleet
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=3 \
  CMD ["python", "-m", "zerofleet.rpc.probe", "127.0.0.1:8081"]
# What changes with each commit is a label that the builder adds (--label): here it would rebuild all below.
LABEL org.opencontainers.image.vendor="zerofleet" \
      org.opencontainers.image.version="1.0.0" \
      org.opencontainers.image.licenses="Apache-2.0"


# ---- the wheels of this repository; none of these stages is shipped ----
FROM base AS toolchain
# Any g++ of Debian 12 will do. Debian's own Python, unlike the official image's, has its headers in
# a package of their own.
# DL3008: as above.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends g++ \
 && if [ ! -e "$(python -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ]; then \
      apt-get install -y --no-install-recommends python3-dev; \
    fi \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin
COPY deploy/requirements/build.txt /usr/share/zerofleet/requirements/
RUN pip --python /opt/zerofleet/bin/python install --no-cache-dir --no-deps --require-hashes \
      --only-binary :all: -r /usr/share/zerofleet/requirements/build.txt

FROM toolchain AS core
COPY core /src/core
RUN pip --python /opt/zerofleet/bin/python wheel --no-cache-dir --no-deps --no-build-isolation \
      --wheel-dir /dist /src/core

FROM toolchain AS library
COPY pyproject.toml README.md LICENSE /src/
COPY src /src/src
COPY runs /src/runs
COPY services /src/services
RUN pip --python /opt/zerofleet/bin/python wheel --no-cache-dir --no-deps --no-build-isolation \
      --wheel-dir /dist /src

# Both, installed where they will be, without anything else beside them.
FROM base AS app
COPY --from=core /dist /dist
COPY --from=library /dist /dist
RUN pip --python /opt/zerofleet/bin/python install --no-cache-dir --no-deps --no-index /dist/*.whl


# ---- images with what every process needs: by version and hash, nothing compiled, no cache left ----
FROM base AS env
COPY deploy/requirements/runtime.txt /usr/share/zerofleet/requirements/
RUN pip --python /opt/zerofleet/bin/python install --no-cache-dir --no-deps --require-hashes \
      --only-binary :all: -r /usr/share/zerofleet/requirements/runtime.txt
# What few runs need: EXTRAS=openspiel for games of OpenSpiel, which every service then
# imports, and "openspiel tensorboard" for both. Each has its own file, by version and hash.
ARG EXTRAS=""
COPY deploy/requirements/openspiel.txt deploy/requirements/tensorboard.txt /usr/share/zerofleet/requirements/
RUN for name in $EXTRAS; do \
      case "$name" in openspiel|tensorboard) ;; \
        *) echo "EXTRAS has '$name': name openspiel, tensorboard, or both" >&2; exit 1;; esac; \
      pip --python /opt/zerofleet/bin/python install --no-cache-dir --no-deps --require-hashes \
        --only-binary :all: -r "/usr/share/zerofleet/requirements/$name.txt" || exit 1; \
    done

FROM env AS selfplay
LABEL org.opencontainers.image.title="zerofleet-selfplay" \
      org.opencontainers.image.description="Plays with the best model and stores the games"
COPY --from=app /opt/zerofleet /opt/zerofleet
USER 10001:10001
EXPOSE 8081 9100
ENTRYPOINT ["tini", "--", "python", "-m", "zerofleet.services.selfplay"]

FROM env AS evaluator
LABEL org.opencontainers.image.title="zerofleet-evaluator" \
      org.opencontainers.image.description="Judges new models and promotes the better ones"
# Programs that models are rated against. GNU Go is GPL and runs as a process of its own; it is not
# in by default, so that this image can be passed on without anything under another licence.
ARG ANCHORS=""
ENV PATH=$PATH:/usr/games
# DL3008: as above. SC2086 wants quotes, and ANCHORS may name several packages.
# hadolint ignore=DL3008,SC2086
RUN if [ -n "$ANCHORS" ]; then \
      apt-get update && apt-get install -y --no-install-recommends $ANCHORS && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin; \
    fi
COPY --from=app /opt/zerofleet /opt/zerofleet
USER 10001:10001
EXPOSE 8081 9100
ENTRYPOINT ["tini", "--", "python", "-m", "zerofleet.services.evaluator"]

FROM env AS autoscaler
LABEL org.opencontainers.image.title="zerofleet-autoscaler" \
      org.opencontainers.image.description="Tells KEDA how many self-play workers are useful"
COPY --from=app /opt/zerofleet /opt/zerofleet
USER 10001:10001
EXPOSE 8081 9001 9100
ENTRYPOINT ["tini", "--", "python", "-m", "zerofleet.services.autoscaler"]

FROM env AS tools
LABEL org.opencontainers.image.title="zerofleet-tools" \
      org.opencontainers.image.description="The zerofleet command: migrate, status, sql, secrets"
# DL3008: as above.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends postgresql-client \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin
COPY deploy/requirements/tools.txt /usr/share/zerofleet/requirements/
RUN pip --python /opt/zerofleet/bin/python install --no-cache-dir --no-deps --require-hashes \
      --only-binary :all: -r /usr/share/zerofleet/requirements/tools.txt
COPY --from=app /opt/zerofleet /opt/zerofleet
USER 10001:10001
HEALTHCHECK NONE
ENTRYPOINT ["tini", "--", "zerofleet"]


# ---- and NiceGUI ----
FROM env AS dashboard
LABEL org.opencontainers.image.title="zerofleet-dashboard" \
      org.opencontainers.image.description="Shows a run in a browser"
COPY deploy/requirements/dashboard.txt /usr/share/zerofleet/requirements/
RUN pip --python /opt/zerofleet/bin/python install --no-cache-dir --no-deps --require-hashes \
      --only-binary :all: -r /usr/share/zerofleet/requirements/dashboard.txt
COPY --from=app /opt/zerofleet /opt/zerofleet
USER 10001:10001
EXPOSE 8080 8081 9100
ENTRYPOINT ["tini", "--", "python", "-m", "zerofleet.services.dashboard"]


# ---- and ONNX Runtime ----
FROM env AS env-inference
COPY deploy/requirements/inference.txt /usr/share/zerofleet/requirements/
RUN pip --python /opt/zerofleet/bin/python install --no-cache-dir --no-deps --require-hashes \
      --only-binary :all: -r /usr/share/zerofleet/requirements/inference.txt

FROM env-inference AS inference
LABEL org.opencontainers.image.title="zerofleet-inference" \
      org.opencontainers.image.description="Answers predictions of a run's models, on CPUs"
COPY --from=app /opt/zerofleet /opt/zerofleet
USER 10001:10001
EXPOSE 8001 8081 9100
ENTRYPOINT ["tini", "--", "python", "-m", "zerofleet.services.inference"]


# ---- and torch ----
# torch for CPUs is on an index of its own, and may also come from a folder that pip's settings
# name; --build-arg TORCH=cuda takes the one on PyPI, with gigabytes of CUDA.
FROM env-inference AS env-torch
ARG TORCH=cpu
COPY deploy/requirements/torch-${TORCH}.txt /usr/share/zerofleet/requirements/
RUN pip --python /opt/zerofleet/bin/python install --no-cache-dir --no-deps --require-hashes \
      --only-binary :all: --retries 1 -r "/usr/share/zerofleet/requirements/torch-${TORCH}.txt" \
 || { echo "no torch: the one for CPUs is on download.pytorch.org; where that is out of reach, name" \
           "a folder with its +cpu wheel in pip's find-links, or build with --build-arg TORCH=cuda" \
           >&2; exit 1; }
COPY deploy/requirements/trainer.txt /usr/share/zerofleet/requirements/
RUN pip --python /opt/zerofleet/bin/python install --no-cache-dir --no-deps --require-hashes \
      --only-binary :all: -r /usr/share/zerofleet/requirements/trainer.txt

FROM env-torch AS trainer
LABEL org.opencontainers.image.title="zerofleet-trainer" \
      org.opencontainers.image.description="Trains the network and publishes models"
COPY --from=app /opt/zerofleet /opt/zerofleet
USER 10001:10001
EXPOSE 8081 9100
ENTRYPOINT ["tini", "--", "python", "-m", "zerofleet.services.trainer"]


# ---- ONNX Runtime with CUDA: last, for the classic builder builds all that stands above a target ----
# CUDA and cuDNN come as wheels: of the machine only the driver is needed.
FROM env AS env-inference-gpu
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
COPY deploy/requirements/inference-gpu.txt /usr/share/zerofleet/requirements/
RUN pip --python /opt/zerofleet/bin/python install --no-cache-dir --no-deps --require-hashes \
      --only-binary :all: -r /usr/share/zerofleet/requirements/inference-gpu.txt

FROM env-inference-gpu AS inference-gpu
LABEL org.opencontainers.image.title="zerofleet-inference-gpu" \
      org.opencontainers.image.description="Answers predictions of a run's models, on NVIDIA GPUs"
COPY --from=app /opt/zerofleet /opt/zerofleet
USER 10001:10001
EXPOSE 8001 8081 9100
ENTRYPOINT ["tini", "--", "python", "-m", "zerofleet.services.inference"]
