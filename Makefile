# What a person or CI runs. Each target installs what it needs through deploy/setup.
CONFIG ?= /etc/edge-gateway/config.yaml
DEMO_SECONDS ?= 60
DESTINATIONS ?=
FLAKY_ROUNDS ?= 10
FIRST ?= 1
SEEDS ?= 100
export DEMO_SECONDS DESTINATIONS
# Options of the tests' build, where it is elsewhere than in .build.
export TEST_BUILD
NATIVE := $(shell dpkg --print-architecture)
# ARCH=arm64 makes a package, an archive or a program for 64-bit ARM, on x86-64.
ARCH = $(NATIVE)
ifneq (,$(filter-out $(NATIVE) arm64,$(ARCH)))
$(error ARCH=$(ARCH): this machine builds for $(NATIVE) or arm64)
endif
# Of what was built, by ARCH.
BUILT = $(if $(filter $(NATIVE),$(ARCH)),.build,.build-$(ARCH))
# The one program with a privilege is C alone: linked by Swift it would carry Swift's runtime.
CLANG = $$(dirname "$$(readlink -f "$$(command -v swiftc)")")/clang
RESET = -O2 -Wall -Wextra -Werror -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fPIE -pie \
	-Wl,-z,relro,-z,now,--as-needed Sources/RadioReset/main.c -lbluetooth -o
AROUND = gateway-demo simulated-day soak stand-in-exchange FastTime

.PHONY: demo run test build-tests test-all test-flaky lint fuzz day simulate fleet bench gateway $(AROUND) programs \
	manual docs site package oci image release clean

# DESTINATIONS=KIND,… adds real systems: fhir, file, influx, mqtt, postgrest, webhook.
demo:                  ## recorded hearts on simulated straps, delivered to a stand-in exchange
	@deploy/setup --destinations '$(DESTINATIONS)'
ifneq ($(findstring webhook,$(DESTINATIONS))$(findstring fhir,$(DESTINATIONS)),)
	@Tests/Conformance/setup
endif
	@echo "This compiles the gateway, for about five minutes the first time; then it plays for"
	@echo "$(DEMO_SECONDS) s: simulated straps, the real gateway, an exchange that is a stand-in, a network that goes away."
	@deploy/progress "Compiling the gateway" swift build $(TEST_BUILD) --product edge-gateway
	@deploy/progress "Compiling the simulated straps and exchange" swift build $(TEST_BUILD) --product gateway-demo
	@$$(swift build $(TEST_BUILD) --show-bin-path)/gateway-demo

run: gateway           ## the gateway on this machine's Bluetooth and a real exchange
	.build/release/edge-gateway run --config $(CONFIG)

test: build-tests      ## what must stay true of the program, third-party judges included
	@deploy/setup --test
	@Tests/Conformance/setup
	@Tests/LivePage/setup >/dev/null
	Tests/run
	Tests/LivePage/run
	Tests/run --timed
	@echo "Not run by this: make lint, make fuzz, a real bluetoothd (.ci/run has them), and make test-all."

build-tests:
	@deploy/setup
	swift build --build-tests $(TEST_BUILD)

# RINGS="NAME …" runs these; EXCHANGE=FOLDER is a checkout of github.com/jupyterhealth/jupyterhealth-exchange.
test-all:              ## everything else that can be tested, for hours; goes on where it stopped
	@EXCHANGE=$(EXCHANGE) Tests/rings $(RINGS)

# TESTS=NAME takes only those.
test-flaky: build-tests ## the Swift tests ten times on a busy machine; names each that failed even once
	@deploy/setup --test
	@deploy/setup --rings
	@Tests/Conformance/setup
	@Tests/LivePage/setup >/dev/null
	Tests/flaky $(FLAKY_ROUNDS) $(if $(TESTS),--filter '$(TESTS)')

lint:
	swift format lint --strict --recursive Package.swift Sources Tests Benchmarks Examples

fuzz:                  ## the frame decoder under libFuzzer
	@deploy/setup
	Tests/Fuzz/run 30

day: simulated-day     ## a simulated day of twelve straps in which everything goes wrong
	SWIFT_DETERMINISTIC_HASHING=1 .build/release/simulated-day $(if $(DAY_SEED),--seed $(DAY_SEED))

# SEEDS=N worlds from seed FIRST=N on, by tests compiled as .ci/run has them.
simulate: TEST_BUILD := $(shell cat Tests/build-options)
simulate: build-tests  ## the whole gateway and its people under virtual time, world after world
	JOBS=$$(nproc) Tests/Simulation/run $(FIRST) $(SEEDS)

fleet:                 ## up to ten thousand gateways and an exchange, by simulation (docs/operate/scale.md)
	@deploy/setup
	Benchmarks/fleet

bench: programs        ## figures beside their goals and their peers, as one table
	@deploy/setup --test
	-Tests/RealBlueZ/run --icount .build/release/edge-gateway
	@Benchmarks/all

ifeq ($(ARCH),$(NATIVE))
gateway:               ## the programs of the package, as for a release
	@deploy/setup
	deploy/build --product edge-gateway
	rm -f .build/release/edge-gateway-radio-reset
	$(CLANG) $(RESET) .build/release/edge-gateway-radio-reset

# What tests and the demo run around the gateway.
$(AROUND): gateway
	deploy/build --product $@

programs: gateway      ## and all that tests and figures use
	deploy/build

manual: gateway        ## man pages and shell completions
	@deploy/setup --package
	deploy/manual .build/release/edge-gateway .build/manual
else
gateway:
	@deploy/setup --arm64
	@deploy/arm64/toolchain
	deploy/arm64/build edge-gateway
	deploy/arm64/enter clang --target=aarch64-linux-gnu --sysroot=.build-arm64/sysroot -fuse-ld=lld \
		$(RESET) .build-arm64/release/edge-gateway-radio-reset

gateway-demo: gateway
	deploy/arm64/build $@

manual: gateway
	deploy/manual deploy/$(ARCH)/edge-gateway .build-$(ARCH)/manual
endif

package: manual        ## the Debian package, in .build/deb (.build-arm64/deb)
	deploy/package $(ARCH)

oci: package           ## an OCI archive of the package for container engines, in .build-oci
	@deploy/setup --oci
	deploy/oci/build $(BUILT)/deb/*.deb

image:                 ## the card image for a Raspberry Pi, in .build-image
	@deploy/setup --image
	$(MAKE) package ARCH=arm64
	deploy/image/build .build-arm64/deb/edge-gateway_*_arm64.deb

release: oci           ## packages, card, OCI archives, apt repository, checksums, notes; RELEASE_KEY=KEY signs; .build-release
	@deploy/setup --release
	$(MAKE) oci ARCH=arm64
	$(MAKE) image
	deploy/release/artifacts .build-release/artifacts .build/deb/*.deb .build-arm64/deb/*.deb .build-oci/*.oci.tar \
		.build-image/edge-gateway-card.img.zst .build-image/edge-gateway-card.cdx.json

site:                  ## the documents as one site with search, in site
	@deploy/setup --site
	deploy/site/build site

docs: gateway          ## the libraries' documentation as web pages, in .build-docs
	deploy/docs .build/release .build-docs

# The folder of releases stays: the next one adds to its apt repository.
clean:
	find . -maxdepth 1 -name '.build*' ! -name .build-release -exec rm -rf {} +
	rm -rf .build-release/test site
