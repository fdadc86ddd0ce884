"""Samples as Prometheus reads them."""

from collections.abc import Iterable

from prometheus_client.parser import text_string_to_metric_families as read

from forebay.act.metrics import Sample, format_metrics


def values_of(samples: Iterable[Sample]) -> dict[tuple[str, ...], float]:
    """The values by a metric's name and its labels' values."""
    families = read(format_metrics(samples).decode())
    return {(family.name, *each.labels.values()): each.value for family in families for each in family.samples}
