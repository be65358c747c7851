"""A kept prediction held against a later run: the founding story, and what it cannot say."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from spectrace.analysis.acceptance import Setting
from spectrace.analysis.estimates import exact
from spectrace.analysis.intervals import Estimate
from spectrace.analysis.prediction import Check, Held, Prediction, Quantity, check, predict
from spectrace.analysis.run_report import RunReport, report
from spectrace.analysis.what_if import Doubt
from spectrace.cli.predict import assumption_option, read
from spectrace.cli.prediction_words import became
from spectrace.errors import SpectraceError
from tests.helpers.simulated_run import Stretch, Truth, simulated

TWO = Setting(steps=2, topk=1, draft_tokens=3)
# F1: of 105 tok/s and 1.82 tokens a cycle of 17.33 ms follows, of which 14.3 are verify; 75.9 tok/s
# with 2.00 tokens are one of 26.35, of which 25.6 are verify.
GUESSED_MS = 1000 * 1.82 / 105
CAME_MS = 1000 * 2.00 / 75.9
DRAFT_MS = 0.35  # 0.87 ms for five steps by the host's clock


def story() -> tuple[Prediction, Check]:
    """What was expected, and what came."""
    at_five = Truth(
        (0.535,) * 5,
        verify_ms=lambda _tokens, _batch: 28.7,
        draft_ms=0.174,
        extend_ms=0.0,
        overhead_ms=0.33,
    )
    expected = predict(
        report(simulated([Stretch(2000, 5)], at_five), plain_ms=11.1),
        TWO,
        1,
        assumed={
            Quantity.ACCEPT_LENGTH: exact(1.82),
            Quantity.VERIFY_MS: exact(14.3),
            Quantity.DRAFT_MS: exact(DRAFT_MS),
            Quantity.REST_MS: exact(GUESSED_MS - 14.3 - DRAFT_MS),
        },
    )
    assert expected is not None
    at_two = Truth(
        (0.6, 2 / 3),  # 1 + 0.6 + 0.4 = 2.00
        verify_ms=lambda _tokens, _batch: 25.6,
        draft_ms=DRAFT_MS / 2,
        extend_ms=0.0,
        overhead_ms=CAME_MS - 25.6 - DRAFT_MS,
    )
    later = report(simulated([Stretch(20_000, 2)], at_two), plain_ms=11.1)
    return expected, check(expected, later)


def test_f1_105_were_expected_and_75_9_came() -> None:
    """The throughput of both, and the prediction failed."""
    expected, found = story()
    assert expected.tokens_per_s.value == pytest.approx(105, abs=0.05)
    assert found.measured is not None
    assert found.measured.value == pytest.approx(75.9, rel=0.02)
    assert found.held is Held.FAILED


def test_f1_verify_did_not_scale_and_acceptance_was_better() -> None:
    """25.6 ms in place of 14.3 takes most; 2.00 in place of 1.82 gives a tenth back."""
    _, found = story()
    by_name = {one.quantity: one for one in found.assumptions}
    verify, length = by_name[Quantity.VERIFY_MS], by_name[Quantity.ACCEPT_LENGTH]
    assert found.assumptions[0] is verify
    assert verify.held is Held.FAILED
    assert verify.effect == pytest.approx(GUESSED_MS / (GUESSED_MS + 25.6 - 14.3), rel=0.01)
    assert length.held is Held.FAILED
    assert length.effect == pytest.approx(2.00 / 1.82, rel=0.02)
    assert by_name[Quantity.DRAFT_MS].held is Held.HELD
    assert by_name[Quantity.PLAIN_MS].held is Held.HELD


def test_f1_in_words() -> None:
    """What failed and what was better are told apart, with numbers."""
    _, found = story()
    words = became(found)
    assert words[0].startswith("The prediction failed: 105.0")
    assert any(text.startswith("Failed: verify was assumed to be 14.30 ms") for text in words)
    assert any(
        text.startswith("Better than assumed: the accept length was assumed to be 1.82")
        for text in words
    )


def test_a_good_prediction_holds() -> None:
    """From 5 and 3 steps to 2, on a server that does not change."""
    expected = predict(report(simulated([Stretch(3000, 5), Stretch(3000, 3)])), TWO, 1)
    assert expected is not None
    found = check(expected, report(simulated([Stretch(3000, 2)], seed=7)))
    assert found.held is Held.HELD
    assert {one.held for one in found.assumptions} == {Held.HELD}


def test_a_prediction_of_short_requests_holds() -> None:
    """Of 16 tokens, from 5 steps to 2: what is cut at 2 is held against what was cut there."""
    short = Truth((0.8,) * 5, verify_ms=lambda _tokens, _batch: 20.0, cut=16)
    expected = predict(report(simulated([Stretch(6000, 5)], short), plain_ms=19.0), TWO, 1)
    assert expected is not None
    found = check(expected, report(simulated([Stretch(6000, 2)], short, seed=7), plain_ms=19.0))
    [length] = [one for one in found.assumptions if one.quantity is Quantity.ACCEPT_LENGTH]
    assert length.measured is not None
    assert length.expected.value == pytest.approx(length.measured.value, rel=0.015)
    assert length.held is Held.HELD


def later_without_two() -> RunReport:
    """A run that has no two steps."""
    return report(simulated([Stretch(500, 5)]))


def test_a_run_without_the_setting_says_nothing() -> None:
    """A prediction is not held against another prediction."""
    expected = predict(later_without_two(), TWO, 1)
    assert expected is not None
    found = check(expected, later_without_two())
    assert found.measured is None
    assert found.held is Held.NOT_MEASURED
    assert {one.held for one in found.assumptions} == {Held.NOT_MEASURED}
    assert "record one" in became(found)[0]


def test_without_speculation_everything_has_to_be_assumed() -> None:
    """A plain run says nothing of verify."""
    plain = report(simulated([Stretch(500, 0)]))
    assert predict(plain, TWO, 1) is None
    said = {
        Quantity.ACCEPT_LENGTH: exact(2.0),
        Quantity.VERIFY_MS: exact(20.0),
        Quantity.DRAFT_MS: exact(1.0),
        Quantity.REST_MS: exact(4.0),
    }
    found = predict(plain, TWO, 1, assumed=said)
    assert found is not None
    assert found.tokens_per_s.value == pytest.approx(80.0)
    assert found.assumed == tuple(said)


def test_a_kept_prediction_is_read_as_it_was(tmp_path: Path) -> None:
    """With all of its assumptions."""
    expected, _ = story()
    path = tmp_path / "prediction.json"
    path.write_bytes(msgspec.json.encode(expected))
    assert read(path) == expected


@pytest.mark.parametrize("content", [b"", b"{}", b'{"format": 1}'])
def test_what_is_no_prediction_is_refused(tmp_path: Path, content: bytes) -> None:
    """With the command that makes one."""
    path = tmp_path / "prediction.json"
    path.write_bytes(content)
    with pytest.raises(SpectraceError, match="spectrace predict"):
        read(path)


@pytest.mark.parametrize("text", ["verify=3", "verify_ms", "verify_ms=-1", "verify_ms=nan", "=3"])
def test_what_is_no_assumption_is_refused(text: str) -> None:
    """Names that are not known, and values that cannot be."""
    with pytest.raises(Exception, match="no assumption"):
        assumption_option(text)


@pytest.mark.parametrize(
    ("name", "low", "value", "high", "says"),
    [
        (Quantity.ACCEPT_LENGTH, None, 0.0, None, "accept_length is 0"),
        (Quantity.ACCEPT_LENGTH, -5.0, -5.0, -5.0, "accept_length is -5"),
        (Quantity.ACCEPT_LENGTH, 9.0, 2.0, 1.0, "interval of accept_length ends, at 1, before"),
        (Quantity.VERIFY_MS, None, 1e308, None, r"verify_ms is 1e\+308"),
        (Quantity.DRAFT_MS, -1e308, 1.0, 1e308, "draft_ms is 1, which"),
        (Quantity.PLAIN_MS, None, 0.0, None, "plain_ms is 0"),
        ("cycle_ms", None, 0.0, None, "cycle_ms is 0"),
        ("cycle_ms", None, 1e308, None, r"cycle_ms is 1e\+308"),
    ],
)
def test_a_damaged_prediction_is_refused(  # noqa: PLR0913, PLR0917 - the columns of the table
    tmp_path: Path,
    name: str,
    low: float | None,
    value: float,
    high: float | None,
    says: str,
) -> None:
    """With the figure that is wrong, and how to make another."""
    expected, _ = story()
    wrong = Estimate(value=value, low=low, high=high)
    if name == "cycle_ms":
        damaged = msgspec.structs.replace(expected, cycle_ms=wrong)
    else:
        said = expected.assumptions | {Quantity(name): wrong}
        damaged = msgspec.structs.replace(expected, assumptions=said)
    path = tmp_path / "prediction.json"
    path.write_bytes(msgspec.json.encode(damaged))
    with pytest.raises(SpectraceError, match=f"damaged.*{says}.*--force"):
        read(path)


def test_a_prediction_without_an_accept_length_is_refused(tmp_path: Path) -> None:
    """By the name of what is missing."""
    expected, _ = story()
    said = {k: v for k, v in expected.assumptions.items() if k is not Quantity.ACCEPT_LENGTH}
    path = tmp_path / "prediction.json"
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(expected, assumptions=said)))
    with pytest.raises(SpectraceError, match="accept_length is missing"):
        read(path)


def test_an_assumption_takes_away_the_doubts_of_what_it_replaces_alone() -> None:
    """Seven steps of which five were made, with a verify of 30 ms as a person says."""
    at_five = report(simulated([Stretch(2000, 5)]), plain_ms=11.1)
    seven = Setting(steps=7, topk=1, draft_tokens=8)
    own = predict(at_five, seven, 1)
    assert own is not None
    assert set(own.doubts) == {Doubt.DEEPER, Doubt.VERIFY_SPAN, Doubt.DRAFT_SHARE}
    said = predict(at_five, seven, 1, assumed={Quantity.VERIFY_MS: exact(30.0)})
    assert said is not None
    assert set(said.doubts) == {Doubt.DEEPER, Doubt.DRAFT_SHARE}


def test_a_run_without_intervals_fails_no_assumption() -> None:
    """Sixty cycles, with a verify that takes 25.6 in place of 14.3 ms: that is left open."""
    expected, _ = story()
    short = Truth((0.6, 2 / 3), verify_ms=lambda _tokens, _batch: 25.6)
    found = check(expected, report(simulated([Stretch(60, 2)], short), plain_ms=11.1))
    by_name = {one.quantity: one for one in found.assumptions}
    verify = by_name[Quantity.VERIFY_MS]
    assert verify.measured is not None
    assert verify.measured.low is None
    assert verify.held is Held.OPEN
    assert found.held is Held.OPEN
    words = became(found)
    assert words[0].startswith("Whether the prediction held cannot be said: 105.0")
    assert any(text.startswith("Open: verify, 14.30 ms assumed and 25.") for text in words)
