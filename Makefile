# make            packages by name, then a release build of what users run, in build/ (make tests-built: of the tests too)
# make demo       a small cluster and its story, with real training (KEEP=1 leaves it running)
# make test       everything; ends with "N passed, N failed, N skipped, N flaky"
# make check      what takes two minutes of it: units, form, purity, scenarios, the scheduler's properties, 50 seeds
# make asan, tsan the unit tests under AddressSanitizer+UBSan, ThreadSanitizer
# make image      an OCI archive for amd64 and arm64 with SBOM in dist/, without a daemon (IMAGE_ARCHES= of one)
# make test-kubernetes, bench-kubernetes   against a real control plane (tests/kubernetes/binaries.sh)
# make bench-gangs   gangs bound a second on Kubernetes 1.37, by its own scheduler and by ours
# make test-page  the web page in a real Chromium: views, actions, accessibility, types (TESTS="live types": some of them)
# make page-shots  pictures of every view in build/page-shots, light, dark and narrow; docs/page has some of them
# make bench-page  what the page costs with 1,000 nodes, 10,000 pods and 20 viewers
# make seeds      the guides that the project began with, typed line by line, on muster up and on a real control plane, with Kubeflow's and
#                 KAI's own CRDs before and after (SEEDS_OF="--on muster 002 003": some of it; KAI_CRDS=FOLDER has those of another KAI)
# make failures   twenty failures planted in real gangs, with every PyTorch on this machine, and whether status, events and logs tell them
#                 truly (FAILURES="--torch 1.13 killed setup": some)
# make conformance-v017   decisions of KAI Scheduler 0.17, which are not all met yet (tests/expected)
# make conformance-cel    the public cases of the expression language, from the Go module cel.dev/expr
# make conformance        Kubernetes' own conformance tests and kubectl's, on muster up (CONFORMANCE_FOCUS='sig-apps': some of them)
# make conformance-workloads   Kubernetes 1.37's own specs of gangs, on its control plane with our scheduler (FOCUS='Preemption': some of them)
# make service    a day of the packaged service: people, jobs, kill -9, upgrade, full disk, reboot, report, backup, loss, restore, purge
#                 (root; SERVICE_OLDER=FILE: the package to begin with)
# make strangers          clients and suites that others wrote, from registries, on muster up (STRANGERS="kopf helm": some of them; KAI_E2E=FILE)
# make hostile            a hostile tenant beside a training one, HOSTILE_SECONDS=600 of them (root)
# make faults             faults planted in a real training, REPEAT=5 times each: who is named, how fast, what is lost (FAULTS="stop oom": some of them)
# make calm               119 real trainings that are well and look odd, and 26 that hang (JOBS=6 at once; LOAD=8: beside others; CALM="pipeline gan": some)
# make journeys           24 ordinary days of people who know torchrun, pip or Slurm (JOURNEYS="slurm tmpdir": some; JOURNEY_PYTHON=)
# make asan-kubernetes   make test-kubernetes' own tests with a sanitized operator (TESTS="faults webhook": some of them)
# make asan-e2e   the end-to-end tests with everything sanitized (TESTS= of some of them)
# make property   a million random events for the scheduler, sanitized (SEED=, CLUSTERS=1000, EVENTS=1000, JOBS=)
# make judge      CLUSTERS=100000 random clusters, decided by muster simulate and judged by what does not know how (SEED=1)
# make test-cluster   a day of a cluster of two real kubelets with containerd, Muster installed by its chart (root; STEPS="drain submit": some)
# make judge-kubernetes   PODS=2000 pods, each pinned to one node: does our scheduler bind it where kube-scheduler does (SEED=1)
# make differ     the same requests to a real kube-apiserver and to muster up, and what is answered otherwise (SEED=1, ONLY=REGEX, ANSWERS=FILE)
# make fuzz       TIME=120 seconds of each fuzz target (TARGET=json: of one)
# make mutants    plants small faults one at a time and says what notices them (MUTANTS="--minutes 10": a part; it goes on where it was)
# make mutants-pack   what that needs, in build-mutants/root.tar.xz: a machine without network runs it (tests/mutants/inside.sh)
# make simulate   RUNS=100000 of the simulator in all of its forms, from SEED=1, with a build that is optimized by a profile
# make powercuts  every moment of a workload, and what a power cut could leave of it: store, files, sync side, shim (SEED=)
# make soak       SOAK_TIME=3600 seconds of churn, restarts, clock jumps and a slow disk on one muster: flat, nothing lost, nothing twice
# make costs      what an object of every kind costs by its size, up to the largest, counted in basic blocks (COSTS="pods:spec": some shapes; JOBS=)
# make kills      KILLS=500 times kill -9 under the same load
# make upgrade    an older muster with running work is stopped, this one starts on its folder (UPGRADE="COMMIT ...": from others than 7038ca8 and HEAD~100)
# make arena      published schedulers compared on public traces (TRACES=../shared/traces, SEEDS=10, LISTS="default": some of them)
# make bench      what is measured, printed with its budgets (the scheduler alone: build/bench/bench-sched [CASE])
# make tidy       clang-tidy over the whole tree
# make analyze    gcc's and clang's analyzers and cppcheck over src and preload; a finding that is not answered fails (ANALYZE="--tool gcc src/sched")
# make coverage   which branches the units, properties, scenarios and some seeds take, by folder (HOLES=60: the functions with most that are not)
# make portable   the sources of kubectl-torchrun compiled for macOS, arm64 and x86-64; nothing is linked (WORDS="kube": some of them)
# make clean-root the first three of these on a bare Debian, in a folder of its own (as root; CLEAN_UBUNTU=ARCHIVE: Ubuntu too)
# make dist       ARCH=amd64|arm64: a tarball that runs on any Linux with glibc 2.34 or later
# make wheel      ARCH=amd64|arm64: the same as a Python wheel (WHEEL_NAME=muster-train)
# make deb        ARCH=amd64|arm64: the same as a Debian package, with a systemd unit
# make release    RELEASE_ARCHES="amd64 arm64": wheel, package, tarball of each, image, chart, krew manifest, SBOM, sums in dist/
# make test-bare  the wheel of dist/ as an account without rights, on a bare Debian with PyTorch (as root; CLEAN_UBUNTU=ARCHIVE: Ubuntu too)
# make test-package   the package and the krew manifest, in a scratch root (as root); the wheel, in a virtual environment
# make install    PREFIX=/usr/local DESTDIR=
# make reference  docs/reference, from the option tables and the messages in the source; deploy/crds and docs/kinds, from deploy/kinds
# make clean
PREFIX ?= /usr/local
DESTDIR ?=
TIME ?= 120
RELEASE_ARCHES ?= $(ARCH)
ARCH ?= $(shell dpkg --print-architecture 2> /dev/null || echo amd64)
IMAGE_ARCHES ?= amd64 arm64
VERSION = $(shell sed -n "s/^project.'muster', 'c', version : '\([^']*\)'.*/\1/p" meson.build)
IMAGE_OTHERS = $(filter-out $(ARCH),$(IMAGE_ARCHES))
# A PyTorch that tools/deps.sh installed stands in .venv; programs started from here find it first.
export PATH := $(if $(wildcard .venv/bin/python3),$(CURDIR)/.venv/bin:)$(PATH)
# Compiling is what takes longest with a sanitizer: without optimization, and with traps in place of calls that tell what
# is undefined, it takes less than half. AddressSanitizer names the line of a trap (handle_sigill). Warnings are build/'s.
SANITIZE := '-Dc_args=-fsanitize-undefined-trap-on-error -w' -Doptimization=0

ASAN := tools/configure.sh build-asan -Db_sanitize=address,undefined $(SANITIZE)
# What tests and measurements use besides; some of it is a library that is looked for again.
TEST_DEPS := tools/deps.sh test && tools/configure.sh build && ninja -C build --quiet
CLUSTERS ?= 1000
EVENTS ?= 1000

.PHONY: all tests-built arena differ journeys judge judge-kubernetes test-cluster reference demo test check asan tsan property fuzz tidy bench dist deb wheel release test-package install clean clean-root image \
	test-kubernetes asan-e2e asan-kubernetes bench-kubernetes conformance conformance-workloads bench-gangs hostile service strangers conformance-v017 conformance-cel seeds test-large test-page \
	page-shots costs mutants portable test-bare mutants-pack powercuts failures faults calm bench-page upgrade soak kills simulate analyze coverage
all:
	@tools/deps.sh build
	@tools/configure.sh build
	@ninja -C build $(if $(V),-v,--quiet) programs

# What only tests and measurements run.
tests-built: all
	@ninja -C build $(if $(V),-v,--quiet)
	@tests/costs/run.py --build

demo: all
	@tools/deps.sh demo
	@tools/demo.py $(if $(KEEP),--keep)

test: all
	@$(TEST_DEPS)
	@tests/costs/run.py --build
	@tests/run.py

check: all
	@$(TEST_DEPS)
	@tests/run.py --check

asan:
	@tools/deps.sh test
	@$(ASAN)
	@ninja -C build-asan --quiet
	@tests/run.py --only build-asan

tsan:
	@tools/deps.sh test
	@tools/configure.sh build-tsan -Db_sanitize=thread -Doptimization=1
	@ninja -C build-tsan --quiet
	@tests/run.py --only build-tsan

property:
	@tools/deps.sh test
	@$(ASAN)
	@ninja -C build-asan --quiet sched-property
	@$(if $(SEED),,tests/result.py property) tests/property/million.py build-asan/sched-property $(or $(SEED),$(shell date +%s)) $(CLUSTERS) $(EVENTS)

judge: all
	@$(TEST_DEPS)
	@$(if $(SEED),,tests/result.py judge) tests/judges/run.py --seed $(or $(SEED),1) \
		--clusters $(if $(filter command environment,$(firstword $(origin CLUSTERS))),$(CLUSTERS),100000)

judge-kubernetes: all
	@$(TEST_DEPS)
	@$(if $(SEED),,tests/result.py judge-kubernetes) tests/kubernetes/judge.py --pods $(or $(PODS),2000) --seed $(or $(SEED),1)

test-cluster: all
	@$(TEST_DEPS)
	@$(if $(STEPS),,tests/result.py --keep '(passed|skipped|failed): ' test-cluster) tests/cluster/day.py $(STEPS)

differ: all
	@$(TEST_DEPS)
	@tests/differ/differ.py --seed $(or $(SEED),1) $(if $(ONLY),--only '$(ONLY)') $(if $(ANSWERS),--answers '$(ANSWERS)')
	@$(if $(ONLY),,tests/differ/settled.py)
	@$(if $(ONLY),,tests/cel/against.py)

reference: all
	@tests/reference.sh --write

fuzz:
	@tools/deps.sh fuzz
	@tools/fuzz.sh $(TIME) $(TARGET)

mutants: all
	@$(TEST_DEPS)
	@$(if $(MUTANTS),,tests/result.py mutants) tests/mutants/run.py $(MUTANTS)

powercuts: all
	@$(TEST_DEPS)
	@tests/result.py powercuts tests/powercuts/run.py --long --seed $(or $(SEED),1) build/tests/powercuts/recorder.so \
		build/tests/powercuts/powercuts-play build/tests/torture/torture-shim

soak: all
	@$(TEST_DEPS)
	@ninja -C build --quiet tests/soak/weather.so
	@tests/result.py soak tests/soak/run.py --time $(or $(SOAK_TIME),3600) --seed $(or $(SEED),1)

costs: all
	@$(if $(COSTS),,tests/result.py costs) tests/costs/run.py --long $(if $(JOBS),--jobs $(JOBS)) $(COSTS)

kills: all
	@$(TEST_DEPS)
	@ninja -C build --quiet tests/soak/weather.so
	@tests/result.py kills tests/soak/run.py --kills $(or $(KILLS),500) --seed $(or $(SEED),1)

simulate: all
	@tests/result.py simulate tests/simulate.py --runs $(or $(RUNS),100000) --seed $(or $(SEED),1)

upgrade: all
	@$(TEST_DEPS)
	@$(if $(UPGRADE),,tests/result.py upgrade) tests/upgrade/run.py $(UPGRADE)

mutants-pack: all
	@$(TEST_DEPS)
	@ninja -C build --quiet unit sim sched-property conformance sched-suspension src/store/store_kill
	@tests/mutants/pack.py

tidy: all
	@tools/deps.sh tidy
	@tools/clang-tidy.sh

analyze: all
	@tools/deps.sh analyze
	@$(if $(ANALYZE),,tests/result.py analyze) tests/analyze.py $(ANALYZE)

coverage:
	@tools/deps.sh test
	@tools/configure.sh build-coverage -Db_coverage=true -Dbuildtype=debug
	@ninja -C build-coverage --quiet unit sched-property muster sim
	@tests/result.py coverage tests/coverage.py --holes $(or $(HOLES),0) build-coverage

arena: all
	@SEEDS="$(or $(SEEDS),10)" LISTS="$(LISTS)" bench/arena.py build/muster $(TRACES)

bench: all
	@$(TEST_DEPS)
	@ninja -C build --quiet bench/bench-json bench/bench-server bench/bench-store bench/bench-sched bench/bench-place bench/bench-first bench/bench-spawn bench/bench-month
	@build/bench/bench-json
	@bench/server.py
	@bench/memory.py
	@build/bench/bench-store
	@build/bench/bench-sched
	@build/bench/bench-place
	@build/bench/bench-month
	@python3 bench/workspace.py
	@bench/loop.py
	@bench/agent.py
	@bench/step.py
	@ninja -C build --quiet libmuster-gpu.so tests/preload/preload-checks
	@tests/preload/run.py build/libmuster-gpu.so build/tests/preload/preload-checks build/tests/preload --bench

clean-root:
	@tests/clean-root.sh

image: all
	@for arch in $(IMAGE_OTHERS); do tools/deps.sh dist $$arch && tools/dist.sh --programs $$arch || exit 1; done
	@deploy/image/build.py $(if $(IMAGE_OUT),--out $(IMAGE_OUT)) $(foreach arch,$(IMAGE_OTHERS),--add $(arch)=build-dist-$(arch)/build:build-dist-$(arch)/sysroot)

seeds: all
	@$(TEST_DEPS)
	@$(if $(SEEDS_OF),,tests/result.py seeds) tests/seeds/run.py $(SEEDS_OF)

faults: all
	@$(TEST_DEPS)
	@$(if $(FAULTS),,tests/result.py faults) env REPEAT="$(or $(REPEAT),5)" tests/faults/run.py $(FAULTS)

calm: all
	@$(TEST_DEPS)
	@tests/calm/packages.sh > /dev/null || true
	@$(if $(CALM),,tests/result.py --keep '(PyTorch|suspected:|skipped:) ' calm) env SECONDS="$(or $(SECONDS),45)" LOAD="$(or $(LOAD),0)" tests/calm/calm.py --jobs $(or $(JOBS),6) $(CALM)

journeys: all
	@$(TEST_DEPS)
	@$(if $(JOURNEYS),,tests/result.py journeys) tests/journeys/run.py $(JOURNEYS)

failures: all
	@$(TEST_DEPS)
	@$(if $(FAILURES),,tests/result.py failures) tests/failures/run.py $(FAILURES)

conformance-v017: tests-built
	@tests/result.py --failing '^(v017-[^ :]+): (?!skipped: )' conformance-v017 tests/conformance/v017.sh build/conformance

conformance-cel: tests-built
	@tests/result.py cel tests/cel/conformance.py build/tests/cel/cel-cases

conformance: tests-built
	@command -v openssl kubectl > /dev/null || tools/deps.sh test
	@$(if $(CONFORMANCE_FOCUS),,tests/result.py conformance) tests/kubernetes/conformance.py $(if $(CONFORMANCE_FOCUS),'$(CONFORMANCE_FOCUS)')

conformance-workloads: tests-built
	@command -v openssl kubectl > /dev/null || tools/deps.sh test
	@$(if $(FOCUS),,tests/result.py conformance-workloads) tests/kubernetes/workloads.py $(if $(FOCUS),'$(FOCUS)')

strangers: tests-built
	@command -v openssl kubectl > /dev/null || tools/deps.sh test
	@$(if $(STRANGERS),,tests/result.py strangers) tests/strangers/run.py $(STRANGERS)

service: tests-built deb
	@command -v openssl kubectl > /dev/null || tools/deps.sh test
	@tests/result.py service tests/service/day.py

hostile: tests-built
	@command -v openssl kubectl > /dev/null || tools/deps.sh test
	@HOSTILE_SECONDS=$(or $(HOSTILE_SECONDS),600) tests/result.py hostile tests/hostile/tenant.py

test-kubernetes: tests-built
	@command -v openssl kubectl > /dev/null || tools/deps.sh test
	@tests/result.py kubernetes tests/kubernetes/run.py

asan-e2e:
	@tools/deps.sh test
	@$(ASAN)
	@ninja -C build-asan --quiet
	@MUSTER_BUILD=build-asan MUSTER_TEST_PATIENCE=4 ASAN_OPTIONS=handle_sigill=1 \
		$(if $(TESTS),,tests/result.py asan-e2e) tests/e2e/run.py --jobs 2 $(TESTS)

asan-kubernetes:
	@command -v openssl kubectl > /dev/null || tools/deps.sh test
	@$(ASAN)
	@ninja -C build-asan --quiet
	@MUSTER_BUILD=build-asan MUSTER_TEST_PATIENCE=3 ASAN_OPTIONS=handle_sigill=1 \
		$(if $(TESTS),,tests/result.py asan-kubernetes) tests/kubernetes/run.py --own $(TESTS)

dist: all
	@tools/deps.sh dist $(ARCH)
	@tools/dist.sh $(ARCH)
	@tools/krew.sh

deb: dist
	@tools/deb.sh $(ARCH)

wheel: dist
	@. tools/publisher.sh && tools/wheel.py $(ARCH)

release: all
	@for arch in $(RELEASE_ARCHES); do $(MAKE) --no-print-directory ARCH=$$arch deb wheel || exit 1; done
	@$(MAKE) --no-print-directory image IMAGE_ARCHES="$(RELEASE_ARCHES)" IMAGE_OUT=dist/muster-image-$(VERSION).tar
	@tools/release.py $(RELEASE_ARCHES)

test-bare:
	@ls dist/*.whl > /dev/null 2>&1 || $(MAKE) --no-print-directory wheel
	@CLEAN_BRING=dist tests/clean-root.sh tests/bare-wheel.sh

test-package: export RELEASE_DRAFT = 1
test-package: release
	@tests/package.py
	@tests/wheel.py
	@tests/release.py

portable: all
	@tests/portable.py $(WORDS)

test-large: all
	@$(TEST_DEPS)
	@tests/large.py

test-page: all
	@tests/page/run.py $(TESTS)

page-shots: all
	@mkdir -p build/page-shots && tests/page/run.py shots build/page-shots

bench-page: all
	@tests/page/bench.py

bench-kubernetes: tests-built
	@tests/kubernetes/bench.py
	@tests/kubernetes/scale.py

bench-gangs: tests-built
	@tests/kubernetes/bench_gangs.py

install: all
	@tools/configure.sh build --prefix $(PREFIX)
	@DESTDIR=$(DESTDIR) meson install -C build --quiet --no-rebuild
	@echo "installed in $(DESTDIR)$(PREFIX)/bin"

clean:
	rm -rf build build-* dist
