"""From a log to a decision: the value of a target policy, how sure we are, and why."""
