"""The dashboard: each query is PromQL and asks for metrics and labels that there are, and each metric is on it."""

from __future__ import annotations

import json
from itertools import combinations

import promql_parser
import pytest

from salience.server.metrics import METRICS

HISTOGRAMS = {name for name, metric in METRICS.items() if metric.kind == "histogram"}
SERIES = {name: set(metric.labels) for name, metric in METRICS.items() if name not in HISTOGRAMS}
SERIES |= {f"{name}_{part}": set(METRICS[name].labels) for name in HISTOGRAMS for part in ("sum", "count")}
SERIES |= {f"{name}_bucket": {*METRICS[name].labels, "le"} for name in HISTOGRAMS}
"""What Prometheus keeps of the metrics: name to labels."""
TARGET = {"job", "instance"}
"""Labels that Prometheus gives."""


@pytest.fixture(scope="module")
def dashboard(deploy):
    return json.loads((deploy / "grafana" / "salience.json").read_text())


@pytest.fixture(scope="module")
def panels(dashboard):
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


@pytest.fixture(scope="module")
def queries(panels):
    """Return the queries as trees; Grafana's own words are replaced as it does."""
    written = [target["expr"] for panel in panels for target in panel["targets"]]
    return [promql_parser.parse(query.replace("$__rate_interval", "1m")) for query in written]


def within(query, kind):
    """Return the parts of a query that are of a kind."""
    found = []
    promql_parser.walk(query, lambda part: found.append(part) if isinstance(part, kind) else None)
    return found


def test_each_query_asks_for_metrics_and_labels_that_there_are(queries):
    assert queries
    for query in queries:
        selectors = within(query, promql_parser.VectorSelector)
        assert selectors
        for selector in selectors:
            assert selector.name in SERIES
            assert {matcher.name for matcher in selector.matchers.matchers} <= SERIES[selector.name] | TARGET
            assert {matcher.name for matcher in selector.matchers.matchers} >= TARGET
        labels = set.union(*(SERIES[selector.name] for selector in selectors)) | TARGET
        for part in within(query, promql_parser.AggregateExpr):
            assert set(part.modifier.labels if part.modifier else ()) <= labels


def test_a_query_that_is_none_does_not_parse():
    with pytest.raises(ValueError, match="unclosed"):
        promql_parser.parse("sum by (verb (rate(salience_requests_total[1m]))")


def test_counters_are_asked_for_their_rate_and_gauges_are_not(queries):
    for query in queries:
        under = {selector.vector_selector.name for selector in within(query, promql_parser.MatrixSelector)}
        asked = {selector.name for selector in within(query, promql_parser.VectorSelector)}
        counters = {name for name in SERIES if name not in METRICS or METRICS[name].kind == "counter"}
        assert asked & counters == under


def test_every_metric_is_on_it(queries):
    asked = {selector.name for query in queries for selector in within(query, promql_parser.VectorSelector)}
    shown = {name for name in METRICS for series in asked if series == name or series.startswith(f"{name}_")}
    assert shown == set(METRICS)


def test_the_legend_names_labels_that_the_query_keeps(panels):
    for target in (target for panel in panels for target in panel["targets"]):
        query = promql_parser.parse(target["expr"].replace("$__rate_interval", "1m"))
        kept = {
            name
            for part in within(query, promql_parser.AggregateExpr)
            if part.modifier
            for name in part.modifier.labels
        }
        named = {part.split("}}")[0] for part in target["legendFormat"].split("{{")[1:]}
        assert named <= kept
        assert kept - {"le"} <= named


def test_panels_have_a_place_of_their_own_and_say_what_they_show(dashboard, panels):
    assert all(panel["title"] and panel["description"] for panel in panels)
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for one, other in combinations([panel["gridPos"] for panel in dashboard["panels"]], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)


def test_the_variables_that_queries_use_are_defined(dashboard, panels):
    names = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert names == {"datasource", "job", "instance", "verb"}
    assert {panel["datasource"]["uid"] for panel in panels} == {"${datasource}"}
