"""Games between two players, for the evaluator's matches and for the exam against GNU Go.

``play_match`` plays pairs of games from random openings, many at once. ``anchors`` has the
opponents that never change. ``program_players`` has the ones with processes of their own.
"""
