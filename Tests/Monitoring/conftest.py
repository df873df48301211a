"""Debian's Prometheus, which scrapes the real gateway of `make demo`, one that is gone, and HAProxy."""
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).parent.parent.parent
# Two scrapes more than a rate needs.
SCRAPES = 4
SECONDS_MAX = 120


def pytest_addoption(parser):
    parser.addoption("--demo", required=True)


def exchange_tests():
    """Tests/Exchange's HAProxy and servers."""
    spec = importlib.util.spec_from_file_location("exchange_conftest", ROOT / "Tests/Exchange/conftest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Prometheus:
    def __init__(self, folder, port, targets):
        (folder / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": "1s"},
            "rule_files": [str(ROOT / "deploy/prometheus/edge-gateway.rules.yaml")],
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": some}]} for job, some in targets.items()],
        }))  # fmt: skip
        self.address = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address=127.0.0.1:{port}"],
            stdout=(folder / "prometheus.log").open("w"), stderr=subprocess.STDOUT)  # fmt: skip

    def ask(self, query):
        """The result of an instant query; a query that Prometheus refuses is an error."""
        with urllib.request.urlopen(
                f"{self.address}/api/v1/query?" + urllib.parse.urlencode({"query": query}), timeout=30) as answer:
            return json.load(answer)["data"]["result"]

    def is_ready(self):
        try:
            return bool(self.ask("up"))
        except OSError:
            return False

    def stop(self):
        self.process.terminate()
        self.process.wait()


def until(condition, what):
    end = time.monotonic() + SECONDS_MAX
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {SECONDS_MAX} s: {what}"
        time.sleep(0.2)
    return value


@pytest.fixture(scope="session")
def world(request, tmp_path_factory):
    """Prometheus when it has scraped everything some times, and the gateway's address."""
    tests = exchange_tests()
    folder = tmp_path_factory.mktemp("monitoring")
    started = []
    try:
        demo = subprocess.Popen(
            [request.config.getoption("--demo")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            cwd=ROOT, stdin=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "DEMO_SECONDS": "600", "DESTINATIONS": "file"})  # fmt: skip
        started.append(lambda: (demo.terminate(), demo.wait(60)))
        lines = []

        reader = threading.Thread(target=lambda: [lines.append(line) for line in demo.stdout], daemon=True)
        reader.start()
        page = until(
            lambda: next((found[1] for line in list(lines) if (found := re.search(r"live page: http://(\S+?)/ ", line))),
                         None), "the demo names its page")  # fmt: skip
        exchange = tests.Exchange(folder, 0.01, 2)
        started.append(exchange.stop)
        for name in "ab":
            exchange.start_server(name)
        exchange.start_proxy().until_up("a", "b")
        stop_sending = threading.Event()

        def send():
            while not stop_sending.is_set():
                exchange.post([f"one-{time.monotonic_ns()}"])

        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        started.append(lambda: (stop_sending.set(), sender.join()))
        gone = f"127.0.0.1:{tests.free_port()}"
        prometheus = Prometheus(folder, tests.free_port(), {
            "edge-gateway": [page, gone], "haproxy": [f"127.0.0.1:{exchange.metrics}"]})  # fmt: skip
        started.append(prometheus.stop)
        until(prometheus.is_ready, "Prometheus answers")
        # What the gateway has to tell about once it delivers.
        until(lambda: prometheus.ask(
            f"min(count_over_time(edge_gateway_delivery_last_delivery_timestamp_seconds[1m])) >= {SCRAPES} "
            f"and on () min(count_over_time(edge_gateway_destination_last_delivery_timestamp_seconds[1m])) >= {SCRAPES} "
            f"and on () min(count_over_time(haproxy_server_status[1m])) >= {SCRAPES}"), "everything is scraped")
        yield prometheus, page
    finally:
        for stop in reversed(started):
            stop()
