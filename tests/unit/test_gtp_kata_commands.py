"""Answers to KataGo's and GoGui's extensions of GTP."""

from tests.unit.gtp_session import FirstFree, said


async def test_rules_in_katagos_words() -> None:
    ours = (
        '{"hasButton":false,"ko":"POSITIONAL","scoring":"AREA","suicide":false,"tax":"NONE",'
        '"whiteHandicapBonus":"0"}'
    )
    assert await said("get_komi", "kata-get-rules") == f"= 7.5\n\n= {ours}\n\n"
    accepted = (ours, '{"ko": "POSITIONAL"}', "{}")
    assert await said(*(f"kata-set-rules {rules}" for rules in accepted)) == "=\n\n" * 3
    for rules, words in (
        ("tromp-taylor", "the model plays with suicide false, not true"),
        ("japanese", 'the model plays with ko "POSITIONAL", not "SIMPLE"'),
        ("Chinese-KGS", 'the model plays with whiteHandicapBonus "0", not "N"'),
        ("ing", "unknown rules 'ing': give JSON, or one of tromp-taylor, chinese, "),
        ('{"komi": 7}', "unknown rule 'komi': there are hasButton, ko"),
        ("{", "the rules are no JSON"),
    ):
        assert f"? {words}" in await said(f"kata-set-rules {rules}")


async def test_the_simulations_of_a_move_are_a_parameter() -> None:
    player = FirstFree()
    text = await said(
        "kata-get-param maxVisits",
        "kata-set-param maxVisits 25",
        "kata-get-param maxVisits",
        "genmove b",
        "kata-set-param playoutDoublingAdvantage 0.0",
        "kata-get-param playoutDoublingAdvantage",
        player=player,
    )
    assert text == "= 10\n\n=\n\n= 25\n\n= A5\n\n=\n\n= 0\n\n"
    assert player.asked == [([], 25)]
    assert "? maxVisits is 20001: give 1 to 20000" in await said("kata-set-param maxVisits 20001")
    assert "? maxVisits is 'x'" in await said("kata-set-param maxVisits x")
    assert "only 0 is supported" in await said("kata-set-param playoutDoublingAdvantage 1.5")
    assert "? unknown parameter 'cpuct'" in await said("kata-get-param cpuct")


async def test_the_network_without_search_is_seen_through_symmetries() -> None:
    """Black lies at B5; what is asked of the network is turned, and turned back."""
    lines = ("play b b5", "kata-raw-nn 0", "kata-raw-nn all")
    first, everything = (await said(*lines)).split("\n\n")[1:3]
    priors = " ".join(["0.040000"] * 5)
    assert first.splitlines() == [
        "= symmetry 0",
        "whiteWin 0.750000",
        "whiteLoss 0.250000",
        "noResult 0.000000",
        "policy",
        "0.040000 NAN 0.040000 0.040000 0.040000",
        *[priors] * 4,
        "policyPass 0.040000",
    ]
    each = everything.removeprefix("= ").split("symmetry ")[1:]
    assert [text[0] for text in each] == [*"01234567"]
    assert len({text[1:].strip() for text in each}) == 1
    assert "? give a symmetry, 0 to 7, or all" in await said("kata-raw-nn 8")
    assert "? the game is over" in await said("play b pass", "play w pass", "kata-raw-nn 0")


async def test_gogui_is_told_commands_that_there_are() -> None:
    listed = (await said("gogui-analyze_commands")).removeprefix("= ").strip().splitlines()
    for line in listed:
        kind, label, command = line.split("/")
        assert (kind in {"string", "plist", "pstring", "none"}, bool(label)) == (True, True)
        assert await said(f"known_command {command.split()[0]}") == "= true\n\n"
