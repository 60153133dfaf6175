# SPDX-License-Identifier: Apache-2.0
#
# Everything that the CPU side needs, so that nothing is fetched when a container runs:
#
#   docker build -f containers/cpu.Dockerfile -t kmeans-bench .
#   docker run --rm --network none -v "$PWD/results:/suite/results" kmeans-bench
#   docker run --rm --network none kmeans-bench make test
#
# The suite is compiled when the container runs, for the processor that it runs on (docs/ci.md).
FROM debian:12.11-slim

RUN apt-get update \
  && apt-get install --yes --no-install-recommends ca-certificates git make \
  && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home --uid 1000 bench
WORKDIR /suite

# What rarely changes comes first: packages of the system and of Python.
COPY --chown=bench:bench tools/setup.sh tools/setup.sh
COPY --chown=bench:bench requirements.in requirements.txt ./
RUN PIP_NO_CACHE_DIR=1 tools/setup.sh build python browser test \
  && rm -rf /var/lib/apt/lists/* .setup \
  && chown bench:bench /suite

COPY --chown=bench:bench . .
USER bench

# Measured inside of a container: the results say so by their name.
ENV KMEANS_BENCH_MACHINE=container-cpu
CMD ["make", "run-experiments"]
