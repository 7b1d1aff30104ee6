# What a clone needs besides Go and make: "make deps" installs it, or says how to.
# "make check" is what has to pass; "make quick" is the same in a few minutes.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL:
.PHONY: deps weed test check lint quick sim soak bench fmt clean

# The modules with tests; the published one is ".".
MODULES := . internal/e2e

CACHE       := $(CURDIR)/.cache
STATICCHECK := $(CACHE)/bin/staticcheck
WEED        := $(CACHE)/bin/weed-$(shell awk '$$1 == "github.com/seaweedfs/seaweedfs" { print $$2 }' internal/tools/weed/go.mod)
SKIPS       := $(CACHE)/skips

# The race detector watches all that is ours, and what we depend on but the engine
# of SQLite: C in translation, with locks of its own. Watched, it takes five times as long.
RACE := -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc/...=-race=false

# What is built here is thrown away: the state of the repository need not be in it.
export GOFLAGS := $(filter-out -buildvcs%,$(shell go env GOFLAGS)) -buildvcs=false

# in runs a command in each module.
define in
for module in $(1); do echo "==> $$module: $(2)"; (cd "$$module" && $(2)); done
endef

# deps asks for what each component is needed for, and installs what is missing
# where it can: as root, on Debian and its like. The package postgresql starts a
# server of its own, which no test uses: they start theirs with its programs. The
# S3 server is built.
deps: $(WEED)
	@missing=; \
	command -v bwrap >/dev/null || missing="$$missing bubblewrap"; \
	command -v fusermount3 >/dev/null || missing="$$missing fuse3"; \
	command -v git >/dev/null || missing="$$missing git"; \
	echo '#include <stdlib.h>' | gcc -E -x c - >/dev/null 2>&1 || missing="$$missing gcc libc6-dev"; \
	{ command -v initdb || ls /usr/lib/postgresql/*/bin/initdb; } >/dev/null 2>&1 || missing="$$missing postgresql"; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "==> installing:$$missing"; \
		export DEBIAN_FRONTEND=noninteractive; \
		apt-get update -q </dev/null; \
		apt-get install -q -y --no-install-recommends $$missing </dev/null; \
	else \
		echo "missing:$$missing (the names of Debian's packages)"; \
		echo "install them, as with: sudo apt-get install$$missing"; \
		echo "without them the tests that need them skip, or fail where BUNKROOM_REQUIRE names them"; \
	fi

# weed is the S3 server that tests start: once for each version, in about five
# minutes of one core from nothing, in seconds where Go has compiled it before.
weed: $(WEED)
	@cd internal/tools/weed && go mod tidy -diff

$(WEED): internal/tools/weed/go.mod internal/tools/weed/go.sum internal/tools/weed/build $(shell find internal/tools/weed -name '*.go') internal/tools/weed/less/empty
	@mkdir -p $(@D)
	@echo "==> building the S3 server of the tests"
	@nice internal/tools/weed/build $@

# test ends with the list of the tests that were skipped.
test: deps
	@mkdir -p $(CACHE); rm -f $(SKIPS); export BUNKROOM_SKIPS=$(SKIPS); failed=; \
	for module in $(MODULES); do \
		echo "==> $$module: go test"; \
		(cd "$$module" && go test $(RACE) -shuffle=on -timeout 30m ./...) || failed=1; \
	done; \
	if [ -s $(SKIPS) ]; then echo "==> skipped:"; sort $(SKIPS) | sed 's/^/    /'; else echo "==> skipped: nothing"; fi; \
	[ -z "$$failed" ]

check: lint test

# lint is check without the tests.
lint: deps $(STATICCHECK)
	@echo "==> gofmt -l"; unformatted=$$(gofmt -l .); \
	if [ -n "$$unformatted" ]; then echo "$$unformatted"; echo "these files are not formatted: make fmt"; exit 1; fi
	@$(call in,$(MODULES),go vet ./...)
	@$(call in,$(MODULES),STATICCHECK_CACHE=$(CACHE)/staticcheck $(STATICCHECK) ./...)
	@$(call in,.,go vet -tags s3 ./examples/quickstart)
	@$(call in,.,STATICCHECK_CACHE=$(CACHE)/staticcheck $(STATICCHECK) -tags s3 ./examples/quickstart)
	@$(call in,internal/tools/geesefs,go vet ./...)
	@$(call in,internal/tools/geesefs,STATICCHECK_CACHE=$(CACHE)/staticcheck $(STATICCHECK) ./...)
	@$(call in,$(MODULES) internal/tools internal/tools/geesefs,go mod tidy -diff)

$(STATICCHECK): internal/tools/go.mod internal/tools/go.sum
	@mkdir -p $(@D)
	go build -C internal/tools -o $@ honnef.co/go/tools/cmd/staticcheck

# quick is for between two edits: no race detector, and nothing that takes long.
quick:
	@$(call in,$(MODULES),go vet ./...)
	@$(call in,$(MODULES),go test -short -timeout 5m ./...)

# sim plays N schedules of internal/sim from SEED on, and ends with what happened in them.
N    := 10000
SEED := 0
sim:
	@go test ./internal/sim -run 'TestSchedules$$' -v -timeout 0 -sim.n=$(N) -sim.seed=$(SEED)

# soak has the shortest credentials that a host can ask for expire three times under a
# mounted folder that is written to: in half an hour. See docs/soak.md.
soak: deps
	@BUNKROOM_REQUIRE=weed,fuse go test ./internal/lab -run 'TestCredentialsExpireUnderWrites$$' -v -timeout 70m -life 15m

# bench ends with a table: how many times as long ours takes as what stands
# beside it in the same run.
bench: deps
	@mkdir -p $(CACHE); $(call in,$(MODULES),go test -run '^$$' -bench "$(BENCH)" -benchmem -timeout 60m ./...) | tee $(CACHE)/bench
	@echo; awk -f .ci/ratios.awk $(CACHE)/bench

BENCH := .

fmt:
	gofmt -w .

clean:
	rm -rf $(CACHE)
