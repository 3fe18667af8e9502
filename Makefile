# Targets for a newcomer and the continuous integration. CMake does the rest: see CMakePresets.json.
#
#   make             what ships, into build/bin
#   make page        the page of cgpu-exporter, into page/dist (installs Node and what it needs from npm)
#   make demo        the main job on a simulated node, step by step (installs what it needs, builds)
#   make test        what is checked at each change (installs what it needs, builds)
#   make nightly     that and all other tests, in parts of ten minutes at most; make nightly-PART runs one
#   make test-times  how long each test took when it last ran, and each group of them
#   make test-kubernetes  pods with slices on a real Kubernetes, which is built first (needs Go)
#   make cluster-up  a Kubernetes for you with a node whose simulated GPUs are shared; make cluster-down
#   make test-tutorials  README's quickstart and the tutorials on a fresh Debian 12 (needs its mirror)
#   make test-go     programs in Go on a simulated node, as NVIDIA's device plugin; built first (needs Go)
#   make soak        the same randomised tests and fuzzers for long, and tests that failed once beside a load
#   make bench-NAME  one benchmark, e.g. bench-untrapped
#   make report      how well this machine keeps tenants of a GPU apart: build/report.html, REPORT=PAGE
#   make share-story the pictures of docs/explanation/compute.md, measured and drawn anew
#   make terminal-picture  the recording of a terminal that README shows, made anew
#   make reference   docs/reference: the options of all programs, as they say them
#   make lint        formatting and clang-tidy alone
#   make install     the programs below PREFIX (/usr/local), or below DESTDIR for a package
#   make deb         build/cgpu_VERSION_amd64.deb and those of cgpu-exporter and cgpu-kubernetes
#   make rpm         the same packages for hosts with RPM
#   make sim-image   build/cgpu-sim-image.tar: an OCI image of a simulated node (needs Debian's mirror)
#   make release     dist/release: the packages, their SBOM, SHA256SUMS and a signature; KEY=GPG-KEY
#   make gpu-bundle  dist/cgpu-gpu-bundle.tar.gz: what tests/gpu/run needs on a machine with a GPU
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
MAKEFLAGS += --no-print-directory

JOBS ?= $(shell nproc)
WARNINGS_AS_ERRORS ?= ON
SECONDS_EACH ?= 600
REPEATS ?= 50
FUZZ_SECONDS ?= 10
# Tests of whole programs wait for much of their time. One that compares times or shares takes more than
# one place (PROCESSORS in CMakeLists.txt).
TESTS_AT_ONCE ?= $(shell echo $$((2 * $(JOBS))))
# Which stories with Kubernetes: PART/PARTS, or SCRIPT:CASE...; nothing: all of them.
STORIES ?=
# Those that `make test` runs where Kubernetes was built before.
FEW_STORIES := slices_test.py:limits chart_test.py:manifests hostile_test.py:words
# The parts of `make nightly` besides `make test`. CONTRIBUTING.md says what each is for.
PARTS := kubernetes-1 kubernetes-2 kubernetes-3 kubernetes-4 engines long threads soak packages lint go
REPORT ?= build/report.html
NOTHING :=
SPACE := $(NOTHING) $(NOTHING)
# The unit tests in which programs of several threads are tested. `make nightly` runs them all so, but for
# two whose libraries Debian does not build for ThreadSanitizer, which then cannot see their locks, and one
# with processes that share memory, which it cannot run.
TSAN_TESTS := host_test process_test shim_test sim_test
NOT_FOR_TSAN := fleet_test kubelet_test address_space_test
# The cases that passed are not listed: what failed is to be found in the last lines.
QUIET := grep -v -e '^ *Start ' -e ' Passed '

# To build and run; and to check. All from Debian 12.
PREFIX ?= /usr/local
PACKAGES := g++ ccache cmake ninja-build pkg-config python3 fuse3 libfuse3-dev \
  nlohmann-json3-dev libcli11-dev libtomlplusplus-dev libgtest-dev libgmock-dev librapidcheck-dev \
  libseccomp-dev libyaml-cpp-dev \
  libssl-dev libcurl4-openssl-dev libcpp-httplib-dev prometheus-cpp-dev \
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
CHECK_PACKAGES := clang-19 clang-format-19 clang-tidy-19 libclang-rt-19-dev util-linux \
  busybox-static uidmap mandoc zsh fish bash-completion rpm python3-grpcio python3-protobuf \
  prometheus python3-prometheus-client tidy chromium
BENCH_PACKAGES := busybox-static util-linux
CLUSTER_PACKAGES := containernetworking-plugins iproute2 openssl
# Container engines for tests, as PROGRAM:PACKAGE: one that is there from elsewhere is left alone.
ENGINES := runc:runc crun:crun containerd:containerd dockerd:docker.io podman:podman \
  docker-compose:docker-compose
# $(call missing_engines,PROGRAM:PACKAGE...): the packages of those that are not there.
missing_engines = $(foreach engine,$(1),$(if \
  $(shell command -v $(firstword $(subst :, ,$(engine)))),,$(lastword $(subst :, ,$(engine)))))

# A second clone compiles nothing of what ships again; files of a unity build have absolute paths in them.
export CMAKE_CXX_COMPILER_LAUNCHER ?= ccache
export CCACHE_SLOPPINESS ?= pch_defines,time_macros
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= true
export CCACHE_DEPEND ?= true

.PHONY: build page demo test test-tutorials test-kubernetes test-go cluster-deps cluster-up cluster-down soak share-story terminal-picture reference report \
  lint install deb rpm sim-image release gpu-bundle deps check-deps bench-deps clean
.PHONY: test-asan test-tsan fuzz test-programs test-few-stories test-times test-deps nightly turn $(PARTS:%=nightly-%)

deps:
	@tools/install_packages.sh $(PACKAGES)

check-deps:
	@tools/install_packages.sh $(PACKAGES) $(CHECK_PACKAGES) $(call missing_engines,$(ENGINES))
	@tools/install_python.sh build/python

# Benchmarks start containers with runc alone.
bench-deps:
	@tools/install_packages.sh $(PACKAGES) $(BENCH_PACKAGES) $(call missing_engines,runc:runc)

# $(call build_preset,PRESET,WRAPPER,TARGETS): configures once; ninja configures again when CMake's files change.
define build_preset
	@test -f build/$(filter-out release,$(1))/build.ninja || \
	  cmake --preset $(1) -DCGPU_WARNINGS_AS_ERRORS=$(WARNINGS_AS_ERRORS)
	@$(2) cmake --build --preset $(1) --parallel $(JOBS) --target $(3)
endef

build: deps
	$(call build_preset,release,,programs)

# Its packages are those of page/package-lock.json. A build takes page/dist as it finds it.
page:
	@tools/install_packages.sh $(call missing_engines,node:nodejs npm:npm)
	@test page/node_modules/.package-lock.json -nt page/package-lock.json || \
	  npm --prefix page ci --no-audit --no-fund --loglevel=error
	@npm --prefix page run --silent build -- --logLevel warn

# Builds fewer and larger files than what ships is built of, in half the time.
demo: deps
	$(call build_preset,demo,,demo_programs)
	@CGPU_BIN=build/demo/bin tests/demo.py

# Without a registry of npm the tests of the page are skipped.
test-deps: check-deps
	@$(MAKE) page || { test ! -e page/node_modules/.package-lock.json && \
	  echo "page: NOT BUILT: the packages that it needs cannot be had from npm"; }
	$(call build_preset,release,,all)

# Unit tests run with sanitizers, and natively those alone that go through too many inputs for a
# sanitizer: to compile all of them twice takes a fifth of the time of all. The last lines are those of
# ctest, or of stories on Kubernetes.
test: test-deps
	@tools/check_format.sh
	@$(MAKE) test-asan test-tsan fuzz test-programs test-few-stories

test-programs:
	@ctest --preset release -LE '^(unit|nightly-.*)$$' -E '_NOT_BUILT$$' --parallel $(TESTS_AT_ONCE) | $(QUIET)

test-few-stories:
	@if tests/build_go.sh kube built && tests/build_go.sh helm built; then \
	  $(MAKE) test-kubernetes STORIES="$(FEW_STORIES)"; \
	else echo "stories on Kubernetes: NOT RUN: it was not built here (make nightly-kubernetes-1)"; fi

test-times:
	@tools/test_times.py

# Fails if a part fails, or cannot run here.
nightly: test
	@tools/nightly.sh $(PARTS)

# One part, another at each change.
turn:
	@tools/nightly.sh --turn $(PARTS)

nightly-engines nightly-long: nightly-%: test-deps
	@ctest --preset release -L '^nightly-$*$$' --parallel $(TESTS_AT_ONCE) | $(QUIET)

nightly-threads: check-deps
	$(call thread_sanitizer,unit_tests,-R '^unit\.' -E '^unit\.($(subst $(SPACE),|,$(NOT_FOR_TSAN)))$$')

# The tests of tests/flaky.tsv run in the other parts.
nightly-soak:
	@$(MAKE) soak SECONDS_EACH=10 REPEATS=0

nightly-lint: lint

# First on this machine, then on a fresh Debian.
nightly-packages: test-deps
	@tools/install_packages.sh dpkg-dev
	@ctest --preset release -L '^nightly-packages$$' -E '^e2e\.sim-image-' --parallel $(TESTS_AT_ONCE) | $(QUIET)
	@$(MAKE) test-tutorials

nightly-go: test-go

$(filter nightly-kubernetes-%,$(PARTS:%=nightly-%)): nightly-kubernetes-%: cluster-deps
	@$(MAKE) test-kubernetes STORIES=$*/4

# The first time, Kubernetes itself is built: ten minutes on two processors.
cluster-deps: check-deps
	@tools/install_packages.sh $(CLUSTER_PACKAGES)
	$(call build_preset,release,,programs)
	@tests/build_go.sh kube >/dev/null

cluster-up: cluster-deps
	@CGPU_BIN=$(CURDIR)/build/bin python3 tests/cluster/stand.py up

cluster-down:
	@python3 tests/cluster/stand.py down

test-kubernetes: cluster-deps
	$(call build_preset,release,,kernels)
	@tests/build_go.sh helm >/dev/null
	@tests/cluster/run_all.sh $(STORIES)

# Their modules take minutes to build.
test-go: check-deps
	$(call build_preset,release,,programs)
	@plugin=$$(tests/build_go.sh nvidia-plugin) client=$$(tests/build_go.sh nvml-client) && \
	  CGPU_NVIDIA_PLUGIN=$$plugin CGPU_NVML_GO=$$client ctest --preset release -L '^nightly-go$$'

# clang-tidy needs the headers that are generated.
lint: check-deps
	@tools/check_format.sh
	$(call build_preset,demo,,commit_file deviceplugin_proto)
	@tools/tidy.py --jobs $(JOBS)

# Builds cgpu-sim too, so that clang checks its locks (src/base/mutex.h).
test-asan:
	$(call build_preset,asan,,unit_tests cgpu-sim)
	@ctest --test-dir build/asan -L unit --output-on-failure --parallel $(JOBS) | $(QUIET)

# $(call thread_sanitizer,TARGETS,SELECTION): its runtime needs addresses laid out as usual; some kernels
# randomise too much.
define thread_sanitizer
	$(call build_preset,tsan,,$(1))
	@tools/fixed_addresses.sh ctest --test-dir build/tsan $(2) --output-on-failure --parallel $(JOBS) | $(QUIET)
endef

test-tsan:
	$(call thread_sanitizer,$(TSAN_TESTS),-R '^unit\.($(subst $(SPACE),|,$(TSAN_TESTS)))$$')

fuzz:
	$(call build_preset,asan,,fuzz_targets)
	@tools/fuzz.sh build/asan $(FUZZ_SECONDS)

reference: deps
	$(call build_preset,release,,programs)
	@python3 -B tools/cli_pages --bin build/bin --reference docs/reference

soak: check-deps
	$(call build_preset,release,,all)
	$(call build_preset,asan,,unit_tests fuzz_targets)
	@tools/soak.sh $(SECONDS_EACH) $(REPEATS)

# A benchmark is a program or a script, which may start containers.
bench-%: bench-deps
	$(call build_preset,release,,benchmarks)
	@if [ -f bench/$(subst -,_,$*).py ]; then exec python3 bench/$(subst -,_,$*).py; else exec build/bin/bench-$(subst -,_,$*); fi

# Its last line says how many goals were met. The exit status is 1 if a section failed.
report: bench-deps
	$(call build_preset,release,,benchmarks)
	@python3 bench/report --out $(REPORT)

share-story: bench-deps
	$(call build_preset,release,,benchmarks)
	@python3 bench/share_story.py

# apt's own answers to what the package needs are a part of the test: so it has a root of its own.
test-tutorials: check-deps
	$(call build_preset,release,,programs)
	@tools/install_packages.sh dpkg-dev debootstrap
	@cpack --config build/CPackConfig.cmake
	@tools/slim_root.sh build/slim-root
	@tools/fresh_root.sh build/slim-root build/fresh-root build/cgpu_*.deb
	@tools/sim_image.sh build/slim-root build/cgpu_*.deb build/cgpu-sim-image.tar
	@CGPU_FRESH_ROOT=$(CURDIR)/build/fresh-root CGPU_SIM_IMAGE=$(CURDIR)/build/cgpu-sim-image.tar \
	  ctest --preset release -R '^e2e\.(quickstart|tutorial|sim-image)-' --output-on-failure

terminal-picture: check-deps
	$(call build_preset,release,,programs)
	@tools/install_packages.sh dpkg-dev
	@python3 bench/record_terminal.py

install: build
	@cmake --install build --strip --prefix $(PREFIX)

# Runs a command with the time of the commit, if there is one, as that of the files that it makes.
DATED = epoch=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || true)}; \
  $${epoch:+env SOURCE_DATE_EPOCH=$$epoch}

# $(call pack,GENERATOR): the packages.
define pack
	@$(DATED) cpack -G $(1) --config build/CPackConfig.cmake
endef

deb: page
	@$(MAKE) build
	@tools/install_packages.sh dpkg-dev
	$(call pack,DEB)

rpm: page
	@$(MAKE) build
	@tools/install_packages.sh rpm
	$(call pack,RPM)

# The root of Debian that it is made of is kept.
sim-image: deb
	@tools/install_packages.sh debootstrap
	@tools/slim_root.sh build/slim-root
	@$(DATED) tools/sim_image.sh build/slim-root build/cgpu_*.deb build/cgpu-sim-image.tar

# Needs the name of a GPG key: make release KEY=ID
release: deb rpm
	@tools/install_packages.sh gnupg
	@tools/release.sh "$(KEY)"

gpu-bundle: deps
	$(call build_preset,release,,all)
	@tests/gpu/bundle.sh build/bin build/tests/bin dist/cgpu-gpu-bundle.tar.gz

clean:
	@rm -rf build dist page/dist page/node_modules
