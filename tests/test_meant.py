from regard.meant import meant


def test_the_nearest_name_is_offered_and_a_far_one_is_not():
    assert meant("wdith", ["width", "depth"], before="model.") == "; did you mean model.width?"
    assert meant("zebra", ["width", "depth"]) == ""
    assert meant("zebra", []) == ""
