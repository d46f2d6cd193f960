import io
import sys

import pytest
from rich.console import Console

from regard.train.progress import (
    BarReport,
    LineReport,
    Report,
    TrainingProgress,
    format_metrics,
    make_report,
    silent,
)

NEWS = TrainingProgress(
    step=50, steps=2000, loss=3.14159, rate=1e-3, tokens_per_second=12345.6, seconds_left=125.0
)


def told(report):
    """All that can be told, once."""
    report.begin(0, 2000)
    report.tick(1)
    report.log_progress(NEWS)
    report.log_validation(50, {"loss": 2.0, "bleu": 31.25}, True)
    report.end(2000, "finished")


def test_plain_lines_say_loss_rate_speed_and_time_left():
    stream = io.StringIO()
    told(LineReport(stream))
    assert stream.getvalue().splitlines() == [
        "2,000 steps",
        "step 50/2,000  loss 3.1416  rate 1.00e-03  12,346 tokens/s  2:05 left",
        "step 50  validation: loss 2  bleu 31.25  (best)",
        "finished at step 2,000",
    ]


def test_a_note_is_a_line_before_it_begins_and_after():
    stream = io.StringIO()
    report = LineReport(stream)
    report.note("20,000 pairs")
    report.begin(0, 10)
    report.note("so far")
    assert stream.getvalue() == "20,000 pairs\n10 steps\nso far\n"


def test_a_terminal_gets_notes_before_the_bar_and_above_it():
    stream = io.StringIO()
    report = BarReport(Console(file=stream, force_terminal=True, width=120))
    report.note("[red] 20,000 pairs")
    assert stream.getvalue() == "[red] 20,000 pairs\n"
    report.begin(0, 10)
    report.note("so far")
    report.end(10, "finished")
    assert stream.getvalue().index("so far") < stream.getvalue().index("finished")


class Broken(io.StringIO):
    """A stream that takes so much and no more."""

    def __init__(self, takes, error):
        super().__init__()
        self.takes, self.error = takes, error

    def write(self, text):
        if self.takes == 0:
            raise self.error
        self.takes -= 1
        return super().write(text)


@pytest.mark.parametrize("takes", range(5))
@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(5, "gone"), ValueError("closed")])
@pytest.mark.parametrize("terminal", [True, False])
def test_a_stream_that_breaks_is_no_trouble(monkeypatch, terminal, error, takes):
    monkeypatch.setattr("regard.train.progress.MIN_SECONDS_BETWEEN_FRAMES", 0.0)
    stream, before = Broken(takes, error), (sys.stdout, sys.stderr)
    report = make_report(Console(file=stream, force_terminal=terminal, width=120))
    report.note("20,000 pairs")
    told(report)
    assert stream.takes == 0
    assert (sys.stdout, sys.stderr) == before


@pytest.mark.parametrize("terminal", [True, False])
def test_a_stream_that_is_closed_is_no_trouble(terminal):
    stream = io.StringIO()
    report = make_report(Console(file=stream, force_terminal=terminal, width=120))
    report.begin(0, 2000)
    stream.close()
    report.log_progress(NEWS)
    report.end(50, "interrupted")


@pytest.mark.parametrize("name", ["acc[dev]", "acc[/dev]"])
def test_a_metric_is_shown_by_its_whole_name(name):
    stream = io.StringIO()
    report = BarReport(Console(file=stream, force_terminal=True, width=120))
    report.begin(0, 2000)
    report.log_validation(50, {name: 0.5}, True)
    assert f"{name} 0.5" in stream.getvalue()


def test_a_training_that_goes_on_says_from_where():
    stream = io.StringIO()
    LineReport(stream).begin(500, 2000)
    assert stream.getvalue() == "from step 500 to 2,000\n"


def test_a_terminal_gets_a_bar_with_the_same_numbers():
    stream = io.StringIO()
    told(BarReport(Console(file=stream, force_terminal=True, width=120)))
    drawn = stream.getvalue()
    for words in ("━", "step 50  loss 2  bleu 31.25", "2000/2000", "finished"):
        assert words in drawn
    assert drawn.endswith("\x1b[?25h")  # the cursor is back


def test_the_bar_says_how_it_goes(monkeypatch):
    monkeypatch.setattr("regard.train.progress.MIN_SECONDS_BETWEEN_FRAMES", 0.0)
    stream = io.StringIO()
    report = BarReport(Console(file=stream, force_terminal=True, width=120))
    report.begin(0, 2000)
    report.log_progress(NEWS)
    report.tick(51)
    report.end(51, "interrupted")
    assert "loss 3.1416 · rate 1.00e-03 · 12,346 tokens/s · 2:05 left" in stream.getvalue()


@pytest.mark.parametrize(("terminal", "kind"), [(True, BarReport), (False, LineReport)])
def test_the_console_decides_what_is_drawn(terminal, kind):
    assert type(make_report(Console(file=io.StringIO(), force_terminal=terminal))) is kind


def test_nothing_is_said_in_silence(capsys):
    told(silent)
    assert capsys.readouterr() == ("", "")
    assert isinstance(silent, Report)


def test_metrics_stand_on_one_line():
    assert format_metrics({"loss": 1.23456, "bleu": 30.0}) == "loss 1.235  bleu 30"
