"""Render metrics in the Prometheus text format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, cast

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from retrieval.metrics import catalog, counts
from retrieval.metrics.catalog import Kind, Metric
from retrieval.metrics.figures import Histogram, Reading, Values

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

MEDIA_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
# Reported from their first count; other counters start at 0, so a first increase is visible.
_WITHOUT_ZEROS: Final = frozenset((catalog.VENDOR.name, catalog.HTTP.name))


def render_text(reading: Reading, *, roles: Mapping[str, Values] | None = None, of_organization: bool = False) -> bytes:
    """Render a reading. `roles`: values from the supervisor of this machine, by metric."""
    lines = _ReadingRegistry(reading, roles or {}, of_organization=of_organization)
    return generate_latest(cast("CollectorRegistry", lines))


class _ReadingRegistry:
    """Registry interface for `generate_latest`."""

    def __init__(self, reading: Reading, roles: Mapping[str, Values], *, of_organization: bool) -> None:
        self._reading = reading
        self._of_organization = of_organization
        self._gauges: dict[str, Values] = {
            **reading.gauges,
            **roles,
            catalog.DATABASE_UP.name: {(): float(reading.is_up)},
            catalog.AGE.name: {(): reading.age},
        }
        self._counters: dict[str, Values] = {**reading.counters, **roles}

    def collect(self) -> Iterator[Family]:
        for metric in catalog.CATALOG.values():
            if self._of_organization and not metric.of_organizations:
                continue
            if metric.kind is Kind.HISTOGRAM:
                yield self._histogram(metric)
            elif metric.kind is Kind.COUNTER:
                yield self._counter(metric)
            elif values := self._gauges.get(metric.name):
                family = GaugeMetricFamily(metric.name, metric.help, labels=list(metric.labels))
                for labels, value in values.items():
                    family.add_metric(list(labels), value)
                yield family

    def _counter(self, metric: Metric) -> Family:
        family = CounterMetricFamily(metric.name, metric.help, labels=list(metric.labels))
        for labels, value in (_zeros(metric) | self._counters.get(metric.name, {})).items():
            family.add_metric(list(labels), value)
        return family

    def _histogram(self, metric: Metric) -> Family:
        family = HistogramMetricFamily(metric.name, metric.help, labels=list(metric.labels))
        series = self._reading.histograms.get(metric.name, {})
        for labels in _zeros(metric) | dict.fromkeys(series, 0.0):
            histogram, cumulative, buckets = series.get(labels, Histogram()), 0.0, []
            for bound in (*map(str, metric.buckets), counts.INFINITE_BOUND):
                cumulative += histogram.buckets.get(bound, 0.0)
                buckets.append((bound, cumulative))
            family.add_metric(list(labels), buckets, histogram.sum)
        return family


def _zeros(metric: Metric) -> Values:
    if metric.name in _WITHOUT_ZEROS or metric.name == catalog.ROLE_RESTARTS.name:
        return {}
    if not metric.labels:
        return {(): 0.0}
    (values,) = metric.labels.values()  # no metric that begins at 0 has two labels
    return {(value,): 0.0 for value in values}
