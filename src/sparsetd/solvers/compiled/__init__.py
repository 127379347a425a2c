"""All compiled code of the streaming solvers: rules (which step) times passes (how the state moves)."""
