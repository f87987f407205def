"""The e-mail research agent of a maker of instruments."""
