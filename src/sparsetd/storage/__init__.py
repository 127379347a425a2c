"""Files that are written whole, one container for all of them, and work that is kept and resumed."""
