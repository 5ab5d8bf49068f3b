"""Games between two players, for the evaluator's matches and for the exam against GNU Go.

``play_match`` plays pairs of games from random openings, many at once. ``anchors`` are the players
that never change, some of which are ``program_players``.
"""
