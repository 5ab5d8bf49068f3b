"""A program that speaks UCI over chess, and misbehaves when told to.

``uci_program.py HABIT [FILE]``: what the program reads is appended to FILE.
"""

import sys
import time
from pathlib import Path

from zerofleet_core import State

from zerofleet.uci.commands import parse_position

OPTIONS = """option name Hash type spin default 16 min 1 max 1024
option name Skill Level type spin default 20 min -20 max 20
option name UCI_LimitStrength type check default false
option name UCI_Elo type spin default 1350 min 1350 max 2850
option name Style type combo default Solid var Solid var Very Risky
option name Clear Hash type button
option name Debug Log File type string default <empty>
"""


class Program:
    def __init__(self, habit: str, file: str) -> None:
        self.habit = habit
        self.file = Path(file) if file else None
        self.state = State("chess")
        self.moves: tuple[str, ...] = ()

    def read(self, line: str) -> None:
        if self.file is not None:
            with self.file.open("a") as file:
                file.write(line)
        match line.split():
            case ["uci"]:
                if self.habit == "mute":
                    time.sleep(600)
                if self.habit == "960":
                    say("option name UCI_Chess960 type check default false\n")
                say(f"id name a program\n{OPTIONS}uciok\n")
            case ["isready"]:
                say("readyok\n")
            case ["position", *words]:
                position = parse_position(words)
                game = "chess(chess960=true)" if self.habit == "960" else "chess"
                self.state = State(game, start=position.fen)
                self.moves = position.moves
                for name in position.moves:
                    self.state.apply(self.state.string_to_action(name))
            case ["go", *_]:
                self.go()
            case ["quit"]:
                sys.exit()
            case _:
                pass

    def go(self) -> None:
        move = self.state.action_to_string(self.state.legal_actions()[0])
        say("info depth 1 score cp 12 nodes 1 pv " + move + "\n")
        if self.habit == "hangs":
            time.sleep(600)
        if self.habit == "dies" or (self.habit == "dies once" and self.first_time()):
            sys.exit(1)
        if self.habit == "floods":
            while True:
                say("info string no end\n" * 1000)
        if self.habit == "line without end":
            while True:
                say("no end " * 1000)
        answers = {
            "cheats": "e2e5",
            "babbles": "hello",
            "none": "(none)",
            "null": "0000",
            "control": "\x1b[2J" + "x" * 500,
        }
        if self.habit == "silent":
            say("bestmove\n")
        else:
            say(f"bestmove {answers.get(self.habit, move)} ponder e7e5\n")

    def first_time(self) -> bool:
        assert self.file is not None
        mark = self.file.with_suffix(".died")
        if mark.exists():
            return False
        mark.touch()
        return True


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def main() -> None:
    say("a banner that is no answer\n")
    program = Program(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")
    for line in sys.stdin:
        program.read(line)


if __name__ == "__main__":
    main()
