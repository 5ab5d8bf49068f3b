"""A program that speaks the Go Text Protocol over tic-tac-toe, and misbehaves when told to."""

import sys
from pathlib import Path

from zerofleet_core import State


def answer(words: list[str], state: State, habit: str) -> str:
    """The response to one command, without the empty line that ends it."""
    match words:
        case ["play", _, move]:
            if habit == "refuses":
                return "? illegal move"
            state.apply(state.string_to_action(move))
            return "="
        case ["genmove", _]:
            if habit == "resigns":
                return "= resign"
            if habit == "dies once" and not Path(sys.argv[2]).exists():
                Path(sys.argv[2]).touch()
                sys.exit(1)
            if habit == "babbles":
                return "= hello"
            if habit == "cheats":
                return "= a1"  # taken, or soon to be
            action = state.legal_actions()[0]
            state.apply(action)
            return f"= {state.action_to_string(action)}"
        case ["several"]:
            return "=7 first\nsecond"
        case ["chatters"]:
            return f"= {'no end ' * 20_000}"
        case ["dies"]:
            sys.exit(1)
        case ["hangs"]:
            return ""
        case ["quit"] | ["clear_board"]:
            return "="
    return "? unknown command"


def main() -> None:
    state = State("tic_tac_toe")
    sys.stdout.write("a banner that is no answer\n")
    for line in sys.stdin:
        response = answer(line.split(), state, sys.argv[1])
        if response:
            sys.stdout.write(f"{response}\n\n")
            sys.stdout.flush()
        if line.strip() == "quit":
            break


if __name__ == "__main__":
    main()
