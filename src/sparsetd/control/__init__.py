"""Control: policies, policy iteration and online greedy control, as plain functions."""
