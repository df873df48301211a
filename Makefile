# What a person or CI runs. Each target installs what it needs through deploy/setup.
CONFIG ?= /etc/edge-gateway/config.yaml
DEMO_SECONDS ?= 60
DESTINATIONS ?=
FLAKY_ROUNDS ?= 10
export DEMO_SECONDS DESTINATIONS
BUILD = deploy/build --product
# The one program with a privilege is C alone: linked by Swift it would carry Swift's runtime.
CLANG = $$(dirname "$$(readlink -f "$$(command -v swiftc)")")/clang
RESET = -O2 -Wall -Wextra -Werror -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fPIE -pie \
	-Wl,-z,relro,-z,now,--as-needed Sources/RadioReset/main.c -lbluetooth -o
NATIVE := $(shell dpkg --print-architecture)
# What to build the package for.
ARCH = $(NATIVE)
ifneq (,$(filter-out $(NATIVE) arm64,$(ARCH)))
$(error ARCH=$(ARCH): a package can be made here for $(NATIVE) or arm64)
endif

.PHONY: demo demo-destinations run test build-tests test-long test-tsan test-flaky test-page test-exchange \
	test-real-exchange test-home-assistant test-monitoring test-ansible test-bluez test-arm64 day fleet gateway \
	gateway-arm64 gateway-demo gateway-demo-arm64 simulated-day soak stand-in-exchange FastTime programs release \
	manual docs package oci release-artifacts test-release test-package test-installed test-container image \
	test-image lint fuzz bench clean

# DESTINATIONS=KIND,… adds real systems: file, influx, mqtt, postgrest, webhook.
demo: demo-destinations gateway-demo ## recorded hearts on simulated straps, delivered to a stand-in exchange
	@.build/release/gateway-demo

demo-destinations:
ifneq ($(strip $(DESTINATIONS)),)
	@deploy/setup --destinations '$(DESTINATIONS)'
endif
ifneq ($(findstring webhook,$(DESTINATIONS)),)
	@Tests/Conformance/setup
endif

run: gateway           ## the gateway on this machine's Bluetooth and a real exchange
	.build/release/edge-gateway run --config $(CONFIG)

test: build-tests      ## everything that must stay true, third-party judges included
	@deploy/setup --test
	@Tests/Conformance/setup
	@Tests/LivePage/setup >/dev/null
	Tests/run
	Tests/LivePage/run
	Tests/run --timed
	@echo "Not run by this: make lint, make fuzz, make day, Tests/Embedded/run (the decoder as ARM code),"
	@echo "make test-package, make test-installed and make test-bluez (virtual machines), make test-exchange,"
	@echo "make test-monitoring, make test-release, Benchmarks/decode and Benchmarks/limits (figures), make demo; .ci/run has all of these,"
	@echo "and of make test-arm64 what is quick. Not in .ci/run: make test-tsan, make test-image, make test-container,"
	@echo "make test-ansible, make test-real-exchange, make test-home-assistant, make test-long (hours) and make test-flaky. What was skipped among the tests above stands at the end of their output."

build-tests:
	swift build --build-tests $(TEST_BUILD)

test-tsan:             ## tests of the modules in which threads meet, under ThreadSanitizer
	Tests/tsan $(TESTS)

# TESTS=NAME takes only those.
test-flaky: build-tests ## the Swift tests ten times on a busy machine; names each that failed even once
	@deploy/setup --test
	@Tests/Conformance/setup
	@Tests/LivePage/setup >/dev/null
	Tests/flaky $(FLAKY_ROUNDS) $(if $(TESTS),--filter '$(TESTS)')

# Hours. Seeds are new each time, and printed.
test-long: export OFFLINE_QUEUE_KILLS = 200
test-long: export OFFLINE_QUEUE_DAMAGE_COUNT = 2000
test-long: export NETWORK_FAULT_SEEDS = 100
test-long: export DAEMON_KILLS = 200
test-long: export CHAOS_HOURS = 24
test-long: export CHAOS_SPEED = 40
test-long: export GATT_TEST_SEED ?= $(shell shuf -i 1-999999 -n 1)
test-long: export CHAOS_SEEDS ?= $(shell shuf -i 1-999999 -n 3 | paste -sd,)
test-long: test        ## the same with whole days of chaos, hundreds of kills and faults, and long fuzzing
	Tests/Fuzz/run 600
	for day in 1 2 3; do $(MAKE) --no-print-directory day || exit 1; done

test-page:             ## the live page in real Chromium, against a server that plays the gateway
	@deploy/setup --test
	Tests/LivePage/run

test-exchange:         ## several servers of an exchange behind HAProxy (deploy/exchange), one of them killed
	@deploy/setup --test
	Tests/Exchange/run

# EXCHANGE=FOLDER: a checkout of github.com/jupyterhealth/jupyterhealth-exchange.
test-real-exchange: build-tests ## gateway and relay against a real exchange
	@deploy/setup --test
	Tests/RealExchange/run "$(EXCHANGE)"

# As root: it makes a Debian 13 with Home Assistant in it, once.
test-home-assistant: build-tests ## the gateway and its straps in a real Home Assistant
	@deploy/setup --test
	Tests/HomeAssistant/run

test-monitoring: gateway-demo ## dashboards and alarms with a real Prometheus, the real gateway and HAProxy
	@deploy/setup --test
	Tests/Monitoring/run .build/release/gateway-demo

# As root: it boots machines (systemd-nspawn).
test-ansible: package stand-in-exchange ## the role of deploy/ansible on two installed gateways
	@deploy/setup --ansible
	Tests/Ansible/run .build/deb/*.deb .build/release/stand-in-exchange

test-bluez: gateway    ## the real binary against real bluetoothd in a virtual machine
	Tests/RealBlueZ/run .build/release/edge-gateway

day: simulated-day     ## a simulated day of twelve straps in which everything goes wrong
	SWIFT_DETERMINISTIC_HASHING=1 .build/release/simulated-day $(if $(DAY_SEED),--seed $(DAY_SEED))

fleet:                 ## up to ten thousand gateways and an exchange, by simulation (docs/scale.md)
	@deploy/setup
	Benchmarks/fleet

release:               ## every program
	@deploy/setup
	deploy/build

gateway:               ## the programs of the package
	@deploy/setup
	$(BUILD) edge-gateway
	rm -f .build/release/edge-gateway-radio-reset
	$(CLANG) $(RESET) .build/release/edge-gateway-radio-reset

# On x86-64.
gateway-arm64:
	@deploy/setup --arm64
	@deploy/arm64/toolchain
	deploy/arm64/build edge-gateway
	deploy/arm64/enter clang --target=aarch64-linux-gnu --sysroot=.build-arm64/sysroot -fuse-ld=lld \
		$(RESET) .build-arm64/release/edge-gateway-radio-reset

gateway-demo-arm64: gateway-arm64
	deploy/arm64/build gateway-demo

# The programs around the gateway that tests and the demo run.
gateway-demo simulated-day soak stand-in-exchange FastTime: gateway
	$(BUILD) $@
programs: gateway-demo simulated-day soak stand-in-exchange FastTime

ifneq ($(ARCH),$(NATIVE))
manual: gateway-$(ARCH)
	deploy/manual deploy/$(ARCH)/edge-gateway .build-$(ARCH)/manual
else
manual: gateway        ## man pages and shell completions, in .build/manual
	@deploy/setup --package
	deploy/manual .build/release/edge-gateway .build/manual
endif

docs: gateway          ## the libraries' documentation as web pages, in .build-docs
	deploy/docs .build/release .build-docs

# ARCH=arm64: that for 64-bit ARM, made on x86-64, in .build-arm64/deb.
package: manual        ## the Debian package, in .build/deb
	deploy/package $(ARCH)

oci: package           ## an OCI archive of the package for container engines, in .build-oci; ARCH=arm64 too
	@deploy/setup --oci
	deploy/oci/build $(if $(filter $(NATIVE),$(ARCH)),.build,.build-$(ARCH))/deb/*.deb

test-container: oci gateway-demo ## that archive under podman and crun, by deploy/oci/compose.yaml, in the demo's world; ARCH=arm64 too
	@deploy/setup --oci
ifneq ($(ARCH),$(NATIVE))
	deploy/arm64/binfmt
endif
	Tests/Container/run .build-oci/edge-gateway_*_$(ARCH).oci.tar .build/release/gateway-demo

release-artifacts: oci ## packages, card, OCI archives, apt repository, checksums, notes; RELEASE_KEY=KEY signs; .build-release
	@deploy/setup --release
	$(MAKE) oci ARCH=arm64
	$(MAKE) image
	deploy/release/artifacts .build-release/artifacts .build/deb/*.deb .build-arm64/deb/*.deb .build-oci/*.oci.tar \
		.build-image/edge-gateway-card.img.zst .build-image/edge-gateway-card.cdx.json

test-release: package ## a release's apt repository updates a gateway in a fresh Debian tree, and forged ones do not
	@deploy/setup --test
	@deploy/setup --release
	Tests/Release/run .build/deb/*.deb

test-arm64: manual stand-in-exchange ## all that runs as 64-bit ARM code, emulated, on x86-64: about an hour
	@deploy/setup --test
	$(MAKE) package ARCH=arm64
	Tests/Arm64/run
	$(MAKE) gateway-demo-arm64
	DEMO_SECONDS=20 deploy/arm64/gateway-demo
	Tests/Package/run .build-arm64/deb/*.deb
	Tests/Package/run .build-arm64/deb/*.deb trixie
	Tests/RealBlueZ/run .build-arm64/release/edge-gateway
	PAGES=16k Tests/RealBlueZ/run .build-arm64/release/edge-gateway
	Tests/Installed/run .build-arm64/deb/*.deb .build/release/stand-in-exchange

test-package: package  ## the package in a fresh Debian tree: install, upgrade, remove, purge
	@deploy/setup --test
	Tests/Package/run .build/deb/*.deb

test-installed: package stand-in-exchange ## the life of an installed gateway: systemd, reboot, upgrade, power cut, in a virtual machine
	@deploy/setup --test
	Tests/Installed/run .build/deb/*.deb .build/release/stand-in-exchange

image:                 ## the card image for a Raspberry Pi, in .build-image
	@deploy/setup --image
	$(MAKE) package ARCH=arm64
	deploy/image/build .build-arm64/deb/edge-gateway_*_arm64.deb

test-image: image stand-in-exchange ## that card: first boot, straps, power cut, update, re-flash, in an emulated machine
	@deploy/setup --test
	Tests/Image/run .build-image/edge-gateway-card.img .build-arm64/deb/edge-gateway_*_arm64.deb \
		.build/release/stand-in-exchange

lint:
	swift format lint --strict --recursive Package.swift Sources Tests Benchmarks Examples

fuzz:                  ## the frame decoder under libFuzzer
	@deploy/setup --test
	Tests/Fuzz/run 30

bench:                 ## figures beside their goals and their peers, as one table
	@deploy/setup --test
	@Tests/Conformance/setup
	@$(MAKE) --no-print-directory release >/dev/null
	-Tests/RealBlueZ/run --icount .build/release/edge-gateway
	@Benchmarks/all

# The folder of releases stays: the next one adds to its apt repository.
clean:
	find . -maxdepth 1 -name '.build*' ! -name .build-release -exec rm -rf {} +
	rm -rf .build-release/test
