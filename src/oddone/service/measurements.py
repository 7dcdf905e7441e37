"""What Prometheus is told of a service, at /metrics."""

import math
from collections.abc import Iterable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from oddone.detector import ScoredImage
from oddone.service.admission import Admission
from oddone.service.decoders import DecoderPool
from oddone.service.served import ServedDetectors

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
P_VALUES = (0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


class Measurements:
    """Counters of what happened, and gauges that look at the service when they are asked."""

    def __init__(
        self, admission: Admission, decoders: DecoderPool, detectors: ServedDetectors
    ) -> None:
        self._admission, self._decoders, self._detectors = admission, decoders, detectors
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.requests = Counter(
            "oddone_requests", "Requests.", ["method", "route", "status"], registry=self.registry
        )
        self.request_seconds = Histogram(
            "oddone_request_seconds",
            "Time from the headers of a request to its answer.",
            ["route"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.images = Counter(
            "oddone_images", "Images by verdict.", ["detector", "verdict"], registry=self.registry
        )
        self.p_values = Histogram(
            "oddone_p_value",
            "P-values of images; uniform while they look like the calibration images.",
            ["detector"],
            buckets=P_VALUES,
            registry=self.registry,
        )
        self.feedback = Counter(
            "oddone_feedback", "What users said.", ["detector", "said"], registry=self.registry
        )
        self.registry.register(self)

    def count_image(self, detector: str, scored: ScoredImage) -> None:
        """Count a verdict, or that there is none."""
        verdict = scored.verdict
        if verdict is None:
            self.images.labels(detector, "unreadable").inc()
            return
        names = {None: "undecided", True: "anomalous", False: "normal"}
        self.images.labels(detector, names[verdict.anomalous]).inc()
        if verdict.p_value is not None:
            self.p_values.labels(detector).observe(verdict.p_value)

    def page(self) -> bytes:
        """Return all of it in the text format of Prometheus."""
        return generate_latest(self.registry)

    def collect(self) -> Iterable[Metric]:
        """Return what is looked up now; prometheus-client calls this."""
        yield GaugeMetricFamily(
            "oddone_waiting_images", "Images that wait or are worked on.", self._admission.images
        )
        yield GaugeMetricFamily(
            "oddone_waiting_bytes", "Bytes of requests in memory.", self._admission.bytes
        )
        yield CounterMetricFamily(
            "oddone_decoders_replaced",
            "Processes that a picture has ended.",
            self._decoders.replaced,
        )
        reloads = CounterMetricFamily(
            "oddone_reloads", "New files of detectors.", labels=["detector", "outcome"]
        )
        capital = GaugeMetricFamily(
            "oddone_drift_log10_martingale",
            "Evidence that the stream no longer looks like the calibration images.",
            labels=["detector"],
        )
        alarm = GaugeMetricFamily(
            "oddone_drift_alarm", "1 once that has reached 2.", labels=["detector"]
        )
        for name, served in self._detectors.by_name.items():
            for outcome in ("taken", "refused"):
                reloads.add_metric([name, outcome], served.reloads[outcome])
            drift = served.loaded.drift
            if drift is not None:
                capital.add_metric([name], drift.log_capital / math.log(10))
                alarm.add_metric([name], float(drift.alarm))
        yield from (reloads, capital, alarm)
