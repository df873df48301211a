"""Every query of every dashboard has an answer by a real Prometheus, and Grafana knows every field of them."""
import json
import pathlib
import re
import subprocess
import urllib.request

import pytest
import yaml
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

ROOT = pathlib.Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"
DASHBOARDS = {file.stem: json.loads(file.read_text()) for file in (DEPLOY / "grafana/dashboards").glob("*.json")}
# Panels that are empty while all is well: their queries must only be understood, and are tried on an invented
# gateway that is not well, by promtool, in test_what_is_empty_when_well_is_not_when_it_is_not.
EMPTY_WHEN_WELL = {
    ("fleet", "What is wrong"), ("fleet", "Conditions"), ("fleet", "Samples lost"), ("gateway", "Conditions"),
    # Nothing waits between two deliveries.
    ("fleet", "Oldest unsent"), ("fleet", "Oldest unsent, by gateway"), ("gateway", "Oldest unsent"),
}  # fmt: skip
# Queries beside others of their panel, whose labels only a loss makes.
EMPTY_WITHOUT_LOSS = ["edge_gateway_samples_held", "edge_gateway_samples_dropped"]

QUERIES = [
    pytest.param(name, panel["title"], target["expr"], id=f"{name}: {panel['title']} {target['refId']}")
    for name, dashboard in DASHBOARDS.items() for panel in dashboard["panels"] for target in panel["targets"]
]  # fmt: skip


def test_there_are_three_dashboards():
    assert set(DASHBOARDS) == {"fleet", "gateway", "exchange"}
    assert len({dashboard["uid"] for dashboard in DASHBOARDS.values()}) == 3


@pytest.mark.parametrize("name, title, expression", QUERIES)
def test_a_query_has_an_answer(world, name, title, expression):
    prometheus, page = world
    result = prometheus.ask(expression.replace("$instance", page))
    is_quiet = (name, title) in EMPTY_WHEN_WELL or any(metric in expression for metric in EMPTY_WITHOUT_LOSS)
    assert result or is_quiet


def test_the_variable_finds_the_gateways(world):
    prometheus, page = world
    variable = DASHBOARDS["gateway"]["templating"]["list"][0]
    metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"]).groups()
    assert [row["metric"][label] for row in prometheus.ask(metric)] == [page]


def test_the_alarm_for_a_gateway_that_is_gone_is_pending(world):
    prometheus, page = world
    with urllib.request.urlopen(f"{prometheus.address}/api/v1/rules", timeout=30) as answer:
        rules = json.load(answer)["data"]["groups"][0]["rules"]
    assert {rule["health"] for rule in rules} <= {"ok", "unknown"}
    gone = [row["metric"]["instance"] for row in prometheus.ask('up{job="edge-gateway"} == 0')]
    assert len(gone) == 1 and page not in gone


def test_every_alarm_has_the_severity_of_a_health_item():
    rules = yaml.safe_load((DEPLOY / "prometheus/edge-gateway.rules.yaml").read_text())["groups"][0]["rules"]
    assert {rule["labels"]["severity"] for rule in rules} == {"error", "warning"}


def test_the_documentation_has_the_scrape_configuration():
    """In one block, which Prometheus understands."""
    block = (ROOT / "docs/operate/operations.md").read_text().split("```\nscrape_configs:")[1].split("```")[0]
    [job] = yaml.safe_load("scrape_configs:" + block)["scrape_configs"]
    [example] = yaml.safe_load((DEPLOY / "prometheus/prometheus.example.yml").read_text())["scrape_configs"]
    for key in ("job_name", "scheme", "authorization"):
        assert job[key] == example[key]


def test_every_metric_is_in_the_documentation():
    """docs/operate/operations.md has the gateway's; a dashboard that asks for another one stays empty for ever."""
    section = (ROOT / "docs/operate/operations.md").read_text().split("## Metrics")[1].split("\n## ")[0]
    text = " ".join(query.values[2] for query in QUERIES)
    used = {name for name in re.findall(r"edge_gateway_(\w+)", text)}
    known = set(re.findall(r"`(\w+)(?:\{[^}]*\})?`", section))
    assert used - known - {"info", "uptime_seconds", "clock_trusted"} == set()


def lost(before, after, path=""):
    """Where `after` lacks something of `before`, or has another value."""
    if isinstance(before, dict):
        for key, value in before.items():
            if not isinstance(after, dict) or key not in after:
                yield f"{path}/{key}"
            else:
                yield from lost(value, after[key], f"{path}/{key}")
    elif isinstance(before, list):
        for index, value in enumerate(before):
            if not isinstance(after, list) or index >= len(after):
                yield f"{path}/{index}"
            else:
                yield from lost(value, after[index], f"{path}/{index}")
    elif before != after:
        yield f"{path}: {before!r}, {after!r}"


def through_grafanas_model(dashboard):
    plugins.register_default_plugins()
    return json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(dashboard)))


@pytest.mark.parametrize("name", DASHBOARDS)
def test_grafana_knows_every_field(name):
    assert list(lost(DASHBOARDS[name], through_grafanas_model(DASHBOARDS[name]))) == []


def test_a_field_that_grafana_does_not_know_is_found():
    dashboard = json.loads(json.dumps(DASHBOARDS["fleet"]))
    dashboard["panels"][0]["gridPos"]["width"] = 4
    dashboard["panels"][1]["targets"][0]["expression"] = "up"
    assert list(lost(dashboard, through_grafanas_model(dashboard))) == [
        "/panels/0/gridPos/width", "/panels/1/targets/0/expression"]  # fmt: skip


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_lie_beside_each_other(name):
    taken = set()
    for panel in DASHBOARDS[name]["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y) for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])}  # fmt: skip
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARDS[name]["panels"]}) == len(DASHBOARDS[name]["panels"])


def test_provisioning_names_the_source_that_the_dashboards_ask():
    sources = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yaml").read_text())
    uids = {source["uid"] for source in sources["datasources"]}
    asked = set(re.findall(r'"type": "prometheus",\s*"uid": "([^"]*)"', json.dumps(DASHBOARDS, indent=1)))
    assert asked == uids
    providers = yaml.safe_load((DEPLOY / "grafana/provisioning/dashboards/edge-gateway.yaml").read_text())
    assert providers["apiVersion"] == 1
    assert [provider["type"] for provider in providers["providers"]] == ["file"]


@pytest.mark.parametrize("command", [["check", "config", "--syntax-only", "prometheus.example.yml"],
                                     ["check", "rules", "edge-gateway.rules.yaml"],
                                     ["test", "rules", "edge-gateway.rules.test.yaml"]])  # fmt: skip
def test_promtool_finds_the_scrape_configuration_and_the_alarms_right(command):
    done = subprocess.run(
        ["promtool", *command], cwd=DEPLOY / "prometheus", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_empty_when_well_is_not_when_it_is_not(tmp_path):
    labels = 'instance="$instance", job="edge-gateway"'
    series = {
        f'edge_gateway_health{{{labels}, condition="no-adapter", severity="error"}}': "1x10",
        f'edge_gateway_info{{{labels}, version="1", name="bed", site="ward"}}': "1x10",
        f"edge_gateway_oldest_unsent_timestamp_seconds{{{labels}}}": "0x10",
        f'edge_gateway_frames_refused_total{{{labels}, reason="queue-full"}}': "0+60x10",
        f'edge_gateway_samples_dropped_total{{{labels}, reason="queue-full"}}': "0+60x10",
        f'edge_gateway_samples_held{{{labels}, reason="no-consent"}}': "5x10",
    }  # fmt: skip
    quiet = [
        expression for name, title, expression in (query.values for query in QUERIES)
        if (name, title) in EMPTY_WHEN_WELL or any(metric in expression for metric in EMPTY_WITHOUT_LOSS)]  # fmt: skip
    assert quiet
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"tests": [{
        "interval": "1m",
        "input_series": [{"series": one, "values": values} for one, values in series.items()],
        # Each has one answer: else there would be none, or more.
        "promql_expr_test": [
            {"expr": f"count({one})", "eval_time": "9m", "exp_samples": [{"labels": "{}", "value": 1}]}
            for one in quiet],
    }]}))  # fmt: skip
    done = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
