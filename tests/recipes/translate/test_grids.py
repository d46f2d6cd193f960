"""The tables: every row is a config that can be, and says what its label says."""

import pytest

from regard.config import override
from regard.recipes.translate import COLUMNS, GRIDS


@pytest.mark.parametrize("name", GRIDS)
def test_every_row_sets_what_the_config_has(name):
    configs = [override(GRIDS[name].base, row.settings) for row in GRIDS[name].rows]
    assert len({repr(config) for config in configs}) == len(configs), "no two rows are the same"


def test_luong_s_table_has_every_score_over_every_span():
    luong = [row for row in GRIDS["luong"].rows if row.label != "Bahdanau"]
    rows = [override(GRIDS["luong"].base, row.settings).model for row in luong]
    soft = {(row.attention, row.span) for row in rows if row.select == "soft"}
    assert len(soft) == 12 and all(row.query_state == "current" for row in rows)


def test_zhu_s_table_switches_off_one_factor_a_row():
    def off(row):
        model = override(GRIDS["zhu"].base, row.settings).model
        parts = (model.encoder, model.decoder, model.cross)
        return sum(not on for part in parts for on in vars(part.factors).values())

    # and at the end two in which cross attention knows no positions, with content and without
    assert [off(row) for row in GRIDS["zhu"].rows] == [0, *[1] * 8, 2, 3]


def test_columns_are_told_apart():
    assert len(set(COLUMNS.values())) == len(COLUMNS)
