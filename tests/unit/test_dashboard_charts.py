"""Text and marks of charts next to their lines."""

from zerofleet.services.dashboard.charts import ChartAxis, ChartLine, Drawing


def test_levels_too_close_for_two_labels_share_one_and_none_is_left_out() -> None:
    levels = {"search": -495.0, "random": -480.0, "gnugo:1": 500.0}
    line = ChartLine("promoted models", [(0.0, 0.0), (1.0, 100.0)], "#2f6db3")
    axis = ChartAxis(least=-500.0, most=700.0)

    marks = Drawing([line], ChartAxis(), axis, levels=levels).options()["series"][0]["markLine"]

    written = {mark["yAxis"]: mark["name"] for mark in marks["data"] if mark["label"]["show"]}
    assert written == {500.0: "gnugo:1", -480.0: "random, search"}
    assert [mark["yAxis"] for mark in marks["data"]] == [500.0, -480.0, -495.0]
