# SPDX-License-Identifier: Apache-2.0
# Thin verbs; the work is done by CMake, the program itself and the scripts in tools/.

SCALE   ?= quick
ONLY    ?=
RESUME  ?=
MACHINE ?=
BASE    ?=
NEW     ?=
SECONDS ?=
NAME    ?=
PRESET  ?= release
TARGET  := all
BUILD   := $(if $(filter release,$(PRESET)),build,build-$(PRESET))
export BUILD

.DEFAULT_GOAL := help
.PHONY: help setup setup-gpu program build variant test check format run-experiments figures report index \
  compare reproduce selftest soak fuzz clean distclean

help:
	@echo 'make run-experiments   set up, build, measure, draw; then open results/<machine>/report.html'
	@echo '       SCALE=quick|paper   10 to 20 minutes of measuring on two idle cores, besides the build (default), or the sizes of the sources'
	@echo '       ONLY=regex          only the cells whose experiment/key matches: ONLY=^zechner2009 measures one source'
	@echo '       RESUME=1            continue an interrupted run'
	@echo 'make test              set up, build, and run all tests'
	@echo 'make program           set up the C++ side and build $(BUILD)/kmeans-bench, nothing else'
	@echo 'make build             the same with its tests (TARGET=name: that target alone)'
	@echo 'make figures           draw all figures, reports and results/index.html again, of all machines'
	@echo '       ONLY=zechner2009/fig05  only the figures whose experiment/figure matches'
	@echo 'make report            the same without figure files'
	@echo '       MACHINE=folder      only of this folder under results/'
	@echo 'make index             results/index.html alone: which k-means for my data; needs no build'
	@echo 'make variant           NAME=cpu_foo: build the program and verify this one variant'
	@echo 'make check             formatting, lint and types of C++ and Python;  make format repairs the former'
	@echo 'make setup             install what is missing (apt, .venv), nothing else'
	@echo 'make setup-gpu         also PyTorch and the GPU peers, where there is a GPU (requirements-gpu.txt)'
	@echo 'make compare           BASE=folder NEW=folder: which cells are faster, slower, wrong; table, figures, page (ARGS: more options, GATE=1)'
	@echo 'make reproduce         MACHINE=folder: labels, inertia and data of committed results again, equal or where not'
	@echo 'make selftest          this build against itself: how often compare cries wolf, and what it finds'
	@echo 'make soak, make fuzz   SECONDS=...: experiments in a loop; every reader against hostile bytes'
	@echo 'make clean             remove builds;  make distclean also .venv and cached data; never results'
	@echo 'PRESET=dev|tsan|ci|cuda builds and tests in build-<preset> (CMakePresets.json)'

setup:
	@tools/setup.sh --retry build python data

setup-gpu:
	@tools/setup.sh --retry python gpu

program:
	@tools/setup.sh build
	@tools/build.sh $(PRESET) kmeans-bench

build:
	@tools/setup.sh build
	@tools/build.sh $(PRESET) $(TARGET)

variant:
	@test -n '$(NAME)' || { echo 'make variant: which one? make variant NAME=cpu_foo' >&2; exit 2; }
	@tools/setup.sh build
	@tools/build.sh $(PRESET) kmeans-bench
	@$(BUILD)/kmeans-bench verify --only '^$(NAME)$$'

test:
	@tools/setup.sh build python browser test
	@tools/build.sh $(PRESET)
	@tools/test.sh

check:
	@tools/setup.sh build python
	@tools/check.sh $(PRESET)

format:
	@tools/setup.sh python
	@tools/check.sh --repair

# The program is built without the packages for Python, so both are done at once; the library's Python
# package needs them.
run-experiments:
	@tools/setup.sh build
	@tools/setup.sh python gpu data & tools/build.sh $(PRESET) kmeans-bench; built=$$?; wait $$! && exit $$built
	@tools/build.sh $(PRESET) python-package
	@tools/run_experiments.sh --scale '$(SCALE)' $(if $(ONLY),--only '$(ONLY)') \
	  $(if $(RESUME),--resume)

figures:
	@tools/setup.sh python
	@tools/draw.sh $(if $(ONLY),figures,all) $(MACHINE) $(if $(ONLY),--only '$(ONLY)')

report:
	@tools/setup.sh python
	@tools/draw.sh report $(MACHINE)

index:
	@tools/setup.sh python
	@tools/draw.sh index

compare:
	@tools/setup.sh build python
	@tools/build.sh $(PRESET) kmeans-bench
	@tools/compare.sh '$(BASE)' '$(NEW)' $(ARGS)

reproduce:
	@tools/setup.sh build python gpu data
	@tools/build.sh $(PRESET) kmeans-bench
	@tools/build.sh $(PRESET) python-package
	@tools/reproduce.sh '$(MACHINE)'

selftest:
	@tools/setup.sh build python
	@tools/build.sh $(PRESET) kmeans-bench-faults
	@tools/selftest.sh

soak:
	@tools/setup.sh build python
	@tools/build.sh $(PRESET) kmeans-bench
	@.venv/bin/python tools/soak.py $(or $(SECONDS),3600)

fuzz:
	@tools/setup.sh build fuzz
	@tools/fuzz.sh $(or $(SECONDS),60)

clean:
	rm -rf build build-ci build-cuda build-dev build-tsan build-fuzz

distclean: clean
	rm -rf .venv .cache .setup .ruff_cache .mypy_cache .pytest_cache
