from regard.config.suggest import suggestion


def test_the_nearest_name_is_offered_and_a_far_one_is_not():
    assert suggestion("wdith", ["width", "depth"], prefix="model.") == "; did you mean model.width?"
    assert suggestion("zebra", ["width", "depth"]) == ""
    assert suggestion("zebra", []) == ""
