"""The evaluator: plays each candidate against the best model, and promotes the better one.

- ``service``: wires everything and takes the fence.
- ``context``: what all parts share, and the players of matches.
- ``evaluator``: the loop that judges one candidate after the other.
- ``promotion_gate``: the match of a candidate, and the promotion.
- ``examiner``: exams of the best model.
- ``spare_games``: what to play while no candidate waits: first trials, which people request, then
  the rating pool.
- ``rating``: Elo from all stored games.
"""
