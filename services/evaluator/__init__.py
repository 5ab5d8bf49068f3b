"""The evaluator: plays each candidate against the best, rates all, promotes the better."""
