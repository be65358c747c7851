"""What the OTEL_* variables say of sending traces."""

from __future__ import annotations

import pytest
from spectrace_exporters._sampling import Sampling
from spectrace_exporters._settings import Settings, read_settings, switched_off

from spectrace.errors import SpectraceError
from spectrace.otlp.limits import Limits


def test_an_empty_environment_leaves_everything_as_it_is() -> None:
    """And an empty variable is as good as none."""
    assert read_settings({}) == Settings()
    assert read_settings({"OTEL_BSP_MAX_QUEUE_SIZE": "", "OTEL_TRACES_SAMPLER": ""}) == Settings()


def test_the_variables_of_a_batch_processor_are_those_of_the_queue() -> None:
    """Sizes are in spans, times in ms; a batch is no larger than the queue."""
    settings = read_settings(
        {
            "OTEL_BSP_MAX_QUEUE_SIZE": "300",
            "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "400",
            "OTEL_BSP_SCHEDULE_DELAY": "1500",
            "OTEL_BSP_EXPORT_TIMEOUT": "20000",
        }
    )
    assert (settings.queue_spans, settings.batch_spans) == (300, 300)
    assert (settings.interval_s, settings.patience_s) == (1.5, 20.0)


@pytest.mark.parametrize("value", ["x", "0", "-1", "1.5"])
def test_what_is_no_number_is_passed_over_and_told(value: str) -> None:
    """As the specification wants it; the sentence names variable and value."""
    settings = read_settings({"OTEL_BSP_MAX_QUEUE_SIZE": value})
    assert settings.queue_spans == Settings().queue_spans
    assert len(settings.notices) == 1
    assert f"OTEL_BSP_MAX_QUEUE_SIZE is '{value}'" in settings.notices[0]


@pytest.mark.parametrize(
    ("environ", "sampling"),
    [
        ({"OTEL_TRACES_SAMPLER": "always_on"}, Sampling()),
        ({"OTEL_TRACES_SAMPLER": "parentbased_always_on"}, Sampling()),
        ({"OTEL_TRACES_SAMPLER": "always_off"}, Sampling(every=0)),
        ({"OTEL_TRACES_SAMPLER": "parentbased_always_off"}, Sampling(every=0)),
        (
            {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"},
            Sampling(ratio=0.25),
        ),
        ({"OTEL_TRACES_SAMPLER": "PARENTBASED_TRACEIDRATIO"}, Sampling(ratio=1.0)),
    ],
)
def test_the_sampler_of_the_environment(environ: dict[str, str], sampling: Sampling) -> None:
    """A trace of ours has no parent: such a sampler does what it does with roots."""
    settings = read_settings(environ)
    assert (settings.sampling, settings.notices) == (sampling, ())


def test_a_sampler_that_is_not_known_is_told() -> None:
    """Everything is sent."""
    settings = read_settings({"OTEL_TRACES_SAMPLER": "jaeger_remote"})
    assert settings.sampling == Sampling()
    assert "'jaeger_remote'" in settings.notices[0]


def test_limits_are_those_of_spans_then_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """What allows more than any span of ours has is no limit, and links never exceed 128."""
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "50")
    monkeypatch.setenv("OTEL_ATTRIBUTE_COUNT_LIMIT", "20")
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "10")
    monkeypatch.setenv("OTEL_SPAN_LINK_COUNT_LIMIT", "1000")
    assert read_settings({}).limits == Limits(attributes=10, text=50, links=128)

    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "500")
    monkeypatch.setenv("OTEL_SPAN_LINK_COUNT_LIMIT", "5")
    assert read_settings({}).limits == Limits(text=50, links=5)

    monkeypatch.setenv("OTEL_SPAN_LINK_COUNT_LIMIT", "few")
    assert read_settings({}).limits == Limits()
    assert "OTEL_SPAN_LINK_COUNT_LIMIT" in read_settings({}).notices[0]


def test_service_and_resource_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    """OTEL_SERVICE_NAME comes before the service.name of OTEL_RESOURCE_ATTRIBUTES."""
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,team=b%20c")
    assert read_settings({}).service == "a"
    assert read_settings({}).attributes == {"team": "b c"}

    monkeypatch.setenv("OTEL_SERVICE_NAME", "d")
    assert read_settings({}).service == "d"


def test_the_environment_can_switch_sending_off() -> None:
    """With a sentence that says which variable did."""
    assert switched_off({}) == ""
    assert switched_off({"OTEL_SDK_DISABLED": "false", "OTEL_TRACES_EXPORTER": "otlp"}) == ""
    assert switched_off({"OTEL_TRACES_EXPORTER": "console, otlp"}) == ""
    assert "OTEL_SDK_DISABLED" in switched_off({"OTEL_SDK_DISABLED": "TRUE"})
    assert "OTEL_TRACES_EXPORTER" in switched_off({"OTEL_TRACES_EXPORTER": "none"})


def test_another_exporter_than_otlp_is_refused() -> None:
    """It would otherwise be passed over in silence."""
    with pytest.raises(SpectraceError, match=r"'zipkin'.*--otlp-endpoint"):
        switched_off({"OTEL_TRACES_EXPORTER": "zipkin"})
