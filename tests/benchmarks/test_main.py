"""The page of figures: each kind of machine has files of its own, and says what it is."""

import pytest

from benchmarks import __main__ as benchmarks
from benchmarks import measure
from benchmarks.measure import Row, machine_kind, save

ROW = Row("a claim", "≥ 2 ×", "3 ×", "1.9 ×", met=False)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("AMD EPYC 9R14", "amd"),
        ("Intel(R) Xeon(R) Processor @ 2.50GHz", "intel"),
        ("Apple M3", "apple"),
        ("arm64", "other"),
    ],
)
def test_a_processor_has_files_of_its_own_kind(name, kind, monkeypatch):
    monkeypatch.setattr(measure, "processor", lambda: name)
    monkeypatch.setattr(measure.torch.cuda, "is_available", lambda: False)
    assert machine_kind() == kind


def test_results_of_two_processors_stand_side_by_side(tmp_path, monkeypatch):
    for kind, name in (("intel", "Intel Xeon"), ("amd", "AMD EPYC")):
        monkeypatch.setattr(measure, "processor", lambda name=name: name)
        save([ROW], tmp_path / "benchmarks" / f"{kind}-window.json")
    page = benchmarks.page(tmp_path)
    assert page.index("## AMD EPYC") < page.index("## Intel Xeon")
    assert page.count("| a claim | ≥ 2 × | 3 × | 1.9 × | **missed** |") == 2
