"""deploy/exchange/haproxy.cfg, as it is shipped, with Debian's HAProxy and servers that have two workers each."""
import http.client
import re
import threading
import time

import pytest
from conftest import CONFIGURATION, HERE, WORKERS, Gateways, seconds_of, until

# Enough to keep each worker of two servers busy, and a line at the proxy.
GATEWAYS = 12
BUNDLES = 5
# Seconds an entry takes; a bundle has two of them.
COST = 0.1


def test_a_second_server_doubles_the_throughput(exchange):
    rates = {}
    for servers in ("a", "ab"):
        one = exchange(servers, COST)
        gateways = Gateways(one, GATEWAYS, BUNDLES).start().finish()
        assert gateways.failed == []
        assert one.stored() == gateways.all_identifiers()
        rates[servers] = GATEWAYS * BUNDLES / gateways.seconds
        # A server alone does what its workers can, and no more: else it would be no limit that is doubled.
        assert rates[servers] <= len(servers) * WORKERS / (2 * COST) * 1.02
    print(f"{rates['a']:.1f} and {rates['ab']:.1f} requests a second")
    assert 1.7 < rates["ab"] / rates["a"] < 2.3


def test_no_server_has_more_requests_than_workers(exchange):
    one = exchange(cost=COST / 2)
    Gateways(one, GATEWAYS, BUNDLES).start().finish()
    assert one.most_at_once() == {"a": WORKERS, "b": WORKERS}


def test_without_maxconn_a_server_has_more(exchange):
    one = exchange(cost=COST / 2, change=lambda text: re.sub(r"(server [ab] \S+) maxconn \d+", r"\1", text))
    Gateways(one, GATEWAYS, BUNDLES).start().finish()
    assert max(one.most_at_once().values()) > WORKERS


def kill_in_the_middle(one):
    gateways = Gateways(one, GATEWAYS, BUNDLES).start()
    until(lambda: one.arrived_at("b") >= 4, "the second server works")
    one.kill_server("b")
    before = one.arrived_at("a")
    until(lambda: one.arrived_at("a") >= before + 8, "the first server goes on")
    one.start_server("b")
    return gateways.finish()


def test_a_killed_server_costs_its_own_requests_and_none_is_sent_twice(exchange):
    one = exchange(cost=COST)
    gateways = kill_in_the_middle(one)
    # Nobody answers those that it worked on, and as many more that the kernel took for it while it died; the server
    # that is left answers all others.
    assert 0 < len(gateways.failed) <= 2 * WORKERS
    assert {status for _, status in gateways.failed} <= {502}
    assert set(one.arrivals().values()) == {1}
    assert one.stored() == gateways.all_identifiers()
    assert one.orphans() == 0
    # It is used again when it is back.
    one.until_up("a", "b")
    back = one.arrived_at("b")
    Gateways(one, 4, 1).start().finish()
    assert one.arrived_at("b") > back


def test_a_proxy_that_repeats_requests_is_found(exchange):
    one = exchange(cost=COST, change=lambda text: text.replace(
        "retry-on conn-failure", "retry-on conn-failure empty-response junk-response response-timeout"))  # fmt: skip
    kill_in_the_middle(one)
    assert max(one.arrivals().values()) > 1


def test_a_repetition_beside_the_first_leaves_an_orphan_here(exchange):
    one = exchange(cost=COST)
    threads = [threading.Thread(target=one.post, args=(["same"],)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (one.stored(), one.orphans()) == (["same"], 1)


def test_a_request_waits_no_longer_than_a_gateway(exchange):
    """One worker is busy for longer than a request may wait; nobody works on what waited or was given up."""
    longest = seconds_of("queue")
    one = exchange("a", workers=1)
    busy = threading.Thread(target=one.post, args=(["first"],), kwargs={"cost": longest + 3})
    busy.start()
    until(lambda: one.arrived_at("a") == 1, "the worker is busy")
    begin = time.monotonic()
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(one.post(["second"])))
    waiting.start()
    gone, status, _ = one.post(["third"], patience=1)
    assert status is None
    waiting.join()
    refused, status, _ = answers[0]
    assert status == 503
    assert longest - 1 < time.monotonic() - begin < longest + 3
    busy.join()
    # The next one is served, the others never were.
    assert one.post(["fourth"])[1] == 200
    assert one.stored() == ["first", "fourth"]
    assert not {gone, refused} & set(one.arrivals())


def test_waiting_and_work_are_shorter_than_a_gateways_patience():
    transport = (HERE.parent.parent / "Sources/Uplink").rglob("CurlSettings.swift")
    patience = int(re.search(r"totalTimeout = Duration\.seconds\((\d+)\)", next(transport).read_text())[1])
    # docs/develop/exchange.md, "Throughput": a worker that is busy for 30 s is killed.
    worker = 30
    assert seconds_of("queue") + worker < patience
    assert seconds_of("server") > patience, "HAProxy gives a request up before its gateway"


def test_the_exchange_hears_that_it_is_https_and_who_asks(exchange):
    one = exchange("a")
    assert one.post(["one"])[1] == 200
    assert one.rows("SELECT proto, sender FROM arrival") == [("https", "127.0.0.1")]
    plain = http.client.HTTPConnection("127.0.0.1", one.plain, timeout=10)
    plain.request("POST", "/FHIR/R5/", "{}")
    answer = plain.getresponse()
    assert (answer.status, answer.headers["Location"]) == (308, "https://127.0.0.1:%d/FHIR/R5/" % one.plain)
    plain.close()
    assert one.arrived_at("a") == 1


def test_haproxy_tells_prometheus(exchange):
    one = exchange()
    connection = http.client.HTTPConnection("127.0.0.1", one.metrics, timeout=10)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    for name in ("haproxy_backend_current_queue", "haproxy_server_status", "haproxy_server_current_sessions"):
        assert re.search(rf"^{name}{{", text, re.MULTILINE), name


@pytest.mark.parametrize("name", ["server a", "server b"])
def test_the_example_says_what_to_replace(name):
    assert re.search(rf"^ *{name} \S+ maxconn \d+$", CONFIGURATION.read_text(), re.MULTILINE)
