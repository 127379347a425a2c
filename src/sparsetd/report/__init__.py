"""Tables, plots and the report page."""
