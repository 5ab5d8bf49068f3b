"""SGF export and import: random games survive both, and foreign and hostile files are refused."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sgfmill import sgf as sgfmill_sgf
from sgfmill import sgf_moves
from zerofleet_core import State

from zerofleet.errors import ConfigError, InvalidRequestError
from zerofleet.games import sgf
from zerofleet.games.go import GoBoard, go_score
from zerofleet.games.sgf import MAX_BYTES, MAX_CHARACTERS, decode

GO = "go(size=5,komi=7.5,suicide=false)"
GAMES = [
    "go(size=2,komi=0.5,suicide=false)",
    GO,
    "go(size=5,komi=-3,suicide=true)",
    "go(size=19,komi=0,suicide=true)",
    "othello",
]


def random_actions(game: str, seed: int, plies: int) -> list[int]:
    """Return legal actions; passes are rare, so that games last."""
    chance = random.Random(seed)
    state, actions = State(game), []
    while not state.is_terminal and len(actions) < plies:
        legal = state.legal_actions()
        actions.append(
            chance.choice(legal[:-1] if len(legal) > 1 and chance.random() < 0.9 else legal)
        )
        state.apply(actions[-1])
    return actions


@given(
    game=st.sampled_from(GAMES),
    seed=st.integers(0, 2**32),
    plies=st.integers(0, 80),
    comment=st.text(max_size=40),
    black=st.text(max_size=10),
)
def test_a_written_game_is_read_back(
    game: str, seed: int, plies: int, comment: str, black: str
) -> None:
    actions = random_actions(game, seed, plies)
    text = sgf.write(sgf.SgfGame(game, actions, black=black, comments=[comment] * len(actions)))
    end = State(game, actions)
    result = end.result if end.is_terminal else None
    expected = sgf.ReadGame(game, actions, "", result=result)
    assert sgf.read(text) == sgf.read(text, game) == expected


@given(seed=st.integers(0, 2**32))
def test_sgfmill_plays_the_same_board(seed: int) -> None:
    """An independent reader sees the same stones as the core."""
    actions = random_actions(GO, seed, 60)
    game = sgfmill_sgf.Sgf_game.from_string(sgf.write(sgf.SgfGame(GO, actions)))
    board, moves = sgf_moves.get_setup_and_moves(game)
    for colour, move in moves:
        if move is not None:
            board.play(*move, colour)
    ours = GoBoard(State(GO, actions))
    theirs = [
        {None: -1, "b": 0, "w": 1}[board.get(4 - point // 5, point % 5)] for point in range(25)
    ]
    assert ours.stones.tolist() == theirs
    black, white = ours.area()
    assert board.area_score() == black - white


@given(seed=st.integers(0, 2**32))
def test_the_score_agrees_with_the_rules(seed: int) -> None:
    game = "go(size=5,komi=0.5,suicide=true)"
    state = State(game, random_actions(game, seed, 100))
    while not state.is_terminal:
        state.apply(25)
    assert go_score(state)[0] == {1: "B", -1: "W"}[state.result]


def test_a_draw_is_written_as_one() -> None:
    game = "go(size=5,komi=0)"
    assert "RE[0]" in sgf.write(sgf.SgfGame(game, [25, 25]))


@pytest.mark.parametrize(("result", "written"), [(1, "RE[B+]"), (-1, "RE[W+]"), (0, "RE[0]")])
@pytest.mark.parametrize("actions", [[6], [6, 25, 25]])  # by the rules, Black wins the second game
def test_an_adjudicated_game_keeps_its_result(
    actions: list[int], result: int, written: str
) -> None:
    text = sgf.write(sgf.SgfGame(GO, actions, result=result))
    assert written in text
    assert sgf.read(text, GO).result == result


def test_what_is_known_of_a_game_is_written() -> None:
    text = sgf.write(
        sgf.SgfGame(GO, [6, 25], black="run 3", white="run ]2", resigned=True, root={"GN": "x"})
    )
    root = sgfmill_sgf.Sgf_game.from_string(text).get_root()
    assert root.get("FF") == 4
    assert root.get("GM") == 1
    assert root.get("SZ") == 5
    assert root.get("KM") == 7.5
    assert root.get("RE") == "W+R"
    assert (root.get("PB"), root.get("PW"), root.get("GN")) == ("run 3", "run ]2", "x")


def test_a_forfeit_is_no_resignation() -> None:
    text = sgf.write(sgf.SgfGame(GO, [6, 25], resigned=True, forfeited=True))
    assert "RE[W+F]" in text
    assert sgf.read(text, GO).result == -1


def test_an_unfinished_game_has_no_result() -> None:
    assert "RE" not in sgf.write(sgf.SgfGame(GO, [6]))


def test_variations_are_left_aside() -> None:
    text = "(;FF[4]SZ[5](;B[aa](;W[bb])(;W[cc]))(;B[ee]))"
    assert sgf.read(text).actions == [0, 6]


SET_UP = [
    ("(;SZ[5]HA[2]AB[aa][bb];W[cc])", "X4/1X3/5/5/5 O", [12]),
    ("(;SZ[5]AB[aa:ba];W[cc];B[dd])", "XX3/5/5/5/5 O", [12, 18]),
    ("(;SZ[5];AB[aa][bb];B[cc])", "X4/1X3/5/5/5 X", [12]),
    ("(;SZ[5]AB[aa][bb])", "X4/1X3/5/5/5 O", []),  # a handicap
    ("(;SZ[5]AB[aa]AW[bb])", "X4/1O3/5/5/5 X", []),  # a problem
    ("(;SZ[5]AB[aa]AW[bb]HA[2])", "X4/1O3/5/5/5 O", []),
    ("(;SZ[5]AB[aa]AW[bb]PL[W])", "X4/1O3/5/5/5 O", []),
    ("(;SZ[5]AB[aa]PL[black];W[bb])", "X4/5/5/5/5 X", [25, 6]),
    ("(;SZ[5]PL[W])", "5/5/5/5/5 O", []),
    ("(;SZ[5]PL[B];B[aa])", "", [0]),
    ("(;SZ[5];B[aa]PL[W];W[bb]PL[B];PL[B];B[cc])", "", [0, 6, 12]),  # PL says whose turn it is
    ("(;SZ[5];B[aa];PL[B];B[bb])", "X4/5/5/5/5 X", [6]),
    ("(;SZ[5]AB[aa]AE[aa];B[bb])", "", [6]),
    # Stones set up in the middle of a game replace the earlier moves.
    ("(;SZ[5];B[aa];W[bb];AE[aa]AW[cc];B[dd])", "5/1O3/2O2/5/5 X", [18]),
    ("(;SZ[5];B[aa];AW[bb])", "X4/1O3/5/5/5 O", []),
    ("(;SZ[5]AB[aa];W[cc];AB[bb]PL[B])", "X4/1X3/2O2/5/5 X", []),
]


@pytest.mark.parametrize(("text", "start", "actions"), SET_UP)
def test_stones_that_are_set_up_make_a_start_position(
    text: str, start: str, actions: list[int]
) -> None:
    read = sgf.read(text, GO)
    assert (read.start, read.actions) == (start, actions)
    state = State(GO, actions, start)
    again = sgf.read(sgf.write(sgf.SgfGame(GO, actions, start)), GO)
    assert (again.start, again.actions) == (start, actions)
    assert str(State(GO, again.actions, again.start)) == str(state)


def test_a_handicap_is_written_as_one() -> None:
    text = sgf.write(sgf.SgfGame(GO, [12], "X4/1X3/5/5/5 O"))
    assert "HA[2]" in text
    assert "AB[aa][bb]" in text
    assert "HA" not in sgf.write(sgf.SgfGame(GO, [], "X4/1O3/5/5/5 O"))


def test_othello_diagrams() -> None:
    read = sgf.read("(;GM[2]SZ[8]AB[cc][dc]PL[W])", "othello")
    assert read.start == State("othello", [], "8/8/2XX4/3OX3/3XO3/8/8/8 O").setup_text()
    again = sgf.read(sgf.write(sgf.SgfGame("othello", [], read.start)), "othello")
    assert again.start == read.start
    with pytest.raises(InvalidRequestError, match="square d4 is empty"):
        sgf.read("(;GM[2]SZ[8]AE[dd])", "othello")


def test_a_collection_is_split_into_its_games() -> None:
    first, second = sgf.split_games("(;SZ[5];B[aa](;W[bb])(;W[cc]))\n(;SZ[5]AB[aa])")
    assert sgf.read(first, GO).actions == [0, 6]
    assert sgf.read(second, GO).start == "X4/5/5/5/5 O"


HANDICAPS = [
    ("(;SZ[5];W[cc])", [25, 12]),
    ("(;SZ[5];B[cc];B[dd];W[ee])", [12, 25, 18, 24]),
    ("(;SZ[5];B[cc];W[tt];B[])", [12, 25, 25]),
    ("(;SZ[5])", []),
]


@pytest.mark.parametrize(("text", "actions"), HANDICAPS)
def test_moves_out_of_turn_are_put_after_passes(text: str, actions: list[int]) -> None:
    assert sgf.read(text, GO).actions == actions


REFUSED = [
    ("", "not SGF"),
    ("not a game", "not SGF"),
    ("(;SZ[5]", "not SGF"),
    ("(;GM[40]SZ[5])", r"GM\[40\]: give GM\[1\] \(Go\) or GM\[2\]"),
    ("(;GM[2]SZ[10])", "Othello 10x10"),
    ("(;GM[2])", "of othello, the game is 'go"),
    ("(;SZ[9])", "board size 9, not 5"),
    ("(;FF[4])", "board size 19, not 5"),
    ("(;SZ[5:6])", "give a square one"),
    ("(;SZ[²])", "give a square one"),
    ("(;SZ[1])", "give 2 to 19"),
    ("(;SZ[20])", "give 2 to 19"),
    ("(;SZ[99999999])", "give 2 to 19"),
    ("(;SZ[5]KM[6.5])", "komi 6.5, the game is played with 7.5: change KM or remove it"),
    ("(;SZ[5]KM[nan])", "komi 'nan'"),
    ("(;SZ[5]KM[1e999])", "komi '1e999'"),
    ("(;SZ[5]KM[6.7])", "komi '6.7': give a multiple of 0.5"),
    ("(;SZ[5]AB[aa]AW[ba][ab])", "node 0 of the SGF: the chain at A5 has no liberty"),
    ("(;SZ[5]PL[X])", r"^node 0 of the SGF: PL\[X\]: give B or W"),
    ("(;SZ[5]AB[aa:ee][aa:ee])", "more points than the board has"),
    ("(;SZ[5]AB[tt])", "'tt' is not a point"),
    ("(;SZ[5]" + ";PL[B]" * 1001 + ")", "sets the board up more than 1000 times"),
    ("(;SZ[5];B[aa]W[bb])", "both players in one node"),
    ("(;SZ[5];B[zz])", "'zz' is not a point"),
    ("(;SZ[5];B[a])", "'a' is not a point"),
    ("(;SZ[5]AB[aa:])", "'' is not a point"),
    ("(;SZ[5];B[aa];W[aa])", r"node 2 of the SGF: W\[aa\]"),
    ("(;SZ[5];B[];W[];B[aa])", "the game is over after 2 plies"),
    ("(;SZ[5];B[];B[aa])", "a pass of white would end the game"),
]


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_what_cannot_be_expressed_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidRequestError, match=reason):
        sgf.read(text, GO)


def test_othello_passes_only_where_it_must() -> None:
    with pytest.raises(InvalidRequestError, match="black cannot pass here"):
        sgf.read("(;GM[2];W[dc])", "othello")


def test_huge_komi_is_no_game() -> None:
    with pytest.raises(InvalidRequestError, match="is not supported"):
        sgf.read("(;SZ[9]KM[90000])")


def test_other_games_are_named_with_those_that_have_sgf() -> None:
    with pytest.raises(ConfigError, match="go and othello, not for 'connect_four'"):
        sgf.write(sgf.SgfGame("connect_four", [3]))
    with pytest.raises(ConfigError, match="not for 'connect_four'"):
        sgf.read("(;SZ[7])", "connect_four")


@given(st.text(alphabet="(;)[]BWSZ12ab:\\", max_size=200))
def test_noise_never_gets_further_than_a_refusal(text: str) -> None:
    try:
        read = sgf.read(text)
    except InvalidRequestError:
        return
    State(read.game, read.actions)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "(;SZ[5]" + "(;" * 50_000 + ")" * 50_001,
        "(;SZ[5]" + ";" * 200_000 + ")",
        "(;SZ[5];C[" + "\\]" * 100_000 + "])",
        "(;SZ[5]" + ";B[]" * 50_000 + ")",
        "(;SZ[5]AB" + "[aa:ee]" * 30_000 + ")",
        "(;SZ[5]AB" + "[aa:aa]" * 30_000 + ")",
    ],
)
def test_hostile_files_come_to_an_end(text: str) -> None:
    assert len(text) <= MAX_CHARACTERS
    with contextlib.suppress(InvalidRequestError):
        State(GO, sgf.read(text, GO).actions)


def test_longer_files_are_not_looked_at() -> None:
    with pytest.raises(InvalidRequestError, match="at most"):
        sgf.read("(;SZ[5]" + " " * MAX_CHARACTERS + ")", GO)


# Characters of each encoding. Many have the second byte 0x5C (backslash), 0x5D (closing bracket) or
# 0x5B (opening bracket).
TEXTS = {
    "shift_jis": "表能十ソ予構貼申噂欺圭ゾ弾ボ暴鉱本因坊名人戦山田桂第一局｜ー［ァ",
    "cp932": "表能十ソ予①㈱髙",
    "big5": "許功蓋育擺珮豹淚張栩台灣圍棋名人戰第一局",
    "gbk": "誠穬乗俓璡柯洁古力中国围棋甲级联赛",
    "gb18030": "誠穬乗俓璡柯洁㐀𠀀",
    "euc_kr": "이창호조훈현대서봉수결승제국",
    "cp949": "똠방각하이창호",
    "euc_jp": "表能十ソ予構本因坊名人戦ｱﾝ",
    "iso-8859-1": "éèüßäöçñåøÿ",
    "windows-1252": "éèüß€Œ–",
    "koi8-r": "Кубок Москвы",
    "iso-2022-jp": "表能十ソ予構本因坊",
    "utf-8": "表能許功蓋誠이창호éКубок",
}
PLAYED = ["dd", "ff", "cc", "gg"]


def sgf_in(encoding: str, text: str, *, declared: bool) -> bytes:
    """Return a game of 9x9 that has a text in every text property, in an encoding."""
    escaped = text.replace("\\", "\\\\").replace("]", "\\]")
    charset = f"CA[{encoding}]" if declared else ""
    one, two, three, four = PLAYED
    return (
        f"(;GM[1]FF[4]{charset}PB[{escaped}]PW[{escaped}]SZ[9]GN[{escaped}]KM[5.5]"
        f";B[{one}]C[{escaped}];W[{two}]C[{escaped} [9d\\] {escaped}];B[{three}];W[{four}])"
    ).encode(encoding)


def require_the_game(file: bytes) -> None:
    read = sgf.read(file)
    assert read.game == "go(size=9,komi=5.5,suicide=false)"
    letters = [f"{chr(97 + action % 9)}{chr(97 + action // 9)}" for action in read.actions]
    assert letters == PLAYED


def require_the_game_or_a_refusal(file: bytes) -> None:
    try:
        decode(file)
    except InvalidRequestError:
        with pytest.raises(InvalidRequestError, match="name its encoding in the root"):
            sgf.read(file)
    else:
        require_the_game(file)


def test_a_name_that_hides_properties_in_another_encoding_is_refused() -> None:
    """Read as Latin-1, the name swallows size and komi, and shows fewer brackets."""
    file = sgf_in("cp932", "ソ][ソ", declared=False)
    with pytest.raises(InvalidRequestError, match="name its encoding in the root"):
        decode(file)


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "undeclared"])
@pytest.mark.parametrize("encoding", TEXTS)
def test_a_file_is_read_in_its_encoding(encoding: str, declared: bool) -> None:
    for character in TEXTS[encoding]:
        if not declared and encoding == "iso-2022-jp":
            continue  # its bytes are plain ASCII, so no reader could tell
        require_the_game(sgf_in(encoding, character, declared=declared))
    if declared or encoding != "iso-2022-jp":
        require_the_game(sgf_in(encoding, TEXTS[encoding], declared=declared))


# Pairs of bytes that may be a character. The second one often has a meaning in SGF.
PAIRS = st.tuples(st.integers(0x81, 0xFE), st.sampled_from(b"[[\\\\]]") | st.integers(0x40, 0xFE))


@given(encoding=st.sampled_from(sorted(TEXTS)), pairs=st.lists(PAIRS, max_size=10), end=st.text())
@example(encoding="koi8-r", pairs=[(0x81, ord("[")), (0x81, ord("\\"))], end="")
def test_any_text_leaves_moves_komi_and_size_alone(
    encoding: str, pairs: list[tuple[int, int]], end: str
) -> None:
    """A text may look more like another encoding than the declared one; then it is refused."""
    text = b"".join(map(bytes, pairs)).decode(encoding, errors="ignore") + end
    text = text.encode(encoding, errors="ignore").decode(encoding, errors="ignore")
    file = sgf_in(encoding, "".join(filter(str.isprintable, text)), declared=True)
    require_the_game_or_a_refusal(file)


@given(data=st.data(), encoding=st.sampled_from(sorted(TEXTS.keys() - {"iso-2022-jp"})))
def test_an_undeclared_encoding_is_found_out_or_refused(data: st.DataObject, encoding: str) -> None:
    text = data.draw(st.text(st.sampled_from(TEXTS[encoding] + " .[]\\"), max_size=12))
    file = sgf_in(encoding, text, declared=False)
    require_the_game_or_a_refusal(file)


@pytest.mark.parametrize("mark", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("charset", ["", "CA[Shift_JIS]", "CA[UTF-8]"])
def test_a_byte_order_mark_says_the_encoding(mark: str, charset: str) -> None:
    text = sgf_in("utf-8", "表能", declared=False).decode().replace("FF[4]", f"FF[4]{charset}")
    start = "\ufeff" if mark.endswith(("le", "be")) else ""
    require_the_game((start + text).encode(mark))
    require_the_game(("\ufeff" + text).encode())


@pytest.mark.parametrize("wrong", ["UTF-8", "ISO-8859-1", "Big5", "EUC-KR", "x-no-such", "utf-7"])
def test_a_wrong_charset_is_never_a_wrong_game(wrong: str) -> None:
    """Some files are converted without a new CA, and some programs always write the same CA."""
    for encoding in ("shift_jis", "utf-8"):
        for text in ("表", "ソ予 ボ暴", "黒番"):
            file = sgf_in(encoding, text, declared=False).replace(
                b"FF[4]", b"CA[%b]" % wrong.encode()
            )
            require_the_game_or_a_refusal(file)


def test_utf_8_is_read_as_such_whatever_its_charset_says() -> None:
    require_the_game(sgf_in("utf-8", "黒番", declared=False).replace(b"FF[4]", b"CA[Shift_JIS]"))


def test_a_name_cut_inside_a_character_hides_nothing() -> None:
    """Some servers cut names inside a character; its second byte is then the bracket."""
    file = b"(;GM[1]FF[4]SZ[9]PB[\x8e\x52\x93]KM[5.5]PW[\x8e\x52];B[dd];W[ff];B[cc];W[gg])"
    require_the_game(file)
    with pytest.raises(InvalidRequestError, match="name its encoding in the root"):
        sgf.read(file.replace(b"FF[4]", b"CA[Shift_JIS]"))


def test_a_text_that_was_decoded_stays_as_it_is() -> None:
    text = sgf_in("shift_jis", "表ソ", declared=True).decode("shift_jis")
    assert sgf.read(text).actions == sgf.read(text.encode("shift_jis")).actions


@pytest.mark.parametrize(
    "data", [b"", b"\xff\xfe\x00", b"\xef\xbb\xbf\xff", b"\x81", b"(;C[\x81])" * 9]
)
def test_bytes_that_are_no_sgf_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequestError):
        sgf.read(data, GO)


@given(st.binary(max_size=200))
def test_no_bytes_get_further_than_a_refusal(data: bytes) -> None:
    with contextlib.suppress(InvalidRequestError):
        sgf.read(b"(;SZ[5]CA[" + data)
    with contextlib.suppress(InvalidRequestError):
        decode(data)


def test_longer_files_are_not_decoded() -> None:
    with pytest.raises(InvalidRequestError, match="bytes: at most"):
        sgf.read(b"(;SZ[5]" + b" " * MAX_BYTES + b")", GO)


# AP, KM and other properties, the komi in points, and the explanation.
KOMI = [
    ("KM[375]RU[Chinese]AP[GNU Go:3.8]AP[foxwq]", 7.5, "hundredths of stones, as Fox writes them"),
    ("KM[650]RU[Japanese]AP[foxwq]", 6.5, "hundredths, as Fox writes them"),
    ("KM[650]RU[Korean]AP[foxwq]", 6.5, "hundredths, as Fox writes them"),
    ("KM[50]HA[2]RU[Japanese]AP[GNU Go:3.8]AP[foxwq]", 0.5, "hundredths, as Fox writes them"),
    ("KM[325]RU[Chinese]AP[foxwq]", 6.5, "hundredths of stones, as Fox"),
    ("KM[275]RU[Chinese]AP[foxwq]", 5.5, "hundredths of stones, as Fox"),
    ("KM[350]AP[foxwq]", 7, "hundredths of stones, as Fox"),
    ("KM[0]HA[2]AP[foxwq]", 0, ""),
    ("KM[6.5]AP[foxwq]", 6.5, ""),
    ("KM[750]AP[SGFC:2.0]", 7.5, "hundredths, as gokifu.com writes them"),
    ("KM[550]AP[SGFC:1.18]", 5.5, "hundredths, as gokifu.com writes them"),
    ("KM[375]", 7.5, "7.5 points: hundredths of stones"),
    ("KM[750]", 7.5, "7.5 points: hundredths"),
    ("KM[-650]", -6.5, "-6.5 points: hundredths"),
    ("KM[3.75]RU[Chinese]", 7.5, "7.5 points: stones"),
    ("KM[2.75]", 5.5, "5.5 points: stones"),
    ("KM[3,75]", 7.5, "7.5 points: stones"),
    ("KM[6,5]", 6.5, "KM[6,5] is read as 6.5 points"),
    ("KM[6.50]", 6.5, ""),
    ("KM[+.5]", 0.5, ""),
    ("KM[3.5]", 3.5, ""),
    ("KM[50]", 50, ""),  # in points, as FF4 says, since nothing indicates otherwise
    ("KM[]", 7.5, ""),
    ("", 7.5, ""),
]


@pytest.mark.parametrize(("root", "komi", "note"), KOMI)
def test_komi_is_read_as_servers_write_it(root: str, komi: float, note: str) -> None:
    read = sgf.read(f"(;SZ[19]{root};B[pp])")
    assert read.game == f"go(size=19,komi={komi:g},suicide=false)"
    assert note in read.note
    assert bool(note) == bool(read.note)
    ours = f"go(size=19,komi={komi:g})"
    assert sgf.read(f"(;SZ[19]{root};B[pp])", ours).actions == read.actions


def test_another_komi_is_refused_with_how_it_was_read() -> None:
    with pytest.raises(InvalidRequestError, match=r"komi 0.5, .* 7.5: .*\(KM\[50\] is read as 0.5"):
        sgf.read("(;SZ[5]KM[50]AP[foxwq])", GO)


@pytest.mark.parametrize(
    "komi", ["1_0", "1e1", "٧", "6.7", "0.1", "7 1/2", "nan", "inf", "0x7", "9" * 5000, ","]
)
def test_what_is_no_komi_is_refused(komi: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"give a multiple of 0\.5"):
        sgf.read(f"(;SZ[5]KM[{komi}])")


def test_a_komi_of_minus_zero_is_none() -> None:
    assert sgf.read("(;GM[1]SZ[9]KM[-0];B[dd])") == sgf.read("(;GM[1]SZ[9]KM[0];B[dd])")
