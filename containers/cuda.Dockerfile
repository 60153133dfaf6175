# SPDX-License-Identifier: Apache-2.0
#
# The same with the CUDA compiler and the GPU libraries of the Python side:
#
#   docker build -f containers/cuda.Dockerfile -t kmeans-bench-cuda .
#   docker run --rm --gpus all --network none -v "$PWD/results:/suite/results" kmeans-bench-cuda
#
# GPU_PYTHON=no leaves PyTorch and its gigabytes out; its variants are then skipped with a reason.
FROM nvidia/cuda:13.0.2-devel-ubuntu24.04

RUN apt-get update \
  && apt-get install --yes --no-install-recommends ca-certificates git make \
  && rm -rf /var/lib/apt/lists/*

# The image's own user has the number 1000.
RUN useradd --create-home --uid 1001 bench
WORKDIR /suite

COPY --chown=bench:bench tools/setup.sh tools/setup.sh
COPY --chown=bench:bench requirements.in requirements.txt requirements-gpu.in requirements-gpu.txt ./
RUN PIP_NO_CACHE_DIR=1 tools/setup.sh build python \
  && rm -rf /var/lib/apt/lists/* .setup \
  && chown bench:bench /suite

# There is no GPU while the image is built, so the script would leave these out. The stamp tells it
# that they are there.
ARG GPU_PYTHON=yes
RUN if [ "$GPU_PYTHON" = yes ]; then \
  .venv/bin/python -m pip install --no-cache-dir --require-hashes --only-binary :all: \
    -r requirements-gpu.txt \
  && sha256sum requirements-gpu.txt | cut -d ' ' -f 1 >.venv/.requirements-gpu; \
  else echo "$(sha256sum requirements-gpu.txt | cut -d ' ' -f 1) incomplete" \
    >.venv/.requirements-gpu; fi

COPY --chown=bench:bench . .
USER bench

ENV KMEANS_BENCH_MACHINE=container-cuda
CMD ["make", "run-experiments"]
