"""Comparisons of runs that learn from scratch, for ``zerofleet compare``.

Each run file is trained with each seed, for the same CPU-seconds, without Postgres, Redis and
services. The runs of a seed take turns in one process. All models take the same exam, and play each
other from the same openings.

- ``compared_runs``: the request, checked: run files, budget, seeds, exams.
- ``learning_loop``: self-play and training in one process; ``resignation_rule``: v_resign in it.
- ``trainings``: trains, examines and plays, and reports progress; ``whole_games``: the games.
- ``comparison_folder``: the output folder, from which an interrupted comparison resumes.
- ``comparison_result``: differences, their standard errors, and the table; ``comparison_page``: the
  HTML page.

``zerofleet compare`` starts ``python -m zerofleet.comparison``, because only the trainer's packages
include torch.
"""
